-- Tables of migration 6: what follows the vectors, and how far it has come.

-- Which items of a collection changed in which version of its vectors, so that what is made of
-- them can follow: the matrix in memory, the approximate index, a server. Complete from
-- limbic_indexes.changes_from on.
create table if not exists _limbic_vec_changes (
  collection text not null,
  version integer not null,
  item_id integer not null,
  primary key (collection, version, item_id)
) without rowid;

-- The approximate index of the entities: how each build was made, and what was measured of it.
-- The newest one that is ready serves; one that is being built takes its place when it is.
create table if not exists limbic_approximate (
  build integer primary key,
  collection text not null default 'entities',
  state text not null check (state in ('filling', 'measuring', 'ready')),
  model text,
  dimension integer not null,
  axes integer not null,
  version integer not null,
  filled_to integer not null default 0,
  vectors integer not null default 0,
  trained_on integer not null,
  changed integer not null default 0,
  measured_vectors integer,
  measured_changed integer,
  shortlisted integer,
  rescored integer,
  target_recall real not null,
  recall real,
  measured text,
  seconds real not null default 0,
  started_at text not null default (datetime('now')),
  built_at text
);

-- What codes are made with: mean, axes, scale and sieve, as little-endian float32.
create table if not exists _limbic_ann_parts (
  build integer not null references limbic_approximate(build) on delete cascade,
  name text not null,
  value blob not null,
  primary key (build, name)
);

-- Codes of the vectors, some thousands a row: ids as little-endian int64, signs as bits, codes as
-- int8. Of an item that stands in several rows the last one counts; gone = 1 says that these are
-- not in the index any more.
create table if not exists _limbic_ann_segments (
  id integer primary key,
  build integer not null references limbic_approximate(build) on delete cascade,
  items integer not null,
  gone integer not null default 0,
  ids blob not null,
  signs blob not null,
  codes blob not null
);
create index if not exists _limbic_ann_segments_build on _limbic_ann_segments(build);

-- What a server has of this memory (retriever: postgres). memory is the name by which the server
-- knows it; of the version, and all before, nothing is left to push (null: nothing was pushed).
create table if not exists limbic_pushes (
  collection text primary key,
  memory text not null,
  version integer,
  rows integer not null default 0,
  pushed_at text
) without rowid;
