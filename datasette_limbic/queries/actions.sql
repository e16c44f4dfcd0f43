-- Migration 5: the log of changes by entity, and which change undoes which.
create index if not exists limbic_changes_entity on limbic_changes(entity_id);
create index if not exists limbic_changes_undoes on limbic_changes(undoes) where undoes is not null;
create index if not exists limbic_insights_entity on limbic_insights(entity_id);
create index if not exists limbic_changes_insight on limbic_changes(insight_id)
  where insight_id is not null;
