"""Creating relations, or merging them with those of the same ends and type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..schema import SPLIT_RELATIONS
from .activity import earliest
from .baseline import Baseline
from .links import Staging
from .summary import FileSummary, RelationCounts

_BATCH = 2000

_STAGED = """
select s.import_id, s.line, s.source, s.target,
  iif(kf.key is null, f.id, coalesce(kf.entity_id, -1)),
  iif(kt.key is null, t.id, coalesce(kt.entity_id, -1)),
  s.relation_type, s.created_at, s.valid_from, s.valid_to, s.context, s.raw
from temp._limbic_import_relations s
left join temp._limbic_import_keys kf on kf.import_id = s.import_id and kf.key = s.source
left join temp._limbic_import_keys kt on kt.import_id = s.import_id and kt.key = s.target
left join entities f on f.name = s.source
left join entities t on t.name = s.target
order by s.seq
"""
_COLUMNS = (
    "select id, from_entity, to_entity, created_at, valid_from, valid_to, context from relations"
)
# Of several lines on one relation, the last one counts: SQLite takes the row of the maximum.
_KEEP = """
insert into _limbic_source_relations
  (source_id, from_entity, to_entity, relation_type, import_id, ended)
select source_id, from_entity, to_entity, relation_type, import_id, ended from (
  select *, max(rowid) from temp._limbic_import_asserted
  group by source_id, from_entity, to_entity, relation_type)
where true
on conflict(source_id, from_entity, to_entity, relation_type)
  do update set import_id = excluded.import_id, ended = excluded.ended
"""


@dataclass
class _Change:
    """What becomes of a relation that is here: its columns in the database, before this import,
    and now."""

    import_id: int
    from_id: int
    stored: list[str | None]
    here: list[str | None]
    now: list[str | None]

    @property
    def is_update(self) -> bool:
        return self.now != self.here

    @property
    def reopens(self) -> bool:
        return self.here[2] is not None and self.now[2] is None


def settle_relations(
    staging: Staging, files: dict[int, FileSummary], baselines: dict[int, Baseline]
) -> None:
    """Write all staged relations in the order of the files.

    A relation that ended here and is asserted by a source anew is reopened; one that the source
    asserted before already stays as it is here, ended or deleted.
    """
    conn, entities = staging.conn, staging.entities
    moved = entities.moved
    conn.execute(
        "create temp table _limbic_import_asserted"
        "(source_id, from_entity, to_entity, relation_type, import_id, ended)"
    )
    changed: dict[int, _Change] = {}
    asserted: list[tuple[Any, ...]] = []
    for row in conn.execute(_STAGED):
        import_id, line, source, target, from_id, to_id, kind, *given, raw = row
        file, base = files[import_id], baselines[import_id]
        counts = file.relations
        if from_id is None:
            from_id = staging.resolve(import_id, source)
        if to_id is None:
            to_id = staging.resolve(import_id, target)
        if from_id is None or to_id is None:
            counts.dangling += 1
            gone = [n for n, i in ((source, from_id), (target, to_id)) if i is None]
            reason = "; ".join(staging.unknown(name) for name in dict.fromkeys(gone))
            staging.rejects.add(import_id, file, line, reason, raw)
            continue
        if from_id < 0 or to_id < 0:
            counts.removed_here += 1
            continue
        was = _before(base, from_id, to_id, kind)
        has_ended = given[2] is not None
        base.changed = base.changed or was != has_ended
        asserted.append((base.source_id, from_id, to_id, kind, import_id, has_ended))
        found = _find(staging, from_id, to_id, kind)
        ends = from_id, to_id
        if moved.touched and not moved.touched.isdisjoint(ends):
            if found is None:
                found = _by_id(staging, moved.links.get((from_id, to_id, kind)))
            if found is None:
                ends = moved.ends(from_id, to_id)
                found = _find(staging, *ends, kind)
        if found is None and was is not None and not base.restore:
            counts.removed_here += 1
        elif found is None:
            counts.created += 1
            _insert(staging, *ends, kind, given)
            entities.stale.append(("entities", ends[0]))
            if ends != (from_id, to_id):
                at = int(ends[0] == from_id)
                file.send_on((source, target)[at], entities.name_of(ends[at]), 1)
        else:
            relation_id, *ends_here, created, start, end, context = found
            stored = [created, start, end, context]
            ends = ends_here[0], ends_here[1]
            counts.moved += ends != (from_id, to_id)
            last = changed.get(relation_id)
            here = now = stored if last is None else last.now
            if last is not None and last.import_id == import_id:
                here = last.here
                _count(counts, last, -1)
            now = _merge(here, now, given, was)
            change = _Change(import_id, ends[0], stored, here, now)
            _count(counts, change, 1)
            counts.merged += 1
            if last is not None or change.is_update:
                changed[relation_id] = change
        if kind not in SPLIT_RELATIONS and given[0]:
            entities.activity.note(ends[0], given[0])
            entities.activity.note(ends[1], given[0])
        if len(entities.activity.waiting) + len(entities.stale) > _BATCH:
            entities.flush()
        if len(asserted) > _BATCH:
            _note(staging, asserted)
    _note(staging, asserted)
    for relation_id, change in changed.items():
        if change.now == change.stored:
            continue
        conn.execute(
            "update relations set created_at = ?, valid_from = ?, valid_to = ?, context = ?"
            " where id = ?",
            [*change.now, relation_id],
        )
        entities.stale.append(("entities", change.from_id))
    conn.execute(_KEEP)


def gone(base: Baseline) -> int:
    """How many relations that are here an earlier import of this source had, and this one did
    not."""
    row = base.conn.execute(
        "select count(*) from _limbic_source_relations s join relations r"
        " on r.from_entity = s.from_entity and r.to_entity = s.to_entity"
        " and r.relation_type = s.relation_type where s.source_id = ? and s.import_id < ?",
        [base.source_id, base.import_id],
    ).fetchone()
    return int(row[0]) + _gone_but_moved(base)


def _gone_but_moved(base: Baseline) -> int:
    """The same of relations that have other ends by now."""
    if not base.moved.links:
        return 0
    return sum(
        (source, target, kind) in base.moved.links
        for source, target, kind in base.conn.execute(
            "select s.from_entity, s.to_entity, s.relation_type from _limbic_source_relations s"
            " where s.source_id = ? and s.import_id < ? and not exists (select 1 from relations r"
            " where r.from_entity = s.from_entity and r.to_entity = s.to_entity"
            " and r.relation_type = s.relation_type)",
            [base.source_id, base.import_id],
        )
    )


def _before(base: Baseline, from_id: int, to_id: int, kind: str) -> int | None:
    """Whether an earlier import had the relation: 0 live, 1 ended; None: not at all."""
    if not base.known:
        return None
    row = base.conn.execute(
        "select ended from _limbic_source_relations where source_id = ?"
        " and from_entity = ? and to_entity = ? and relation_type = ?",
        [base.source_id, from_id, to_id, kind],
    ).fetchone()
    return None if row is None else int(row[0])


def _note(staging: Staging, asserted: list[tuple[Any, ...]]) -> None:
    staging.conn.executemany(
        "insert into temp._limbic_import_asserted values (?, ?, ?, ?, ?, ?)", asserted
    )
    asserted.clear()


def _find(staging: Staging, from_id: int, to_id: int, kind: str) -> tuple[Any, ...] | None:
    row = staging.conn.execute(
        f"{_COLUMNS} where from_entity = ? and to_entity = ? and relation_type = ?",
        [from_id, to_id, kind],
    ).fetchone()
    return None if row is None else tuple(row)


def _by_id(staging: Staging, number: int | None) -> tuple[Any, ...] | None:
    if number is None:
        return None
    row = staging.conn.execute(f"{_COLUMNS} where id = ?", [number]).fetchone()
    return None if row is None else tuple(row)


def _insert(staging: Staging, from_id: int, to_id: int, kind: str, given: list[Any]) -> None:
    staging.conn.execute(
        "insert into relations(from_entity, to_entity, relation_type,"
        " created_at, valid_from, valid_to, context) values (?, ?, ?, ?, ?, ?, ?)",
        [from_id, to_id, kind, *given],
    )


def _count(counts: RelationCounts, change: _Change, sign: int) -> None:
    """Count the change, or take that back: of several lines of a source, the last one counts.

    A line is merged unless it reopens."""
    counts.updated += sign * change.is_update
    counts.reopened += sign * change.reopens
    counts.merged -= sign * change.reopens


def _merge(
    here: list[str | None], now: list[str | None], given: list[str | None], was: int | None
) -> list[str | None]:
    """[created_at, valid_from, valid_to, context] of both.

    ``now`` is ``here`` with what earlier lines of the same source said, ``was`` whether the
    source said before that it ended.
    """
    created = earliest(now[0], given[0])
    start = now[1] if now[1] is not None else given[1]
    context = now[3] if now[3] is not None else given[3]
    if was is None:
        end = None if given[2] is None else now[2] if now[2] is not None else given[2]
    elif was == (given[2] is not None):
        end = here[2]  # the source says what it said: what was done here stays
    else:
        end = None if given[2] is None else here[2] if here[2] is not None else given[2]
    return [created, start, end, context]
