"""What is known of use: accesses, the access log, and bare counts of both kinds."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from datasette.utils.sqlite import sqlite3

from ..signals import later
from .baseline import Baseline
from .items import Access, AccessCount, Insight, LogEntry, PairCount
from .known_uses import ACCESS_ROWS, LOG_ROWS, KnownUses
from .links import REMOVED, Staging
from .summary import FileSummary, UseCounts

_LOG = "insert into entity_access_log(entity_id, entity_name, query, accessed_at)"
_COUNT_ACCESS = f"""
insert into entity_access(entity_id, access_count, last_access) values (?, 1, ?)
on conflict(entity_id) do update set
  access_count = access_count + 1, {later("last_access")}
"""
_COUNT_PAIR = f"""
insert into co_occurrences(entity_a_id, entity_b_id, co_count, last_co) values (?, ?, 1, ?)
on conflict(entity_a_id, entity_b_id) do update set
  co_count = co_count + 1, {later("last_co")}
"""
# A count that has no readable time was last touched at the newest time known of the entity.
_NEWEST_KNOWN = """
select coalesce((select max(accessed_at) from entity_access_log where entity_id = ?1),
  (select created_at from entities where id = ?1), '1970-01-01 00:00:00')
"""

# Sums of counts up to this stay whole numbers in SQLite and in JSON.
_MOST = 2**53


@dataclass
class _Row:
    """A staged row, where it stands, and how to find whom it names."""

    staging: Staging
    import_id: int
    line: int
    raw: str
    file: FileSummary
    base: Baseline

    @property
    def conn(self) -> sqlite3.Connection:
        return self.staging.conn

    def reject(self, counts: Any, reason: str) -> None:
        """Keep the row, which names somebody who is not here."""
        counts.dangling += 1
        self.staging.rejects.add(self.import_id, self.file, self.line, reason, self.raw)

    def ids(self, counts: Any, names: Iterable[str]) -> list[int]:
        """The ids of all the names; empty, and counted, where one is not here."""
        names = list(names)
        found = [self.staging.resolve(self.import_id, name) for name in names]
        unknown = [name for name, i in zip(names, found, strict=True) if i is None]
        if unknown:
            self.reject(counts, "; ".join(self.staging.unknown(n) for n in dict.fromkeys(unknown)))
            return []
        if REMOVED in found:
            counts.removed_here += 1
            return []
        return [i for i in found if i is not None]


def settle_uses(
    staging: Staging, files: dict[int, FileSummary], baselines: dict[int, Baseline]
) -> None:
    """Write all staged accesses and counts, in the order of the files.

    A bare count grows by what is new since this source was last imported. Where that is not
    known, the larger of the two counts stands: nothing is reset, and no use counts twice.
    """
    known: dict[int, KnownUses] = {}
    for import_id, line, kind, row, raw in staging.conn.execute(
        "select import_id, line, kind, row, raw from temp._limbic_import_uses"
        " where kind <> ? order by seq",
        [Insight.__name__],
    ):
        place = _Row(staging, import_id, line, raw, files[import_id], baselines[import_id])
        if import_id not in known:
            known[import_id] = KnownUses(place.base)
        values = json.loads(row)
        if kind == Access.__name__:
            _access(place, Access(*values), known[import_id])
        elif kind == AccessCount.__name__:
            _access_count(place, AccessCount(*values))
        elif kind == PairCount.__name__:
            _pair_count(place, PairCount(*values))
        else:
            _log_entry(place, LogEntry(*values), known[import_id])
    for uses in known.values():
        uses.keep()


def _access(place: _Row, access: Access, uses: KnownUses) -> None:
    counts = place.file.access
    ids: dict[int, bool] = {}
    for name in access.names:
        for found in place.ids(counts, [name]):
            if found in ids:
                counts.already_there += 1
                continue
            there = _is_logged(place, found, access.query, access.accessed_at)
            known = uses.is_known(found, ACCESS_ROWS)
            ids[found] = is_new = not there and not known
            if is_new:
                _log(place, found, access.query, access.accessed_at)
                place.conn.execute(_COUNT_ACCESS, [found, access.accessed_at])
            counts.added += is_new
            counts.already_there += there
            counts.removed_here += known and not there
    # A pair is new when one of its two is: an entity that a first import did not know gets its
    # pairs when it comes, and the others are not counted twice.
    place.conn.executemany(
        _COUNT_PAIR,
        ((a, b, access.accessed_at) for a, b in combinations(sorted(ids), 2) if ids[a] or ids[b]),
    )


def _is_logged(place: _Row, entity_id: int, query: str | None, at: str) -> bool:
    there = place.conn.execute(
        "select 1 from entity_access_log where entity_id = ? and accessed_at = ? and query is ?",
        [entity_id, at, query],
    ).fetchone()
    return there is not None


def _log(place: _Row, entity_id: int, query: str | None, at: str) -> None:
    place.conn.execute(
        f"{_LOG} select id, name, ?, ? from entities where id = ?", [query, at, entity_id]
    )


def _log_entry(place: _Row, entry: LogEntry, uses: KnownUses) -> None:
    counts = place.file.access_log
    counts.rows += 1
    for found in place.ids(counts, [entry.entity]):
        there = _is_logged(place, found, entry.query, entry.accessed_at)
        known = uses.is_known(found, LOG_ROWS)
        if there:
            counts.already_there += 1
        elif known:
            counts.removed_here += 1
        else:
            counts.added += 1
            _log(place, found, entry.query, entry.accessed_at)


def _access_count(place: _Row, given: AccessCount) -> None:
    counts = place.file.access_counts
    counts.rows += 1
    for found in place.ids(counts, [given.entity]):
        last = given.last_access or place.conn.execute(_NEWEST_KNOWN, [found]).fetchone()[0]
        _count(place, counts, (found, 0), given.count, last)


def _pair_count(place: _Row, given: PairCount) -> None:
    counts = place.file.co_occurrences
    counts.rows += 1
    ids = sorted(set(place.ids(counts, [given.first, given.second])))
    if len(ids) == 1:
        place.reject(counts, f"a pair of {given.first[:200]!r} with itself")
    elif ids:
        last = given.last_co or place.conn.execute(_NEWEST_KNOWN, [ids[0]]).fetchone()[0]
        _count(place, counts, (ids[0], ids[1]), given.count, last)


def _count(place: _Row, counts: UseCounts, ids: tuple[int, int], given: int, last: str) -> None:
    """Let the count of an entity (second id 0) or of a pair grow by what the source has new."""
    given = min(given, _MOST)
    table, where, key = _table(ids)
    number, time = ("access_count", "last_access") if not ids[1] else ("co_count", "last_co")
    stored = place.conn.execute(f"select {number}, {time} from {table} where {where}", key)
    row = stored.fetchone()
    was = place.conn.execute(
        "select count from _limbic_source_counts"
        " where source_id = ? and entity_a_id = ? and entity_b_id = ?",
        [place.base.source_id, *ids],
    ).fetchone()
    if row is None and (was is None or place.base.restore):
        counts.added += 1
        columns = "entity_id" if not ids[1] else "entity_a_id, entity_b_id"
        marks = ", ".join("?" * len(key))
        place.conn.execute(
            f"insert into {table}({columns}, {number}, {time}) values ({marks}, ?, ?)",
            [*key, given, last],
        )
    elif row is None:
        counts.removed_here += 1  # somebody here forgot this count; it stays forgotten
    else:
        grown = max(row[0], given) if was is None else row[0] + max(0, given - was[0])
        grown = min(grown, _MOST)
        newest = max(row[1], last)
        changed = (grown, newest) != tuple(row)
        counts.updated += changed
        counts.already_there += not changed
        if changed:
            place.conn.execute(
                f"update {table} set {number} = ?, {time} = ? where {where}", [grown, newest, *key]
            )
    if was is None or given > was[0]:
        place.base.changed = True
    place.conn.execute(
        "insert into _limbic_source_counts(source_id, entity_a_id, entity_b_id, count)"
        " values (?, ?, ?, ?) on conflict(source_id, entity_a_id, entity_b_id)"
        " do update set count = excluded.count",
        [place.base.source_id, *ids, max(given, was[0]) if was else given],
    )


def _table(ids: tuple[int, int]) -> tuple[str, str, list[int]]:
    if ids[1]:
        return "co_occurrences", "entity_a_id = ? and entity_b_id = ?", list(ids)
    return "entity_access", "entity_id = ?", [ids[0]]
