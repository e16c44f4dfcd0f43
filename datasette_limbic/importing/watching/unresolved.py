"""Lines that name entities which are not here yet, and the entities that have come since."""

from __future__ import annotations

from functools import lru_cache

from datasette.utils.sqlite import sqlite3

from ..items import Access, Relation
from ..notes import Notes
from ..reading import JsonSource
from ..summary import FileSummary
from .increment import Increment, Waiting, names_in

#: More lines than this of one file do not wait one by one: the whole file waits.
MAX_WAITING = 10_000


class EntitiesCame(Exception):
    """Entities that a line names came while it was looked for."""


def unresolved(
    conn: sqlite3.Connection, source: Increment, told: FileSummary
) -> list[Waiting] | None:
    """The lines of an imported source whose entities are missing; None: too many to keep.

    Reads the source once more, since an import of any size keeps none of its lines. Raises
    EntitiesCame where there are fewer than the import has met.
    """

    @lru_cache(maxsize=10_000)
    def is_here(name: str) -> bool:
        row = conn.execute("select 1 from entities where name = ?", [name]).fetchone()
        return row is not None

    found: list[Waiting] = []
    relations = names = 0
    for line, raw, row in JsonSource.items(source, Notes()):
        missing = {name for name in names_in(row) if not is_here(name)}
        if not missing:
            continue
        relations += isinstance(row, Relation)
        names += len(missing) if isinstance(row, Access) else 0
        found.append(Waiting(line, raw, missing))
        if len(found) > MAX_WAITING:
            return None
    if relations < told.relations.dangling or names < told.access.dangling:
        raise EntitiesCame
    return found


def highest_id(conn: sqlite3.Connection) -> int:
    """The id of the newest entity."""
    return int(conn.execute("select coalesce(max(id), 0) from entities").fetchone()[0])


def new_names(conn: sqlite3.Connection, above: int) -> set[str]:
    """The names of the entities that have come since, whoever made them."""
    return {name for (name,) in conn.execute("select name from entities where id > ?", [above])}
