"""What an import left out: rejects by line, and the kinds of reasons among them."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from datasette.utils.sqlite import sqlite3

PAGE = 100
MAX_KEPT = 10_000  # of a file, by an import
MAX_REASONS = 200
MAX_KIND = 200
MAX_REASON = 2000
MAX_RAW = 10_000

# What differs between two reasons of one kind: texts in quotation marks, numbers.
_ASIDE = re.compile(
    r"""(?<!\w)'(?:[^'\\]|\\.?)*(?:'|\Z) | (?<!\w)"(?:[^"\\]|\\.?)*(?:"|\Z)
      | (?<![\w+-])-?\d+(?:[.,]\d+)*(?!\w)""",
    re.VERBOSE | re.DOTALL,
)
_TAIL = re.compile(r"(: keys |\btime: ).*", re.DOTALL)


class Reject(NamedTuple):
    """One reject, without its text."""

    kind: str
    reason: str
    line: Any
    id: int


def rejects(
    conn: sqlite3.Connection, import_id: int, *, page: int = 1, reason: str | None = None
) -> dict[str, Any]:
    """Rejects of an import by line, 100 a page, and the kinds of all their reasons.

    ``reason``, a kind or the reason of any reject, leaves those of that kind.
    """
    found = _by_line(conn, import_id)
    wanted = None if reason is None else {reason, reason_kind(reason)}
    ids = [one.id for one in found if wanted is None or one.kind in wanted]
    reasons = _reasons(found)
    return {
        "reasons": reasons[:MAX_REASONS],
        "reason_count": len(reasons),
        "reason": reason,
        "rejects": _rows(conn, ids[(page - 1) * PAGE : page * PAGE]),
        "count": len(ids),
        "page": page,
        "pages": max(1, -(-len(ids) // PAGE)),
    }


def reason_kind(reason: str) -> str:
    """What reasons of one kind have in common: ``no entity named 'Ana'`` → ``no entity named …``.

    Quoted texts, numbers and lists of keys are put aside.
    """
    text = " ".join(_TAIL.sub(r"\1…", _ASIDE.sub("…", reason)).split())
    text = "; ".join(dict.fromkeys(text.split("; "))) or "no reason given"
    return text if len(text) <= MAX_KIND else text[: MAX_KIND - 1] + "…"


def _by_line(conn: sqlite3.Connection, import_id: int) -> list[Reject]:
    known: dict[str, str] = {}
    found = []
    for reject_id, line, reason in conn.execute(
        f"select id, line, substr(reason, 1, {MAX_REASON}) from limbic_import_rejects"
        " where import_id = ? order by line, id",
        [import_id],
    ):
        text = _text(reason)
        kind = known.get(text)
        if kind is None:
            kind = known[text] = reason_kind(text)
        found.append(Reject(kind, text, line, reject_id))
    return found


def _reasons(rejected: list[Reject]) -> list[dict[str, Any]]:
    """Kinds of reasons with their counts, the most frequent first."""
    found: dict[str, dict[str, Any]] = {}
    for one in rejected:
        entry = found.setdefault(
            one.kind,
            {"reason": one.kind, "count": 0, "first_line": one.line, "example": one.reason},
        )
        entry["count"] += 1
    return sorted(found.values(), key=lambda entry: -entry["count"])


def _rows(conn: sqlite3.Connection, ids: list[int]) -> list[dict[str, Any]]:
    rows = {
        row[0]: {"id": row[0], "line": row[1], "reason": row[2], "raw": row[3]}
        for row in conn.execute(
            f"select id, line, substr(reason, 1, {MAX_REASON}), substr(raw, 1, {MAX_RAW})"
            " from limbic_import_rejects where id in (select value from json_each(?))",
            [json.dumps(ids)],
        )
    }
    return [rows[i] for i in ids if i in rows]


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
