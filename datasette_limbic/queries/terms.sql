-- the terms of the query
terms as materialized (
  select value ->> 0 as term, value ->> 1 as df, value ->> 2 as idf, value ->> 3 as places,
    value ->> 4 as tokens, value ->> 5 as rarest, key as pos
  from json_each(limbic_frequencies(:q)) limit -1
),
-- the rarest, while their document frequencies add up to {counted}, or to fewer of very many words,
-- since each makes it longer to rate a text; and phrases while the places where their parts are
-- looked up add up to {places} (see frequency.py)
kept as materialized (
  select * from (select *, sum(df) over (order by df, pos) as total,
    row_number() over (order by df, pos) as words,
    sum(places) over (order by df, pos) as looked_up from terms)
  where total <= {counted} and total * words <= {rated}
    and (not places or looked_up <= {places}) /*rarest*/
)
