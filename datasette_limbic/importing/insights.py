"""Findings of the other program go to the review queue; what a person judged here stays."""

from __future__ import annotations

import json
from hashlib import blake2b

from .baseline import Baseline
from .items import Insight
from .links import REMOVED, Staging
from .source_state import digest
from .summary import FileSummary

_UPSERT = """
insert into limbic_insights(key, kind, entity_id, title, body, evidence, evidence_digest,
  confidence, status, judged_by, judged_at, created_at, updated_at)
values (:key, :kind, :entity_id, :title, :body, :evidence, :digest, :confidence, :status,
  :judged_by, :judged_at, coalesce(:created_at, :now), coalesce(:updated_at, :created_at, :now))
on conflict(key) do update set entity_id = excluded.entity_id, title = excluded.title,
  body = excluded.body,
  evidence = excluded.evidence, evidence_digest = excluded.evidence_digest,
  confidence = excluded.confidence, status = excluded.status, judged_by = excluded.judged_by,
  judged_at = excluded.judged_at, updated_at = excluded.updated_at
"""
_COMPARED = "title, body, evidence, confidence, status, judged_at"


# The row of a source's baseline that holds its insights: no entity has an empty name.
_KEY = ""
_WIDTH = 16


class _Told:
    """What a source said of insights: eight bytes for the key of each, and eight for the rest."""

    def __init__(self, base: Baseline) -> None:
        self.base = base
        row = base.conn.execute(
            "select observations from _limbic_source_entities where source_id = ? and key = ?",
            [base.source_id, _KEY],
        ).fetchone()
        blob = b"" if row is None else row[0]
        self.told = {blob[i : i + 8]: blob[i + 8 : i + _WIDTH] for i in range(0, len(blob), _WIDTH)}
        self.is_new = False

    def tell(self, insight: Insight) -> tuple[bool, bool]:
        """Whether the source had the insight before, and whether it said the same of it."""
        key, said = digest(insight.key)[:8], digest(json.dumps(insight))[:8]
        was = self.told.get(key)
        self.told[key] = said
        self.is_new = self.is_new or was != said
        return was is not None, was == said

    def keep(self) -> None:
        """Write it down, where it is another than before. None is forgotten."""
        if not self.is_new:
            return
        self.base.changed = True
        self.base.conn.execute(
            "insert into _limbic_source_entities"
            " (source_id, key, entity_id, import_id, observations) values (?, ?, 0, ?, ?)"
            " on conflict(source_id, key) do update set observations = excluded.observations",
            [
                self.base.source_id,
                _KEY,
                self.base.import_id,
                b"".join(key + said for key, said in sorted(self.told.items())),
            ],
        )


def settle_insights(
    staging: Staging, files: dict[int, FileSummary], baselines: dict[int, Baseline], now: str
) -> None:
    """Write the staged insights: new ones are added, pending ones refreshed with what is new."""
    every: dict[int, _Told] = {}
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
        if base.source_id not in every:
            every[base.source_id] = _Told(base)
        was_there, is_same = every[base.source_id].tell(insight)
        if stored is None and was_there and not base.restore:
            counts.removed_here += 1
            continue
        if stored is not None and (is_same or stored[4] != "pending" or tuple(stored) == given):
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
    for told in every.values():
        told.keep()
