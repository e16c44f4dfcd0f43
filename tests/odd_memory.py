"""A memory of names and texts that are hard to lay out: scripts, endless words, any direction."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from datasette_limbic import connection, schema, times
from datasette_limbic.sync import sync

SCRIPT = "<script>alert('name')</script><img src=x onerror=alert(1)>"
ODD_NAMES = [
    SCRIPT,
    "n" * 10_000,
    "unbroken_" * 300,
    "a/b \"quoted\" 'name' & more",
    "word " * 2000,
    "🚀 👨‍👩‍👧 \u202eabc",
]


def odd_memory(path: Path) -> Path:
    """A new file of it."""
    conn = connection.connect(path, create=True)
    schema.init(conn)
    for number, name in enumerate(ODD_NAMES, 1):
        conn.execute(
            "insert into entities(id, name, entity_type) values (?, ?, ?)",
            [number, name, name[:2000]],
        )
        conn.execute("insert into observations(entity_id, content) values (?, ?)", [number, name])
        conn.executemany(
            "insert into entity_access_log(entity_id, entity_name, query, accessed_at)"
            " values (?, ?, ?, ?)",
            [
                (number, name, query, moment)
                for query in (name, None)
                for moment in ("2026-01-01 00:00:00", times.now_sql(), "soon")
            ],
        )
        if number > 1:
            conn.execute(
                "insert into relations(from_entity, to_entity, relation_type) values (1, ?, ?)",
                [number, name],
            )
            conn.execute(
                "insert into co_occurrences values (1, ?, ?, '2026-01-01')", [number, 10**number]
            )
    conn.execute(
        "update entities set archived_at = '2026-02-02', archived_reason = ? where id = 3",
        ["because_" * 200],
    )
    conn.executemany(
        "insert into observations(entity_id, content, valid_to) values (4, ?, ?)",
        [(f"observation number {i}", "2025-01-01" if i % 3 == 0 else None) for i in range(250)],
    )
    _odd_imports(conn)
    _odd_searches(conn)
    conn.commit()
    sync(conn)
    conn.close()
    return path


def _odd_searches(conn: Any) -> None:
    """Logged searches of clients whose names are hard to lay out."""
    conn.executemany(
        "insert into limbic_searches(query, mode, strategy, result_limit, now, parameters, client,"
        " actor) values (?, 'hybrid', 'auto', 10, '2026-01-01', '{}', ?, ?)",
        [(name, name, name) for name in ODD_NAMES] + [("x", None, None)] * 2,
    )


def _odd_imports(conn: Any) -> None:
    """A log of imports with the same names, and one import with many rejects."""
    counts = {
        "lines": 120_000,
        "rejected": 11_000,
        "rejects": 11_250,
        "entities": {"lines": 60_000, "created": 50_000, "merged": 10_000},
        "observations": {"in_file": 90_000, "added": 80_000, "skipped": 10_000},
        "relations": {"lines": 49_000, "created": 48_750, "dangling": 250},
        "warnings": {
            "type_conflicts": [
                {"line": i, "name": name, "kept": name[:2000], "given": name}
                for i, name in enumerate(ODD_NAMES)
            ],
            "extra_keys": dict.fromkeys(ODD_NAMES, 3),
            "novel": [[name, name] for name in ODD_NAMES],
        },
    }
    insert = (
        "insert into limbic_imports(source, format, counts, started_at, finished_at)"
        " values (?, ?, ?, '2026-02-02 10:00:00', '2026-02-02 11:01:01')"
    )
    rejects = "insert into limbic_import_rejects(import_id, line, reason, raw) values (1, ?, ?, ?)"
    conn.execute(insert, ["odd.jsonl", "JSON Lines", json.dumps(counts)])
    for number, name in enumerate(ODD_NAMES, 1):
        conn.execute(insert, [name, name, json.dumps({name: {name: 1}})])
        conn.execute(rejects, [number, name, name])
    for line in range(100, 350):
        conn.execute(rejects, [line, f"no entity named 'Nobody {line}'", f"raw text {line}\nmore"])
    for _ in range(60):
        conn.execute(insert, ["again.jsonl", "JSON Lines", "{}"])
