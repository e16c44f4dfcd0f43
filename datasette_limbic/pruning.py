"""Forgetting old logs: searches with their candidates and ratings, and the access log.

Counts (entity_access, co_occurrences) are never touched: what was learned of use stays, and only
the record of each single use goes. A time that cannot be read is unknown, and unknown is not old.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from datasette.utils.sqlite import sqlite3

from . import schema, times
from .config import MAX_DAYS, number
from .errors import BadParameter
from .signals import OURS
from .text import counted

# Rows looked at in one step, and deleted in one transaction: each takes some hundredths of a
# second, so that no other writer waits long.
PAGE_ROWS = 5000
MAX_ROWS = 2000
MAX_PAUSE_S = 0.1

_BEFORE_ALL = -(1 << 63)
_DAY_S = 86400
_FIRST = "0001-01-01 00:00:00"
# Written as ours are, and not old: such rows, nearly all, need no look from Python.
_SURELY_YOUNG = f"{OURS} and {{0}} >= :before"
_NO_SEARCH = "and (search_id is null or search_id not in (select id from limbic_searches))"


@dataclass
class Pruned:
    """What was deleted, or with ``dry_run`` would be: rows of each kind.

    ``before`` is the time (UTC) before which a row is old. ``ratings`` are rows of
    limbic_feedback: results that were opened or rated, and what was opened without a search.
    ``unreadable_…`` are rows that stay because their time cannot be read.
    """

    before: str
    dry_run: bool
    searches: int = 0
    candidates: int = 0
    ratings: int = 0
    accesses: int = 0
    unreadable_searches: int = 0
    unreadable_ratings: int = 0
    unreadable_accesses: int = 0

    @property
    def unreadable(self) -> int:
        return self.unreadable_searches + self.unreadable_ratings + self.unreadable_accesses

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def text(self) -> str:
        """The same in a sentence or two."""
        verb = "Would delete" if self.dry_run else "Deleted"
        lines = [
            f"{verb} what is older than {self.before} (UTC): "
            f"{counted(self.searches, 'search', 'searches')} "
            f"with {counted(self.candidates, 'candidate', 'candidates')}, "
            f"{counted(self.ratings, 'rating or opening', 'ratings and openings')}, "
            f"{counted(self.accesses, 'row', 'rows')} of the access log. "
            "All counts stay as they are."
        ]
        if self.unreadable:
            lines.append(
                f"Kept, since the time cannot be read: "
                f"{counted(self.unreadable_searches, 'search', 'searches')}, "
                f"{counted(self.unreadable_ratings, 'rating', 'ratings')}, "
                f"{counted(self.unreadable_accesses, 'row', 'rows')} of the access log. "
                "'datasette limbic check' names them."
            )
        return "\n".join(lines)


@dataclass(frozen=True)
class _Kind:
    """A table that is pruned: its time, which of its rows, and how some of them are deleted."""

    name: str
    table: str
    time: str
    only: str
    delete: Callable[[sqlite3.Connection, list[int], Pruned, bool], int]


class Pruning:
    """Pruning in steps, each bounded, for whoever has to let others write in between."""

    def __init__(
        self, older_than_days: float, *, now: object = None, dry_run: bool = False
    ) -> None:
        """Raises BadParameter where the days are not 0 to MAX_DAYS or ``now`` is no time."""
        days = number("older_than_days", older_than_days, 0, MAX_DAYS)
        moment = times.parse_time(time.time() if now is None else now)
        if moment is None:
            raise BadParameter(f"now is {now!r:.60}: use a time such as 2026-11-29 12:00:00 (UTC)")
        before = times.to_sql(moment - days * _DAY_S) or _FIRST
        self.pruned = Pruned(before, dry_run)
        self._before = times.parse_time(before) or 0.0
        self._kind = 0
        self._after = _BEFORE_ALL

    def step(self, conn: sqlite3.Connection) -> bool:
        """Look at some rows and delete the old ones, in a transaction of its own where there are.

        Returns whether more is to be done. Where it raises sqlite3.Error nothing was deleted in
        this step, and the same step may be tried again.
        """
        if self._kind == len(_KINDS):
            return False
        kind = _KINDS[self._kind]
        last = conn.execute(
            f"select max(id) from (select rowid as id from {kind.table} where rowid > ?"
            " order by rowid limit ?)",
            [self._after, PAGE_ROWS],
        ).fetchone()[0]
        if last is None:
            self._kind, self._after = self._kind + 1, _BEFORE_ALL
            return self._kind < len(_KINDS)
        old, unreadable = self._read(conn, kind, last)
        done = Pruned(self.pruned.before, self.pruned.dry_run)
        if old and self.pruned.dry_run:
            last = self._reach(last, old, kind.delete(conn, old, done, False))
        elif old:
            with _transaction(conn):
                # once more, now that nobody else writes
                old, unreadable = self._read(conn, kind, last)
                last = self._reach(last, old, kind.delete(conn, old, done, True))
        unread = f"unreadable_{kind.name}"
        setattr(done, unread, sum(row <= last for row in unreadable))
        self._add(done)
        self._after = last
        return True

    @staticmethod
    def _reach(last: int, old: list[int], taken: int) -> int:
        """How far a step came that took so many of the old rows."""
        return last if taken == len(old) else old[taken - 1]

    def _read(
        self, conn: sqlite3.Connection, kind: _Kind, last: int
    ) -> tuple[list[int], list[int]]:
        """Ids of the old rows of this page, and of those whose time cannot be read, in order."""
        old: list[int] = []
        unreadable: list[int] = []
        young = _SURELY_YOUNG.format(kind.time)
        for row, value in conn.execute(
            f"select rowid, {kind.time} from {kind.table} where rowid > :after"
            f" and rowid <= :last and not coalesce({young}, 0) {kind.only} order by rowid",
            {"after": self._after, "last": last, "before": self.pruned.before},
        ).fetchall():
            moment = times.parse_time(value)
            if moment is None:
                unreadable.append(row)
            elif moment < self._before:
                old.append(row)
        return old, unreadable

    def _add(self, done: Pruned) -> None:
        for name, value in done.as_dict().items():
            if name not in ("before", "dry_run"):
                setattr(self.pruned, name, getattr(self.pruned, name) + value)


def prune(
    conn: sqlite3.Connection,
    older_than_days: float,
    *,
    now: object = None,
    dry_run: bool = False,
) -> Pruned:
    """Delete logged searches, ratings and access log rows older than so many days (0 to 1e6).

    A search goes with its candidates and ratings, whatever the age of the ratings; a rating or an
    opening that belongs to no search that is there goes by its own age. A row is old when its
    time, as ``times.parse_time`` reads it, is before ``now`` (by default the clock) less the days.
    ``dry_run`` only counts. In many short transactions with pauses, so that other programs write
    in between; stopped half-way, the file is whole and the next run goes on.

    Raises BadParameter, NotAMemory, and sqlite3.Error where it cannot be written.
    """
    job = Pruning(older_than_days, now=now, dry_run=dry_run)
    schema.require_memory(conn)
    more = True
    while more:
        started, changes = time.perf_counter(), conn.total_changes
        more = job.step(conn)
        if conn.total_changes > changes:
            # whoever waits for the lock looks for it only now and then
            time.sleep(min(time.perf_counter() - started, MAX_PAUSE_S))
    return job.pruned


@contextmanager
def _transaction(conn: sqlite3.Connection) -> Iterator[None]:
    conn.execute("begin immediate")
    try:
        yield
        conn.commit()
    except BaseException:
        conn.rollback()
        raise


def _searches(conn: sqlite3.Connection, ids: list[int], done: Pruned, write: bool) -> int:
    """Delete (or count) the first of these searches, whole ones, until there are many rows."""
    # not left to foreign keys, which many programs do not switch on
    what = "delete" if write else "select count(*)"
    for taken, search_id in enumerate(ids, 1):
        for table, name in (
            ("limbic_search_candidates", "candidates"),
            ("limbic_feedback", "ratings"),
        ):
            cursor = conn.execute(f"{what} from {table} where search_id = ?", [search_id])
            rows = cursor.rowcount if write else cursor.fetchone()[0]
            setattr(done, name, getattr(done, name) + rows)
        if write:
            conn.execute("delete from limbic_searches where id = ?", [search_id])
        done.searches += 1
        if done.searches + done.candidates + done.ratings >= MAX_ROWS:
            return taken
    return len(ids)


def _rows(table: str, name: str) -> Callable[[sqlite3.Connection, list[int], Pruned, bool], int]:
    """Deletes (or counts) rows of one table, at most MAX_ROWS."""

    def delete(conn: sqlite3.Connection, ids: list[int], done: Pruned, write: bool) -> int:
        ids = ids[:MAX_ROWS]
        if write:
            conn.executemany(f"delete from {table} where rowid = ?", [(i,) for i in ids])
        setattr(done, name, len(ids))
        return len(ids)

    return delete


_KINDS = (
    _Kind("searches", "limbic_searches", "created_at", "", _searches),
    _Kind(
        "ratings",
        "limbic_feedback",
        "created_at",
        _NO_SEARCH,
        _rows("limbic_feedback", "ratings"),
    ),
    _Kind(
        "accesses",
        "entity_access_log",
        "accessed_at",
        "",
        _rows("entity_access_log", "accesses"),
    ),
)
