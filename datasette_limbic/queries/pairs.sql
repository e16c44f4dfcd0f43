pairs as materialized (
  select entity_a_id as a, entity_b_id as b, co_count, last_co
  from pool cross join pool q on q.id > pool.id
  cross join co_occurrences on entity_a_id = pool.id and entity_b_id = q.id
)
