-- Tables of migration 2: what each source brought the last time it was imported. Import compares
-- three states by them (the source then, the source now, the memory now), so that what was
-- removed or changed here since is not brought back, and counts grow by what is new.
create table if not exists _limbic_sources (
  id integer primary key,
  location text not null unique, -- digest of the path: the path itself is nobody's business
  name text not null,
  format text not null,
  import_id integer not null
);

create table if not exists _limbic_source_entities (
  source_id integer not null references _limbic_sources(id) on delete cascade,
  key text not null, -- what the source tells the entity by: its name, or more
  entity_id integer not null, -- stays when the entity goes: that is how it is known
  import_id integer not null, -- the last import that had it
  entity_type text,
  archived_at text,
  valid_from text,
  valid_to text,
  observations blob not null, -- eight bytes each: digest of the text, and flags
  primary key (source_id, key)
) without rowid;

create table if not exists _limbic_source_relations (
  source_id integer not null references _limbic_sources(id) on delete cascade,
  from_entity integer not null,
  to_entity integer not null,
  relation_type text not null,
  import_id integer not null,
  ended integer not null default 0,
  primary key (source_id, from_entity, to_entity, relation_type)
) without rowid;

-- Bare counts: of accesses where entity_b_id is 0, of rows with an access where it is -1, of the
-- access log where it is -2, else of the pair.
create table if not exists _limbic_source_counts (
  source_id integer not null references _limbic_sources(id) on delete cascade,
  entity_a_id integer not null,
  entity_b_id integer not null default 0,
  count integer not null,
  primary key (source_id, entity_a_id, entity_b_id)
) without rowid;

create index if not exists observations_supersedes on observations(supersedes)
  where supersedes is not null;
