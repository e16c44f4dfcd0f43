pairs as materialized (
  select entity_a_id as a, entity_b_id as b,
    cooc_term(cast(co_count as integer), last_co, now, :lambda_hourly, :cooc_temporal_floor,
    :unknown_temporal) as part
  -- in most pools most have no pairs
  from (select id as x from pool
    where exists (select 1 from co_occurrences where entity_a_id = id) limit -1)
  cross join pool on id > x
  cross join co_occurrences on entity_a_id = x and entity_b_id = id cross join p
)
