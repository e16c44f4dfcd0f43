-- Triggers of migration 4. Stock SQLite only, as triggers.sql: any writer must be able to fire these.

-- A kept pair is about two texts: it goes with either of them. The flag goes with the last pair
-- that it stood for, and comes with a new one; a flag that a person took away stays away.
create trigger limbic_flag_set after insert on limbic_duplicates
when new.kind = 'duplicate' begin
  update observations set similarity_flag = 1
  where id = new.later_id and similarity_flag is not 1;
end;
create trigger limbic_flag_clear after delete on limbic_duplicates
when old.kind = 'duplicate' begin
  update observations set similarity_flag = 0
  where id = old.later_id and similarity_flag = 1 and not exists (
    select 1 from limbic_duplicates d where d.later_id = old.later_id and d.kind = 'duplicate'
  );
end;
-- What belongs to no entity, in a table that was taken over, is in no report.
-- REPLACE takes a row away without firing what watches over deletes
create trigger limbic_report_observations_replace before insert on observations
when exists (select 1 from observations where id = new.id and entity_id is not new.entity_id) begin
  insert into limbic_report_pending(entity_id) select entity_id from observations
    where id = new.id and typeof(entity_id) = 'integer'
    on conflict(entity_id) do update set changes = changes + 1, marked_at = datetime('now');
end;
create trigger limbic_report_observations_replace_id before update of id on observations
when old.id is not new.id begin
  insert into limbic_report_pending(entity_id) select entity_id from observations
    where id = new.id and typeof(entity_id) = 'integer'
    on conflict(entity_id) do update set changes = changes + 1, marked_at = datetime('now');
end;
create trigger limbic_report_observations_insert after insert on observations begin
  delete from limbic_duplicates where earlier_id = new.id or later_id = new.id;
  delete from _limbic_text_keys where observation_id = new.id;
  insert into limbic_report_pending(entity_id)
    select new.entity_id where typeof(new.entity_id) = 'integer'
    on conflict(entity_id) do update set changes = changes + 1, marked_at = datetime('now');
end;
create trigger limbic_report_observations_update
after update of id, entity_id, content, valid_from, valid_to on observations
when old.id is not new.id or old.entity_id is not new.entity_id
  or old.content is not new.content or old.valid_from is not new.valid_from
  or old.valid_to is not new.valid_to begin
  -- the flag went along with the row to another id, where the pair does not
  update observations set similarity_flag = 0
    where id = new.id and old.id is not new.id and similarity_flag = 1 and exists (
      select 1 from limbic_duplicates d where d.later_id = old.id and d.kind = 'duplicate'
    );
  delete from limbic_duplicates where earlier_id in (old.id, new.id)
    or later_id in (old.id, new.id);
  delete from _limbic_text_keys where observation_id in (old.id, new.id);
  insert into limbic_report_pending(entity_id)
    select old.entity_id where typeof(old.entity_id) = 'integer'
    on conflict(entity_id) do update set changes = changes + 1, marked_at = datetime('now');
  insert into limbic_report_pending(entity_id)
    select new.entity_id where typeof(new.entity_id) = 'integer'
    on conflict(entity_id) do update set changes = changes + 1, marked_at = datetime('now');
end;
-- which of two is the earlier one; they are as alike as before
create trigger limbic_report_observations_dated after update of created_at on observations
when old.created_at is not new.created_at begin
  insert into limbic_report_pending(entity_id)
    select new.entity_id where typeof(new.entity_id) = 'integer'
    on conflict(entity_id) do update set changes = changes + 1, marked_at = datetime('now');
end;
create trigger limbic_report_observations_delete before delete on observations begin
  delete from limbic_duplicates where earlier_id = old.id or later_id = old.id;
  delete from _limbic_text_keys where observation_id = old.id;
  insert into limbic_report_pending(entity_id)
    select id from entities where id = old.entity_id
    on conflict(entity_id) do update set changes = changes + 1, marked_at = datetime('now');
end;
-- another type has another threshold, from which on topics are looked for
create trigger limbic_report_entities_type after update of entity_type on entities
when old.entity_type is not new.entity_type begin
  insert into limbic_report_pending(entity_id) values (new.id)
    on conflict(entity_id) do update set changes = changes + 1, marked_at = datetime('now');
end;
create trigger limbic_report_entities_delete after delete on entities begin
  delete from limbic_duplicates where entity_id = old.id;
  delete from _limbic_text_keys where entity_id = old.id;
  delete from limbic_report_pending where entity_id = old.id;
end;
-- a vector of an observation came, changed or went, whoever wrote it
create trigger limbic_report_embeddings_insert after insert on embeddings begin
  insert into limbic_report_pending(entity_id)
    select o.entity_id from collections c join observations o on o.id = cast(new.id as integer)
    where c.id = new.collection_id and c.name = 'observations'
      and typeof(o.entity_id) = 'integer'
    on conflict(entity_id) do update set changes = changes + 1, marked_at = datetime('now');
end;
create trigger limbic_report_embeddings_update
after update of id, collection_id, embedding, content_hash on embeddings begin
  insert into limbic_report_pending(entity_id)
    select distinct o.entity_id from collections c join observations o
      on o.id in (cast(old.id as integer), cast(new.id as integer))
    where c.id in (old.collection_id, new.collection_id) and c.name = 'observations'
      and typeof(o.entity_id) = 'integer'
    on conflict(entity_id) do update set changes = changes + 1, marked_at = datetime('now');
end;
create trigger limbic_report_embeddings_delete after delete on embeddings begin
  insert into limbic_report_pending(entity_id)
    select o.entity_id from collections c join observations o on o.id = cast(old.id as integer)
    where c.id = old.collection_id and c.name = 'observations'
      and typeof(o.entity_id) = 'integer'
    on conflict(entity_id) do update set changes = changes + 1, marked_at = datetime('now');
end;
