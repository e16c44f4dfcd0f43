"""Adding a version of the parameters, whatever it comes from: looked at and written as one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from datasette.utils.sqlite import sqlite3

from .. import connection, llm_store, schema, times
from ..answers import plain
from ..config import Settings, number
from ..errors import NotRecorded, NotWritable, Refused, StaleProposal
from ..text import short, storable
from .version_rows import CONFIGURATION, InForce, Row, Versions, configured, read

Made = tuple[dict[str, float], dict[str, Any]]
"""Values and evidence of a new row."""
UNDONE = "nothing was changed"
LAST = (1 << 63) - 1
"""The highest number that a row can have."""

_INSERT = """insert into limbic_parameters(version, beta_sal, gamma, source, evidence, log_digest,
applied_by, created_at) values (?, ?, ?, ?, ?, ?, ?, ?)"""


def write(
    conn: sqlite3.Connection,
    source: str,
    make: Callable[[Versions, InForce], Made],
    actor: str | None,
    settings: Settings | None,
    expected_version: int | None,
    log_digest: str | None = None,
) -> InForce:
    """Add the row whose values and evidence ``make`` gives of what there is, all in one
    transaction. Returns what is in force then.

    Raises what ``make`` does; Refused where a version comes from ``log_digest`` already, or where
    a rule of the file does not allow it; StaleProposal, NotAMemory, NotWritable, NotRecorded (the
    file is locked), and any other sqlite3.Error as it comes.
    """
    schema.require_memory(conn)
    expected = None if expected_version is None else number_of("expected_version", expected_version)
    try:
        with llm_store.transaction(conn):
            versions = read(conn)
            now = in_force_of(versions, settings)
            _refuse_again(versions, log_digest)
            if expected is not None:
                require_in_force(versions, now, expected)
            values, evidence = make(versions, now)
            version = versions.next
            if version > LAST:
                raise Refused(
                    f"{UNDONE}: limbic_parameters has a row with the version {LAST}, and there "
                    "is no higher one: delete that row"
                )
            conn.execute(
                _INSERT,
                [
                    *(version, values["beta_sal"], values["gamma"], source),
                    storable(json.dumps(plain(evidence), ensure_ascii=False, allow_nan=False)),
                    *(log_digest, None if actor is None else storable(actor), times.now_sql()),
                ],
            )
    except sqlite3.IntegrityError as error:
        raise Refused(
            f"{UNDONE}: a rule of this file does not allow it: {error}. Look at what another "
            "program demands of the rows of limbic_parameters (constraints, triggers)"
        ) from error
    except sqlite3.OperationalError as error:
        locked = connection.is_locked(error)
        if not locked and "readonly" not in str(error):
            raise
        path = conn.execute("pragma database_list").fetchone()[2]
        name = Path(path or "this memory").name
        kind = NotRecorded if locked else NotWritable
        raise kind(f"{UNDONE}: {connection.unusable(name, error)}") from error
    return InForce(version, values["beta_sal"], values["gamma"], source)


def require_in_force(versions: Versions, now: InForce, expected: int) -> None:
    """Raise StaleProposal unless the version ``expected`` is the one in force."""
    if expected != now.version:
        raise StaleProposal(
            f"{UNDONE}: version {expected} was in force when this was looked at, and now "
            f"it is {said(versions.newest)}. Look again"
        )


def _refuse_again(versions: Versions, log_digest: str | None) -> None:
    """Raise Refused where a version comes from this log, whatever came after it."""
    for row in versions.rows:
        if log_digest is not None and row.log_digest == log_digest:
            raise Refused(
                f"{UNDONE}: this log was applied already, as {said(row)}. Record and rate more "
                "searches before tuning again"
            )


def number_of(name: str, version: Any) -> int:
    """A version that somebody named, or a search: a whole number from 0 to LAST, or text of one.

    Raises BadParameter for everything else.
    """
    found = version
    if isinstance(found, str) and found.isascii() and found.isdigit():
        # Python reads no number of thousands of digits
        found = int(found) if len(found) <= len(str(LAST)) else None
    if isinstance(found, int) and not isinstance(found, bool) and 0 <= found <= LAST:
        return found  # exactly: a float has no room for the largest
    return int(number(name, version, 0, LAST, whole=True))


def in_force_of(versions: Versions, settings: Settings | None) -> InForce:
    """The newest of these versions, else what configuration has."""
    row = versions.newest
    if row is None:
        return configured(settings)
    return InForce(row.version, row.beta_sal, row.gamma, row.source)


def said(row: Row | None) -> str:
    """A version for a sentence: ``version 3 (manual, by ana, 2026-11-30 12:00:00)``."""
    if row is None:
        return f"version 0, what {CONFIGURATION} has"
    by = f", by {short(row.applied_by)}" if row.applied_by else ""
    return f"version {row.version} ({short(row.source)}{by}, {short(row.created_at)})"
