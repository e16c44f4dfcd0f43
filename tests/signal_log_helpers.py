"""What the tests of the log of searches share: files from before it, and files with a real one."""

from __future__ import annotations

import sqlite3 as stock_sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlite_utils import Database

from datasette_limbic import connection, serving
from datasette_limbic.migrations import migrations
from datasette_limbic.schema import create_triggers

OLD_SEARCH = (
    "insert into limbic_searches(id, query, mode, strategy, result_limit, now, parameters,"
    " created_at) values ({0}, 'old {0}', 'text', 'none', 2, '2026-01-0{0} 00:00:00', '{{}}',"
    " '2026-01-0{0} 00:00:00')"
)
OLD_CANDIDATES = (
    "insert into limbic_search_candidates(search_id, entity_id, entity_name, returned,"
    " baseline_rank, treatment_rank, base, final_score)"
    " values ({0}, 1, 'Ana', 1, 2, 1, 0.1, 0.2), ({0}, 99, 'gone', 1, 1, 2, 0.3, 0.1)"
)
ADDED = ("limbic_searches_uid", "limbic_searches_created", "limbic_feedback_entity")


def old_memory(path: Path) -> Path:
    """A file as the two migrations before the log's own made it, with two logged searches."""
    from llm.embeddings_migrations import embeddings_migrations

    with closing(connection.connect(path, create=True)) as conn:
        db = Database(conn)
        embeddings_migrations.apply(db)
        migrations.apply(db, stop_before="m003_signals")
        with db.atomic():
            create_triggers(conn)
        conn.execute("insert into entities(id, name) values (1, 'Ana'), (2, 'Atlas')")
        conn.execute(
            "insert into observations(entity_id, content) values (1, 'fixed the geocoder')"
        )
        for number in (1, 2):
            conn.execute(OLD_SEARCH.format(number))
            conn.execute(OLD_CANDIDATES.format(number))
        conn.execute(
            "insert into limbic_feedback(search_id, entity_id, entity_name, event)"
            " values (1, 1, 'Ana', 'useful')"
        )
        conn.commit()
    return path


def made_old(path: Path) -> Path:
    """Take back what the log's migration did to a file: one that holds a sample memory."""
    with closing(stock_sqlite3.connect(path)) as conn:
        for name in ADDED:
            conn.execute(f"drop index {name}")
        conn.execute("alter table limbic_searches drop column uid")
        conn.execute("delete from _sqlite_migrations where name = 'm003_signals'")
        conn.commit()
    return path


def use(conn: Any, searches: int = 3, *, settings: Any = None) -> list[str]:
    """Search, open and rate as agents do; returns the ids of the searches."""
    found = []
    for number in range(searches):
        query = ("who fixed the geocoder", "tea", "routes and depots")[number % 3]
        answer = serving.search_semantic(conn, query, 4, client="test", settings=settings)
        uid, first = answer["search_id"], answer["results"][0]
        serving.open_nodes(conn, [first["name"]], search_id=uid, client="test")
        serving.rate(conn, uid, first["id"], ("useful", "not_useful")[number % 2], client="test")
        found.append(uid)
    return found
