-- What is near one entity. Each part is a statement of its own, named by the line before it. What
-- has not begun is not there yet; what has ended is drawn faint. Adopted tables may hold anything:
-- ends of another kind than a whole number, and of entities that are not there, are left out.

-- near: the neighbours of the focus, most accessed first, behind them the types of its relations
-- that can be asked for; and whether it has more than the first of each way, which are looked at, and
-- more of the types that are asked for than the first of these
with near as materialized (
  select to_entity as x, r.relation_type from {first_out::focus} f cross join relations r on r.id = f.id
  where typeof(from_entity) = 'integer' and {begun:r}
  union all
  select from_entity, r.relation_type from {first_in::focus} f cross join relations r on r.id = f.id
  where from_entity <> :focus and typeof(to_entity) = 'integer' and {begun:r}
),
asked_out as materialized (select id from {asked_out::focus} where :types is not null),
asked_in as materialized (select id from {asked_in::focus} where :types is not null),
followed as (
  select x from near where :types is null
  union all
  select to_entity from asked_out f cross join relations r on r.id = f.id
  where typeof(from_entity) = 'integer' and {begun:r}
  union all
  select from_entity from asked_in f cross join relations r on r.id = f.id
  where typeof(to_entity) = 'integer' and {begun:r}
),
wanted as (
  select distinct x from followed
  where x <> :focus and typeof(x) = 'integer' and exists (select 1 from entities h where h.id = x)
    and (:archived or exists (select 1 from entities g where g.id = x and g.archived_at is null))
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
union all
select 'more', null, null, {more::focus}
union all
select 'more asked', null, null, :types is not null and ({more_looked_at::focus}
  or max((select count(*) from asked_out), (select count(*) from asked_in)) > :counted)

-- often: what comes up together with the focus most often, of what does so more than a few times:
-- by an index, which ends where enough were read; texts come after all numbers
select c.id from (
  select * from (select entity_b_id as id, co_count, last_co from co_occurrences
    where entity_a_id = :focus and entity_b_id > :focus and co_count > 3 and co_count < '' and typeof(entity_b_id) = 'integer'
      and exists (select 1 from entities h where h.id = entity_b_id)
      and (:archived or exists (select 1 from entities g where g.id = entity_b_id and g.archived_at is null))
    order by co_count desc, last_co desc, entity_b_id limit :limit)
  union all
  select * from (select entity_a_id as id, co_count, last_co from co_occurrences
    where entity_b_id = :focus and entity_a_id < :focus and co_count > 3 and co_count < '' and typeof(entity_a_id) = 'integer'
      and exists (select 1 from entities h where h.id = entity_a_id)
      and (:archived or exists (select 1 from entities g where g.id = entity_a_id and g.archived_at is null))
    order by co_count desc, last_co desc, entity_a_id limit :limit)
  union all
  select * from (select entity_b_id, co_count, last_co from co_occurrences
    where entity_a_id = :focus and entity_b_id > :focus and co_count > 3 and co_count >= '' limit :counted)
  union all
  select * from (select entity_a_id, co_count, last_co from co_occurrences
    where entity_b_id = :focus and entity_a_id < :focus and co_count > 3 and co_count >= '' limit :counted)
) c
where typeof(c.id) = 'integer' and cast(co_count as integer) > 3 and exists (select 1 from entities h where h.id = c.id)
  and (:archived or exists (select 1 from entities g where g.id = c.id and g.archived_at is null))
order by cast(co_count as integer) desc, last_co desc, c.id limit :limit

-- partners: the same of all, as far as they are counted, for where few come up often
select c.id from (
  select * from (select entity_b_id as id, co_count, last_co from co_occurrences
    where entity_a_id = :focus and entity_b_id > :focus limit :counted)
  union all
  select * from (select entity_a_id, co_count, last_co from co_occurrences
    where entity_b_id = :focus and entity_a_id < :focus limit :counted)
) c
where typeof(c.id) = 'integer' and cast(co_count as integer) > 0 and exists (select 1 from entities h where h.id = c.id)
  and (:archived or exists (select 1 from entities g where g.id = c.id and g.archived_at is null))
order by cast(co_count as integer) desc, last_co desc, c.id limit :limit

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
where x <> :focus and typeof(x) = 'integer' and exists (select 1 from entities h where h.id = x)
  and x not in (select y from shown)
  and (:archived or exists (select 1 from entities g where g.id = x and g.archived_at is null))
order by max(0, ifnull(cast(access_count as integer), 0)) desc, x limit :limit

-- nodes: the entities of the picture; relations are those that hold, one to itself once, of the
-- first of each way, and whether it has more than these; degree as the ranking counts it, up to :d_max
select e.id, e.name, e.entity_type, e.archived_at,
  max(0, ifnull(cast(access_count as integer), 0)) as access_count,
  (select count(*) from {first_out:e.id} f cross join relations r on r.id = f.id
      where typeof(from_entity) = 'integer' and typeof(to_entity) = 'integer' and {current:r})
    + (select count(*) from {first_in:e.id} f cross join relations r on r.id = f.id
      where from_entity <> e.id
      and typeof(from_entity) = 'integer' and typeof(to_entity) = 'integer' and {current:r})
    as relations,
  {more:e.id} as at_least,
  (select count(*) from (
    select distinct n.id from (
      select * from (select to_entity as x, valid_to from relations where from_entity = e.id
        and relation_type not in ('contiene', 'parte_de') order by valid_to limit 250)
      union all
      select * from (select from_entity, valid_to from relations where to_entity = e.id
        and relation_type not in ('contiene', 'parte_de') order by valid_to limit 250)
    ) r cross join entities n on n.id = x
    where x <> e.id and archived_at is null
      and ifnull(julianday(r.valid_to) > julianday(:now), 1)
    limit :d_max)) as degree
from json_each(:shown) cross join entities e on e.id = value
left join entity_access a on a.entity_id = e.id
order by e.id

-- most: what importance is measured against, by the ends of an index; texts sort after numbers
select max(0, ifnull(cast((
    select max(access_count) from entity_access where access_count < '') as integer), 0),
  ifnull((
    select max(cast(access_count as integer)) from entity_access where access_count >= ''), 0))

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
