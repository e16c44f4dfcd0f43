-- What SQL alone can say of a memory that wants looking after. Each is a view, so that Datasette's
-- table pages give facets, filters, CSV and JSON on it; pages run the same text themselves, with
-- values of their own in place of what stands in braces (reports/queries.py). Stock SQLite only, and
-- nothing that came after 3.24: a view that cannot be parsed keeps a program from opening the file.
-- Every computed column is cast: without a type, Datasette's filters find nothing.

-- Over the threshold of its type, whatever the topics.
create view limbic_large_entities as
with recursive {types}, sizes as (
  -- those that hold are counted only where there are enough at all: an index alone says that
  select w.entity_id as entity_id, (
    select count(*) from observations o where o.entity_id = w.entity_id and {current:o}
  ) as observations
  from (
    select b.entity_id as entity_id from observations b group by b.entity_id
    having count(*) > (select min(threshold) from types)
  ) w
)
select
  e.id as id, e.name as name, e.entity_type as entity_type,
  cast(s.observations as integer) as observations, cast(t.threshold as integer) as threshold,
  cast(1.0 * s.observations / t.threshold as real) as size_ratio,
  cast(coalesce(a.access_count, 0) as integer) as access_count, a.last_access as last_access,
  e.last_activity_at as last_activity_at, e.created_at as created_at
from sizes s
join entities e on e.id = s.entity_id
join types t on t.entity_type = e.entity_type
left join entity_access a on a.entity_id = e.id
where e.archived_at is null and s.observations > t.threshold;

-- Near or over the threshold, and with topics that stood apart when it was last looked at.
create view limbic_split_candidates as
with recursive {types}, sizes as (
  select k.entity_id as entity_id, k.topics as topics, k.diversity as diversity,
    k.computed_at as computed_at,
    (select count(*) from observations o where o.entity_id = k.entity_id and {current:o})
      as observations
  from limbic_topics k where k.diversity > 0
)
select
  e.id as id, e.name as name, e.entity_type as entity_type,
  cast(case when s.observations > t.threshold then 'split' else 'approaching' end as text)
    as status,
  cast(s.observations as integer) as observations, cast(t.threshold as integer) as threshold,
  cast(s.diversity as real) as diversity,
  cast(1.0 * s.observations / t.threshold * s.diversity as real) as split_score,
  s.topics as topics,
  cast(coalesce(a.access_count, 0) as integer) as access_count, a.last_access as last_access,
  e.last_activity_at as last_activity_at,
  s.computed_at as computed_at,
  cast(exists (select 1 from limbic_report_pending p where p.entity_id = e.id) as integer)
    as changed_since
from sizes s
join entities e on e.id = s.entity_id
join types t on t.entity_type = e.entity_type
left join entity_access a on a.entity_id = e.id
where e.archived_at is null and s.observations >= {approaching} * t.threshold;

-- Observations marked as like an earlier one of their entity, with the likest.
create view limbic_flagged_observations as
select
  o.id as id, o.entity_id as entity_id, e.name as entity, e.entity_type as entity_type,
  o.content as content, o.created_at as created_at,
  d.earlier_id as similar_to, s.content as similar_content, d.rule as rule,
  cast(d.cosine as real) as cosine, cast(d.containment as real) as containment,
  cast(coalesce(a.access_count, 0) as integer) as access_count, a.last_access as last_access,
  e.last_activity_at as last_activity_at
from observations o
join entities e on e.id = o.entity_id
left join entity_access a on a.entity_id = e.id
left join limbic_duplicates d on d.later_id = o.id and d.earlier_id = (
  select b.earlier_id from limbic_duplicates b
  where b.later_id = o.id and b.kind = 'duplicate'
  order by b.rule = 'exact' desc, b.cosine desc, b.earlier_id limit 1
)
left join observations s on s.id = d.earlier_id
where o.similarity_flag = 1 and e.archived_at is null and {current:o};

-- Not accessed for long, or never and made long ago; seldom accessed at all; not archived. What
-- was accessed at an unknown time, or made at one, is never stale.
create view limbic_stale_entities as
with used as (
  select e.id as id, case when coalesce(a.access_count, 0) > 0 then a.last_access
    else e.created_at end as used_at
  from entities e
  left join entity_access a on a.entity_id = e.id
  where e.archived_at is null and coalesce(a.access_count, 0) <= {stale_max_access}
), aged as (
  select u.id as id, julianday({now}) - {day:u.used_at} as days from used u
)
select
  e.id as id, e.name as name, e.entity_type as entity_type,
  cast(coalesce(a.access_count, 0) as integer) as access_count, a.last_access as last_access,
  e.created_at as created_at, e.last_activity_at as last_activity_at,
  cast(u.days as real) as stale_for_days,
  cast((select count(*) from observations o where o.entity_id = e.id and {current:o}) as integer)
    as observations,
  cast((select count(distinct n.neighbour) from (
    select r.to_entity as neighbour from relations r where r.from_entity = e.id and {counts:r}
    union select r.from_entity from relations r where r.to_entity = e.id and {counts:r}
  ) n join entities m on m.id = n.neighbour where m.id <> e.id and m.archived_at is null)
    as integer) as degree
from aged u
join entities e on e.id = u.id
left join entity_access a on a.entity_id = e.id
where u.days > {stale_days};

-- Pairs of observations of one entity: duplicates, contradictions, and what is worth a look.
create view limbic_similar_observations as
select
  d.kind as kind, d.rule as rule, d.entity_id as entity_id, e.name as entity,
  e.entity_type as entity_type,
  d.earlier_id as earlier_id, o.content as earlier, d.later_id as later_id, l.content as later,
  cast(d.cosine as real) as cosine, cast(d.containment as real) as containment,
  d.difference as difference, cast(l.similarity_flag as integer) as similarity_flag,
  d.found_at as found_at
from limbic_duplicates d
join entities e on e.id = d.entity_id
join observations o on o.id = d.earlier_id
join observations l on l.id = d.later_id
where e.archived_at is null and {current:o} and {current:l};

-- Without a relation that holds to any other entity that is not archived.
create view limbic_orphans as
select
  e.id as id, e.name as name, e.entity_type as entity_type,
  cast((select count(*) from observations o where o.entity_id = e.id and {current:o}) as integer)
    as observations,
  cast(coalesce(a.access_count, 0) as integer) as access_count, a.last_access as last_access,
  e.last_activity_at as last_activity_at, e.created_at as created_at
from entities e
left join entity_access a on a.entity_id = e.id
where e.archived_at is null and not exists (
  select 1 from relations r join entities t on t.id = r.to_entity
  where r.from_entity = e.id and t.id <> e.id and t.archived_at is null and {current:r}
) and not exists (
  select 1 from relations r join entities t on t.id = r.from_entity
  where r.to_entity = e.id and t.id <> e.id and t.archived_at is null and {current:r}
);

-- Without an observation that holds.
create view limbic_empty_entities as
select
  e.id as id, e.name as name, e.entity_type as entity_type,
  cast((select count(*) from observations o where o.entity_id = e.id) as integer)
    as ended_observations,
  cast((select count(distinct n.neighbour) from (
    select r.to_entity as neighbour from relations r where r.from_entity = e.id and {counts:r}
    union select r.from_entity from relations r where r.to_entity = e.id and {counts:r}
  ) n join entities m on m.id = n.neighbour where m.id <> e.id and m.archived_at is null)
    as integer) as degree,
  cast(coalesce(a.access_count, 0) as integer) as access_count, a.last_access as last_access,
  e.last_activity_at as last_activity_at, e.created_at as created_at
from entities e
left join entity_access a on a.entity_id = e.id
where e.archived_at is null
  and not exists (select 1 from observations o where o.entity_id = e.id and {current:o});

-- Relations whose time is over.
create view limbic_ended_relations as
select
  r.id as id, r.from_entity as from_entity, f.name as from_name, r.relation_type as relation_type,
  r.to_entity as to_entity, t.name as to_name, r.valid_from as valid_from, r.valid_to as valid_to,
  r.created_at as created_at
from relations r
join entities f on f.id = r.from_entity
join entities t on t.id = r.to_entity
where datetime(r.valid_to) <= datetime({now});
