-- k is raised by what may fall out afterwards: stale rows, and facts not valid then
nearest as materialized (
  select entity_id as x, distance as d from _limbic_vec_entities
  where embedding match limbic_embed(:q)
    and archived <= (:include_archived = '1')
    and k = (select min(4096, k + invalid
      + (select count(*) from limbic_stale where collection = 'entities')) from p) /*type*/
),
knn as materialized (
  select x as id, d * d / 2 as distance, row_number() over (order by d, x) as knn_rank
  from nearest cross join live on live_id = x
  order by 3 limit (select k from p)
)
