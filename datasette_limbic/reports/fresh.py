"""Reports on what stands there now, without writing: an overlay of what is kept.

Temporary tables stand in for the kept ones as long as the block lasts. A name in a query means
the temporary table first, so the same queries answer as if everything had just been kept. The
file is not touched, and may be opened for reading only.

So it is with flags: a temporary view stands in for ``observations``, in which similarity_flag is
what the next ``sync`` would leave there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from datasette.utils import escape_sqlite
from datasette.utils.sqlite import sqlite3

from .. import schema
from . import keeping, reading
from .keeping import Progress
from .kept_rows import insert_keys, insert_pairs

_TABLES = (
    "limbic_duplicates",
    "limbic_topics",
    "limbic_report_pending",
    "_limbic_text_keys",
    "limbic_fresh_flags",
)
_KEPT = ("limbic_duplicates", "limbic_topics", "_limbic_text_keys")
# What keeping does to flags (triggers limbic_flag_set and limbic_flag_clear): a new duplicate sets
# one, the last one that goes clears it, and what is neither stays as a person left it.
_NEWLY_FLAGGED = """
insert into temp.limbic_fresh_flags(observation_id, flag)
select distinct n.later_id, 1 from temp.limbic_duplicates n where n.kind = 'duplicate'
"""
_KNOWN = """
and not exists (select 1 from main.limbic_duplicates k where k.earlier_id = n.earlier_id
  and k.later_id = n.later_id and k.kind = 'duplicate')
"""
_NO_LONGER = """
insert into temp.limbic_fresh_flags(observation_id, flag)
select distinct k.later_id, 0 from main.limbic_duplicates k
where k.kind = 'duplicate' and not exists (
  select 1 from temp.limbic_duplicates n where n.later_id = k.later_id and n.kind = 'duplicate'
)
"""
_FLAG = """coalesce((
  select f.flag from temp.limbic_fresh_flags f where f.observation_id = o.id
), o.similarity_flag) as similarity_flag"""


@contextmanager
def fresh(
    conn: sqlite3.Connection, *, settings: Any = None, progress: Progress | None = None
) -> Iterator[None]:
    """Inside this block queries of the reports see every entity as looked at just now.

    Looks only at what changed since it was kept, and at everything where nothing was or by other
    rules. ``progress(done, total, "reports")`` counts entities. Not for a connection that others
    use meanwhile. Raises NotAMemory.
    """
    schema.require_memory(conn)
    outer = conn.in_transaction
    here = keeping.rules(conn)
    prefix = getattr(settings, "passage_prefix", None) or ""
    kept = schema.has_reports(conn) and not keeping.outdated(conn, here)
    try:
        _create(conn)
        if kept:
            ids = sorted(keeping.changed(conn))
            listed = json.dumps(ids)
            for table in _KEPT:
                conn.execute(
                    f"insert into temp.{table} select * from main.{table} where entity_id not in"
                    " (select value from json_each(?))",
                    [listed],
                )
        else:
            ids = [
                r[0]
                for r in conn.execute(
                    "select distinct entity_id from observations"
                    " where typeof(entity_id) = 'integer' order by entity_id"
                )
            ]
        for done in _fill(conn, ids, here, prefix):
            _let_go(conn, outer)
            if progress:
                progress(done, len(ids), "reports")
        _overlay_flags(conn)
        _let_go(conn, outer)
        yield
    finally:
        conn.execute("drop view if exists temp.observations")
        for table in _TABLES:
            conn.execute(f"drop table if exists temp.{table}")
        _let_go(conn, outer)


def _let_go(conn: sqlite3.Connection, outer: bool) -> None:
    """End the transaction that Python began for the inserts, unless it is the caller's own.

    Nothing of it is in the file, but it keeps others from writing for as long as it lasts.
    """
    if conn.in_transaction and not outer:
        conn.commit()


def _create(conn: sqlite3.Connection) -> None:
    for text in schema.statements("tables", "reports"):
        name = text.split("(")[0].split()[-1]
        if text.startswith("create table") and name in _TABLES:
            # references between databases are not possible
            conn.execute(_unreferenced(text.replace(name, f"temp.{name}", 1)))
    conn.execute("create index temp.limbic_duplicates_later on limbic_duplicates(later_id)")
    conn.execute("create index temp._limbic_text_keys_key on _limbic_text_keys(key, entity_id)")


def _overlay_flags(conn: sqlite3.Connection) -> None:
    """Let ``observations`` have the flags that go with the pairs as they are now."""
    conn.execute(
        "create table temp.limbic_fresh_flags(observation_id integer primary key, flag integer)"
    )
    if schema.has_reports(conn):
        conn.execute(_NEWLY_FLAGGED + _KNOWN)
        conn.execute(_NO_LONGER)
    else:
        conn.execute(_NEWLY_FLAGGED)
    columns = ", ".join(
        _FLAG if name == "similarity_flag" else f"o.{escape_sqlite(name)}"
        for _, name, *_ in conn.execute("pragma main.table_info(observations)")
    )
    conn.execute(f"create view temp.observations as select {columns} from main.observations o")


def _unreferenced(text: str) -> str:
    return re.sub(r" references \w+\(id\)( on delete \w+)?", "", text)


def _fill(
    conn: sqlite3.Connection,
    ids: list[int],
    here: keeping.Rules,
    prefix: str,
) -> Iterator[int]:
    """Look at these entities; yields how many are done."""
    done = 0
    for start in range(0, len(ids), keeping.AT_ONCE):
        for group in reading.batches(conn, ids[start : start + keeping.AT_ONCE]):
            batch, pairs, topics = keeping.look(conn, group, here, prefix)
            insert_pairs(conn, pairs, into="temp")
            conn.executemany(
                "insert into temp.limbic_topics(entity_id, topics, diversity, split_score)"
                " values (?, ?, ?, ?)",
                topics,
            )
            insert_keys(conn, batch.observations, into="temp")
            done += len(group)
            yield done
