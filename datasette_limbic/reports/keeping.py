"""What takes long is kept: pairs, topics and text keys of each entity, with the date.

Triggers note which entities changed since; only those are looked at again, a batch at a time,
one transaction each. A run that was killed is continued by the next one. Flags follow the pairs
that are kept (the triggers ``limbic_flag_set`` and ``limbic_flag_clear``).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from datasette.utils.sqlite import sqlite3

from .. import report_settings
from ..duplicates import Pair, Thresholds, find_pairs
from ..embedding import CollectionInfo, collection_info
from ..llm_store import transaction
from ..report_settings import ReportSettings
from ..schema import require_memory
from ..text import counted
from ..times import now_sql
from . import reading
from .kept_rows import insert_keys, insert_pairs
from .reading import Batch
from .topic_rows import TopicRow, topic_rows

NAME = "observations"
RULES = 1
"""Which code found what is kept: part of ``Rules.text``, so that with another number all is looked
at anew. To be raised by one in every release in which ``find_pairs``, ``analyse_topics`` or
``text_key`` would find something else in the same texts and vectors under the same settings, as
after a change of duplicates/, topics or text.normalise. tests/test_keeping_rules.py holds what each
number finds, and fails where that was forgotten."""
PASSES = 3
AT_ONCE = 500
"""Entities whose ids are handed to one statement."""

Progress = Callable[[int, int, str], None]
"""Called with (done, total, "reports"), in entities."""
_MARK_ALL = """
insert into limbic_report_pending(entity_id)
select entity_id from (
  select entity_id from observations
  union select entity_id from limbic_duplicates union select entity_id from limbic_topics
) where typeof(entity_id) = 'integer' on conflict do nothing
"""
# Time alone ends an observation, or lets it begin: no trigger sees that.
_CROSSED = """
select distinct entity_id from observations
where typeof(entity_id) = 'integer' and (
  valid_to is not null and datetime(valid_to) between :since and datetime('now')
  or valid_from is not null and datetime(valid_from) between :since and datetime('now'))
"""

_MARKED = """
select exists (select 1 from main.limbic_report_pending where entity_id = :entity)
  or exists (
    select 1 from observations o, limbic_reports k
    where k.report = :report and o.entity_id = :entity and (
      o.valid_to is not null
        and datetime(o.valid_to) between coalesce(datetime(k.computed_at), '') and datetime('now')
      or o.valid_from is not null and datetime(o.valid_from)
        between coalesce(datetime(k.computed_at), '') and datetime('now')))
"""


@dataclass
class Kept:
    """What one run did; counts."""

    entities: int = 0
    """Entities that were looked at."""
    observations: int = 0
    new_pairs: int = 0
    gone_pairs: int = 0
    flagged: int = 0
    """Observations that got their similarity_flag."""
    unflagged: int = 0
    topics: int = 0
    """Entities whose topics were looked for."""
    pending: int = 0
    """Entities that changed meanwhile, for the next run."""
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """The same as plain data, for JSON."""
        return asdict(self)

    def text(self) -> str:
        """The same in a line for a terminal."""
        if not self.entities:
            return "reports: nothing changed"
        said = (
            f"reports: {counted(self.entities, 'entity', 'entities')} looked at, "
            f"{counted(self.new_pairs, 'new pair', 'new pairs')}, {self.gone_pairs:,} gone, "
            f"{counted(self.flagged, 'observation', 'observations')} flagged, "
            f"{self.unflagged:,} no longer; topics of {self.topics:,}"
        )
        return said + (f"; {self.pending:,} changed meanwhile" if self.pending else "")


@dataclass(frozen=True)
class Rules:
    """By what everything that is kept was found."""

    info: CollectionInfo | None
    settings: ReportSettings
    thresholds: Thresholds

    def text(self) -> str:
        """As ``limbic_reports`` keeps it: another text means that all is to be looked at anew."""
        shapes = {
            "rules": RULES,
            "model": self.info.model_id if self.info and self.info.count else None,
            **asdict(self.thresholds),
            "topic_min_silhouette": self.settings.topic_min_silhouette,
            "split_threshold": self.settings.split_threshold,
            "split_thresholds": dict(self.settings.split_thresholds),
        }
        return json.dumps(shapes, sort_keys=True, ensure_ascii=False)


def rules(conn: sqlite3.Connection, model: str | None = None) -> Rules:
    """The rules in force here. ``model`` names that of the vectors where the file does not."""
    info = collection_info(conn, "observations")
    settings = report_settings.read(conn)
    return Rules(info, settings, settings.thresholds(info.model_id if info else model))


def keep(
    conn: sqlite3.Connection,
    *,
    settings: Any = None,
    progress: Progress | None = None,
    full: bool = False,
) -> Kept:
    """Look at every entity that changed since the last time, and keep what is found.

    ``full`` looks at all of them. ``settings`` are the plugin's, for the prefix of what was
    embedded. Raises NotAMemory, and sqlite3.Error as it comes.
    """
    require_memory(conn)
    started, since = time.monotonic(), now_sql()
    here, done = rules(conn), Kept()
    prefix = getattr(settings, "passage_prefix", None) or ""
    _begin(conn, here, full)
    for _ in range(PASSES):
        waiting = conn.execute(
            "select entity_id from limbic_report_pending order by entity_id"
        ).fetchall()
        if not waiting:
            break
        total = done.entities + len(waiting)
        for start in range(0, len(waiting), AT_ONCE):
            ids = [row[0] for row in waiting[start : start + AT_ONCE]]
            for group in reading.batches(conn, ids):
                _look_at(conn, group, here, prefix, done)
                if progress:
                    progress(min(done.entities, total), total, "reports")
    done.pending = pending(conn)
    done.seconds = round(time.monotonic() - started, 3)
    _finish(conn, done, since)
    return done


def pending(conn: sqlite3.Connection) -> int:
    """How many entities are marked as changed."""
    return int(conn.execute("select count(*) from limbic_report_pending").fetchone()[0])


def crossed(conn: sqlite3.Connection) -> set[int]:
    """Entities of which an observation ended or began to hold since the kept result was made."""
    row = conn.execute(
        "select coalesce(datetime(computed_at), '') from limbic_reports where report = ?", [NAME]
    ).fetchone()
    if row is None:
        return set()
    return {entity for (entity,) in conn.execute(_CROSSED, {"since": row[0]}).fetchall()}


def changed(conn: sqlite3.Connection) -> set[int]:
    """Entities that are not as they were when they were looked at."""
    marked = conn.execute("select entity_id from main.limbic_report_pending").fetchall()
    return {entity for (entity,) in marked} | crossed(conn)


def has_changed(conn: sqlite3.Connection, entity: int) -> bool:
    """Whether one entity is not as it was when it was looked at: ``changed``, of it alone."""
    row = conn.execute(_MARKED, {"report": NAME, "entity": entity}).fetchone()
    return bool(row[0])


def state(conn: sqlite3.Connection) -> dict[str, Any]:
    """When what is kept was found, by what, and what changed since. Reads only.

    ``computed_at`` is None before the first run; ``settings_changed`` says that it was found by
    other rules than those in force.
    """
    row = conn.execute(
        "select settings, entities, observations, seconds, computed_at from limbic_reports"
        " where report = ?",
        [NAME],
    ).fetchone()
    here = rules(conn)
    found = json.loads(row[0]) if row else {}
    return {
        "computed_at": (row[4] or None) if row else None,
        "entities": row[1] if row else 0,
        "observations": row[2] if row else 0,
        "seconds": row[3] if row else None,
        "model": found.get("model"),
        "thresholds": {
            key: found.get(key, value) for key, value in asdict(here.thresholds).items()
        },
        "changed_since": len(changed(conn)),
        "settings_changed": row is not None and row[0] != here.text(),
    }


def outdated(conn: sqlite3.Connection, here: Rules) -> bool:
    """Whether nothing is kept yet, or what is was found by other rules."""
    row = conn.execute("select settings from limbic_reports where report = ?", [NAME]).fetchone()
    return row is None or row[0] != here.text()


def _begin(conn: sqlite3.Connection, here: Rules, full: bool) -> None:
    """Mark what no trigger could: everything where the rules are others than those that it was
    found by, else what time has ended."""
    if not full and not outdated(conn, here):
        if over := crossed(conn):
            with transaction(conn):
                conn.execute(
                    "insert into limbic_report_pending(entity_id) select value from json_each(?)"
                    " where 1 on conflict(entity_id) do update set changes = changes + 1",
                    [json.dumps(sorted(over))],
                )
        return
    # with the marks, so that a run that is killed need not begin anew
    with transaction(conn):
        conn.execute(_MARK_ALL)
        conn.execute(
            "insert into limbic_reports(report, settings, entities, observations, seconds,"
            " computed_at) values (?, ?, 0, 0, 0, null)"
            " on conflict(report) do update set settings = excluded.settings",
            [NAME, here.text()],
        )


def _finish(conn: sqlite3.Connection, done: Kept, since: str) -> None:
    """Note the date: that of the beginning, since what ends meanwhile is for the next run."""
    row = conn.execute("select computed_at from limbic_reports where report = ?", [NAME]).fetchone()
    if not done.entities and row[0]:
        return  # nothing changed, so the date stands
    with transaction(conn):
        conn.execute(
            "update limbic_reports set seconds = ?, computed_at = ?,"
            " entities = (select count(distinct entity_id) from observations),"
            " observations = (select count(*) from observations) where report = ?",
            [done.seconds, since, NAME],
        )


def look(
    conn: sqlite3.Connection, ids: list[int], here: Rules, prefix: str
) -> tuple[Batch, list[Pair], list[TopicRow]]:
    """What is to be kept of these entities, as they stand now. Reads only."""
    batch = reading.read(conn, ids, info=here.info, prefix=prefix)
    pairs = find_pairs(batch.observations, batch.vectors, here.thresholds)
    return batch, pairs, topic_rows(conn, batch, here.settings)


def _look_at(
    conn: sqlite3.Connection, ids: list[int], here: Rules, prefix: str, done: Kept
) -> None:
    """Read, compare outside of the transaction, then write what has not changed meanwhile."""
    listed = json.dumps(ids)
    seen = dict(
        conn.execute(
            "select entity_id, changes from limbic_report_pending"
            " where entity_id in (select value from json_each(?))",
            [listed],
        )
    )
    batch, pairs, topics = look(conn, ids, here, prefix)
    with transaction(conn):
        still = conn.execute(
            "select entity_id, changes from limbic_report_pending"
            " where entity_id in (select value from json_each(?))",
            [listed],
        )
        unchanged = {entity for entity, changes in still if seen.get(entity) == changes}
        flags = _flags(conn, unchanged)
        _write_pairs(conn, unchanged, [p for p in pairs if p.entity_id in unchanged], done)
        _write_topics(conn, unchanged, [t for t in topics if t.entity_id in unchanged])
        _write_keys(conn, unchanged, batch)
        conn.executemany(
            "delete from limbic_report_pending where entity_id = ?", [(e,) for e in unchanged]
        )
        now_flagged = _flags(conn, unchanged)
    done.entities += len(ids)
    done.observations += len(batch.observations)
    done.topics += len(topics)
    done.flagged += len(now_flagged - flags)
    done.unflagged += len(flags - now_flagged)


def _flags(conn: sqlite3.Connection, entities: Iterable[int]) -> set[int]:
    rows = conn.execute(
        "select id from observations where similarity_flag = 1"
        " and entity_id in (select value from json_each(?))",
        [json.dumps(sorted(entities))],
    )
    return {row[0] for row in rows}


def _write_pairs(
    conn: sqlite3.Connection, entities: set[int], pairs: list[Pair], done: Kept
) -> None:
    """Only what is different: a pair that stays must not set a flag that a person took away."""
    columns = "earlier_id, later_id, kind, entity_id, rule, cosine, containment, difference"
    rows = conn.execute(
        f"select {columns} from limbic_duplicates"
        " where entity_id in (select value from json_each(?))",
        [json.dumps(sorted(entities))],
    )
    before = {tuple(row[:3]): tuple(row[3:]) for row in rows}
    now = {
        (p.earlier_id, p.later_id, p.kind): (
            p.entity_id,
            p.rule,
            p.cosine,
            p.containment,
            p.difference,
        )
        for p in pairs
    }
    gone, new = before.keys() - now.keys(), now.keys() - before.keys()
    conn.executemany(
        "delete from limbic_duplicates where earlier_id = ? and later_id = ?",
        [key[:2] for key in sorted(gone)],
    )
    # also of an entity that one of the two has left while no trigger watched
    conn.executemany(
        "delete from limbic_duplicates where (earlier_id = ?1 and later_id = ?2)"
        " or (earlier_id = ?2 and later_id = ?1)",
        [key[:2] for key in sorted(new)],
    )
    insert_pairs(conn, (p for p in pairs if (p.earlier_id, p.later_id, p.kind) in new))
    conn.executemany(
        "update limbic_duplicates set entity_id = ?, rule = ?, cosine = ?, containment = ?,"
        " difference = ? where earlier_id = ? and later_id = ?",
        [
            (*now[key], *key[:2])
            for key in sorted(now.keys() & before.keys())
            if now[key] != before[key]
        ],
    )
    done.new_pairs += len(new)
    done.gone_pairs += len(gone)


def _write_topics(conn: sqlite3.Connection, entities: set[int], rows: list[TopicRow]) -> None:
    conn.executemany("delete from limbic_topics where entity_id = ?", [(e,) for e in entities])
    conn.executemany(
        "insert into limbic_topics(entity_id, topics, diversity, split_score) values (?, ?, ?, ?)",
        rows,
    )


def _write_keys(conn: sqlite3.Connection, entities: set[int], batch: Batch) -> None:
    conn.executemany("delete from _limbic_text_keys where entity_id = ?", [(e,) for e in entities])
    insert_keys(conn, (row for row in batch.observations if row.entity_id in entities))
