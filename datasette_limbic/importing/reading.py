"""Recognising a memory file by its content, and streaming its records.

The name of a file says nothing: most servers write JSON Lines into ``memory.json``, and most
files of that name are no memory at all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, ClassVar

from ..errors import UnknownFormat
from .document import read_document
from .engrama import engrama_source
from .foreign import SQLITE_MAGIC, describe_binary
from .full import full_source
from .items import Item, Rejection
from .mcp_v2 import sqlite_source
from .notes import Notes
from .records import KEPT_OF_TOO_LONG, MAX_RECORD, WRAPPER, Counted, Progress, Record, why_unread
from .rows import parse_row
from .source import Source

JSON_LINES = "JSON Lines"
DOCUMENT = "JSON document"
WE_READ = (
    "Read are the memory files of MCP servers: JSON Lines of entities and relations, a JSON "
    'array of them, or one object {"entities": […], "relations": […]}; SQLite files of MCP '
    "Memory v2; NDJSON exports of Engrama, and full exports of this program"
)

_HEAD = 64 * 1024
_GRAPH = re.compile(r'\{\s*"(?:entities|relations)"\s*:\s*\[')
# Between the objects of a line; a comma too, for a list that lost its brackets.
_BETWEEN = re.compile(r"[ \t\r\n,\ufeff]*")
# Raw control characters in strings are taken: cutting at \n alone keeps lines apart anyway.
_decoder = json.JSONDecoder(strict=False)


@dataclass
class JsonSource(Source):
    """JSON Lines of entities, relations and accesses, in whatever dialect."""

    def records(self, progress: Progress | None = None) -> Iterator[Record]:
        """Its records in order; broken ones carry an error. ``progress`` gets bytes read."""
        with self.path.open("rb") as file:
            yield from read_lines(file, self.counted, progress)

    def items(self, notes: Notes, progress: Progress | None = None) -> Iterator[Item]:
        """Its rows in order."""
        self.counted = Counted()
        for line, raw, value, error, section in self.records(progress):
            if error:
                yield Item(line, raw, Rejection(error))
            elif section == WRAPPER and isinstance(value, dict):
                notes.extras("document", value)
            else:
                yield Item(line, raw, parse_row(value, section, notes))


@dataclass
class DocumentSource(JsonSource):
    """The same rows in a list, or in one object with lists of them."""

    unit: ClassVar[str] = "record"

    def records(self, progress: Progress | None = None) -> Iterator[Record]:
        """Its records in order; broken ones carry an error. ``progress`` gets bytes read."""
        with self.path.open("rb") as file:
            yield from read_document(file, self.counted, progress)


def sniff(path: str | Path) -> Source:
    """Tell the shape of a file from its first 64 kB.

    Raises UnknownFormat, naming what was found and what is read, for anything else.
    """
    path = Path(path)
    if path.is_dir():
        raise UnknownFormat(f"{path} is a directory: give the path of a file. {WE_READ}")
    if path.exists() and not path.is_file():
        raise UnknownFormat(f"{path} is no regular file: save it as one first. {WE_READ}")
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except FileNotFoundError:
        raise UnknownFormat(f"{path} does not exist: give the path of a memory file") from None
    except OSError as error:
        raise UnknownFormat(f"{path} cannot be read: {error.strerror or error}") from error
    if head.startswith(SQLITE_MAGIC):
        return sqlite_source(path)
    binary = describe_binary(path, head)
    if binary:
        raise UnknownFormat(f"{path} is {binary}. {WE_READ}")
    # The head may end inside a character; broken bytes further up show when they are read.
    text = head.decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
    if not text:
        what = "empty" if not head else "blank: it holds nothing but white space"
        raise UnknownFormat(f"{path} is {what}. {WE_READ}")
    return (_export(path, size) if '_export"' in text[:200] else None) or _json(path, text, size)


def _export(path: Path, size: int) -> Source | None:
    """An export that says what it is in its first line, however long that may be."""
    with path.open("rb") as file:
        first = file.readline(MAX_RECORD).decode("utf-8", "replace").lstrip("\ufeff")
    try:
        envelope = json.loads(first)
    except (ValueError, RecursionError):
        return None
    if isinstance(envelope, dict) and "engrama_export" in envelope:
        return engrama_source(path, size, envelope)
    return full_source(path, size, first)


def _json(path: Path, text: str, size: int) -> Source:
    shape = _shape(path, text, whole=size <= _HEAD)
    return (DocumentSource if shape == DOCUMENT else JsonSource)(path, shape, size)


def _shape(path: Path, text: str, whole: bool) -> str:
    if text[0] == "[":
        return DOCUMENT
    lines = text.split("\n")
    if text[0] != "{":
        if any(line.lstrip()[:1] == "{" for line in lines):
            return JSON_LINES  # a stray line before the records is a rejected line
        raise UnknownFormat(f"{path} is no JSON: it begins with {text[:40]!r}. {WE_READ}")
    first = lines[0].rstrip()
    try:
        value, _ = _decoder.raw_decode(first)
    except (ValueError, RecursionError) as error:
        if len(lines) == 1 and not whole:
            return DOCUMENT if _GRAPH.match(text) else JSON_LINES
        # A pretty-printed document breaks its lines after punctuation; a line that was cut
        # off seldom ends there, and if so, the document reader finds its way back.
        position = getattr(error, "pos", 0)
        pretty = len(lines) > 1 and first[-1] in "{[," and position >= len(first) - 1
        return DOCUMENT if pretty or _GRAPH.match(text) else JSON_LINES
    graph = isinstance(value.get("entities"), list) or isinstance(value.get("relations"), list)
    return DOCUMENT if graph and "type" not in value else JSON_LINES


def read_lines(
    file: BinaryIO, counted: Counted, progress: Progress | None = None, above: int = 0
) -> Iterator[Record]:
    r"""Records of JSON Lines. Lines end at ``\n`` alone.

    ``str.splitlines`` would also cut at U+2028 and U+0085, which stand raw inside real strings.
    ``above`` is how many lines stand before the place where ``file`` is.
    """
    unreported = 0
    while line := file.readline(MAX_RECORD + 1):
        counted.lines += 1
        unreported += len(line)
        if len(line) > MAX_RECORD and not line.endswith(b"\n"):
            kept, length = line[:KEPT_OF_TOO_LONG], len(line)
            del line
            while rest := file.readline(1 << 20):
                length += len(rest)
                unreported += len(rest)
                if rest.endswith(b"\n"):
                    break
            yield Record(
                above + counted.lines,
                kept.decode("utf-8", "surrogateescape"),
                error=f"the line is {length:,} bytes long, at most {MAX_RECORD:,} are read; "
                f"kept are its first {KEPT_OF_TOO_LONG:,}",
            )
        else:
            yield from _line_records(line, counted, above + counted.lines)
        if progress and unreported >= 1 << 16:
            progress(unreported)
            unreported = 0
    if progress and unreported:
        progress(unreported)


def _line_records(line: bytes, counted: Counted, number: int) -> Iterator[Record]:
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raw = line.decode("utf-8", "surrogateescape").rstrip("\r\n")
        yield Record(number, raw, error=f"not UTF-8: byte {error.start + 1} of the line")
        return
    text = text.rstrip("\r\n")
    at = _skip(text, 0)
    if not text[at:].strip():
        counted.blank += 1
        return
    found = 0
    while at < len(text):
        # A program that appends to a file without a final newline glues two records together.
        counted.glued += found > 0
        found += 1
        try:
            value, end = _decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            reason = f"not JSON: {error.msg} (character {error.pos + 1})"
            yield Record(number, text[at:], error=reason)
            return
        except (ValueError, RecursionError) as error:
            # digits beyond Python's limit for a number; lists nested a thousand deep
            yield Record(number, text[at:], error=why_unread(error))
            return
        yield Record(number, text[at:end], value)
        at = _skip(text, end)


def _skip(text: str, at: int) -> int:
    match = _BETWEEN.match(text, at)
    return match.end() if match else at
