"""What the tests of export and restore share."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from datasette.utils.sqlite import sqlite3
from importing_helpers import new_memory

from datasette_limbic import schema
from datasette_limbic.exporting import ExportSummary, export_full, export_mcp
from datasette_limbic.importing.rejects import Rejects
from datasette_limbic.importing.restoring import Restored, log_restore, restore
from datasette_limbic.importing.summary import FileSummary

ROWS = """
insert into limbic_settings(key, value, help) values ('stale_days:Proyecto', '400', 'mine');
update limbic_settings set value = '33' where key = 'stale_days';
delete from limbic_settings where key = 'split_threshold:Sesion';
insert into entities(id, name, entity_type, archived_at, archived_reason, confidence, valid_from)
  values (1, 'Ana', 'Person', null, null, 0.1, null),
  (2, 'Atlas ☕', 'Project', '2026-01-02 03:04:05', 'over', 1.0, '2025-01-01'),
  (7, 'Böhm', 'Person', null, null, 1e-300, '2025-01-01 10:00:00.123'),
  (9, 'gone', 'T', null, null, 1, null);
delete from entities where id = 9;
update entities set created_at = null, updated_at = null where id = 7;
insert into observations(id, entity_id, content, kind, similarity_flag, confidence, valid_to)
  values (5, 1, 'likes tea', 'fact', 0, 1, null),
  (3, 7, 'first', null, 1, 0.30000000000000004, null),
  (4, 1, 'likes coffee', 'fact', 0, 1, '2026-01-01'),
  (6, 1, 'likes tea', null, 0, 1, null);
update observations set supersedes = 6 where id = 4;
insert into relations(id, from_entity, to_entity, relation_type, valid_to, context)
  values (11, 1, 2, 'works_on', null, 'since May'), (12, 2, 2, 'contiene', '2025-01-01', null);
insert into entity_access values (1, 7, '2026-02-03 04:05:06');
insert into entity_access_log values (1, 1, 'Ana', 'who', '2026-02-03 04:05:06'),
  (2, null, 'gone', null, '2025-02-03 04:05:06');
insert into co_occurrences values (1, 2, 3, '2026-02-03 04:05:06');
insert into limbic_parameters(version, beta_sal, gamma, source, evidence, log_digest, applied_by)
  values (1, 0.5, 0.01, 'manual', null, null, 'root'),
  (2, 0.7, 0.02, 'tuned', '{"ndcg": 0.61}', 'ab', null);
insert into limbic_searches(id, uid, query, mode, strategy, result_limit, now, parameters,
  parameters_version, policy, treatment, probability, client, actor)
  values (1, 'ab12', 'who', 'hybrid', 'auto', 10, '2026-02-03', '{}', 2, 'baseline', 0, 0.5, 'c',
  null);
insert into limbic_search_candidates(search_id, entity_id, entity_name, returned, baseline_rank,
  treatment_rank, cosine_sim, final_score) values (1, 1, 'Ana', 1, 1, 2, 0.123456789012345678, 0.5),
  (1, 99, 'gone', 0, 2, 1, null, null);
insert into limbic_feedback(id, search_id, entity_id, entity_name, event)
  values (1, 1, 1, 'Ana', 'useful'), (2, null, null, 'gone', 'opened');
insert into limbic_insights(id, key, kind, entity_id, title, body, evidence, evidence_digest,
  status) values (1, 'split:1', 'split', 1, 'Large', 'text', '[]', 'd', 'approved'),
  (2, 'stale', 'stale', null, 'All', 'text', '{}', 'e', 'pending');
insert into limbic_changes(id, action, entity_id, entity_name, summary, before, after, insight_id)
  values (1, 'archive', 2, 'Atlas', 's', '{}', '{}', 1),
  (2, 'undo', 2, 'Atlas', 's', '{}', '{}', null);
update limbic_changes set undone_by = 2 where id = 1;
update limbic_changes set undoes = 1 where id = 2;
insert into limbic_topics values (1, '[["tea", 2]]', 0.5, 1.25, '2026-02-03 04:05:06');
insert into limbic_duplicates(earlier_id, later_id, entity_id, kind, rule, cosine, containment,
  difference, found_at) values (5, 6, 1, 'look', 'cosine', 0.71234567890123456, null, null,
  '2026-02-03 04:05:06');
insert into limbic_reviews(id, report, actor) values (1, 'large', 'root');
insert into limbic_imports values (1, 'a.jsonl', 'JSON Lines', '{}', '2026-01-01', '2026-01-02'),
  (2, 'b.jsonl', 'JSON Lines', '{}', '2026-01-01', '2026-01-02');
insert into limbic_import_rejects values (1, 1, 4, 'not JSON', '{'), (3, 2, 5, 'not JSON', null);
insert into _limbic_sources values (1, 'digest', 'a.jsonl', 'JSON Lines', 1);
insert into _limbic_source_entities
  values (1, 'Ana', 1, 1, 'Person', 0, null, null, x'00ff102030405060'),
  (1, 'gone', 9, 1, null, 1, null, null, x'');
insert into _limbic_source_relations values (1, 1, 2, 'works_on', 1, 0);
insert into _limbic_source_counts values (1, 1, 0, 3), (1, 1, 2, 4);
insert into collections values (1, 'entities', 'limbic-multilingual');
insert into embeddings values (1, '1', x'0000803f', null, null, x'ab', null, 1700000000);
"""


def fill(conn: sqlite3.Connection) -> None:
    """A row or more in each table that is exported, whatever a column may hold."""
    conn.executescript(ROWS)


def full(conn: sqlite3.Connection, **options: Any) -> str:
    out = io.StringIO()
    export_full(conn, out, **options)
    return out.getvalue()


def mcp(conn: sqlite3.Connection, **options: Any) -> tuple[str, ExportSummary]:
    out = io.StringIO()
    summary = export_mcp(conn, out, **options)
    return out.getvalue(), summary


def restored(
    conn: sqlite3.Connection, path: Path, rejects_path: Path | None = None
) -> tuple[FileSummary, Restored]:
    """Restore as an import does it: one transaction, without triggers, indexes filled after."""
    file = FileSummary(path.name)
    with Rejects(conn, rejects_path) as rejects:
        conn.execute("begin immediate")
        try:
            with schema.guarded(conn, "import"):
                schema.drop_triggers(conn)
                number = log_restore(conn, path.name, "2026-01-01 00:00:00")
                result = restore(conn, path, file, number, rejects)
                rejects.flush()
                schema.fill_indexes(conn, -(1 << 62), -(1 << 62))
                schema.create_triggers(conn)
            conn.commit()
        except BaseException:
            conn.rollback()
            raise
        rejects.publish()
    return file, result


def copied(text: str, folder: Path, name: str = "copy") -> sqlite3.Connection:
    """A new memory that ``text`` was restored into, without a reject."""
    path = folder / f"{name}.ndjson"
    path.write_text(text, "utf-8", newline="\n")
    conn = new_memory(folder / f"{name}.db")
    file, result = restored(conn, path)
    assert (file.rejected, result.missing) == (0, {}), file.first_rejects
    return conn
