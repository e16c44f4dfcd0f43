-- nothing was asked: the most used, the last used and the newest, by their indexes in turn
knn as materialized (
  select id, null as distance, null as knn_rank from (
    select entity_id as id from entity_access cross join live on live_id = entity_id
    order by access_count desc, entity_id limit (select k from p))
  union select id, null, null from (
    select entity_id as id from entity_access cross join live on live_id = entity_id
    order by last_access desc, entity_id limit (select k from p))
  union select id, null, null from (
    select id from entities cross join live on live_id = id
    order by ifnull(last_activity_at, created_at) desc, id limit (select k from p))
)
