-- What a page shows of the observations of its results: those with the words of the query, the
-- nearest by meaning, then the oldest. One statement for all results, however many they hold.
with shown as materialized (select key as place, value as entity from json_each(:ids)),
held as materialized (
  select o.id, entity_id, place from shown cross join observations o on entity_id = entity
  where ifnull(julianday(valid_to) > julianday(:at), 1)
    and ifnull(julianday(valid_from) <= julianday(:at), 1)
),
-- the words that search looks for beside vectors
/*terms*/,
worded as materialized (
  select rowid >> 1 as id, bm25(_limbic_fts, 4.0, 1.0) as score from _limbic_fts
  where _limbic_fts match (select ifnull(group_concat(term, ' OR '), '""') from kept) and rowid & 1
  union all
  select h.id, -length(run.value) from json_each(limbic_cjk_runs(:q)) run cross join held h
  cross join observations o on o.id = h.id where instr(content, run.value)
),
words as materialized (select id, sum(score) as score from worded group by id),
/*near*/,
ranked as (
  select h.*, score, distance, count(*) over of as total,
    row_number() over (of order by ifnull(score, 0), distance is null, distance, h.id) as rank,
    row_number() over (of order by distance is null, distance, h.id) as nearness
  from held h left join words using (id) left join near using (id)
  window of as (partition by entity_id)
)
select r.entity_id, r.id, content, total, nearness = 1 and distance is not null as nearest
from ranked r cross join observations o on o.id = r.id
where rank <= :most or (nearness = 1 and distance is not null)
order by place, rank
