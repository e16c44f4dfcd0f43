-- nearest(x, d): entities and their cosine distances, by whichever retriever serves
/*nearest*/,
knn as materialized (
  select x as id, d as distance, row_number() over (order by d, x) as knn_rank
  from nearest cross join live on live_id = x
  order by 3 limit (select k from p)
)
