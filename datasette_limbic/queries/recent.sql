-- nothing was asked: the most used, the last used and the newest
knn as materialized (
  select id, null as distance, null as knn_rank from (
    select live_id as id from entity_access cross join live on live_id = entity_id
    order by access_count desc, id limit (select k from p))
  union select id, null, null from (
    select live_id as id from entity_access cross join live on live_id = entity_id
    order by last_access desc, id limit (select k from p))
  union select id, null, null from (
    select id from live cross join entities on id = live_id
    order by ifnull(last_activity_at, created_at) desc, id limit (select k from p))
)
