"""Bring the server in step with the file: what changed since it was last, or everything.

Each batch is one transaction on the server, and how far it came is written in the same one. So a
push that was killed is continued by the next one, a server that came back without its data gets
everything, and one that has an older state gets what it lacks. Rows that are there already, and
the same, are left alone: they are compared by a digest.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from datasette.utils.sqlite import sqlite3

from ...config import Settings
from ...errors import RetrieverFailed
from ...llm_store import transaction as local_transaction
from ...schema import COLLECTIONS
from .. import changes
from . import rows, schema, source
from .connection import Deadline, Lent, failed, open_connection
from .dsn import dsn_of, unusable

BATCH = 4000
"""Rows of one transaction."""
CONNECT_S = 10.0
BATCH_S = 120.0
"""How long a batch may take before the server counts as hung."""

Progress = Callable[[int, int, str], None]


@dataclass
class PushSummary:
    """What a push did; counts of rows on the server."""

    written: int = 0
    deleted: int = 0
    whole: bool = False
    """Whether everything was compared, not only what changed."""
    seconds: float = 0.0
    problem: str | None = None
    """Why the server is not in step, in a sentence; None where it is."""

    @property
    def changed(self) -> bool:
        """Whether the server has other rows than before."""
        return bool(self.written or self.deleted)

    def text(self) -> str:
        """One line for a terminal."""
        if self.problem:
            return f"server: not in step: {self.problem}"
        if not self.changed:
            return "server: in step"
        return f"server: {self.written} rows written, {self.deleted} deleted"


class _State(NamedTuple):
    ready: bool
    version: int
    target: int
    pushed_to: int | None


def push(
    conn: sqlite3.Connection, settings: Settings, progress: Progress | None = None
) -> PushSummary:
    """Push what the server lacks. What goes wrong there stands in ``problem``.

    ``progress(done, total, label)`` is called after each batch. Raises sqlite3.Error alone.
    """
    started, summary = time.monotonic(), PushSummary()
    summary.problem = unusable(settings)
    if summary.problem is None:
        summary.problem = _pushed(conn, settings, summary, progress)
    summary.seconds = round(time.monotonic() - started, 3)
    return summary


def _pushed(
    conn: sqlite3.Connection,
    settings: Settings,
    summary: PushSummary,
    progress: Progress | None,
) -> str | None:
    import psycopg

    dsn = dsn_of(settings)
    try:
        lent = open_connection(dsn, CONNECT_S)
    except (psycopg.Error, ValueError, OSError) as error:
        # ValueError: a host that is none, such as a piece of a password
        return failed(error, dsn)
    try:
        _Push(conn, lent, settings, summary, progress).run()
    except RetrieverFailed as error:
        return str(error)
    except psycopg.Error as error:
        return f"{failed(error, dsn)}; datasette limbic sync goes on from where it stopped"
    finally:
        lent.conn.close()
    return None


class _Push:
    def __init__(
        self,
        conn: sqlite3.Connection,
        lent: Lent,
        settings: Settings,
        summary: PushSummary,
        progress: Progress | None,
    ) -> None:
        self.conn, self.lent, self.summary, self.progress = conn, lent, summary, progress
        self.schema, self.partitions = settings.postgres_schema, settings.postgres_partitions
        self.done = self.total = 0

    def run(self) -> None:
        row = self.conn.execute(
            "select model, dimension from limbic_indexes where collection = 'entities'"
        ).fetchone()
        if row is None or not row[1]:
            raise RetrieverFailed("there are no vectors yet, so there is nothing to push")
        memory = self._memory()
        self.dimension = int(row[1])
        with Deadline(self.lent.conn, BATCH_S):
            self.kept = schema.make(
                self.lent, self.schema, memory, row[0] or "", self.dimension, self.partitions
            )
        filled = [name for name in COLLECTIONS if self._fill(name)]
        if filled:
            self._finish(filled)
        for name in COLLECTIONS:
            self._follow(name)

    def _memory(self) -> str:
        """The name by which the server knows this memory; made up and kept the first time."""
        with local_transaction(self.conn):
            row = self.conn.execute("select min(memory) from limbic_pushes").fetchone()
            memory = str(row[0] or uuid.uuid4().hex)
            for name in COLLECTIONS:
                self.conn.execute(
                    "insert into limbic_pushes(collection, memory) values (?, ?)"
                    " on conflict do nothing",
                    [name, memory],
                )
        return memory

    def _state(self, conn: schema.Placed, name: str) -> _State:
        """The server's own word on a collection; locked until the transaction ends."""
        conn.execute(
            "insert into limbic.limbic_state(collection) values (%s) on conflict do nothing", [name]
        )
        row = conn.execute(
            "select ready, version, target, pushed_to from limbic.limbic_state"
            " where collection = %s for update",
            [name],
        ).fetchone()
        assert row is not None  # inserted above
        return _State(*row)

    def _own(self, name: str, state: _State) -> _State:
        """The state, if it is one that this file had.

        Raises RetrieverFailed where it is another copy's, or what this file had before it was
        restored from a backup: which of the two counts, only the user knows.
        """
        if not state.ready and state.pushed_to is None:
            return state  # nothing was pushed, or somebody said so there
        version = state.version if state.ready else state.target
        row = self.conn.execute(
            "select version from limbic_pushes where collection = ?", [name]
        ).fetchone()
        noted = row is not None and row[0] == version
        if noted or changes.count_since(self.conn, name, version, 0) is not None:
            return state
        raise RetrieverFailed(schema.other_copy(name, self.schema))

    def _fill(self, name: str) -> bool:
        """Push all of a collection, unless what changed is known; whether it was done."""
        now = changes.version(self.conn, name).now
        with Deadline(self.lent.conn, BATCH_S), self._transaction() as server:
            state = self._own(name, self._state(server, name))
            if state.ready and changes.since(self.conn, name, state.version) is not None:
                return False
            # what an earlier push began is continued where what changed since is known
            begun = None if state.ready else state.pushed_to
            if begun is not None and changes.since(self.conn, name, state.target) is not None:
                last, now = begun, state.target
            else:
                last = source.LEAST
                server.execute(
                    "update limbic.limbic_state set ready = false, target = %s, pushed_to = %s"
                    " where collection = %s",
                    [now, last, name],
                )
        # from here on the log of changes is kept for it
        self._note(name, now)
        self.summary.whole = True
        self.total = self.conn.execute(f"select count(*) from {name}").fetchone()[0]
        self.done = self.conn.execute(
            f"select count(*) from {name} where id <= ?", [last]
        ).fetchone()[0]
        while last < source.MOST:
            with Deadline(self.lent.conn, BATCH_S), self._transaction() as server:
                # read under the lock: of two pushes at once, the later one has the newer rows
                self._own(name, self._state(server, name))
                batch = source.after(self.conn, name, last, BATCH, self.dimension)
                to = batch.ids[-1] if len(batch.ids) == BATCH else source.MOST
                self._bring(server, name, batch, between=(last, to))
                server.execute(
                    "update limbic.limbic_state set pushed_to = %s where collection = %s",
                    [to, name],
                )
            last = to
            self._advance(len(batch.ids), name)
        return True

    def _finish(self, filled: Sequence[str]) -> None:
        """Indexes over what was filled; only then may it be searched."""
        for table in schema.TABLES:
            with Deadline(self.lent.conn, schema.BUILD_S), self._transaction(None) as server:
                server.execute(f"analyze limbic.{table}")
        schema.make_indexes(self.lent, self.schema, self.kept, self.progress)
        with Deadline(self.lent.conn, BATCH_S), self._transaction() as server:
            server.execute(
                "update limbic.limbic_state set ready = true, version = target, pushed_to = null,"
                " pushed_at = now() where collection = any(%s)",
                [list(filled)],
            )

    def _follow(self, name: str) -> None:
        """Push what changed since the server's version."""
        now = changes.version(self.conn, name).now
        with Deadline(self.lent.conn, BATCH_S), self._transaction() as server:
            version = self._own(name, self._state(server, name)).version
        ids = changes.since(self.conn, name, version)
        if ids is None:
            raise RetrieverFailed(
                f"the {name} were indexed anew while they were pushed: run datasette limbic sync"
            )
        self.done, self.total = 0, len(ids)
        for start in range(0, len(ids), BATCH):
            some = ids[start : start + BATCH]
            with Deadline(self.lent.conn, BATCH_S), self._transaction() as server:
                self._own(name, self._state(server, name))
                batch = source.these(self.conn, name, some, self.dimension)
                self._bring(server, name, batch, ids=some)
            self._advance(len(some), name)
        if version != now:
            with Deadline(self.lent.conn, BATCH_S), self._transaction() as server:
                server.execute(
                    "update limbic.limbic_state set version = %s, pushed_at = now()"
                    " where collection = %s and version < %s",
                    [now, name, now],
                )
        self._note(name, now)

    def _bring(
        self,
        server: schema.Placed,
        name: str,
        batch: source.Batch,
        *,
        between: tuple[int, int] | None = None,
        ids: Sequence[int] = (),
    ) -> None:
        """Make the server's rows of some items those of the batch, and no others."""
        odd = name == "observations"
        if between is not None:
            numbers = source.doc_range(*between)
            texts = server.execute(
                "select doc, digest from limbic.texts"
                " where doc > %s and doc <= %s and doc & 1 = %s",
                [*numbers, int(odd)],
            ).fetchall()
        else:
            texts = server.execute(
                "select doc, digest from limbic.texts where doc = any(%s)",
                [source.docs(name, ids)],
            ).fetchall()
        new = self._delete(server, "texts", dict(texts), batch.texts)
        _copy(
            server,
            "limbic.texts (doc, digest, length, words)",
            [
                rows.row(
                    rows.whole(doc),
                    rows.whole(text.digest),
                    text.words.length.to_bytes(4, "big"),
                    rows.tsvector(text.words),
                )
                for doc, text in new
            ],
        )
        if odd:
            return
        if between is not None:
            there = server.execute(
                "select id, digest from limbic.entities where id > %s and id <= %s", list(between)
            ).fetchall()
        else:
            there = server.execute(
                "select id, digest from limbic.entities where id = any(%s)", [list(ids)]
            ).fetchall()
        fresh = self._delete(server, "entities", dict(there), batch.entities)
        raw = rows.vectors([one.unit for _, one in fresh], half=self.kept.kind == "halfvec")
        _copy(
            server,
            "limbic.entities (id, archived, digest, entity_type, embedding)",
            [
                rows.row(
                    rows.whole(item),
                    bytes([one.archived]),
                    rows.whole(one.digest),
                    one.entity_type.encode(),
                    vector,
                )
                for (item, one), vector in zip(fresh, raw, strict=True)
            ],
        )

    def _delete(
        self, server: schema.Placed, table: str, there: dict[int, int], wanted: dict[int, Any]
    ) -> list[tuple[int, Any]]:
        """Delete what is gone or other than wanted; return what has to be written."""
        new = [(key, row) for key, row in wanted.items() if there.get(key) != row.digest]
        gone = [key for key in there if key not in wanted]
        out = gone + [key for key, _ in new if key in there]
        if out:
            server.execute(
                f"delete from limbic.{table} where {schema.KEYS[table]} = any(%s)", [out]
            )
        self.summary.written += len(new)
        self.summary.deleted += len(gone)
        return new

    def _note(self, name: str, version: int) -> None:
        """Write here how far the server is, so that the log is kept from there on."""
        pushed = self.conn.execute(f"select count(*) from {name}").fetchone()[0]
        with local_transaction(self.conn):
            self.conn.execute(
                "update limbic_pushes set version = ?, rows = ?, pushed_at = datetime('now')"
                " where collection = ? and (version is not ? or pushed_at is null)",
                [version, pushed, name, version],
            )

    def _transaction(self, timeout_s: float | None = BATCH_S) -> Any:
        return schema.transaction(self.lent, self.schema, timeout_s)

    def _advance(self, count: int, name: str) -> None:
        self.done += count
        if self.progress and count:
            self.progress(min(self.done, self.total), self.total, f"{name} to the server")


def _copy(server: schema.Placed, into: str, found: Sequence[bytes]) -> None:
    if found:
        server.copy(into, rows.HEAD + b"".join(found) + rows.TAIL)
