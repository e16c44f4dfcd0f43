"""Reading and writing moments in time.

Every reader takes what real memory files hold (ISO text in several spellings, Unix seconds,
Unix milliseconds) and answers in Unix seconds, UTC. What cannot be read is unknown (`None`),
never "now": an unknown time must not make an entity look fresh.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Sequence
from datetime import date, datetime, timedelta, timezone
from functools import lru_cache
from typing import Any

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
# The range of datetime itself, years 1 to 9999, in Unix seconds.
_EARLIEST = -62135596800.0
_LATEST = 253402300799.999
# Seconds at or above this would lie beyond the year 5138, milliseconds below it before March
# 1973: real data is on either side, so the size tells the unit.
_MILLISECONDS_FROM = 1e11

# Not datetime.fromisoformat: on Python 3.10 it takes neither `Z` nor a three-digit fraction with
# an offset, and on 3.11 it also takes week dates and `20261129`, which is a number here.
_ISO = re.compile(
    r"""([0-9]{4})-([0-9]{2})-([0-9]{2})
        (?:[Tt\ ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]+))?)?
           \ ?([Zz]|UTC|[+-][0-9]{2}(?::?[0-9]{2})?)?)?""",
    re.VERBOSE,
)

_LAST_MILLISECOND = 253_402_300_799_999


def parse_time(value: object) -> float | None:
    """Unix seconds (UTC) of `value`, or `None` when it cannot be read. Never raises.

    Takes ISO 8601 text with a space or `T`, a fraction, `Z` or an offset; a bare date (its
    midnight UTC); Unix seconds or milliseconds as a number or numeric text; `datetime` and `date`.
    Naive times are UTC. `None`, `''`, NaN, other text and anything outside the years 1 to 9999
    give `None`.
    """
    if isinstance(value, str):  # nearly always, and for every row of a search
        return _parse_text(value)
    if value is None:
        return None
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)):
        return _from_number(value)
    if isinstance(value, datetime):
        return _from_datetime(value)
    if isinstance(value, date):
        return _from_datetime(datetime(value.year, value.month, value.day))
    return None


def hours_since(then: object, now: object) -> float | None:
    """Hours from `then` to `now` (anything `parse_time` reads); 0 when `then` is in the future.

    `None` when either is unknown. A future stamp counts as now, because clocks disagree.
    """
    start = parse_time(then)
    end = parse_time(now)
    if start is None or end is None:
        return None
    return (end - start) / 3600 if end > start else 0.0


def to_sql(value: object) -> str | None:
    """`YYYY-MM-DD HH:MM:SS[.fff]` (UTC) of a moment that `parse_time` reads, else `None`.

    Milliseconds are written only where there are any, so SQLite's own `datetime('now')` text
    comes back as it was.
    """
    epoch = parse_time(value)
    if epoch is None:
        return None
    # Rounding up must not leave the last millisecond of the year 9999.
    milliseconds = min(round(epoch * 1000), _LAST_MILLISECOND)
    moment = _EPOCH + timedelta(milliseconds=milliseconds)
    # Not strftime: `%Y` is not padded to four digits on every platform.
    text = moment.replace(tzinfo=None, microsecond=0).isoformat(sep=" ")
    fraction = milliseconds % 1000
    return f"{text}.{fraction:03d}" if fraction else text


def latest(values: Sequence[Any]) -> Any:
    """Of some values, the one that is the latest time (of equal ones the first), as it is written;
    the first where none can be read as a time."""
    known = [(moment, value) for value in values if (moment := parse_time(value)) is not None]
    return max(known, key=lambda each: each[0])[1] if known else values[0]


def earliest(values: Sequence[Any]) -> Any:
    """As ``latest``, the earliest."""
    known = [(moment, value) for value in values if (moment := parse_time(value)) is not None]
    return min(known, key=lambda each: each[0])[1] if known else values[0]


def now_sql() -> str:
    """The current time as `to_sql` writes it."""
    text = to_sql(time.time())
    assert text is not None  # the clock is within the years 1 to 9999
    return text


@lru_cache(maxsize=8192)
def _parse_text(text: str) -> float | None:
    stripped = text.strip()
    match = _ISO.fullmatch(stripped)
    if match is None:
        return _from_numeric_text(stripped)
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    try:
        moment = datetime(
            int(year),
            int(month),
            int(day),
            int(hour or 0),
            int(minute or 0),
            int(second or 0),
            tzinfo=timezone.utc,
        )
        offset = _offset_seconds(zone)
    except ValueError:  # the 31st of February, minute 61
        return None
    seconds = (moment - _EPOCH).total_seconds() - offset
    if fraction:
        seconds += float("0." + fraction)
    return seconds if _EARLIEST <= seconds <= _LATEST else None


def _offset_seconds(zone: str | None) -> int:
    if zone is None or zone in ("Z", "z", "UTC"):
        return 0
    hours = int(zone[1:3])
    minutes = int(zone[-2:]) if len(zone) > 3 else 0
    if hours > 23 or minutes > 59:
        raise ValueError(zone)
    return (hours * 3600 + minutes * 60) * (-1 if zone[0] == "-" else 1)


def _from_numeric_text(text: str) -> float | None:
    # float() also takes "1_000", "infinity" and digits of other scripts, which are not times.
    if not text.isascii() or "_" in text:
        return None
    try:
        return _from_number(float(text))
    except ValueError:
        return None


def _from_number(number: int | float) -> float | None:
    try:
        seconds = float(number)
    except OverflowError:
        return None
    if math.isnan(seconds):
        return None
    if abs(seconds) >= _MILLISECONDS_FROM:
        seconds /= 1000
    return seconds if _EARLIEST <= seconds <= _LATEST else None


def _from_datetime(moment: datetime) -> float | None:
    try:
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=timezone.utc)
        return (moment - _EPOCH).total_seconds()
    except (OverflowError, ValueError):
        return None
