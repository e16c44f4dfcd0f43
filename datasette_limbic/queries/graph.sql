-- What is near one entity. Each part is a statement of its own, named by the line before it. What
-- has not begun is not there yet; what has ended is drawn faint. Adopted tables may hold anything:
-- ends of another kind than a whole number, and of entities that are not there, are left out.

-- near: the neighbours of the focus, most accessed first, behind them the types of its relations
-- that can be asked for; one scan serves both, since a hub may have a hundred thousand
with near as materialized (
  select to_entity as x, relation_type from relations r
  where from_entity = :focus and typeof(from_entity) = 'integer' and {begun:r}
  union all
  select from_entity, relation_type from relations r
  where to_entity = :focus and from_entity <> :focus and typeof(to_entity) = 'integer' and {begun:r}
),
wanted as (
  select distinct x from near
  where x <> :focus and typeof(x) = 'integer' and x in (select id from entities)
    and (:types is null or relation_type in (select value from json_each(:types)))
    and (:archived or x not in (select id from entities where archived_at is not null))
),
ranked as (
  select x, max(0, ifnull(cast(access_count as integer), 0)) as n
  from wanted left join entity_access on entity_id = x
)
select * from (select 'neighbour' as part, x as id, null as relation_type, count(*) over () as n
  from ranked order by ranked.n desc, x limit :limit)
union all
select * from (select 'type', null, relation_type, count(*) from near
  where typeof(relation_type) = 'text' and relation_type <> ''
  group by relation_type order by count(*) desc, relation_type limit 100)

-- partners: what comes up together with the focus most often
select id from (
  select entity_b_id as id, co_count, last_co from co_occurrences
  where entity_a_id = :focus and entity_b_id > :focus
  union all
  select entity_a_id, co_count, last_co from co_occurrences
  where entity_b_id = :focus and entity_a_id < :focus
)
where typeof(id) = 'integer' and cast(co_count as integer) > 0 and id in (select id from entities)
  and (:archived or id not in (select id from entities where archived_at is not null))
order by cast(co_count as integer) desc, last_co desc, id limit :limit

-- further: neighbours of those, most accessed first; of each the first :each either way, whatever
-- a hub has
with shown as materialized (select value as y from json_each(:shown)),
some as materialized (
  select to_entity as x from shown cross join relations r on r.id in (
    select id from relations where from_entity = y limit :each)
  where typeof(from_entity) = 'integer' and {begun:r} and (:types is null or relation_type in (select value from json_each(:types)))
  union
  select from_entity from shown cross join relations r on r.id in (
    select id from relations where to_entity = y limit :each)
  where typeof(to_entity) = 'integer' and {begun:r} and (:types is null or relation_type in (select value from json_each(:types)))
)
select x, count(*) over () as n,
  exists (select 1 from shown where
    (select count(*) from (select 1 from relations where from_entity = y limit :each + 1)) > :each
    or (select count(*) from (select 1 from relations where to_entity = y limit :each + 1)) > :each
  ) as cut
from some left join entity_access on entity_id = x
where x <> :focus and typeof(x) = 'integer' and x in (select id from entities)
  and x not in (select y from shown)
  and (:archived or x not in (select id from entities where archived_at is not null))
order by max(0, ifnull(cast(access_count as integer), 0)) desc, x limit :limit

-- nodes: the entities of the picture; relations are those that hold, one to itself once; degree
-- as the ranking counts it, up to :d_max
select e.id, e.name, e.entity_type, e.archived_at,
  max(0, ifnull(cast(access_count as integer), 0)) as access_count,
  (select count(*) from relations r where from_entity = e.id
      and typeof(from_entity) = 'integer' and typeof(to_entity) = 'integer' and {current:r})
    + (select count(*) from relations r where to_entity = e.id and from_entity <> e.id
      and typeof(from_entity) = 'integer' and typeof(to_entity) = 'integer' and {current:r})
    as relations,
  (select count(*) from (
    select distinct n.id from (
      select to_entity as x, relation_type, valid_to from relations where from_entity = e.id
      union all
      select from_entity, relation_type, valid_to from relations where to_entity = e.id
    ) r cross join entities n on n.id = x
    where x <> e.id and archived_at is null and relation_type not in ('contiene', 'parte_de')
      and ifnull(julianday(r.valid_to) > julianday(:now), 1)
    limit :d_max)) as degree
from json_each(:shown) cross join entities e on e.id = value
left join entity_access a on a.entity_id = e.id
order by e.id

-- most: what importance is measured against
select max(0, ifnull(max(cast(access_count as integer)), 0)) from entity_access

-- relations: those between the entities of the picture
select from_entity, to_entity, relation_type, not {current:r} as ended
from json_each(:shown) a cross join json_each(:shown) b
cross join relations r on from_entity = a.value and to_entity = b.value
where from_entity <> to_entity and {begun:r}
  and typeof(from_entity) = 'integer' and typeof(to_entity) = 'integer'
  and (:types is null or relation_type in (select value from json_each(:types)))
order by ended, relation_type, from_entity, to_entity limit :limit

-- pairs: how often the entities of the picture came up together
select entity_a_id, entity_b_id, cast(co_count as integer) as n
from json_each(:shown) a cross join json_each(:shown) b
cross join co_occurrences on entity_a_id = a.value and entity_b_id = b.value
where a.value < b.value and n > 0
  and typeof(entity_a_id) = 'integer' and typeof(entity_b_id) = 'integer'
order by n desc, last_co desc, entity_a_id, entity_b_id limit :limit
