"""Naming what a file is when it is no JSON text at all."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

SQLITE_MAGIC = b"SQLite format 3\x00"

# Of another program's tables, this many are named.
_SHOWN = 8
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


def describe_database(tables: Sequence[str], path: object) -> str:
    """What a SQLite file is that no reader takes, by its tables, to complete "FILE is …"."""
    if "limbic_stale" in tables:
        return (
            "a memory of datasette-limbic itself: export it with 'datasette limbic export "
            f"{shlex.quote(str(path))} out.ndjson --format full', then import out.ndjson"
        )
    if not tables:
        return "an empty SQLite database: it has no tables"
    shown = ", ".join(" ".join(table.split())[:40] for table in sorted(tables)[:_SHOWN])
    more = f" and {len(tables) - _SHOWN:,} more" if len(tables) > _SHOWN else ""
    return f"a SQLite database without a memory in it (tables: {shown}{more})"


def describe_broken(error: Exception) -> str:
    """What a file with SQLite's first bytes is when SQLite cannot read it."""
    if "not a database" in str(error):
        return "encrypted, or a SQLite database that is damaged: import a readable copy of it"
    return (
        f"a SQLite database that is damaged ({error}): restore a copy, or try "
        "'sqlite3 FILE .recover'"
    )
