-- Indexes of migration 6, so that a search reads a bounded part of what a hub has, and a page less.

-- Neighbours that may count for the degree: those without an end first, and no relation that says
-- what a part belongs to. With all that is asked of a relation, so that no row of it is read.
create index if not exists relations_counted_from
  on relations(from_entity, valid_to, to_entity, relation_type)
  where relation_type not in ('contiene', 'parte_de');
create index if not exists relations_counted_to
  on relations(to_entity, valid_to, from_entity, relation_type)
  where relation_type not in ('contiene', 'parte_de');

-- The partners of an entity, those first that come up with it most often; those that seldom do,
-- most of them, are left out, so that recording a search seldom writes here.
create index if not exists co_occurrences_often_a
  on co_occurrences(entity_a_id, co_count desc, last_co desc) where co_count > 3;
create index if not exists co_occurrences_often_b
  on co_occurrences(entity_b_id, co_count desc, last_co desc) where co_count > 3;

-- The most used, the last used and the last changed, as a search for nothing lists them.
create index if not exists entity_access_count on entity_access(access_count desc, entity_id);
create index if not exists entity_access_last on entity_access(last_access desc, entity_id);
create index if not exists entities_activity
  on entities(ifnull(last_activity_at, created_at) desc, id);

-- Entities of one type: what a search of a type may find, without looking at all.
create index if not exists entities_of_type on entities(entity_type);
