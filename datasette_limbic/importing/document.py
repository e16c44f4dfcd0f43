"""Streaming a whole JSON document: a list of rows, or one object with lists of them.

The document is never held as a whole: elements of lists are decoded one by one from a buffer,
so that its size does not matter. A broken element is rejected up to the next line that begins
an object, where reading goes on.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator
from typing import BinaryIO

from .records import KEPT_OF_TOO_LONG, MAX_RECORD, WRAPPER, Counted, Progress, Record, why_unread

SECTIONS = ("entities", "relations")

_CUT_OFF = "the file ends inside {}: it was cut off here"
_CHUNK = 1 << 18
_SPACE = re.compile(r"[ \t\r\n\ufeff]*")
_NEXT_OBJECT = re.compile(r"\n[ \t\r\n]*(?=\{)")
_decoder = json.JSONDecoder()


class _Broken(Exception):
    """The text at the buffer's position is not JSON."""


class _Buffer:
    """The part of the file that is being decoded, its position and its line number."""

    def __init__(self, file: BinaryIO, progress: Progress | None) -> None:
        self.file, self.progress = file, progress
        # Bytes that are no UTF-8 become lone surrogates, by which the element is rejected.
        self.decode = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode
        self.text, self.pos, self.line, self.eof = "", 0, 1, False
        # whether a reject said already that the file was cut off
        self.cut_off = False

    def fill(self) -> None:
        """Drop what was consumed and read at least as much again as is left (amortised)."""
        left = self.text[self.pos :]
        chunk = self.file.read(max(_CHUNK, len(left)))
        if self.progress:
            self.progress(len(chunk))
        self.eof = not chunk
        self.text, self.pos = left + self.decode(chunk, self.eof), 0

    def advance(self, to: int) -> None:
        self.line += self.text.count("\n", self.pos, to)
        self.pos = to

    def peek(self) -> str:
        """The next character that is no white space, or '' at the end of the file."""
        while True:
            match = _SPACE.match(self.text, self.pos)
            self.advance(match.end() if match else self.pos)
            if self.pos < len(self.text) or self.eof:
                return self.text[self.pos : self.pos + 1]
            self.fill()

    def value(self) -> tuple[object, str]:
        """Decode the value here: itself and its text. Raises _Broken."""
        while True:
            try:
                value, end = _decoder.raw_decode(self.text, self.pos)
            except json.JSONDecodeError as error:
                if self.eof or self._hopeless(error):
                    raise _Broken(f"not JSON: {error.msg}") from None
            except (ValueError, RecursionError) as error:
                raise _Broken(why_unread(error)) from None
            else:
                # a number at the very end of the buffer may go on in the next chunk
                if end < len(self.text) or self.eof:
                    raw = self.text[self.pos : end]
                    self.advance(end)
                    return value, raw
            if len(self.text) - self.pos > MAX_RECORD:
                raise _Broken(f"longer than {MAX_RECORD:,} characters")
            self.fill()

    def _hopeless(self, error: json.JSONDecodeError) -> bool:
        """Whether the fault lies before the end of the buffer, so that more text won't help."""
        return error.pos < len(self.text) - 16 and not error.msg.startswith("Unterminated")

    def skip_broken(self) -> str:
        """Go on to the next line that begins an object; returns (the start of) what is skipped."""
        kept = ""
        while True:
            match = _NEXT_OBJECT.search(self.text, self.pos)
            if match or self.eof:
                self.cut_off = match is None
                end = match.end() if match else len(self.text)
                kept += self.text[self.pos : end]
                self.advance(end)
                return kept[:MAX_RECORD].rstrip()
            # keep the last line's end, the object may begin with the next chunk
            end = max(self.pos, len(self.text) - 1)
            if len(kept) < KEPT_OF_TOO_LONG:
                kept += self.text[self.pos : end]
            self.advance(end)
            self.fill()


def read_document(
    file: BinaryIO, counted: Counted, progress: Progress | None = None
) -> Iterator[Record]:
    """Records of a document: the elements of its lists, or its objects themselves."""
    for record in _values(_Buffer(file, progress)):
        counted.lines += not record.wrapper
        if record.error is None and not _is_text(record.raw):
            record = Record(record.line, record.raw, error="not UTF-8")
        yield record


def _is_text(raw: str) -> bool:
    return raw.isascii() or not any("\udc80" <= char <= "\udcff" for char in raw)


def _values(buffer: _Buffer) -> Iterator[Record]:
    while char := buffer.peek():
        if char == "[":
            buffer.advance(buffer.pos + 1)
            yield from _elements(buffer, None)
        elif char == "{":
            yield from _object(buffer)
        elif char == ",":
            buffer.advance(buffer.pos + 1)
        else:
            yield _element(buffer, None)


def _elements(buffer: _Buffer, section: str | None) -> Iterator[Record]:
    while char := buffer.peek():
        if char == "]":
            buffer.advance(buffer.pos + 1)
            return
        if char == ",":
            buffer.advance(buffer.pos + 1)
        else:
            yield _element(buffer, section)
    if not buffer.cut_off:
        buffer.cut_off = True
        yield Record(buffer.line, "", error=_CUT_OFF.format("a list"))


def _element(buffer: _Buffer, section: str | None) -> Record:
    line = buffer.line
    try:
        value, raw = buffer.value()
    except _Broken as error:
        return Record(line, buffer.skip_broken(), error=str(error))
    return Record(line, raw, value, section=section)


def _object(buffer: _Buffer) -> Iterator[Record]:
    """One object of the top level: its sections element by element, all else as one record."""
    line, rest, is_graph = buffer.line, {}, False
    buffer.advance(buffer.pos + 1)
    try:
        while (char := buffer.peek()) != "}":
            if char == ",":
                buffer.advance(buffer.pos + 1)
                continue
            if char != '"':
                raise _Broken(
                    "not JSON: expecting a key"
                    if char
                    else "the file ends inside an object: cut off"
                )
            key = str(buffer.value()[0])
            if buffer.peek() != ":":
                raise _Broken("not JSON: expecting ':'")
            buffer.advance(buffer.pos + 1)
            if key in SECTIONS and buffer.peek() == "[":
                is_graph = True
                buffer.advance(buffer.pos + 1)
                yield from _elements(buffer, key)
            else:
                buffer.peek()
                rest[key] = buffer.value()[0]
        buffer.advance(buffer.pos + 1)
    except _Broken as error:
        if not buffer.cut_off:
            start = json.dumps(rest, ensure_ascii=False)[:-1] if rest else ""
            # an object where a key should be: this one was cut off, and the next begins
            skipped = "" if char == "{" else buffer.skip_broken()
            yield Record(buffer.line, start + skipped, error=str(error))
            return
    if rest or not is_graph:
        raw = json.dumps(rest, ensure_ascii=False)
        yield Record(line, raw, rest, section=WRAPPER if is_graph else None)
