"""What of a memory wants a person's attention: ``consolidation_report``.

Marks and reports, changes nothing. Source: "Mantenimiento & Operaciones", "Reporte de
Consolidación"; contradictions and entities that approach their threshold come on top.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

from datasette.utils.sqlite import sqlite3

from .. import report_settings, schema, scoring, times
from ..answers import plain
from ..config import MAX_DAYS, Settings, choice, number
from ..errors import BadParameter
from . import keeping, lists, vectorless
from .fresh import fresh as looking_now
from .keeping import Progress
from .known import why_unknown
from .lists import Listing, with_type
from .queries import current

REPORT = "consolidation"
"""Its name in ``limbic_reviews``."""
CENTRAL_DEGREE = 3
"""Live neighbours from which a stale entity counts as central."""
COMPARED = ("split_candidates", "approaching", "contradictions")
"""Lists that are not known before observations were compared; flags may come from an import."""

_ACTIVE = "coalesce(a.access_count, 0) desc"
_ACCESS = "left join entity_access a on a.entity_id = q.entity_id"
LISTS = {
    "split_candidates": Listing(
        "limbic_split_candidates", "q.split_score desc, q.id", "q.status = 'split'"
    ),
    "approaching": Listing(
        "limbic_split_candidates", "q.split_score desc, q.id", "q.status = 'approaching'"
    ),
    "flagged_observations": Listing(
        "limbic_flagged_observations",
        "q.access_count desc, q.last_activity_at desc, q.entity_id, q.id",
    ),
    "stale_entities": Listing(
        "limbic_stale_entities",
        f"q.degree >= {CENTRAL_DEGREE}, q.degree > 0, q.stale_for_days desc, q.id",
        kept=False,
    ),
    "large_entities": Listing("limbic_large_entities", "q.size_ratio desc, q.id", kept=False),
    "contradictions": Listing(
        "limbic_similar_observations",
        f"{_ACTIVE}, q.entity_id, q.cosine desc, q.containment desc, q.earlier_id, q.later_id",
        "q.kind = 'contradiction'",
        _ACCESS,
    ),
}
"""The lists by name, in the documents' order and then ours."""

_PAIRS = {"duplicates": "duplicate", "contradictions": "contradiction", "worth_a_look": "look"}
_KINDS = Listing("limbic_similar_observations", "q.kind")
_SIZE = f"""select
(select count(*) from entities where archived_at is null),
(select count(*) from observations o join entities e on e.id = o.entity_id
  where e.archived_at is null and {current("o", ":now")})"""


def consolidation_report(
    conn: sqlite3.Connection,
    stale_days: float | None = None,
    *,
    settings: Settings | None = None,
    now: Any = None,
    fresh: bool = True,
    progress: Progress | None = None,
    size: int = lists.SIZE,
    page: int = 1,
    only: str | None = None,
    reviews: bool = True,
) -> dict[str, Any]:
    """Counts and lists of what deserves attention. Reads only, and marks nothing.

    ``stale_days`` is a number of days from 0 (None: the setting, 90 unless changed). ``fresh``
    looks now at all that changed since it was kept, on a connection that nobody else uses;
    without it the answer is from what ``sync`` kept, and ``kept`` says of when. ``only`` names
    one list, of which ``page`` (from 1) is given; else the first ``size`` rows (1 to 1000) of
    each are. ``now`` is any time that ``times.parse_time`` reads, and counts for staleness
    and for what holds.
    Without ``reviews`` the table limbic_reviews is not read.

    The answer holds ``summary`` (counts) and these lists, what deserves attention first:

    - ``split_candidates``: over the threshold of their type and with topics that stand apart;
      ``split_score`` = observations / threshold · diversity, highest first.
    - ``approaching``: the same from 80 % of the threshold up to it.
    - ``flagged_observations``: similarity_flag = 1, those of the most accessed entities first,
      with what each is like; the partner is None where the flag came with an import. With
      ``fresh``, flags as the next ``sync`` would leave them.
    - ``stale_entities``: not accessed (or never, and made) for ``stale_days``, and seldom at
      all. Unused ones first, then linked, then central; in each the longest stale first.
    - ``large_entities``: over the threshold, whatever the topics; furthest over it first.
    - ``contradictions``: pairs that are alike but for a number, date, name or negation; those
      of the most accessed entities first, then by cosine.

    ``standing`` of a stale entity tells old but needed from old and forgotten: ``central`` with
    at least 3 other live entities linked to it, ``linked`` with 1 or 2, ``unused`` with none.
    ``consolidation_importance`` (0 and up) and ``temporal_score`` (0 to 1) are those of
    ``scoring``. ``paging`` has count, page, pages and size of each list. What is not known is None,
    in ``summary`` too, and ``reasons`` says why by list: an old file lacks the tables, or nothing
    was compared yet.

    Raises BadParameter naming the value, and NotAMemory.
    """
    schema.require_memory(conn)
    settings = settings or Settings()
    here = report_settings.read(conn)
    days = here.stale_days if stale_days is None else stale_days
    values: dict[str, Any] = {
        "now": lists.moment(now),
        "stale_days": number("stale_days", days, 0, MAX_DAYS),
        "stale_max_access": here.stale_max_access,
    }
    if only is not None:
        choice("list", only, tuple(LISTS))
    size = int(number("size", size, 1, lists.MAX_SIZE, whole=True))
    page = int(number("page", page, 1, lists.MAX_PAGE, whole=True))
    if only is None and page != 1:
        raise BadParameter(f"page is {page}: say of which list, one of {', '.join(LISTS)}")
    there = schema.has_reports(conn)
    kept = keeping.state(conn) if there else None  # of the file, not of what is looked at now
    look = looking_now(conn, settings=settings, progress=progress) if fresh else nullcontext()
    with look:
        unknown = {} if fresh else unknown_lists(kept)
        asked = {name: listing for name, listing in LISTS.items() if name not in unknown}
        counts = {name: listing.count(conn, values) for name, listing in asked.items()}
        answer: dict[str, Any] = {
            "summary": _summary(conn, counts, values, pairs=fresh or why_unknown(kept) is None),
            "now": values["now"],
            "stale_days": values["stale_days"],
            "fresh": fresh,
            "kept": kept,
            "similarity": vectorless.similarity(conn, settings.passage_prefix),
            "settings": here.as_dict(),
            "warnings": list(here.warnings),
            "reviewed": last_review(conn) if reviews else None,
            "paging": {},
            "reasons": unknown,
        }
        for name in LISTS if only is None else (only,):
            answer[name] = None
            if name in asked:
                rows = asked[name].rows(conn, values, page, size)
                answer[name] = [_row(name, row, settings, values["now"]) for row in rows]
                answer["paging"][name] = {
                    "count": counts[name],
                    "page": page,
                    "pages": lists.pages(counts[name], size),
                    "size": size,
                }
    return plain(answer)  # type: ignore[no-any-return]


def unknown_lists(kept: Mapping[str, Any] | None) -> dict[str, str]:
    """Lists that cannot be told from what is kept, each with the reason.

    ``kept`` is that of ``keeping.state``; None where a file of an earlier version keeps nothing.
    """
    reason = why_unknown(kept)
    if reason is None:
        return {}
    return {
        name: reason
        for name, listing in LISTS.items()
        if name in COMPARED or (kept is None and listing.kept)
    }


def last_review(conn: sqlite3.Connection) -> dict[str, Any] | None:
    """When the report was last marked as looked through, and by whom; None if never."""
    row = conn.execute(
        "select reviewed_at, actor from limbic_reviews where report = ?"
        " order by reviewed_at desc, id desc limit 1",
        [REPORT],
    ).fetchone()
    return None if row is None else {"at": row[0], "by": row[1]}


def standing(degree: int) -> str:
    """``central``, ``linked`` or ``unused``: how a stale entity stands among the live ones.

    ``degree`` is the number of other entities, not archived, that a relation links it to.
    """
    if degree >= CENTRAL_DEGREE:
        return "central"
    return "linked" if degree > 0 else "unused"


def _summary(
    conn: sqlite3.Connection, counts: Mapping[str, int], values: Mapping[str, Any], *, pairs: bool
) -> dict[str, Any]:
    found: dict[str, Any] = {name: counts.get(name) for name in LISTS}
    kinds = _KINDS.counts_by(conn, "q.kind", values) if pairs else None
    for name, kind in _PAIRS.items():
        found[name] = None if kinds is None else kinds.get(kind, 0)
    found["entities"], found["observations"] = conn.execute(_SIZE, values).fetchone()
    return found


def _row(name: str, row: dict[str, Any], settings: Settings, now: str) -> dict[str, Any]:
    """A row of a list with what SQL alone cannot say of it."""
    if name in ("split_candidates", "approaching"):
        row["topics"] = json.loads(row["topics"])
        row["needs_split"] = row["status"] == "split" and row["split_score"] > 1
        row["changed_since"] = bool(row["changed_since"])
    elif name == "stale_entities":
        row.update(_importance(row, settings, now), standing=standing(row["degree"]))
    return with_type(row)


def _importance(row: Mapping[str, Any], settings: Settings, now: str) -> dict[str, Any]:
    kind = row["entity_type"]
    # any program may have put bytes into a text column
    half_life = settings.half_life_days(kind if isinstance(kind, str) else None)
    hours = times.hours_since(row["last_access"], now)
    return {
        "consolidation_importance": scoring.consolidation_importance(
            row["access_count"], None if hours is None else hours / 24
        ),
        "temporal_score": scoring.temporal_score(
            row["last_activity_at"], half_life, row["degree"], now=now
        ),
        "half_life_days": half_life,
    }
