-- k is raised by what may fall out afterwards: some stale rows, and facts not valid then
nearest as materialized (
  select json_extract(value, '$[0]') as x, json_extract(value, '$[1]') as d
  from p /*texts_first*/ cross join json_each(limbic_nearest('{retriever}', :q, min(4096, k + invalid
    + (select count(*) from (select 1 from limbic_stale where collection = 'entities' limit 500))
    ), typ, archived))
)
