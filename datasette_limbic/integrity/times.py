"""Times that cannot be read, in every time column of every table of ours."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from ..status import VALID_TABLES
from ..times import parse_time, to_sql
from .context import Check, Context, Found
from .report import Repair
from .schema import Column, reference

_NAMED = re.compile(r".*_at|last_access|last_co|valid_from|valid_to|now")
_VALIDITY = ("valid_from", "valid_to")
# SQLite gives a time that is written as ours are back as it was: all but those go to Python.
# Year 0 is none to parse_time, 31 February comes back as another day.
_ODD = "{0} is not null and (datetime({0}) is not {0} or {0} < '0001')"
# Search compares these two in SQL, which reads less (the condition of status.UNREADABLE_VALIDITY).
_NOT_COMPARED = (
    "trim({0}) <> '' and (julianday({0}) is null or ltrim({0}, ' +-') not glob '*[^0-9. ]*')"
)
# Not yet built or synced: an empty text that sync writes.
_MAY_BE_EMPTY = ("limbic_indexes.built_at", "limbic_indexes.synced_at")
# An unknown time must not make anything look fresh.
_LONG_AGO = "'1970-01-01 00:00:00'"
# Columns whose NULL says something of a row, and what each choice means there.
_ARCHIVED = "archived_at"
_MEANINGS = {
    "archived_at": "any readable archived_at keeps it archived, and null brings it back",
    "valid_from": "null in valid_from means that it always held",
    "valid_to": "null in valid_to means that it never ends: write a time where it has ended",
}
_VALUES_NAMED = 20


def checks() -> tuple[Check, ...]:
    """One for each table that has times."""
    return tuple(
        _check(table, names)
        for table, columns in reference().columns.items()
        # what a source said, as it said it, is compared and never read as a time
        if not table.startswith("_limbic_source")
        and (names := [name for name, column in columns.items() if is_time(column)])
    )


def is_time(column: Column) -> bool:
    """Whether a column is for a time, by its name; numbers of ours are counts."""
    return _NAMED.fullmatch(column.name) is not None and column.type.lower() == "text"


def _check(table: str, names: list[str]) -> Check:
    columns = reference().columns[table]
    keys = [c.name for c in columns.values() if c.key]

    def find(context: Context) -> Found:
        found = Found()
        fixes: list[str] = []
        lost = more = False
        meanings: list[str] = []
        for name in names:
            if name not in context.columns(table):
                continue
            required = columns[name].required
            unknown = _LONG_AGO if required or name == _ARCHIVED else "null"
            known: dict[str, str] = {}  # a value, and what to write in its place
            for *key, value in _unreadable(context, table, keys, name, required):
                found.add({**dict(zip(keys, key, strict=True)), name: value})
                written = literal(value)
                if written in known:
                    continue
                if len(known) == _VALUES_NAMED:
                    more = True
                    continue
                # what SQL does not read, such as a Unix time, may still be known
                time = to_sql(value)
                lost = lost or time is None
                if time is None and name in _MEANINGS and _MEANINGS[name] not in meanings:
                    meanings.append(_MEANINGS[name])
                known[written] = f"'{time}'" if time else unknown
            fixes += _fixes(table, name, known)
        if fixes:
            says = ["where you know the time, write it as 2026-11-29 12:00:00 (UTC) instead"] * lost
            says += meanings + ["more values remain: check again afterwards"] * more
            found.repair = Repair("person", tuple(fixes), "; ".join(says) or None)
        return found

    return Check(
        f"times.{table}",
        f"times in {table} that cannot be read",
        find,
        Repair("person"),
        tuple(f"{table}.{key}" for key in keys),
    )


def _fixes(table: str, column: str, known: dict[str, str]) -> list[str]:
    """One statement for each new value."""
    out = []
    for new in dict.fromkeys(known.values()):
        old = sorted(literal for literal in known if known[literal] == new)
        values = [literal for literal in old if literal != "null"]
        where = [f"{column} is null"] if "null" in old else []
        if values:
            one = len(values) == 1
            where.append(f"{column} " + (f"= {values[0]}" if one else f"in ({', '.join(values)})"))
        out.append(f"update {table} set {column} = {new} where {' or '.join(where)};")
    return out


def _unreadable(
    context: Context, table: str, keys: list[str], column: str, required: bool
) -> Iterator[tuple[Any, ...]]:
    """Keys and value of the rows of a table whose time in ``column`` cannot be read."""
    compared = table in VALID_TABLES and column in _VALIDITY
    odd = _ODD.format(column) + (f" or {column} is null" if required else "")
    flag = f"coalesce({_NOT_COMPARED.format(column)}, 0)" if compared else "0"
    shown = ", ".join((*keys, column))
    for *row, flagged in context.conn.execute(f"select {shown}, {flag} from {table} where {odd}"):
        value = row[-1]
        empty = isinstance(value, str) and not value.strip(" ")
        if empty and (compared or f"{table}.{column}" in _MAY_BE_EMPTY):
            continue
        if flagged or parse_time(value) is None:
            yield tuple(row)


def literal(value: object) -> str:
    """A value as SQL writes it."""
    if value is None:
        return "null"
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    if isinstance(value, str):
        if "\0" in value:  # ends a statement
            return f"cast(x'{value.encode().hex()}' as text)"
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, float) and math.isinf(value):
        return "9e999" if value > 0 else "-9e999"
    return repr(value)
