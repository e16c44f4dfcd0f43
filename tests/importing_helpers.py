"""What the tests of the importer share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from datasette.utils.sqlite import sqlite3
from empty_memory import empty_memory

from datasette_limbic import connection, schema

DIALECTS = Path(__file__).parent / "fixtures" / "dialects"
SHARED = Path(__file__).parents[2] / "shared" / "data"
# The log of imports differs from run to run, of course.
LOGS = ("limbic_imports", "limbic_import_rejects")


def new_memory(path: Path) -> sqlite3.Connection:
    if not path.exists():
        return connection.connect(empty_memory(path))
    conn = connection.connect(path)  # another program's file, taken over
    schema.init(conn)
    return conn


def write_lines(path: Path, *rows: Any) -> Path:
    """JSON Lines; a str stands for a raw line."""
    lines = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
    return path


def entity(name: str, *observations: Any, **more: Any) -> dict[str, Any]:
    row = {"type": "entity", "name": name, "entityType": "T", "observations": list(observations)}
    return {**row, **more}


def relation(source: str, target: str, kind: str = "uses", **more: Any) -> dict[str, Any]:
    return {"type": "relation", "from": source, "to": target, "relationType": kind, **more}


def access(query: str | None, at: Any, *names: Any) -> dict[str, Any]:
    return {"type": "access", "query": query, "accessedAt": at, "entities": list(names)}


def dump(conn: sqlite3.Connection) -> list[str]:
    """Every row of every table but the import logs, indexes and their shadow tables included."""
    found = []
    for name, kind in conn.execute(
        "select name, sql from sqlite_master where type = 'table' order by name"
    ).fetchall():
        if name in LOGS or "fts5vocab" in (kind or ""):
            continue
        columns = [row[1] for row in conn.execute(f"pragma table_info([{name}])")]
        shown = ", ".join(f"[{c}]" for c in columns if c != "import_id")
        rows = sorted(repr(row) for row in conn.execute(f"select {shown} from [{name}]"))
        found += [f"{name}: {row}" for row in rows]
    return [
        *found,
        *(row[0] for row in conn.execute("select name from sqlite_master order by name")),
    ]


def graph(conn: sqlite3.Connection) -> tuple[dict[str, list[str]], set[tuple[str, str, str]]]:
    """Observations by entity, and relations by names."""
    observations: dict[str, list[str]] = {
        name: [] for (name,) in conn.execute("select name from entities")
    }
    for name, content in conn.execute(
        "select e.name, o.content from observations o join entities e on e.id = o.entity_id"
        " order by o.id"
    ):
        observations[name].append(content)
    relations = set(
        conn.execute(
            "select f.name, t.name, r.relation_type from relations r"
            " join entities f on f.id = r.from_entity join entities t on t.id = r.to_entity"
        )
    )
    return observations, relations


def one(conn: sqlite3.Connection, sql: str, *arguments: Any) -> Any:
    row = conn.execute(sql, arguments).fetchone()
    return None if row is None else row[0] if len(row) == 1 else tuple(row)
