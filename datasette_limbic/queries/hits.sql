hits as materialized (
  select * from (select rowid as doc, bm25(_limbic_fts, 4.0, 1.0) as score from _limbic_fts
    where _limbic_fts match (select ifnull(group_concat(term, ' OR '), '""') from kept)
    /*cut*/)
  union all
  select rowid, bm25(_limbic_trigram) from _limbic_trigram
  where _limbic_trigram match (select ifnull(group_concat(term, ' OR '), '""') from (
    select term from kept where df = 0 and length(term) > 4
    /*runs*/))
  /*short_runs*/
)
