-- Of a word that is everywhere (see RAREST) the newest texts, as they come: bm25() would read all of
-- its texts to say that it is worth nothing.
hits as materialized (
  select * from (select * from (select rowid as doc,
      /*rated*/ as score
    from _limbic_fts where _limbic_fts match (
      select ifnull(limbic_match(term, leads), '""') from kept /*single*/) /*of_words*/
    order by 1 desc limit {texts}) /*phrase*/ /*cut*/)
  union all
  -- the entity of that name, however common its words
  select id * 2, -1e9 from entities where name = trim(:q)
  union all
  select * from (select rowid as doc, /*part_rated*/ from _limbic_trigram
  where _limbic_trigram match limbic_parts(:q) /*of_parts*/
  order by 1 desc limit {parts})
  /*short_runs*/
)
