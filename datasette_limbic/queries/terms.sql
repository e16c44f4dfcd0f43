-- the terms of the query
terms as materialized (
  select value ->> 0 as term, value ->> 1 as df, value ->> 2 as idf, value ->> 3 as places,
    value ->> 4 as tokens, value ->> 5 as rarest, key as pos
  from json_each(limbic_frequencies(:q)) limit -1
),
-- the rarest, while their document frequencies add up to {counted}, or to fewer of very many words,
-- since each makes it longer to rate a text; and phrases while the places where their parts are
-- looked up add up to {places} (see frequency.py). Those behind a word of more texts than are looked
-- at do not lead (see text.match), so more of them are kept
kept as materialized (
  select * from (select *, sum(df) over w as total, row_number() over w as words,
    sum(df * leads) over () as led, sum(places) over w as looked_up
    from (select *, /*leads*/ as leads from terms) window w as (order by df, pos))
  where (total <= {counted} or led <= {counted} and total <= {following})
    and total * words <= {rated} and (not places or looked_up <= {places}) /*rarest*/
)
