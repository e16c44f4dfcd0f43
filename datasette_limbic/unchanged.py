"""Figures that take long to read, kept for as long as nobody writes to the database.

SQLite itself says whether anybody did: ``pragma data_version`` of a connection changes with every
commit of any other connection, of any process; what the connection wrote itself shows in
``total_changes``, and in ``schema_version`` where it changed a table. So what is kept is never
out of date. It is kept for each connection: a server with three of them reads three times.
"""

from __future__ import annotations

import copy
import itertools
import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any, TypeVar

from datasette.utils.sqlite import sqlite3

log = logging.getLogger("datasette_limbic")

CONNECTIONS = 64
"""Connections of which something is kept; the one asked longest ago gives way."""
FIGURES = 32
"""Different figures that are kept of each."""
T = TypeVar("T")

_numbers = itertools.count(1)
_kept: OrderedDict[int, tuple[Hashable, dict[Hashable, Any]]] = OrderedDict()
_lock = Lock()


def unchanged(conn: sqlite3.Connection, key: Hashable, read: Callable[[], T]) -> T:
    """``read()``, or what it answered last where the database is still the same.

    ``key`` says what is read, with all that it depends on besides the database: settings, the
    day. Each caller gets a copy of its own.
    """
    known = state(conn)
    if known is None:
        return read()
    number, found_state = known
    with _lock:
        before = _kept.get(number)
        if before is None or before[0] != found_state:
            before = _kept[number] = (found_state, {})
        _kept.move_to_end(number)
        while len(_kept) > CONNECTIONS:
            _kept.popitem(last=False)
        found = before[1]
        if key in found:
            return copy.deepcopy(found[key])  # type: ignore[no-any-return]
    # The state was asked for before the figures are read: a commit in between makes them newer
    # than their state, which the next caller finds changed.
    answer = read()
    with _lock:
        while len(found) >= FIGURES:
            del found[next(iter(found))]
        found[key] = copy.deepcopy(answer)
    return answer


def state(conn: sqlite3.Connection) -> tuple[int, Hashable] | None:
    """The connection's number, and what changes with the database; None where it has none.

    A connection is known by the user_version of its own temporary database, which no other sees:
    its id() may be that of an earlier one. Within a transaction there is no state either: what is
    read there may never come to be, and a rollback shows in none of these.
    """
    try:
        number = conn.execute("pragma temp.user_version").fetchone()[0]
        if not number:
            number = next(_numbers)
            conn.execute(f"pragma temp.user_version = {number}")
        if conn.in_transaction:
            return None
        version = conn.execute("pragma main.data_version").fetchone()[0]
        schema = conn.execute("pragma main.schema_version").fetchone()[0]
    except (sqlite3.DatabaseError, TypeError) as error:  # an authorizer may hide a pragma
        log.debug("nothing is kept of this connection: %s", error)
        return None
    return number, (version, schema, conn.total_changes)
