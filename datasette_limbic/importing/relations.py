"""Creating relations, or merging them with those of the same ends and type."""

from __future__ import annotations

from typing import Any

from .baseline import Baseline
from .entities import earliest
from .links import Staging
from .summary import FileSummary

# Being part of something is no activity: a split must not make its parts look fresh.
STRUCTURAL = ("contiene", "parte_de")
_BATCH = 2000
# What the source says of one relation in several lines, once live and once ended.
_BOTH = 2

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
_KEEP = f"""
insert into _limbic_source_relations
  (source_id, from_entity, to_entity, relation_type, import_id, ended)
select source_id, from_entity, to_entity, relation_type, max(import_id),
  iif(min(ended) <> max(ended), {_BOTH}, max(ended))
from temp._limbic_import_asserted group by 1, 2, 3, 4
on conflict do update set import_id = excluded.import_id, ended = excluded.ended
"""


def settle_relations(
    staging: Staging, files: dict[int, FileSummary], baselines: dict[int, Baseline]
) -> None:
    """Write all staged relations in the order of the files.

    A relation that ended here and is asserted by a source anew is reopened; one that the source
    asserted before already stays as it is here, ended or deleted.
    """
    conn, entities = staging.conn, staging.entities
    conn.execute(
        "create temp table _limbic_import_asserted"
        "(source_id, from_entity, to_entity, relation_type, import_id, ended)"
    )
    changed: dict[int, tuple[Any, ...]] = {}
    asserted: list[tuple[Any, ...]] = []
    for row in conn.execute(_STAGED):
        import_id, line, source, target, from_id, to_id, kind, *given, raw = row
        file, base = files[import_id], baselines[import_id]
        counts = file.relations
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
        asserted.append((base.source_id, from_id, to_id, kind, import_id, given[2] is not None))
        found = _find(staging, from_id, to_id, kind)
        if found is None and was is not None and not base.restore:
            counts.removed_here += 1
        elif found is None:
            counts.created += 1
            _insert(staging, from_id, to_id, kind, given)
            entities.stale.append(("entities", from_id))
        else:
            relation_id, *stored = found
            stored = list(changed.get(relation_id, (None, *stored))[1:])
            same = was is not None and was in (_BOTH, given[2] is not None) and not base.restore
            merged, reopened = _merge(stored, given, keep_end=same)
            counts.reopened += reopened
            counts.merged += not reopened
            counts.updated += merged != stored
            changed[relation_id] = (from_id, *merged)
            if merged == list(found[1:]):
                del changed[relation_id]
        if kind not in STRUCTURAL and given[0]:
            entities.times.append((from_id, None, given[0]))
            entities.times.append((to_id, None, given[0]))
        if len(entities.times) + len(entities.stale) > _BATCH:
            entities.flush()
        if len(asserted) > _BATCH:
            _note(staging, asserted)
    _note(staging, asserted)
    for relation_id, (from_id, *values) in changed.items():
        conn.execute(
            "update relations set created_at = ?, valid_from = ?, valid_to = ?, context = ?"
            " where id = ?",
            [*values, relation_id],
        )
        entities.stale.append(("entities", from_id))
    conn.execute(_KEEP)


def gone(base: Baseline) -> int:
    """How many relations an earlier import of this source had, and this one did not."""
    row = base.conn.execute(
        "select count(*) from _limbic_source_relations where source_id = ? and import_id < ?",
        [base.source_id, base.import_id],
    ).fetchone()
    return int(row[0])


def _before(base: Baseline, from_id: int, to_id: int, kind: str) -> int | None:
    """Whether an earlier import had the relation: 0 live, 1 ended, 2 both; None: not at all."""
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
        "select id, created_at, valid_from, valid_to, context from relations"
        " where from_entity = ? and to_entity = ? and relation_type = ?",
        [from_id, to_id, kind],
    ).fetchone()
    return None if row is None else tuple(row)


def _insert(staging: Staging, from_id: int, to_id: int, kind: str, given: list[Any]) -> None:
    staging.conn.execute(
        "insert into relations(from_entity, to_entity, relation_type,"
        " created_at, valid_from, valid_to, context) values (?, ?, ?, ?, ?, ?, ?)",
        [from_id, to_id, kind, *given],
    )


def _merge(
    stored: list[str | None], given: list[str | None], *, keep_end: bool
) -> tuple[list[str | None], bool]:
    """[created_at, valid_from, valid_to, context] of both, and whether it is reopened."""
    created = earliest(stored[0], given[0])
    start = stored[1] if stored[1] is not None else given[1]
    context = stored[3] if stored[3] is not None else given[3]
    if keep_end:
        return [created, start, stored[2], context], False
    reopened = stored[2] is not None and given[2] is None
    end = None if reopened else stored[2] if stored[2] is not None else given[2]
    return [created, start, end, context], reopened
