"""How an insight was judged before it came up again: the column ``judged_before``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from datasette.utils.sqlite import sqlite3

from .model import material_of, read_evidence

JUDGEMENT = ("status", "judged_by", "judged_at")
JUDGED = (*JUDGEMENT, "title", "body", "confidence", "evidence_digest", "evidence")
"""What is kept of a judgement: itself, and what was shown."""


def read(text: Any) -> list[dict[str, Any]]:
    """Former judgements, the oldest first. What another program wrote there counts as none."""
    found = read_evidence(text)
    return [each for each in found if _whole(each)] if isinstance(found, list) else []


def _whole(each: Any) -> bool:
    return (
        isinstance(each, dict)
        and each.keys() >= set(JUDGED)
        and each["status"] in ("approved", "dismissed")
    )


def written(entries: list[dict[str, Any]]) -> str | None:
    """As the column keeps them."""
    return json.dumps(entries, ensure_ascii=False) if entries else None


def entry(row: Mapping[str, Any], now: str, what_changed: str, **more: Any) -> dict[str, Any]:
    """A judgement that is to be made again; ``row`` is the insight as it was judged."""
    judged = {column: row[column] for column in JUDGED}
    judged["evidence"] = read_evidence(row["evidence"])
    return {**judged, "raised_again_at": now, "what_changed": what_changed, **more}


def reopened(judged: Mapping[str, Any]) -> bool:
    """Whether a person took the judgement back, so that nothing else may bring it back."""
    return bool(judged.get("reopened"))


def material(judged: Mapping[str, Any]) -> dict[str, Any] | None:
    """What the judgement rested on."""
    return material_of(judged.get("evidence"))


def put_back(
    conn: sqlite3.Connection, insight: int, entries: list[dict[str, Any]], now: str
) -> None:
    """Let an insight stand as it was judged last; ``entries`` are all, and the last one goes."""
    last = entries[-1]
    conn.execute(
        f"update limbic_insights set {', '.join(f'{column} = ?' for column in JUDGED)},"
        " judged_before = ?, updated_at = ? where id = ?",
        [
            *(last[column] for column in JUDGED[:-1]),
            json.dumps(last["evidence"], ensure_ascii=False),
            written(entries[:-1]),
            now,
            insight,
        ],
    )
