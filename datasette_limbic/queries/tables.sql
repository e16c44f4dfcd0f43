-- Tables of migration 1. Names and types are those of the documents; all times are UTC text.
create table if not exists entities (
  -- autoincrement: a new entity must not get the id, and so the vector, of a deleted one
  id integer primary key autoincrement,
  name text not null unique,
  entity_type text not null default 'Generic',
  created_at text default (datetime('now')),
  updated_at text default (datetime('now')),
  last_activity_at text,
  archived_at text,
  archived_reason text,
  confidence real not null default 1.0,
  valid_from text,
  valid_to text
);

create table if not exists observations (
  id integer primary key,
  entity_id integer not null references entities(id) on delete cascade,
  content text not null,
  created_at text default (datetime('now')),
  similarity_flag integer not null default 0 check (similarity_flag in (0, 1)),
  kind text,
  confidence real not null default 1.0,
  valid_from text,
  valid_to text
);

create table if not exists relations (
  id integer primary key,
  from_entity integer not null references entities(id) on delete cascade,
  to_entity integer not null references entities(id) on delete cascade,
  relation_type text not null,
  created_at text default (datetime('now')),
  valid_from text,
  valid_to text,
  unique (from_entity, to_entity, relation_type)
);

create table if not exists entity_access (
  entity_id integer primary key references entities(id) on delete cascade,
  access_count integer not null default 1,
  last_access text not null default (datetime('now'))
);

create table if not exists entity_access_log (
  id integer primary key,
  entity_id integer references entities(id) on delete set null,
  entity_name text not null,
  query text,
  accessed_at text not null default (datetime('now'))
);

create table if not exists co_occurrences (
  entity_a_id integer not null references entities(id) on delete cascade,
  entity_b_id integer not null references entities(id) on delete cascade,
  co_count integer not null default 1,
  last_co text not null default (datetime('now')),
  primary key (entity_a_id, entity_b_id),
  check (entity_a_id < entity_b_id)
) without rowid;

create table if not exists limbic_settings (
  key text primary key,
  value text,
  help text
) without rowid;

create table if not exists limbic_parameters (
  version integer primary key,
  beta_sal real not null,
  gamma real not null,
  source text not null check (source in ('tuned', 'manual', 'rollback')),
  evidence text,
  log_digest text,
  applied_by text,
  created_at text not null default (datetime('now'))
);

create table if not exists limbic_searches (
  id integer primary key,
  query text not null,
  mode text not null,
  strategy text not null,
  result_limit integer not null,
  now text not null,
  parameters text not null,
  parameters_version integer references limbic_parameters(version) on delete set null,
  policy text not null default 'limbic',
  treatment integer not null default 1 check (treatment in (0, 1)),
  probability real not null default 1.0,
  client text,
  actor text,
  created_at text not null default (datetime('now'))
);

create table if not exists limbic_search_candidates (
  search_id integer not null references limbic_searches(id) on delete cascade,
  entity_id integer not null,
  entity_name text not null,
  returned integer not null default 0,
  baseline_rank integer not null,
  treatment_rank integer not null,
  cosine_sim real,
  rrf_score real,
  base real,
  importance real,
  temporal_factor real,
  cooc_boost real,
  limbic_score real,
  final_score real,
  primary key (search_id, entity_id)
) without rowid;

create table if not exists limbic_feedback (
  id integer primary key,
  search_id integer references limbic_searches(id) on delete cascade,
  entity_id integer references entities(id) on delete set null,
  entity_name text not null,
  event text not null check (event in ('opened', 'useful', 'not_useful')),
  client text,
  actor text,
  created_at text not null default (datetime('now'))
);

create table if not exists limbic_insights (
  id integer primary key,
  key text not null unique,
  kind text not null,
  entity_id integer references entities(id) on delete cascade,
  title text not null,
  body text not null,
  evidence text not null,
  evidence_digest text not null,
  confidence real not null default 1.0,
  status text not null default 'pending' check (status in ('pending', 'approved', 'dismissed')),
  judged_by text,
  judged_at text,
  created_at text not null default (datetime('now')),
  updated_at text not null default (datetime('now'))
);

create table if not exists limbic_changes (
  id integer primary key,
  action text not null,
  entity_id integer,
  entity_name text,
  summary text not null,
  before text not null,
  after text not null,
  actor text,
  insight_id integer references limbic_insights(id) on delete set null,
  undoes integer references limbic_changes(id),
  undone_by integer references limbic_changes(id),
  created_at text not null default (datetime('now'))
);

create table if not exists limbic_topics (
  entity_id integer primary key references entities(id) on delete cascade,
  topics text not null,
  diversity real not null,
  split_score real not null,
  computed_at text not null default (datetime('now'))
);

create table if not exists limbic_reviews (
  id integer primary key,
  report text not null,
  actor text,
  reviewed_at text not null default (datetime('now'))
);

create table if not exists limbic_imports (
  id integer primary key,
  source text not null,
  format text not null,
  counts text not null,
  started_at text not null,
  finished_at text not null
);

create table if not exists limbic_import_rejects (
  id integer primary key,
  import_id integer not null references limbic_imports(id) on delete cascade,
  line integer not null,
  reason text not null,
  raw text
);

create table if not exists limbic_indexes (
  collection text primary key,
  model text,
  dimension integer not null,
  vectors integer not null,
  rejected text not null default '[]',
  built_at text not null,
  synced_at text not null
) without rowid;

-- What changed since the last sync: the text of an item, or its stored vector.
create table if not exists limbic_stale (
  collection text not null,
  item_id integer not null,
  marked_at text not null default (datetime('now')),
  primary key (collection, item_id)
) without rowid;

-- While a row stands here, the triggers leave last_activity_at and updated_at alone.
create table if not exists _limbic_guard (name text primary key) without rowid;

create index if not exists observations_entity_id on observations(entity_id);
create index if not exists observations_flagged on observations(entity_id) where similarity_flag = 1;
create index if not exists observations_valid_to on observations(valid_to) where valid_to is not null;
create index if not exists relations_to_entity on relations(to_entity);
create index if not exists entities_archived on entities(archived_at) where archived_at is not null;
create index if not exists entities_validity on entities(valid_to, valid_from)
  where valid_to is not null or valid_from is not null;
create index if not exists entity_access_log_entity on entity_access_log(entity_id, accessed_at);
create index if not exists co_occurrences_b on co_occurrences(entity_b_id);
create index if not exists limbic_feedback_search on limbic_feedback(search_id);
create index if not exists limbic_insights_status on limbic_insights(status, kind);
create index if not exists limbic_import_rejects_import on limbic_import_rejects(import_id);

-- One row per entity name and one per observation: a row per entity would make the triggers
-- rewrite a whole entity for each new observation. Names are even, observations odd. The
-- tables keep their own copy of the text, so that a writer's INSERT OR REPLACE, which fires no
-- delete trigger, cannot leave the index untrue.
create virtual table if not exists _limbic_fts using fts5(
  name, content, tokenize = "unicode61 remove_diacritics 2"
);
create virtual table if not exists _limbic_fts_vocab using fts5vocab(_limbic_fts, 'row');
-- Substrings: every name, and observations in scripts that put no space between words.
create virtual table if not exists _limbic_trigram using fts5(content, tokenize = "trigram");
