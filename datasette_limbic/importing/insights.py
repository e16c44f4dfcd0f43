"""Findings of the other program go to the review queue; what a person judged here stays."""

from __future__ import annotations

import json
from hashlib import blake2b

from .baseline import Baseline
from .items import Insight
from .links import REMOVED, Staging
from .summary import FileSummary

_UPSERT = """
insert into limbic_insights(key, kind, entity_id, title, body, evidence, evidence_digest,
  confidence, status, judged_by, judged_at, created_at, updated_at)
values (:key, :kind, :entity_id, :title, :body, :evidence, :digest, :confidence, :status,
  :judged_by, :judged_at, coalesce(:created_at, :now), coalesce(:updated_at, :created_at, :now))
on conflict(key) do update set title = excluded.title, body = excluded.body,
  evidence = excluded.evidence, evidence_digest = excluded.evidence_digest,
  confidence = excluded.confidence, status = excluded.status, judged_by = excluded.judged_by,
  judged_at = excluded.judged_at, updated_at = excluded.updated_at
"""
_COMPARED = "title, body, evidence, confidence, status, judged_at"


def settle_insights(
    staging: Staging, files: dict[int, FileSummary], baselines: dict[int, Baseline], now: str
) -> None:
    """Write the staged insights: new ones are added, pending ones refreshed."""
    for import_id, line, row, raw in staging.conn.execute(
        "select import_id, line, row, raw from temp._limbic_import_uses where kind = ?"
        " order by seq",
        [Insight.__name__],
    ):
        insight = Insight(*json.loads(row))
        file, base = files[import_id], baselines[import_id]
        counts = file.insights
        counts.rows += 1
        about = insight.entity
        entity_id = None if about is None else staging.resolve(import_id, about)
        if about is not None and entity_id is None:
            counts.dangling += 1
            staging.rejects.add(import_id, file, line, staging.unknown(about), raw)
            continue
        if entity_id == REMOVED:
            counts.removed_here += 1
            continue
        stored = staging.conn.execute(
            f"select {_COMPARED} from limbic_insights where key = ?", [insight.key]
        ).fetchone()
        given = (
            insight.title,
            insight.body,
            insight.evidence,
            insight.confidence,
            insight.status,
            insight.judged_at,
        )
        state = base.state(about) if about is not None and base.known else None
        if stored is None and state and state.before and not base.restore:
            counts.removed_here += 1
            continue
        if stored is not None and (stored[4] != "pending" or tuple(stored) == given):
            counts.already_there += 1
            continue
        counts.added += stored is None
        counts.updated += stored is not None
        staging.conn.execute(
            _UPSERT,
            {
                **insight._asdict(),
                "entity_id": entity_id,
                "digest": blake2b(insight.evidence.encode(), digest_size=16).hexdigest(),
                "now": now,
            },
        )
