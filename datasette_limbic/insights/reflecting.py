"""``reflect``: reports become a review queue, and what a person has judged stays judged.

Source: DDR-007, point 8 (title, body and confidence of what nobody has judged yet are refreshed),
and DDR-008 (proposals for a person in place of automatic archiving).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from datasette.utils.sqlite import sqlite3

from .. import report_settings, schema
from ..config import Settings, choice
from ..llm_store import transaction
from ..reports import keeping
from ..reports.entities import rows
from ..reports.known import why_unknown
from ..reports.lists import moment
from . import history, staging, succession
from .differences import what_changed
from .model import KINDS, Looking, is_ours, material_of, read_evidence

Progress = Callable[[int, int, str], None]
"""Called with (done, total, part): of "reports" in entities, of "insights" in kinds."""
COUNTED = ("added", "refreshed", "unchanged", "raised_again", "withdrawn", "left_judged")
_KEPT = frozenset(("contradiction", "duplicate", "split"))
"""Kinds that cannot be told before observations were compared."""

_SET = ", ".join(staging.COLUMNS)
_DIFFERS = " or ".join(f"r.{column} is not i.{column}" for column in staging.COLUMNS)
_NEW = f"""
insert into limbic_insights(key, {_SET}, created_at, updated_at)
select r.key, {", ".join("r." + c for c in staging.COLUMNS)}, :now, :now
from temp.limbic_raised r where not exists (
  select 1 from limbic_insights i where i.key = r.key
) order by r.seq
"""
_STANDING = f"""
select r.kind as kind, case
    when i.id is null then 'added'
    when i.status <> 'pending' then 'judged'
    when {_DIFFERS} then 'refreshed' else 'unchanged' end as state, count(*) as count
from temp.limbic_raised r left join limbic_insights i on i.key = r.key group by 1, 2
"""
_REFRESH = f"""
update limbic_insights set updated_at = :now, ({_SET}) = (
  select {_SET} from temp.limbic_raised r where r.key = limbic_insights.key
) where status = 'pending' and id in (
  select i.id from temp.limbic_raised r join limbic_insights i on i.key = r.key where {_DIFFERS}
)
"""
# Judged on other evidence than there is now.
_OTHERWISE = """
select i.*, r.kind as raised_kind, r.evidence as raised from temp.limbic_raised r
join limbic_insights i on i.key = r.key
where i.status <> 'pending' and i.evidence_digest is not r.evidence_digest order by i.id
"""
_AGAIN = f"""
update limbic_insights set status = 'pending', judged_by = null, judged_at = null,
  judged_before = :judged_before, updated_at = :now, ({_SET}) = (
    select {_SET} from temp.limbic_raised r where r.key = limbic_insights.key
  ) where id = :id
"""
# Raised again once, and perhaps as it was judged by now.
_ONCE_JUDGED = """
select i.id, r.kind, i.judged_before, r.evidence as raised from temp.limbic_raised r
join limbic_insights i on i.key = r.key
where i.status = 'pending' and i.judged_before is not null order by i.id
"""
_NOT_RAISED = """
select i.id, i.key, i.kind, i.evidence, i.evidence_digest, i.judged_before from limbic_insights i
where i.status = 'pending' and i.kind = ? and not exists (
  select 1 from temp.limbic_raised r where r.key = i.key
) order by i.id
"""
_FORGET = (
    "update limbic_changes set insight_id = null"
    " where insight_id in (select value from json_each(?))",
    "delete from limbic_insights where id in (select value from json_each(?))",
)
_LEFT = "select count(*) from limbic_insights where status <> 'pending' and kind = ? and key like ?"


def reflect(
    conn: sqlite3.Connection,
    *,
    settings: Settings | None = None,
    now: Any = None,
    kinds: Iterable[str] | None = None,
    keep: bool = True,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Turn what the reports find into insights that wait for a person's decision.

    ``keep`` looks again at what changed first, as ``sync`` does; without it what is kept is
    taken, and what is not known is left alone. ``kinds`` narrows it to some of ``KINDS``. ``now``
    is any time that ``times.parse_time`` reads. Nothing of the graph is changed.

    One transaction: new insights are added, pending ones refreshed where something differs, and
    pending ones that no report raises any more withdrawn. Approved and dismissed ones stay as
    they were judged. Where their evidence is another now they are pending again, and
    ``judged_before`` says how they were judged on what, and what changed; should the evidence
    turn back to that, so does the judgement. What an action gave other ids is found again, see
    ``succession``. Insights that an import brought are left alone.

    The answer: ``kinds``, by kind the counts of ``COUNTED`` (``left_judged`` are all of that kind
    that stay as judged); ``total``, their sums; ``kept``, what looking again did, or None;
    ``left_out``, kinds that cannot be told yet with the reason; ``pending``, how many wait for a
    decision, of all kinds; ``now`` and ``seconds``.

    Raises NotAMemory, BadParameter (a kind or a time), and sqlite3.Error as it comes, with
    everything as before.
    """
    started = time.monotonic()
    schema.require_memory(conn)
    wanted = _wanted(kinds)
    at = moment(now)
    if not (schema.has_reports(conn) and schema.has_changes(conn)):
        schema.init(conn)
    settings = settings or Settings()
    kept = keeping.keep(conn, settings=settings, progress=progress) if keep else None
    unknown = why_unknown(keeping.state(conn))
    left_out = {kind: unknown for kind in wanted if unknown and kind in _KEPT}
    looked_at = [kind for kind in wanted if kind not in left_out]
    here = report_settings.read(conn)
    look = Looking(at, here.stale_days, here.stale_max_access, settings)
    with staging.table(conn):
        before = _version(conn)
        staging.fill(conn, looked_at, look, _told(progress, len(looked_at)))
        # found without keeping others from writing; anew where one of them did
        with transaction(conn):
            if _version(conn) != before:
                staging.fill(conn, looked_at, look)
            counts = _settle(conn, looked_at, at)
            pending = conn.execute(
                "select count(*) from limbic_insights where status = 'pending'"
            ).fetchone()[0]
    return {
        "kinds": counts,
        "total": {name: sum(of[name] for of in counts.values()) for name in COUNTED},
        "pending": pending,
        "left_out": left_out,
        "kept": kept.as_dict() if kept else None,
        "now": at,
        "seconds": round(time.monotonic() - started, 3),
    }


def _wanted(kinds: Iterable[str] | None) -> list[str]:
    """Kinds in the order of the queue, each once."""
    if kinds is None:
        return list(KINDS)
    asked = {choice("kind", kind, KINDS) for kind in ([kinds] if isinstance(kinds, str) else kinds)}
    return [kind for kind in KINDS if kind in asked]


def _version(conn: sqlite3.Connection) -> int:
    """Another number once another connection has changed the file."""
    return int(conn.execute("pragma data_version").fetchone()[0])


def _told(progress: Progress | None, total: int) -> Callable[[str], None] | None:
    if progress is None:
        return None
    done = iter(range(1, total + 1))
    return lambda kind: progress(next(done), total, "insights")


def _settle(conn: sqlite3.Connection, kinds: list[str], now: str) -> dict[str, dict[str, int]]:
    """Bring the queue in line with ``temp.limbic_raised``; inside a write transaction."""
    counts = {kind: dict.fromkeys(COUNTED, 0) for kind in kinds}
    succession.make_way(conn)
    succession.take_over(conn, kinds)
    back = [*_turned_back(conn)]
    for kind, insight, entries in back:
        history.put_back(conn, insight, entries, now)
        counts[kind]["withdrawn"] += 1
    again = [*_raised_again(conn, now)]
    for kind, state, count in conn.execute(_STANDING).fetchall():
        if state in counts[kind]:
            counts[kind][state] = count
    conn.execute(_REFRESH, {"now": now})
    conn.execute(_NEW, {"now": now})
    for kind, insight, entries in again:
        counts[kind]["raised_again"] += 1
        conn.execute(_AGAIN, {"id": insight, "judged_before": history.written(entries), "now": now})
    for kind in kinds:
        counts[kind]["withdrawn"] += _withdraw(conn, kind, now)
        counts[kind]["left_judged"] = conn.execute(_LEFT, [kind, f"{kind}:%"]).fetchone()[0]
    return counts


def _raised_again(
    conn: sqlite3.Connection, now: str
) -> Iterator[tuple[str, int, list[dict[str, Any]]]]:
    """Judged insights whose evidence is another, each with the judgements that it had."""
    for row in rows(conn, _OTHERWISE):
        before = material_of(read_evidence(row["evidence"]))
        after = material_of(read_evidence(row["raised"]))
        dismissed = row["status"] == "dismissed"
        said = what_changed(row["raised_kind"], before, after or {}, dismissed=dismissed)
        if said is not None:
            judged = history.read(row["judged_before"])
            yield row["raised_kind"], row["id"], [*judged, history.entry(row, now, said)]


def _turned_back(conn: sqlite3.Connection) -> Iterator[tuple[str, int, list[dict[str, Any]]]]:
    """Pending insights that rest again on what they were judged by."""
    for row in rows(conn, _ONCE_JUDGED):
        judged = history.read(row["judged_before"])
        after = material_of(read_evidence(row["raised"]))
        if (
            judged
            and not history.reopened(judged[-1])
            and what_changed(
                row["kind"],
                history.material(judged[-1]),
                after or {},
                dismissed=judged[-1]["status"] == "dismissed",
            )
            is None
        ):
            yield row["kind"], row["id"], judged


def _withdraw(conn: sqlite3.Connection, kind: str, now: str) -> int:
    """Take away what waits for no decision any more: it goes, or stands as it was judged before."""
    gone: list[int] = []
    count = 0
    for row in rows(conn, _NOT_RAISED, [kind]):
        if not is_ours(row["key"], kind, row["evidence_digest"], read_evidence(row["evidence"])):
            continue  # an import brought it
        judged = history.read(row["judged_before"])
        count += 1
        if judged and not history.reopened(judged[-1]):
            history.put_back(conn, row["id"], judged, now)
        else:
            gone.append(row["id"])
    # as the table has it, which counts on no connection without foreign keys
    for text in _FORGET:
        conn.execute(text, [json.dumps(gone)])
    return count
