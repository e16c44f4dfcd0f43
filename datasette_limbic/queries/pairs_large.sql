-- in a large pool a candidate with few co-occurrences is scanned, one with many is looked up
few as materialized (
  select id, (select count(*) from pool) > 60 and (select count(*) from (
    select 1 from co_occurrences where entity_a_id = id limit 101)) < 101 as scan from pool
),
pairs as materialized (
  select entity_a_id as a, entity_b_id as b, co_count, last_co
  from few cross join co_occurrences on entity_a_id = few.id
  cross join pool q on q.id = entity_b_id where scan
  union all
  select entity_a_id, entity_b_id, co_count, last_co
  from few cross join pool q on q.id > few.id
  cross join co_occurrences on entity_a_id = few.id and entity_b_id = q.id where not scan
)
