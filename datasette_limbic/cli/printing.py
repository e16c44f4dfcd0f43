"""Texts of a memory on a terminal, which any program may have written."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

from ..text import cut, short, storable

# What a terminal obeys (C0, C1, DEL), what turns the direction of all that follows, what ends a
# line without being a newline, and halves of surrogate pairs, which cannot be written at all.
_OBEYED = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str) -> str:
    r"""``text`` with what a terminal would obey as an escape (``\x1b``); newlines stay."""
    return _OBEYED.sub(_escape, text)


def line(value: Any, most: int = 100) -> str:
    """A value on one line, cut to ``most`` characters, printable; None is empty."""
    return printable(short(value, most))


def quoted(name: Any, most: int = 80) -> str:
    """A name as error messages have it: in quotes, on one line, cut, printable."""
    return repr(cut(str("" if name is None else name), most))


def as_json(value: Any) -> str:
    """JSON for people and programs, every character readable but those a terminal would obey."""
    text = json.dumps(value, ensure_ascii=False, indent=2)
    # outside of strings JSON has only the newlines and spaces of its layout
    return _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def shell_word(text: str) -> str:
    """One word of a command line, quoted for a POSIX shell.

    One with characters that a terminal would obey is written as ``$'…'`` (bash, zsh, ksh, and
    POSIX since 2024), so that it can be shown and still says the same.
    """
    if "\n" not in text and not _OBEYED.search(text):
        return shlex.quote(text)
    escaped = "".join(
        _shell_escape(c) if c == "\n" or _OBEYED.match(c) else {"'": "\\'", "\\": "\\\\"}.get(c, c)
        for c in text
    )
    return f"$'{escaped}'"


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def _shell_escape(char: str) -> str:
    # Python's way of keeping a byte of an argument that is no UTF-8
    kept = "\udc80" <= char <= "\udcff"
    raw = char.encode("utf-8", "surrogateescape") if kept else storable(char).encode("utf-8")
    # octal bytes of three digits: no digit that follows can be taken for a part of them
    return "".join(f"\\{byte:03o}" for byte in raw)
