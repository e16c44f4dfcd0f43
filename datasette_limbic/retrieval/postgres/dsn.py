"""Where the server is, which is a secret, and what went wrong there, without the secret."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from importlib.util import find_spec

from ...config import Settings

VARIABLE = "LIMBIC_POSTGRES_DSN"
"""The environment variable that counts where the setting ``postgres_dsn`` is empty."""

_INSTALL = "psycopg is not installed: pip install 'datasette-limbic[postgres]'"
_UNREADABLE = (
    "postgres_dsn cannot be read: write postgresql://user:password@host:5432/database, with "
    "%40 for @ in a password, or host=… dbname=… user=… password=…"
)


def dsn_of(settings: Settings) -> str:
    """The connection string; empty where none is set."""
    return (settings.postgres_dsn or os.environ.get(VARIABLE, "")).strip()


def unusable(settings: Settings) -> str | None:
    """Why no server can be asked at all, in a sentence; None where one can. Asks nobody."""
    dsn = dsn_of(settings)
    if not dsn:
        return f"postgres_dsn is empty: set it, or the environment variable {VARIABLE}"
    if find_spec("psycopg") is None:
        return _INSTALL
    return None if _is_readable(dsn) else _UNREADABLE


@lru_cache(maxsize=16)
def _is_readable(dsn: str) -> bool:
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    try:
        conninfo_to_dict(dsn)
    except ProgrammingError:
        return False  # what libpq says of it repeats parts of it
    return True


def sentence(error: Exception, dsn: str) -> str:
    """What the server, or the way to it, said: one line, nothing of the password in it."""
    lines = str(error).split("\n")
    # each address that was tried has a line; the last one says what to look at
    said = [line.strip() for line in lines if line.strip()] or [type(error).__name__]
    shown = next((line for line in said if "FATAL" in line or "ERROR" in line), said[0])
    shown = re.sub(r"^(connection failed|connection is bad): ", "", shown)
    for secret in _secrets(dsn):
        shown = shown.replace(secret, "…")
    return shown[:300]


def _secrets(dsn: str) -> list[str]:
    """What no message may hold: the password, as it is and as it is written, and its pieces.

    A password with an @ or a / that is not encoded makes libpq take a piece of it for the host.
    """
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    found = {dsn}
    try:
        found.add(str(conninfo_to_dict(dsn).get("password") or ""))
    except ProgrammingError:
        found.update(dsn.split())
    if match := re.match(r"[a-z]+://[^:/?#]*:(.*)@", dsn, re.DOTALL):
        found.update([match[1], *re.split(r"[@:/?#]", match[1])])
    if os.environ.get("PGPASSWORD"):
        found.add(os.environ["PGPASSWORD"])
    return sorted((one for one in found if len(one) > 1), key=len, reverse=True)
