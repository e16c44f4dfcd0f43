-- the rarest terms, while their document frequencies add up to 10,000
terms as materialized (
  select json_extract(t.value, '$.match') as term, key as pos, (
    select min(ifnull(doc, 0)) from json_each(t.value, '$.tokens') w
    left join _limbic_fts_vocab v on v.term = w.value) as df
  from json_each(limbic_fts_terms(:q)) t
),
kept as materialized (
  select *, limbic_idf(df, (select max(id) from observations)) as idf
  from (select *, sum(df) over (order by df, pos) as total,
    row_number() over (order by df, pos) as n from terms)
  where total <= 10000 /*rarest*/
),
hits as materialized (
  -- where thousands match, the best of them are looked at
  select * from (select rowid as doc, bm25(_limbic_fts, 4.0, 1.0) as score from _limbic_fts
    where _limbic_fts match (select ifnull(group_concat(term, ' OR '), '""') from kept)
    order by 2, 1 limit (select 30 * k from p))
  union all
  select rowid, bm25(_limbic_trigram) from _limbic_trigram
  where _limbic_trigram match (select ifnull(group_concat(term, ' OR '), '""') from (
    select term from kept where df = 0 and length(term) > 5 /*runs*/))
  /*short_runs*/
),
fts as materialized (
  select x as id, row_number() over (order by score, x) as fts_rank,
    -- how much of what the query says, by its terms' rarity, the best texts hold
    min(1, -score / (select sum(idf) from kept)) as covered
  from (
    -- the name and the best observation both count; a long entity does not win by its length
    select iif(doc & 1, entity_id, doc >> 1) as x,
      min(iif(doc & 1, 0, score)) + min(iif(doc & 1, score, 0)) as score
    from hits cross join p left join observations on doc & 1 and id = doc >> 1
    where ifnull(julianday(valid_to) > at, 1) and ifnull(julianday(valid_from) <= at, 1)
    group by x
    -- cut first, with room for those that are not live: numbering all would sort thousands
    order by 2, 1 limit (select iif(typ is null, k + invalid + hidden, -1) from p)
  ) cross join live on live_id = x
  order by 2 limit (select k from p)
)
