-- The text of each entity that is embedded: name (type): observations | relations, within a
-- budget (setting snapshot_max_chars). Stock SQL, so that `llm embed-multi --sql` can read it.
create view entity_snapshots as
select
  e.id as id,
  cast(substr(
    e.name || ' (' || e.entity_type || ')'
    || coalesce(': ' || (
      select group_concat(content, ' | ') from (
        select o.content as content from observations o
        where o.entity_id = e.id
          -- what cannot be read never begins and never ends, as in search
          and coalesce(datetime(o.valid_to) > datetime('now'), 1)
          and coalesce(datetime(o.valid_from) <= datetime('now'), 1)
        order by o.id
      )
    ), '')
    || coalesce(' | ' || (
      select group_concat(link, '; ') from (
        select r.relation_type || ' → ' || t.name as link
        from relations r join entities t on t.id = r.to_entity
        where r.from_entity = e.id and r.to_entity <> e.id
          and t.archived_at is null
          and coalesce(datetime(r.valid_to) > datetime('now'), 1)
        order by r.id
        limit 50
      )
    ), ''),
    1,
    coalesce((select cast(value as integer) from limbic_settings
              where key = 'snapshot_max_chars'), 4000)
  ) as text) as content
from entities e;
