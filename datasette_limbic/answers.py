"""Answers as JSON and templates can take them, whoever prints them."""

from __future__ import annotations

import math
from typing import Any

_PLAIN = frozenset((str, int, bool))


def plain(value: Any) -> Any:
    """``value`` without what JSON and templates cannot take.

    SQLite lets any program put bytes into a text column and infinity into a number.
    """
    if value is None or type(value) in _PLAIN:  # nearly all, and there may be many
        return value
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).decode("utf-8", "replace")
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def public(data: dict[str, Any]) -> dict[str, Any]:
    """What JSON shows of a handler's dict: keys that start with an underscore are for pages."""
    return {"ok": True, **{k: v for k, v in data.items() if not k.startswith("_")}}
