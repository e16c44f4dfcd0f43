-- Tables and indexes of migration 6, so that no search reads all texts.

-- Where each trigram stands: those that begin with one or two characters are where these stand.
create virtual table if not exists _limbic_trigram_vocab using fts5vocab(_limbic_trigram, 'instance');
-- At the very end of a text no trigram begins: by its last characters then, in scripts that put no
-- space between words (from Thai on; also some signs, which nothing looks for here).
create index if not exists entities_ending on entities(substr(name, -1), substr(name, -2))
  where unicode(substr(name, -1)) > 3583;
create index if not exists observations_ending on observations(substr(content, -1), substr(content, -2))
  where unicode(substr(content, -1)) > 3583;
