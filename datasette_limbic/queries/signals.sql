-- Tables of migration 3. A search has a name of its own from before it is written, so that the
-- answer can tell it: what was opened or rated afterwards refers to it.
create unique index if not exists limbic_searches_uid on limbic_searches(uid) where uid is not null;
create index if not exists limbic_searches_created on limbic_searches(created_at);
create index if not exists limbic_feedback_entity on limbic_feedback(entity_id);
