"""Files of an MCP Memory v2 server as its releases made them, written by hand."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from pathlib import Path
from typing import Any

from datasette_limbic.importing.items import Item, Rejection
from datasette_limbic.importing.mcp_v2 import McpV2Source, sqlite_source
from datasette_limbic.importing.notes import Notes

# Each release and what it added, in order.
RELEASES: dict[str, str] = {
    "2026-03-21": """
        create table entities (id integer primary key autoincrement, name text not null unique,
          entity_type text not null default 'Generic',
          created_at text not null default (datetime('now')),
          updated_at text not null default (datetime('now')));
        create table observations (id integer primary key autoincrement,
          entity_id integer not null references entities(id) on delete cascade,
          content text not null, created_at text not null default (datetime('now')));
        create table relations (id integer primary key autoincrement,
          from_entity integer not null references entities(id) on delete cascade,
          to_entity integer not null references entities(id) on delete cascade,
          relation_type text not null, created_at text not null default (datetime('now')),
          unique(from_entity, to_entity, relation_type));
        create table db_metadata (key text primary key, value text not null);
        create index idx_obs_entity on observations(entity_id);
    """,
    "2026-03-27": """
        create table entity_access (
          entity_id integer primary key references entities(id) on delete cascade,
          access_count integer not null default 1,
          last_access text not null default (datetime('now')));
        create table co_occurrences (entity_a_id integer not null, entity_b_id integer not null,
          co_count integer not null default 1, last_co text not null default (datetime('now')),
          primary key (entity_a_id, entity_b_id));
    """,
    "2026-03-31": """
        create table search_events (event_id integer primary key, query_text text);
        create table search_results (result_id integer primary key, event_id integer);
        create table implicit_feedback (feedback_id integer primary key, event_id integer);
    """,
    "2026-04-06": """
        alter table observations add column similarity_flag integer not null default 0;
        create table entity_access_log (entity_id integer not null, access_date text not null,
          access_count integer not null default 1, primary key (entity_id, access_date));
    """,
    "2026-04-09": """
        alter table observations add column kind text not null default 'generic';
        alter table observations add column supersedes integer null references observations(id);
        alter table observations add column superseded_at text null;
        alter table entities add column status text not null default 'activo';
        alter table relations add column context text null;
        alter table relations add column active integer not null default 1;
        alter table relations add column ended_at text null;
        create table reflections (id integer primary key, content text);
        create index idx_obs_entity_superseded on observations(entity_id, superseded_at);
    """,
}
# The newest columns, with nothing that keeps odd values out: hand-made and damaged files.
LOOSE = """
    create table entities (id integer primary key, name, entity_type, created_at, updated_at,
      status);
    create table observations (id integer primary key, entity_id, content, created_at,
      similarity_flag, kind, supersedes, superseded_at);
    create table relations (id integer primary key, from_entity, to_entity, relation_type,
      created_at, context, active, ended_at);
    create table entity_access (entity_id, access_count, last_access);
    create table entity_access_log (entity_id, access_date, access_count);
    create table co_occurrences (entity_a_id, entity_b_id, co_count, last_co);
"""
READ = (
    *("entities", "observations", "relations"),
    *("entity_access", "entity_access_log", "co_occurrences"),
)
T1, T2, T3 = "2025-01-01 10:00:00", "2025-02-01 10:00:00", "2025-03-01 10:00:00"


def ddl(release: str = "2026-04-09") -> str:
    """All that the releases up to this one made."""
    names = list(RELEASES)
    return "".join(RELEASES[name] for name in names[: names.index(release) + 1])


def make(path: Path, rows: dict[str, list[dict[str, Any]]], schema: str = LOOSE) -> Path:
    """A file with these rows, by table."""
    conn = sqlite3.connect(path)
    conn.executescript(schema)
    for table, every in rows.items():
        for row in every:
            marks = ", ".join("?" * len(row))
            conn.execute(f"insert into {table}({', '.join(row)}) values ({marks})", [*row.values()])
    conn.commit()
    conn.close()
    return path


def read(
    path: Path | McpV2Source, with_vectors: bool = False
) -> tuple[list[Item], Notes, McpV2Source]:
    """All items of a file, with what holds for every file checked on the way."""
    source = path if isinstance(path, McpV2Source) else sqlite_source(path)
    source.with_vectors = with_vectors
    notes, told = Notes(), []
    items = list(source.items(notes, told.append))
    assert source.counted.lines == len(items)
    assert (source.counted.blank, source.counted.glued) == (0, 0)
    assert sum(told) == source.size
    for item in items:
        assert isinstance(json.loads(item.raw), dict)
        item.raw.encode("utf-8")
    return items, notes, source


def of(items: list[Item], kind: type) -> list[Any]:
    """The rows of one type."""
    return [item.row for item in items if isinstance(item.row, kind)]


def reasons(items: list[Item]) -> list[str]:
    return [row.reason for row in of(items, Rejection)]


def folder_state(folder: Path) -> dict[str, str]:
    """Every file of a folder with the hash of its content, but for the shared index of a -wal."""
    return {
        path.name: ""
        if path.name.endswith("-shm")
        else hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.iterdir()
    }
