-- Tables and indexes of migration 6, so that no search reads all texts.

-- Where each trigram stands: one or two characters stand where trigrams begin with them.
create virtual table if not exists _limbic_trigram_vocab using fts5vocab(_limbic_trigram, 'instance');
-- With the last two characters of a text no trigram begins, so these are kept, in scripts from Thai
-- on, where those without spaces are; what else is there does no harm.
create index if not exists entities_last_two on entities(substr(name, -2))
  where unicode(substr(name, -2)) > 3583;
create index if not exists entities_last on entities(substr(name, -1))
  where unicode(substr(name, -1)) > 3583;
create index if not exists observations_last_two on observations(substr(content, -2))
  where unicode(substr(content, -2)) > 3583;
create index if not exists observations_last on observations(substr(content, -1))
  where unicode(substr(content, -1)) > 3583;
create view if not exists _limbic_last_characters as
  select id * 2 as doc, substr(name, -2) as ending
  from entities where unicode(substr(name, -2)) > 3583
  union all
  select id * 2, substr(name, -1) from entities where unicode(substr(name, -1)) > 3583
  union all
  select id * 2 + 1, substr(content, -2)
  from observations where unicode(substr(content, -2)) > 3583
  union all
  select id * 2 + 1, substr(content, -1)
  from observations where unicode(substr(content, -1)) > 3583;
