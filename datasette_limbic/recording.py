"""What a search or an opening leaves behind, and writing it: many at once, none spoils another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from datasette.utils.sqlite import sqlite3

from . import search_log, signals
from .search_log import OPENED, LoggedSearch

# As long a text takes about as much memory as a row with its eight factors.
CHARACTERS = 200


@dataclass(frozen=True)
class Recording:
    """One use of the memory: what was shown, when, and in answer to what."""

    entity_ids: tuple[int, ...]
    moment: str
    query: str | None = None
    search: LoggedSearch | None = None
    opened_from: str | None = None
    results: int = 0  # how many of the entities are candidates of that search
    client: str | None = None
    actor: str | None = None

    @cached_property
    def weight(self) -> int:
        """How much memory it holds: one for each row, and one for every CHARACTERS of text."""
        texts: list[object] = [self.query, self.client, self.actor, self.opened_from]
        rows = 1 + len(self.entity_ids)
        if self.search is not None:
            texts += [self.search.query, self.search.parameters]
            texts += (candidate[1] for candidate in self.search.candidates)
            rows += len(self.search.candidates)
        held = sum(len(each) for each in texts if isinstance(each, (str, bytes)))
        return rows + held // CHARACTERS

    @property
    def rows(self) -> int:
        """How much it writes, in the same units, for bounds on a transaction."""
        return self.weight + planned(self).co_occurrences


@dataclass
class Recorded:
    """How many rows of each kind were written for one Recording.

    ``opened`` counts results of the search named alone, not what was opened by itself.
    """

    accesses: int = 0
    co_occurrences: int = 0
    opened: int = 0


@dataclass
class Outcome:
    """One entry per Recording: what was written, or the error that left it out."""

    written: list[Recorded | Exception] = field(default_factory=list)

    @property
    def failed(self) -> list[Exception]:
        return [each for each in self.written if isinstance(each, Exception)]


def planned(recording: Recording) -> Recorded:
    """What ``write`` will count where nothing is deleted meanwhile."""
    shown = len(recording.entity_ids)
    return Recorded(shown, shown * (shown - 1) // 2, recording.results)


def write(conn: sqlite3.Connection, recording: Recording) -> Recorded:
    """Write one Recording within the caller's transaction.

    An entity that was deleted since is left out.
    """
    moment = recording.moment
    done = Recorded(
        signals.add_access(conn, recording.entity_ids, recording.query, moment),
        signals.add_co_occurrences(conn, recording.entity_ids, moment),
    )
    if recording.search is not None:
        search_log.add_search(conn, recording.search, moment)
    elif recording.query is None:
        done.opened = _add_openings(conn, recording)
    return done


def _add_openings(conn: sqlite3.Connection, recording: Recording) -> int:
    """Write who opened what; returns how many of them were results of the search named."""
    uid, client, actor = recording.opened_from, recording.client, recording.actor
    moment = recording.moment
    others: list[int] = []
    opened = 0
    for entity_id in recording.entity_ids:
        if uid is not None and search_log.add_event(
            conn, uid, entity_id, OPENED, client=client, actor=actor, moment=moment
        ):
            opened += 1
        else:
            others.append(entity_id)
    search_log.add_openings(conn, others, client=client, actor=actor, moment=moment)
    return opened


def write_all(conn: sqlite3.Connection, recordings: Sequence[Recording]) -> Outcome:
    """Write all of them in one transaction; one that fails is left out alone.

    Raises sqlite3.Error where the transaction as a whole failed (locked, disk full): then
    nothing of it was written.
    """
    outcome = Outcome()
    conn.execute("begin immediate")
    try:
        for recording in recordings:
            conn.execute("savepoint recording")
            try:
                outcome.written.append(write(conn, recording))
            except Exception as error:  # not SQLite's alone: a number too large, half a letter
                # SQLite took everything back; or the next would fail of the same
                if not conn.in_transaction or _of_the_file(error):
                    raise
                conn.execute("rollback to recording")
                outcome.written.append(error)
            conn.execute("release recording")
        conn.commit()
    except BaseException:
        if conn.in_transaction:
            conn.rollback()
        raise
    return outcome


def _of_the_file(error: Exception) -> bool:
    """Whether an error is not of one row: no room, no disk, another program's lock."""
    return isinstance(error, sqlite3.OperationalError) and any(
        words in str(error) for words in ("disk is full", "disk I/O", "locked")
    )
