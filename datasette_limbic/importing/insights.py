"""Findings of the other program go to the review queue; what a person judged here stays.

Those that another memory of ours raised (in a full export) have keys of ids that mean something
else here, so they are kept under keys that no report of this memory makes, and neither overwrite
ours nor are overwritten. Only a judgement of the very same finding is taken over: that of a copy
of this memory.
"""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any

from datasette.utils.sqlite import sqlite3

from ..insights import model, notes, succession
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
        if base.source_id not in every:
            every[base.source_id] = _Told(base)
        was_there, is_same = every[base.source_id].tell(insight)
        if model.is_key(insight.key):
            own = _own(staging.conn, insight, entity_id)
            if own is not None:
                judged = not is_same and _judge(staging.conn, own, insight)
                counts.updated += judged
                counts.already_there += not judged
                continue
            insight = _as_imported(staging.conn, insight, entity_id)
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


_Row = dict[str, Any]


def _row(conn: sqlite3.Connection, key: str) -> _Row | None:
    cursor = conn.execute(
        "select id, kind, entity_id, evidence, evidence_digest, status, created_at"
        " from limbic_insights where key = ?",
        [key],
    )
    found = cursor.fetchone()
    if found is None:
        return None
    return dict(zip([column[0] for column in cursor.description], tuple(found), strict=True))


def _own(conn: sqlite3.Connection, insight: Insight, entity_id: int | None) -> _Row | None:
    """The finding of this memory that the given one is: as it stands, or as it stood earlier."""
    row = _row(conn, insight.key)
    if row is None or (row["kind"], row["entity_id"]) != (insight.kind, entity_id):
        return None
    evidence = model.read_evidence(row["evidence"])
    if not model.is_ours(insight.key, row["kind"], row["evidence_digest"], evidence):
        return None
    is_it = row["created_at"] == insight.created_at or _is_same(row, insight)
    return row if is_it else None


def _is_same(row: _Row, insight: Insight) -> bool:
    """Whether both rest on the same, of entities of the same names."""
    ours, theirs = model.read_evidence(row["evidence"]), model.read_evidence(insight.evidence)
    material = model.material_of(theirs)
    return (
        material is not None
        and model.digest_of(material) == row["evidence_digest"]
        and _named(ours.get("facts")) == _named(theirs.get("facts"))
    )


def _named(facts: Any) -> set[tuple[str, str]]:
    """Every id with its name, wherever it stands among the facts."""
    if isinstance(facts, list):
        return {each for fact in facts for each in _named(fact)}
    if not isinstance(facts, dict):
        return set()
    own = {(str(facts["id"]), str(facts["name"]))} if facts.keys() >= {"id", "name"} else set()
    return own.union(*map(_named, facts.values()))


def _judge(conn: sqlite3.Connection, row: _Row, insight: Insight) -> bool:
    """Let ours, which waits, stand as it was judged there on the same; whether that was done."""
    if row["status"] != "pending" or insight.status == "pending" or not _is_same(row, insight):
        return False
    note = notes.note_of(model.read_evidence(insight.evidence))
    conn.execute(
        "update limbic_insights set status = ?, judged_by = ?, judged_at = ?, evidence = ?"
        " where id = ?",
        [
            insight.status,
            insight.judged_by,
            insight.judged_at,
            notes.noted(row["evidence"], note) if isinstance(note, str) else row["evidence"],
            row["id"],
        ],
    )
    return True


def _as_imported(conn: sqlite3.Connection, insight: Insight, entity_id: int | None) -> Insight:
    """The finding under a key that none of ours has; one that an earlier import put under such a
    key moves along."""
    key = model.imported_key(insight.key, insight.entity)
    row = _row(conn, insight.key)
    if row is not None and row["entity_id"] == entity_id and _row(conn, key) is None:
        evidence = model.read_evidence(row["evidence"])
        if not model.is_ours(insight.key, row["kind"], row["evidence_digest"], evidence):
            succession.rename_imported(conn, row["id"], insight.key, insight.entity)
    return insight._replace(key=key)
