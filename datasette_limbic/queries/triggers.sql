-- Stock SQLite only: any writer (Datasette's API, sqlite-utils, a script) must be able to fire these.

-- text index ---------------------------------------------------------------------------------
create trigger limbic_fts_entities_insert after insert on entities begin
  delete from _limbic_fts where rowid = new.id * 2;
  insert into _limbic_fts(rowid, name) values (new.id * 2, new.name);
  delete from _limbic_trigram where rowid = new.id * 2;
  insert into _limbic_trigram(rowid, content) values (new.id * 2, new.name);
end;
create trigger limbic_fts_entities_update after update of id, name on entities
when old.name is not new.name or old.id is not new.id begin
  delete from _limbic_fts where rowid = old.id * 2;
  insert into _limbic_fts(rowid, name) values (new.id * 2, new.name);
  delete from _limbic_trigram where rowid = old.id * 2;
  insert into _limbic_trigram(rowid, content) values (new.id * 2, new.name);
end;
create trigger limbic_fts_entities_delete after delete on entities begin
  delete from _limbic_fts where rowid = old.id * 2;
  delete from _limbic_trigram where rowid = old.id * 2;
end;
create trigger limbic_fts_observations_insert after insert on observations begin
  delete from _limbic_fts where rowid = new.id * 2 + 1;
  insert into _limbic_fts(rowid, content) values (new.id * 2 + 1, new.content);
  delete from _limbic_trigram where rowid = new.id * 2 + 1;
  insert into _limbic_trigram(rowid, content) select new.id * 2 + 1, new.content
    where new.content glob {unspaced};
end;
create trigger limbic_fts_observations_update after update of id, content on observations
when old.content is not new.content or old.id is not new.id begin
  delete from _limbic_fts where rowid = old.id * 2 + 1;
  insert into _limbic_fts(rowid, content) values (new.id * 2 + 1, new.content);
  delete from _limbic_trigram where rowid = old.id * 2 + 1;
  insert into _limbic_trigram(rowid, content) select new.id * 2 + 1, new.content
    where new.content glob {unspaced};
end;
create trigger limbic_fts_observations_delete after delete on observations begin
  delete from _limbic_fts where rowid = old.id * 2 + 1;
  delete from _limbic_trigram where rowid = old.id * 2 + 1;
end;

-- vectors that went stale: ON CONFLICT, since a writer's own OR clause overrides OR IGNORE here
create trigger limbic_stale_entities_insert after insert on entities begin
  insert into limbic_stale(collection, item_id) values ('entities', new.id)
    on conflict do nothing;
end;
create trigger limbic_stale_entities_update
after update of id, name, entity_type, archived_at, valid_from, valid_to on entities begin
  insert into limbic_stale(collection, item_id) values ('entities', old.id)
    on conflict do nothing;
  insert into limbic_stale(collection, item_id) values ('entities', new.id)
    on conflict do nothing;
end;
-- a neighbour's snapshot holds this name, and leaves archived ones out
create trigger limbic_stale_entities_renamed after update of name, archived_at on entities
when old.name is not new.name or (old.archived_at is null) <> (new.archived_at is null) begin
  insert into limbic_stale(collection, item_id)
    select 'entities', from_entity from relations where to_entity = new.id
    on conflict do nothing;
end;
-- foreign keys are off on many writers' connections (Datasette's write API, sqlite-utils): what
-- an entity owns goes with it all the same, and its access log stays
create trigger limbic_entities_delete before delete on entities begin
  delete from observations where entity_id = old.id;
  delete from relations where from_entity = old.id or to_entity = old.id;
  delete from entity_access where entity_id = old.id;
  delete from co_occurrences where entity_a_id = old.id or entity_b_id = old.id;
  delete from limbic_topics where entity_id = old.id;
  delete from limbic_insights where entity_id = old.id;
  update entity_access_log set entity_id = null where entity_id = old.id;
  update limbic_feedback set entity_id = null where entity_id = old.id;
end;
-- and a search: the next one may get its number, and must not get its candidates
create trigger limbic_searches_delete before delete on limbic_searches begin
  delete from limbic_feedback where search_id = old.id;
  delete from limbic_search_candidates where search_id = old.id;
end;
create trigger limbic_stale_entities_delete before delete on entities begin
  insert into limbic_stale(collection, item_id)
    select 'entities', from_entity from relations where to_entity = old.id
    on conflict do nothing;
  insert into limbic_stale(collection, item_id) values ('entities', old.id)
    on conflict do nothing;
end;
-- what replaced it stays: a memory server's own file refuses to delete what was superseded
create trigger limbic_observations_delete before delete on observations begin
  update observations set supersedes = null where supersedes = old.id;
end;
create trigger limbic_stale_observations_insert after insert on observations begin
  insert into limbic_stale(collection, item_id) values ('observations', new.id)
    on conflict do nothing;
  insert into limbic_stale(collection, item_id) values ('entities', new.entity_id)
    on conflict do nothing;
end;
create trigger limbic_stale_observations_update
after update of id, entity_id, content, valid_from, valid_to on observations begin
  insert into limbic_stale(collection, item_id) values ('observations', old.id)
    on conflict do nothing;
  insert into limbic_stale(collection, item_id) values ('observations', new.id)
    on conflict do nothing;
  insert into limbic_stale(collection, item_id) values ('entities', old.entity_id)
    on conflict do nothing;
  insert into limbic_stale(collection, item_id) values ('entities', new.entity_id)
    on conflict do nothing;
end;
create trigger limbic_stale_observations_delete after delete on observations begin
  insert into limbic_stale(collection, item_id) values ('observations', old.id)
    on conflict do nothing;
  insert into limbic_stale(collection, item_id)
    select 'entities', id from entities where id = old.entity_id
    on conflict do nothing;
end;
create trigger limbic_stale_relations_insert after insert on relations begin
  insert into limbic_stale(collection, item_id) values ('entities', new.from_entity)
    on conflict do nothing;
end;
create trigger limbic_stale_relations_update after update on relations begin
  insert into limbic_stale(collection, item_id) values ('entities', old.from_entity)
    on conflict do nothing;
  insert into limbic_stale(collection, item_id) values ('entities', new.from_entity)
    on conflict do nothing;
end;
create trigger limbic_stale_relations_delete after delete on relations begin
  insert into limbic_stale(collection, item_id)
    select 'entities', id from entities where id = old.from_entity
    on conflict do nothing;
end;
-- llm writes with INSERT OR REPLACE: a new vector must reach the index too
create trigger limbic_stale_embeddings_insert after insert on embeddings begin
  insert into limbic_stale(collection, item_id)
    select name, cast(new.id as integer) from collections
    where id = new.collection_id and name in ('entities', 'observations')
    on conflict do nothing;
end;
create trigger limbic_stale_embeddings_update
after update of id, embedding, content_hash on embeddings begin
  insert into limbic_stale(collection, item_id)
    select name, cast(new.id as integer) from collections
    where id = new.collection_id and name in ('entities', 'observations')
    on conflict do nothing;
end;
create trigger limbic_stale_embeddings_delete after delete on embeddings begin
  insert into limbic_stale(collection, item_id)
    select name, cast(old.id as integer) from collections
    where id = old.collection_id and name in ('entities', 'observations')
    on conflict do nothing;
end;

-- activity (DDR-007) -------------------------------------------------------------------------
create trigger limbic_activity_entities_insert after insert on entities
when new.last_activity_at is null and not exists (select 1 from _limbic_guard) begin
  update entities set last_activity_at = datetime('now') where id = new.id;
end;
create trigger limbic_activity_entities_update
after update of name, entity_type, confidence, valid_from, valid_to on entities
when not exists (select 1 from _limbic_guard) and (
  old.name is not new.name or old.entity_type is not new.entity_type
  or old.confidence is not new.confidence
  or old.valid_from is not new.valid_from or old.valid_to is not new.valid_to) begin
  update entities set
    last_activity_at = datetime('now'),
    updated_at = case when new.updated_at is old.updated_at then datetime('now')
                      else new.updated_at end
  where id = new.id;
end;
create trigger limbic_activity_observations_insert after insert on observations
when not exists (select 1 from _limbic_guard) begin
  update entities set last_activity_at = datetime('now') where id = new.entity_id;
end;
create trigger limbic_activity_observations_update
after update of content, kind, confidence, valid_from, valid_to on observations
when not exists (select 1 from _limbic_guard) and (
  old.content is not new.content or old.kind is not new.kind
  or old.confidence is not new.confidence
  or old.valid_from is not new.valid_from or old.valid_to is not new.valid_to) begin
  update entities set last_activity_at = datetime('now') where id = new.entity_id;
end;
create trigger limbic_activity_relations_insert after insert on relations
when new.relation_type not in ('contiene', 'parte_de')
  and not exists (select 1 from _limbic_guard) begin
  update entities set last_activity_at = datetime('now')
  where id in (new.from_entity, new.to_entity);
end;
-- asserting an ended relation again reopens it
create trigger limbic_activity_relations_reopen after update of valid_to on relations
when old.valid_to is not null and new.valid_to is null
  and new.relation_type not in ('contiene', 'parte_de')
  and not exists (select 1 from _limbic_guard) begin
  update entities set last_activity_at = datetime('now')
  where id in (new.from_entity, new.to_entity);
end;
