"""Single values of a row. SQLite holds any type in any column, and bytes that are no text."""

from __future__ import annotations

import json
import math

from ...times import to_sql
from ..notes import Notes, as_text
from ..sqlite_file import decode
from .tables import Cells

# Stands in where something is known to have ended and the file holds no time at all: as long
# ago as can be, so that what is over never counts as current.
LONG_AGO = "1970-01-01 00:00:00"
# Of binary data this much is shown in a reject.
_SHOWN_BYTES = 2000
_uncounted = Notes()


def text(value: object, notes: Notes) -> str | None:
    """The value as text that can be stored; None where there is none, or only white space."""
    if value is None:
        return None
    found = decode(value) if isinstance(value, bytes) else value
    found = notes.text(found) if isinstance(found, str) else as_text(found)
    return found if found.strip() else None


def name(value: object) -> str | None:
    """As ``text``, where the same value was counted already."""
    return text(value, _uncounted)


def time(value: object, shown: str, notes: Notes | None) -> str | None:
    """The moment; noted under ``shown`` where there is a value that is none."""
    if value is None or value == "":
        return None
    given = decode(value) if isinstance(value, bytes) else value
    found = to_sql(given)
    if found is None and notes:
        unreadable(given, shown, notes)
    return found


def count(value: object) -> int | None:
    """A whole number, or None."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1 << 53:
        return int(value)
    return value if isinstance(value, int) else None


def unreadable(value: object, shown: str, notes: Notes) -> None:
    """Note a value that cannot be used."""
    notes.cannot_read(shown, printable(value))


def brief(value: object) -> str:
    """The value as it stands in a sentence."""
    return json.dumps(printable(value), ensure_ascii=False)[:60]


def raw(cells: Cells) -> str:
    """The row as JSON."""
    return json.dumps(
        {column: printable(value) for column, value in cells.items()}, ensure_ascii=False
    )


def printable(value: object) -> str | int | float | None:
    """The value as JSON holds it: bytes as SQL writes them, broken characters replaced."""
    if isinstance(value, bytes):
        more = f"… ({len(value):,} bytes)" if len(value) > _SHOWN_BYTES else ""
        return f"x'{value[:_SHOWN_BYTES].hex()}'{more}"
    if isinstance(value, str):
        return _uncounted.text(value)
    if isinstance(value, int) or value is None:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return str(value)
