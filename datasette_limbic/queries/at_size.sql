-- Indexes of migration 6, so that no search and no page reads all that a hub has.

-- Neighbours that may count for the degree: those without an end first, and no relation that says
-- what a part belongs to. With all that is asked of a relation, so that no row of it is read.
create index if not exists relations_counted_from
  on relations(from_entity, valid_to, to_entity, relation_type)
  where relation_type not in ('contiene', 'parte_de');
create index if not exists relations_counted_to
  on relations(to_entity, valid_to, from_entity, relation_type)
  where relation_type not in ('contiene', 'parte_de');
