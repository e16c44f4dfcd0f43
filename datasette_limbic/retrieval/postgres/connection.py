"""Connections to the server, for searches: kept open, shared by threads, given up in time.

A search must not wait for a server that is gone, slow or hung. ``Server.run`` gives up after the
time it is given, wherever that time went: on the network, in a query, or in a process that was
stopped and will never answer. After a failure nobody asks the server for PAUSE_S seconds; then
one search tries, without waiting long, and with the first success all do again.
"""

from __future__ import annotations

import atexit
import math
import os
import socket
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from ...errors import RetrieverFailed
from .dsn import sentence

if TYPE_CHECKING:
    from psycopg import Connection

PAUSE_S = 5.0
"""How long a server is left alone after a failure."""
TRIAL_S = 0.25
"""How long a search waits for a connection to a server that failed before."""
IDLE = 8
"""Connections that stay open while nobody uses them."""

T = TypeVar("T")


@dataclass
class Lent:
    """One connection, and what its server can do."""

    conn: Connection[Any]
    vector: tuple[int, ...]
    """The version of pgvector, (0, 8, 1) for one; empty where the server has none."""
    path: str
    """The schema where pgvector's types are."""
    settings: frozenset[str] = field(default_factory=frozenset)
    """The settings of HNSW indexes that it knows: to set another one is an error."""
    yugabyte: bool = False
    """Whether its vector indexes are YugabyteDB's."""

    def look(self) -> None:
        """Find out what the server can do. Raises psycopg.Error."""
        from psycopg import sql

        row = self.conn.execute(
            "select e.extversion, n.nspname from pg_extension e"
            " join pg_namespace n on n.oid = e.extnamespace where e.extname = 'vector'"
        ).fetchone()
        if row is None:
            return
        self.vector = tuple(int(n) for n in row[0].split(".") if n.isdigit())
        self.path = row[1]
        # pgvector's settings are there from the first vector on
        self.conn.execute(sql.SQL("select '[1]'::{}").format(sql.Identifier(self.path, "vector")))
        names, self.yugabyte = self.conn.execute(
            "select array(select name from pg_settings where name like '%hnsw.%'),"
            " exists(select from pg_am where amname = 'ybhnsw')"
        ).fetchone() or ([], False)
        self.settings = frozenset(names)


def open_connection(dsn: str, timeout_s: float, **options: Any) -> Lent:
    """A new connection. Raises psycopg.Error."""
    import psycopg

    conn = psycopg.connect(
        dsn,
        autocommit=True,
        # a pooler hands each transaction to another server process
        prepare_threshold=None,
        connect_timeout=max(2, math.ceil(timeout_s)),
        **{"application_name": "datasette-limbic", **options},
    )
    try:
        lent = Lent(conn, (), "public")
        with Deadline(conn, max(2.0, timeout_s)):
            lent.look()
        return lent
    except BaseException:
        conn.close()
        raise


class Deadline:
    """Breaks a connection off when the block takes longer: then it raises OperationalError.

    ``statement_timeout`` is the server's own clock, and a server that hangs has none.
    """

    def __init__(self, conn: Connection[Any], seconds: float) -> None:
        self.passed = False
        # a socket of its own: the number may be another file's once the connection is closed
        self._socket = socket.fromfd(conn.pgconn.socket, socket.AF_INET, socket.SOCK_STREAM)
        self._guard = threading.Lock()
        self._timer = threading.Timer(max(0.0, seconds), self._break)
        self._timer.daemon = True

    def _break(self) -> None:
        with self._guard:
            if self._socket.fileno() < 0:
                return
            self.passed = True
            try:
                self._socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                return  # it is broken already

    def __enter__(self) -> Deadline:
        self._timer.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._timer.cancel()
        with self._guard:
            self._socket.close()


class Server:
    """One server as searches use it; an object is shared by all threads of a process."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._guard = threading.Lock()
        self._process = os.getpid()
        self._idle: list[Lent] = []
        self._problem: str | None = None
        self._again_at = 0.0
        self._trying = False
        self._quiet_until = 0.0
        _servers.add(self)

    def paused(self) -> str | None:
        """Why nobody asks the server at the moment; None where one may."""
        with self._guard:
            waiting = self._trying or time.monotonic() < self._again_at
            return self._problem if self._problem and waiting else None

    def told(self) -> bool:
        """Whether the log has heard of this server a moment ago; now it has. It hears of it once
        in PAUSE_S, however many searches fail meanwhile."""
        with self._guard:
            now = time.monotonic()
            if now < self._quiet_until:
                return True
            self._quiet_until = now + PAUSE_S
            return False

    def run(self, work: Callable[[Lent], T], timeout_s: float) -> T:
        """What ``work`` makes of a connection, within so many seconds.

        Raises RetrieverFailed, with a sentence without the password; and nothing is chained to
        it, since libpq takes a piece of a password for a host, and names it. What ``work`` raises
        as RetrieverFailed says nothing against the server.
        """
        import psycopg

        until = time.monotonic() + timeout_s
        while True:
            lent, fresh = self._take(until)
            deadline = None
            try:
                deadline = Deadline(lent.conn, until - time.monotonic())
                with deadline:
                    found = work(lent)
            except psycopg.Error as error:
                lent.conn.close()
                late = deadline is not None and deadline.passed
                if late or isinstance(error, psycopg.errors.QueryCanceled):
                    raise self._fail(_late(timeout_s)) from None
                if isinstance(error, psycopg.OperationalError) and not fresh:
                    # the server was restarted meanwhile: all that were open are gone
                    self.close()
                    continue
                if isinstance(error, psycopg.OperationalError):
                    raise self._fail(failed(error, self._dsn)) from None
                # what a sync or an administrator puts right at any moment: no reason to wait
                self._tried()
                raise RetrieverFailed(failed(error, self._dsn)) from None
            except BaseException:
                lent.conn.close()
                self._tried()
                raise
            if deadline.passed:
                lent.conn.close()  # it came just in time
                self._tried()
            else:
                self._give_back(lent)
            return found

    def close(self) -> None:
        """Close what is open and idle."""
        with self._guard:
            idle, self._idle = self._idle, []
        for lent in idle:
            lent.conn.close()

    def _take(self, until: float) -> tuple[Lent, bool]:
        """A connection, and whether it is a new one."""
        with self._guard:
            if self._process != os.getpid():
                # a fork: these are the other process's
                self._process, self._idle = os.getpid(), []
            if self._problem and (self._trying or time.monotonic() < self._again_at):
                raise RetrieverFailed(self._problem)
            if self._idle:
                return self._idle.pop(), False
            self._trying = self._problem is not None
            patience = until - time.monotonic()
            if self._trying:
                patience = min(patience, TRIAL_S)
        opening = _Opening(self, self._dsn, max(1.0, until - time.monotonic()))
        lent, error = opening.wait(patience)
        if lent is not None:
            return lent, True
        if error is None:
            raise self._fail(_late(max(0.0, patience)))
        raise self._fail(failed(error, self._dsn))

    def _give_back(self, lent: Lent) -> None:
        with self._guard:
            self._problem, self._trying = None, False
            if len(self._idle) < IDLE and not lent.conn.closed and self._process == os.getpid():
                self._idle.append(lent)
                return
        lent.conn.close()

    def _tried(self) -> None:
        with self._guard:
            self._trying = False

    def _fail(self, problem: str) -> RetrieverFailed:
        self.close()
        with self._guard:
            self._problem, self._trying = problem, False
            self._again_at = time.monotonic() + PAUSE_S
        return RetrieverFailed(problem)


class _Opening:
    """A connection that is opened in a thread of its own: to connect may take what it likes.

    Where nobody waits for it any more it goes to those that are idle, for the next search.
    """

    def __init__(self, server: Server, dsn: str, timeout_s: float) -> None:
        self._server, self._dsn, self._timeout_s = server, dsn, timeout_s
        self._guard, self._done = threading.Lock(), threading.Event()
        self._left = False
        self._lent: Lent | None = None
        self._error: Exception | None = None
        threading.Thread(target=self._open, daemon=True, name="limbic-postgres").start()

    def _open(self) -> None:
        try:
            lent = open_connection(self._dsn, self._timeout_s)
        except Exception as error:  # told to the one who waits
            self._error = error
        else:
            with self._guard:
                if not self._left:
                    self._lent = lent
                    self._done.set()
                    return
            self._server._give_back(lent)
        self._done.set()

    def wait(self, seconds: float) -> tuple[Lent | None, Exception | None]:
        """The connection, or what came instead; neither where it takes longer."""
        self._done.wait(max(0.0, seconds))
        with self._guard:
            self._left = True
            return self._lent, self._error


def failed(error: Exception, dsn: str) -> str:
    """A sentence for what psycopg raised: what is wrong, and what to do about it."""
    from psycopg import errors

    said = sentence(error, dsn)
    if isinstance(error, (errors.UndefinedTable, errors.InvalidSchemaName)):
        return (
            "the PostgreSQL server holds nothing of this memory yet (or the user may not see it): "
            "run datasette limbic sync"
        )
    if isinstance(error, errors.InsufficientPrivilege):
        return (
            f"the PostgreSQL user lacks a right ({said}): searching needs USAGE on the schema and "
            "SELECT on its tables, sync needs to own them"
        )
    if isinstance(error, errors.UndefinedObject) or "does not exist: vector" in said:
        return f"the PostgreSQL server has no pgvector that can be used ({said})"
    if isinstance(error, errors.DiskFull):
        return f"the PostgreSQL server has no room left ({said})"
    if isinstance(error, errors.OperationalError):
        return f"the PostgreSQL server refuses, cannot be reached, or broke off ({said})"
    return f"the PostgreSQL server refused ({said})"


def _late(seconds: float) -> str:
    return (
        f"the PostgreSQL server did not answer within {seconds * 1000:,.0f} ms (setting "
        "postgres_timeout_ms)"
    )


_servers: weakref.WeakSet[Server] = weakref.WeakSet()
_known: dict[str, Server] = {}
_known_guard = threading.Lock()


def server(dsn: str) -> Server:
    """The server of a connection string; the same object each time."""
    with _known_guard:
        if dsn not in _known:
            _known[dsn] = Server(dsn)
        return _known[dsn]


@atexit.register
def close_all() -> None:
    """Close every idle connection of this process."""
    for one in list(_servers):
        one.close()
