-- k is raised by what may fall out afterwards: stale rows, archived ones, facts not valid then
nearest as materialized (
  select entity_id as x, distance as d from _limbic_vec_entities
  where embedding match limbic_embed(:q) and k = (select min(4096, k
    + (select count(*) from limbic_stale where collection = 'entities')
    + (select count(*) from entities where archived_at is not null and not archived)
    + (select count(*) from entities where (valid_to is not null or valid_from is not null)
      and (julianday(valid_to) <= at or julianday(valid_from) > at))) from p)
    /*type*/
),
knn as (
  select x as id, d * d / 2 as distance, row_number() over (order by d, x) as knn_rank
  from nearest cross join live on live_id = x
  order by 3 limit (select k from p)
)
