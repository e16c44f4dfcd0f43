"""Naming what a file is when it is no JSON text at all."""

from __future__ import annotations

from pathlib import Path

from datasette.utils.sqlite import sqlite3

_MAGIC = {
    b"\x1f\x8b": "compressed with gzip: unpack it first (gunzip)",
    b"PK\x03\x04": "a ZIP archive: unpack it first",
    b"BZh": "compressed with bzip2: unpack it first (bunzip2)",
    b"\x28\xb5\x2f\xfd": "compressed with zstd: unpack it first (unzstd)",
    b"\xfd7zXZ\x00": "compressed with xz: unpack it first (unxz)",
    b"%PDF": "a PDF",
    b"\x89PNG": "a picture",
}


def describe_binary(path: Path, head: bytes) -> str | None:
    """What the file is, to complete "FILE is …", or None when it may be UTF-8 text."""
    if head.startswith(b"SQLite format 3\x00"):
        return _describe_sqlite(path)
    for magic, what in _MAGIC.items():
        if head.startswith(magic):
            return what
    wide = _wide_encoding(head)
    if wide:
        return (
            f"{wide} text, and UTF-8 is needed: convert it with "
            f"'iconv -f {wide} -t UTF-8 {path.name} > utf8-{path.name}'"
        )
    if b"\x00" in head:
        return "binary, no text"
    return None


def _wide_encoding(head: bytes) -> str | None:
    """UTF-16 or UTF-32 by its mark, or by the zeros around an ASCII first character."""
    if head.startswith((b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff")):
        return "UTF-32"
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "UTF-16"
    if head[:2] in (b"{\x00", b"[\x00") and head[2:4] != b"\x00\x00":
        return "UTF-16LE"
    if head[:2] in (b"\x00{", b"\x00["):
        return "UTF-16BE"
    return None


def _describe_sqlite(path: Path) -> str:
    """A database, and whose: only the names of tables are looked at, read-only."""
    try:
        conn = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        try:
            names = {row[0] for row in conn.execute("select name from sqlite_master")}
        finally:
            conn.close()
    except sqlite3.DatabaseError as error:
        return f"a SQLite database that cannot be opened ({error})"
    not_yet = "importing SQLite memory files is not supported yet"
    if "limbic_stale" in names:
        return f"a memory database of datasette-limbic: {not_yet}; export it as JSON Lines"
    if {"entities", "observations", "relations"} <= names:
        return f"a SQLite file of an MCP Memory v2 server: {not_yet}"
    shown = ", ".join(sorted(names)[:8]) or "none"
    return f"a SQLite database without a memory in it (tables: {shown})"
