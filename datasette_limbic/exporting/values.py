"""Values of SQLite as JSON, and back, without loss.

JSON has no bytes, no infinities, and no text that is not Unicode; SQLite has all three, since
any program may write. Blobs are written as sqlite-utils and Datasette write them.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Sequence
from typing import Any

NESTED = "a list or an object where a column has one value"


class RawText(bytes):
    """Text of SQLite's that is not valid UTF-8: its bytes."""


def read_text(raw: bytes) -> str | RawText:
    """A ``text_factory``: Python's own raises where text is not UTF-8."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return RawText(raw)


def _encode_other(value: Any) -> dict[str, Any]:
    if not isinstance(value, bytes):
        raise TypeError(f"SQLite gave a {type(value).__name__}")
    found: dict[str, Any] = {"$base64": True}
    if isinstance(value, RawText):
        found["text"] = True
    found["encoded"] = base64.b64encode(value).decode("ascii")
    return found


# Shared by all rows: making one takes longer than encoding a row.
dumps = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=_encode_other).encode


def encode_row(names: Sequence[str], row: Sequence[Any]) -> str:
    """One row as a JSON object with the columns ``names``."""
    try:
        return dumps(dict(zip(names, row, strict=True)))
    except ValueError:  # an infinity
        return dumps(dict(zip(names, map(finite, row), strict=True)))


def finite(value: Any) -> Any:
    """An infinity as JSON can have it; any other value as it is."""
    if isinstance(value, float) and math.isinf(value):
        return {"$real": "Infinity" if value > 0 else "-Infinity"}
    return value


def decode(value: Any) -> Any:
    """A value of a row's JSON as SQLite takes it. Raises ValueError where it is none."""
    if isinstance(value, dict):
        if value.get("$base64") is True:
            try:
                raw = base64.b64decode(value.get("encoded", ""), validate=True)
            except (TypeError, ValueError) as error:
                raise ValueError(f"base64 that cannot be read: {error}") from error
            return RawText(raw) if value.get("text") else raw
        if value.get("$real") in ("Infinity", "-Infinity"):
            return float(value["$real"])
    if isinstance(value, (dict, list)):
        raise ValueError(NESTED)
    return value
