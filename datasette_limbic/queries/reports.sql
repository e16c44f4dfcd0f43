-- Tables of migration 4: what reports keep, so that a page need not compare or cluster anything.

-- Pairs of observations of one entity, true of the texts as they stand: triggers take a pair away
-- as soon as one of the two changes or goes.
create table if not exists limbic_duplicates (
  earlier_id integer not null references observations(id) on delete cascade,
  later_id integer not null references observations(id) on delete cascade,
  entity_id integer not null references entities(id) on delete cascade,
  kind text not null check (kind in ('duplicate', 'contradiction', 'look')),
  rule text not null check (rule in ('exact', 'cosine', 'containment', 'wording')),
  cosine real,
  containment real,
  difference text,
  found_at text not null default (datetime('now')),
  primary key (earlier_id, later_id)
) without rowid;

-- When each kept report was made, of how much, and with which settings.
create table if not exists limbic_reports (
  report text primary key,
  settings text not null,
  entities integer not null,
  observations integer not null,
  seconds real not null,
  computed_at text -- NULL until the first run came to its end
) without rowid;

-- Entities whose observations or vectors changed since. changes counts, so that what changes
-- while an entity is looked at is not taken for looked at.
create table if not exists limbic_report_pending (
  entity_id integer primary key,
  changes integer not null default 1,
  marked_at text not null default (datetime('now'))
) without rowid;

-- The form under which two texts are the same, as a hash: equal texts of different entities.
create table if not exists _limbic_text_keys (
  observation_id integer primary key,
  entity_id integer not null,
  key integer not null
);

create index if not exists limbic_duplicates_later on limbic_duplicates(later_id);
create index if not exists limbic_duplicates_kind on limbic_duplicates(kind, entity_id);
create index if not exists limbic_duplicates_entity on limbic_duplicates(entity_id);
create index if not exists _limbic_text_keys_key on _limbic_text_keys(key, entity_id);
create index if not exists _limbic_text_keys_entity on _limbic_text_keys(entity_id);
