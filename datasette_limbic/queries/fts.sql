/*terms*/,
/*hits*/,
-- the name and the best observation count; a long entity does not win by its length. Cut with
-- room for those that are not live: to test and number them all would cost more
best as (
  select x, sum(score) as score, max(said) as said from (
    select iif(doc & 1, entity_id, doc >> 1) as x, id as said, min(score) as score
    from hits cross join p left join observations on id = iif(doc & 1, doc >> 1, null)
    where ifnull(julianday(valid_to) > at, 1) and ifnull(julianday(valid_from) <= at, 1)
    group by x, said is null
  ) group by x order by 2, 1 limit (select iif(typ is null, k + invalid + hidden, -1) from p)
),
fts as materialized (
  select e.id, fts_rank, limbic_coverage(:q, name, content, (
    select json_group_array(json_array(term, df, idf)) from terms)) as covered
  from (select *, row_number() over (order by score, x) as fts_rank
    from best cross join live on live_id = x order by fts_rank limit (select k from p))
  cross join entities e on e.id = x left join observations o on o.id = said
)
