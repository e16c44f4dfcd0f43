-- in a large pool a candidate with no more co-occurrences than the pool has candidates is scanned,
-- one with more is looked up: nothing reads all partners of a hub
few as materialized (
  select id, n > 60 and (select count(*) from (select 1 from co_occurrences
    where entity_a_id = id limit (select count(*) + 1 from pool))) <= n as scan
  from pool cross join (select count(*) as n from pool)
),
counted as (
  select entity_a_id as a, entity_b_id as b, co_count, last_co
  from few cross join co_occurrences on entity_a_id = few.id
  cross join pool q on q.id = entity_b_id where scan
  union all
  select entity_a_id, entity_b_id, co_count, last_co
  from few cross join pool q on q.id > few.id
  cross join co_occurrences on entity_a_id = few.id and entity_b_id = q.id where not scan
),
pairs as materialized (
  select a, b,
    cooc_term(cast(co_count as integer), last_co, now, :lambda_hourly, :cooc_temporal_floor,
    :unknown_temporal) as part
  from counted cross join p
)
