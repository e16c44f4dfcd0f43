-- What health looks for besides the views of the reports. {current:o} says whether a row holds at
-- :now, and the rows of each stand as q in its order: what deserves attention most first
-- (health/sql.py). Stock SQLite only.

-- Well connected and empty: a search that leads there finds nothing.
-- name: hub_stubs
select q.id, q.name, q.entity_type, q.degree, q.ended_observations, q.access_count
from ({view:limbic_empty_entities}) q where q.degree >= :hub_degree
order by q.degree desc, q.access_count desc, q.id

-- name: orphans
select q.id, q.name, q.entity_type, q.observations, q.access_count, q.last_access, q.created_at
from ({view:limbic_orphans}) q
order by q.access_count desc, q.observations desc, q.id

-- name: empty_entities
select q.id, q.name, q.entity_type, q.degree, q.ended_observations, q.access_count, q.created_at
from ({view:limbic_empty_entities}) q
order by q.degree desc, q.access_count desc, q.id

-- name: ended_relations
select q.id, q.from_entity, q.from_name, q.relation_type, q.to_entity, q.to_name, q.valid_from,
  q.valid_to
from ({view:limbic_ended_relations}) q
order by datetime(q.valid_to) desc, q.id

-- name: long_observations
select o.id as id, o.entity_id as entity_id, e.name as entity, length(o.content) as characters,
  round(1.0 - 1.0 * :characters / length(o.content), 4) as share_left_out,
  substr(o.content, 1, 80) as content
from observations o join entities e on e.id = o.entity_id
where length(o.content) > :characters and e.archived_at is null and {current:o}
order by q.characters desc, q.id

-- How long the text of entity_snapshots would be if it were not cut.
-- name: cut_snapshots
with said as (
  select o.entity_id as entity_id, count(*) as observations,
    sum(length(o.content)) + 3 * count(*) - 1 as characters
  from observations o where {current:o} group by o.entity_id
), linked as (
  -- at most: few entities need to be looked at more closely
  select r.from_entity as entity_id, min(count(*), 50) * (
    select 5 + (select max(length(relation_type)) from relations)
      + (select max(length(name)) from entities)
  ) + 1 as characters
  from relations r group by r.from_entity
), near as (
  select e.id as id, e.name as name, e.entity_type as entity_type,
    coalesce(s.observations, 0) as observations,
    length(e.name) + length(e.entity_type) + 3 + coalesce(s.characters, 0) as said
  from entities e left join said s on s.entity_id = e.id left join linked l on l.entity_id = e.id
  where e.archived_at is null and length(e.name) + length(e.entity_type) + 3
    + coalesce(s.characters, 0) + coalesce(l.characters, 0) > :characters
), whole as (
  select id, name, entity_type, observations, said + coalesce((
    select sum(characters) + 1 from (
      select length(r.relation_type) + 5 + length(t.name) as characters
      from relations r join entities t on t.id = r.to_entity
      where r.from_entity = near.id and r.to_entity <> r.from_entity and t.archived_at is null
        and coalesce(datetime(r.valid_to) > datetime(:now), 1)
      order by r.id limit 50
    )
  ), 0) as characters from near
)
select id, name, entity_type, observations, characters,
  round(1.0 - 1.0 * max(:characters, 0) / characters, 4) as share_left_out
from whole where characters > :characters
order by q.characters desc, q.id

-- name: vectors
select 'entities' as collection, id, text, (select name from entities t where t.id = q.id) as entity,
  id as entity_id
from ({entities}) q
union all
select 'observations', q.id, q.text, e.name, e.id
from ({observations}) q left join observations o on o.id = q.id left join entities e on e.id = o.entity_id
order by q.collection, q.text, q.id

-- One collection of the above, by its name, collection id and dimension; whether any vector may be
-- of another length.
-- name: vectors_of
select s.item_id as id, 'changed or gone since the last sync' as text from limbic_stale s
where s.collection = '{name}'
union all
select t.id, 'no vector' from {name} t
where not exists (
  select 1 from embeddings m where m.collection_id = :{name}_id and m.id = cast(t.id as text)
) and not exists (select 1 from limbic_stale s where s.collection = '{name}' and s.item_id = t.id)
union all
select json_extract(j.value, '$.id'), 'vector rejected: ' || json_extract(j.value, '$.reason')
from limbic_indexes i, json_each(iif(json_valid(i.rejected), i.rejected, '[]')) j
where i.collection = '{name}' and not exists (
  select 1 from limbic_stale s
  where s.collection = '{name}' and s.item_id = json_extract(j.value, '$.id')
)
union all
select cast(m.id as integer),
  'a vector of ' || (length(m.embedding) / 4) || ' values, where most have ' || :{name}_dimension
from embeddings m
where :{name}_odd and m.collection_id = :{name}_id
  and length(m.embedding) <> 4 * :{name}_dimension
  and not exists (
    select 1 from limbic_stale s
    where s.collection = '{name}' and s.item_id = cast(m.id as integer)
  ) and not exists (
    select 1 from limbic_indexes i, json_each(iif(json_valid(i.rejected), i.rejected, '[]')) j
    where i.collection = '{name}' and json_extract(j.value, '$.id') = cast(m.id as integer)
  )
