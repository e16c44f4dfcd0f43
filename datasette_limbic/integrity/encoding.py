"""Texts that are not UTF-8: SQLite keeps any bytes, and Python refuses to read them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from .context import Check, Context, Found
from .report import Repair
from .schema import reference
from .times import is_time, literal

# Of llm, which writes and reads them; and marks, which have a check of their own.
_OTHERS = ("collections", "embeddings", "limbic_stale")
_BATCH = 1000
_NAMED = 20
# Beyond that a statement is nothing to read and to run.
_LONGEST = 2000
_NO_UTF8 = re.compile("[\udc80-\udcff]")
_SAYS = (
    "this takes the bytes that are not UTF-8 for Windows-1252: where they are of another encoding, "
    "write the text that was meant"
)


def checks() -> tuple[Check, ...]:
    """One for each table that has texts."""
    found = []
    for table, columns in reference().columns.items():
        texts = [c.name for c in columns.values() if c.type.lower() == "text" and not is_time(c)]
        if texts and table not in _OTHERS:
            found.append(_check(table, [c.name for c in columns.values() if c.key], texts))
    return tuple(found)


def _check(table: str, keys: list[str], names: list[str]) -> Check:
    def find(context: Context) -> Found:
        found = Found()
        fixes: list[str] = []
        more: set[str] = set()
        for key, name, data in _no_utf8(context, table, keys, names):
            shown = {
                k: v.decode("utf-8", "replace") if isinstance(v, bytes) else v
                for k, v in zip(keys, key, strict=True)
            }
            found.add({**shown, name: data.decode("utf-8", "replace")})
            if len(data) > _LONGEST:
                more.add("a text this long is written anew with a program")
            elif len(fixes) == _NAMED:
                more.add("more rows remain: check again afterwards")
            else:
                where = " and ".join(_is(k, v) for k, v in zip(keys, key, strict=True))
                fixes.append(f"update {table} set {name} = {literal(guess(data))} where {where};")
        if found.count:
            says = [_SAYS] * bool(fixes) + sorted(more)
            found.repair = Repair("person", tuple(fixes), "; ".join(says))
        return found

    return Check(
        f"values.{table}.utf8",
        f"texts in {table} that are not UTF-8",
        find,
        Repair("person"),
        tuple(f"{table}.{key}" for key in keys),
    )


def _no_utf8(
    context: Context, table: str, keys: list[str], names: list[str]
) -> Iterator[tuple[tuple[Any, ...], str, bytes]]:
    """Key, column and bytes of each such text. Many at once are decoded as one."""
    names = [name for name in names if name in context.columns(table)]
    if not names:
        return
    shown = ", ".join([*keys, *(f"iif(typeof({n}) = 'text', {n}, null)" for n in names)])
    conn, before = context.conn, context.conn.text_factory
    conn.text_factory = bytes
    try:
        cursor = conn.execute(f"select {shown} from {table}")
        while batch := cursor.fetchmany(_BATCH):
            for at, name in enumerate(names, len(keys)):
                try:
                    b"\n".join([row[at] or b"" for row in batch]).decode()
                except UnicodeDecodeError:
                    for row in batch:
                        if row[at] and not _is_utf8(row[at]):
                            yield tuple(row[: len(keys)]), name, row[at]
    finally:
        conn.text_factory = before


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def guess(data: bytes) -> str:
    """The text, with what is no UTF-8 in it read as Windows-1252, or else as Latin-1."""

    def one(found: re.Match[str]) -> str:
        byte = found[0].encode("utf-8", "surrogateescape")
        try:
            return byte.decode("cp1252")
        except UnicodeDecodeError:
            return byte.decode("latin-1")

    return _NO_UTF8.sub(one, data.decode("utf-8", "surrogateescape"))


def _is(key: str, value: Any) -> str:
    if isinstance(value, bytes):
        return f"cast({key} as blob) = x'{value.hex()}'"
    return f"{key} is {literal(value)}"
