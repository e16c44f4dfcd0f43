pairs as materialized (
  select entity_a_id as a, entity_b_id as b,
    cooc_term(cast(co_count as integer), last_co, now, :lambda_hourly, :cooc_temporal_floor,
    :unknown_temporal) as part
  from pool cross join pool q on q.id > pool.id
  cross join co_occurrences on entity_a_id = pool.id and entity_b_id = q.id cross join p
)
