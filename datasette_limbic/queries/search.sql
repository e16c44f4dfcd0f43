-- The ranking, whole. Parameters arrive as text from Datasette's form; '' means the default.
-- Materialized: what SQLite would otherwise work out anew for each row and each mention.
with arg as (
  select max(1, limbic_arg(:limit, 10)) as lim, limbic_arg(:now, datetime('now')) as now
),
time as (select *, julianday(limbic_arg(:as_of, now)) as at from arg),
p as materialized (
  select *, lim * limbic_arg(:expansion_factor, 3) as k, nullif(:type, '') as typ,
    :include_archived = '1' as archived,
    limbic_arg(nullif(:strategy, 'auto'), limbic_route(:q, lim)) as route,
    (select count(*) from entities where (valid_to is not null or valid_from is not null)
      and (julianday(valid_to) <= at or julianday(valid_from) > at)) as invalid,
    (select count(*) from entities where archived_at is not null) as hidden
  from time
),
live as not materialized (
  select id as live_id from entities, p
  where (archived or archived_at is null) and (typ is null or entity_type = typ)
    and ifnull(julianday(valid_to) > at, 1) and ifnull(julianday(valid_from) <= at, 1)
),
/*knn*/,
/*text*/,
-- id, distance, knn_rank, fts_rank, covered
found as (
  select * from (select id from knn union select id from fts)
  left join knn using (id) left join fts using (id)
),
-- signals, for the pool alone
pool as materialized (
  select e.id, name, entity_type, created_at, last_activity_at, distance, knn_rank, fts_rank,
    covered, max(0, ifnull(cast(access_count as integer), 0)) as access_count, last_access,
    -- a view cannot stand here: SQLite would read all of it for each candidate; and of a hub whose
    -- neighbours are archived no more than so many are looked at (see queries/at_size.sql)
    (select count(*) from (
      select distinct x from (
        select * from (select to_entity as x, valid_to as v from relations
          where from_entity = e.id and relation_type not in ('contiene', 'parte_de')
          order by v limit 250)
        union all
        select * from (select from_entity, valid_to from relations
          where to_entity = e.id and relation_type not in ('contiene', 'parte_de')
          order by 2 limit 250)
      ) cross join entities n on n.id = x
      where x <> e.id and archived_at is null and ifnull(julianday(v) > at, 1)
      limit limbic_arg(:d_max, 15))) as degree
  from found f cross join p cross join entities e on e.id = f.id
  left join entity_access a on a.entity_id = e.id
),
/*pairs*/,
boosts as (
  select id as x, min(sum(part), limbic_arg(:cooc_cap, 9e999, 0)) as boost
  from (select a as id, part from pairs union all select b, part from pairs) group by id
),
factors as (
  select pool.*, now, route, ifnull(boost, 0.0) as cooc_boost, cosine_sim(distance) as cosine_sim,
    limbic_rrf(:rrf_k, knn_rank, fts_rank) as rrf_score,
    limbic_importance(access_count, max(access_count) over (), degree, :beta_deg, :d_max)
      * iif(:consolidation = '1', 1 + ifnull(consolidation_importance(
        access_count, limbic_hours(last_access, now) / 24), 0), 1) as importance,
    iif(:recency = 'activity', null, temporal_factor(
      last_access, created_at, now, :lambda_hourly, :temporal_floor)) as t1,
    iif(:recency in ('activity', 'freshest'), temporal_score(
      last_activity_at, limbic_half_life(entity_type), degree, now), null) as t2
  from pool cross join p left join boosts on x = id
),
based as materialized (
  select *, case when t1 > t2 then t1 else ifnull(t2, t1) end as temporal_factor,
    /*base*/ as base from factors
),
scored as materialized (
  select *, limbic_score(base, importance,
      ifnull(temporal_factor, limbic_arg(:unknown_temporal, 0.5)), cooc_boost, :beta_sal, :gamma
    ) as limbic_score
  from based
),
normed as (
  select *, limbic_norm(limbic_score, min(limbic_score) over (), max(limbic_score) over ())
    as limbic_norm from scored
)
select id, name, entity_type, distance, limbic_score, iif(route = 'limbic',
    limbic_score, limbic_blend(route, base, limbic_norm)) as final_score,
  /*rrf*/, route as routing_strategy, knn_rank, fts_rank, base, cosine_sim, importance, temporal_factor,
  cooc_boost, limbic_norm, access_count, last_access, degree, covered /*texts*/
from normed
order by final_score desc, id
limit iif(:explain = '1', -1, limbic_arg(:limit, 10))
