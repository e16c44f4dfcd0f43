"""What the reports raise now, beside the queue: in a temporary table, however much it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from itertools import islice

from datasette.utils.sqlite import sqlite3

from . import alike, archivable, entities
from .model import Looking, Raised, Raising

SOURCES: dict[str, Callable[[sqlite3.Connection, Looking], Raising]] = {
    "contradiction": alike.contradictions,
    "duplicate": alike.duplicates,
    "name_clash": entities.name_clashes,
    "bridge": entities.archived_bridges,
    "split": entities.splits,
    "archive_candidate": archivable.archive_candidates,
}
COLUMNS = ("kind", "entity_id", "title", "body", "evidence", "evidence_digest", "confidence")
"""Of the queue, but for the key: what a run may refresh."""
_AT_ONCE = 500
_CREATE = """
create table temp.limbic_raised(
  seq integer primary key, key text not null unique, kind text, entity_id integer, title text,
  body text, evidence text, evidence_digest text, confidence real
)
"""
_INSERT = f"""
insert into temp.limbic_raised(key, {", ".join(COLUMNS)}) values (?, ?, ?, ?, ?, ?, ?, ?)
"""


@contextmanager
def table(conn: sqlite3.Connection) -> Iterator[None]:
    """Inside this block there is a table ``temp.limbic_raised``."""
    outer = conn.in_transaction
    conn.execute("drop table if exists temp.limbic_raised")
    conn.execute(_CREATE)
    try:
        yield
    finally:
        conn.execute("drop table if exists temp.limbic_raised")
        let_go(conn, outer)


def fill(
    conn: sqlite3.Connection,
    kinds: Iterable[str],
    look: Looking,
    progress: Callable[[str], None] | None = None,
) -> None:
    """Everything that is raised now; what stood there goes. Reads only but for the table."""
    outer = conn.in_transaction
    conn.execute("delete from temp.limbic_raised")
    for kind in kinds:
        with closing(SOURCES[kind](conn, look)) as found:
            while batch := list(islice(found, _AT_ONCE)):
                conn.executemany(_INSERT, [_row(raised) for raised in batch])
        if progress:
            progress(kind)
    let_go(conn, outer)


def let_go(conn: sqlite3.Connection, outer: bool) -> None:
    """End the transaction that Python began for the inserts, unless it is the caller's own.

    Nothing of it is in the file, but it keeps others from writing for as long as it lasts.
    """
    if conn.in_transaction and not outer:
        conn.commit()


def _row(raised: Raised) -> tuple[object, ...]:
    return (
        raised.key, raised.kind, raised.entity_id, raised.title, raised.body, raised.evidence(),
        raised.digest, raised.confidence,
    )  # fmt: skip
