"""What names entities by their ids: relations, accesses, and pairs that came up together."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from datasette.utils.sqlite import sqlite3

from ..items import AccessCount, Item, LogEntry, PairCount, Rejection, Relation
from ..items import Row as AnyRow
from ..notes import Notes
from .cells import LONG_AGO, brief, count, name, raw, text, time, unreadable
from .tables import Found, Layout

# The server renames these at its next start; taken as they are, the same relation would come
# back under its new type with the next import. Its context is given where there is none.
_RENAMED: dict[str, tuple[str, str | None]] = {
    "continua": ("contribuye_a", "sesión continuación"),
    "documentado_en": ("producido_por", None),
}


# By which columns a relation is live.
_LIVE = {"ended_at": "is null", "active": "is not 0"}


class LinkReader:
    """Reads the tables that refer to entities. ``passed`` counts their rows."""

    def __init__(self, conn: sqlite3.Connection, layout: Layout, notes: Notes) -> None:
        self.conn, self.layout, self.notes = conn, layout, notes
        self.passed = 0
        self.renamed = 0
        self.no_time = 0
        self.busy_days = 0
        self.uncounted = 0

    def items(self) -> Iterator[Item]:
        """Every row of these tables, once; then what is to be said about all of them."""
        readers: tuple[tuple[str, Callable[[Found], AnyRow], tuple[str, ...]], ...] = (
            ("relations", self._relation, ("from_entity", "to_entity")),
            ("entity_access", self._access_count, ("entity_id",)),
            ("entity_access_log", self._log_entry, ("entity_id",)),
            ("co_occurrences", self._pair_count, ("entity_a_id", "entity_b_id")),
        )
        readable = self.layout.readable()
        for table, read, ends in readers:
            if table in readable:
                yield from self._table(table, read, ends)
        self._remark()

    def _table(
        self, table: str, read: Callable[[Found], AnyRow], ends: tuple[str, ...]
    ) -> Iterator[Item]:
        joined = "".join(f", e{n}.id, e{n}.name" for n in range(len(ends)))
        joins = " ".join(
            f"left join entities e{n} on e{n}.id = t.{end}" for n, end in enumerate(ends)
        )
        order = "order by t.rowid" if table in self.layout.numbered else ""
        if table == "relations":
            order = self._live_last()
        rows = self.conn.execute(self.layout.select(table, joined, joins, order))
        for found in self.layout.rows(table, rows):
            self.passed += 1
            row = _unknown_end(found, ends) or read(found)
            if isinstance(row, Rejection):
                row = Rejection(f"{table} row {found.line}: {row.reason}")
            yield Item(found.line, raw(found.cells), row)

    def _live_last(self) -> str:
        """The order of relations: of two that become one, the last one counts, and that must be
        the live one."""
        columns = self.layout.tables["relations"]
        live = [f"t.{c} {how}" for c, how in _LIVE.items() if c in columns]
        return f"order by {' and '.join(live) or '1'}, t.id"

    def _relation(self, found: Found) -> AnyRow:
        cells = found.cells
        kind = text(cells["relation_type"], self.notes)
        if kind is None:
            return Rejection("no relation_type")
        context = text(cells.get("context"), self.notes)
        if kind in _RENAMED:
            self.renamed += 1
            kind, usual = _RENAMED[kind]
            context = context or usual
        created = time(cells.get("created_at"), "relation.createdAt", self.notes)
        ended = time(cells.get("ended_at"), "relation.validTo", self.notes)
        if ended is None and self._inactive(cells.get("active")):
            # over at an unknown time: not before it began
            ended = created
            if ended is None:
                ended, self.no_time = LONG_AGO, self.no_time + 1
        source, target = _names(found)
        return Relation(source, target, kind, created, valid_to=ended, context=context)

    def _inactive(self, given: object) -> bool:
        if given is None or given in (1, "1"):
            return False
        if given in (0, "0"):
            return True
        unreadable(given, "relation.active", self.notes)
        return False

    def _access_count(self, found: Found) -> AnyRow:
        number = count(found.cells["access_count"])
        if number is None or number < 0:
            return Rejection(f"no count of accesses but {brief(found.cells['access_count'])}")
        last = time(found.cells.get("last_access"), "access.lastAccess", self.notes)
        return AccessCount(_names(found)[0], number, last)

    def _log_entry(self, found: Found) -> AnyRow:
        day = time(found.cells["access_date"], "access.date", None)
        if day is None:
            return Rejection(f"no readable date but {brief(found.cells['access_date'])}")
        given = found.cells.get("access_count", 1)
        number = count(given)
        if number is None or number < 1:
            return Rejection(f"no count of accesses but {brief(given)}")
        if number > 1:
            self.busy_days += 1
            self.uncounted += number - 1
        return LogEntry(_names(found)[0], None, day)

    def _pair_count(self, found: Found) -> AnyRow:
        first, second = _names(found)
        if found.joined[0] == found.joined[2]:
            return Rejection(f"both ends are the entity with id {found.joined[0]}")
        if first == second:
            return Rejection(f"both ends are entities of the name {brief(first)}")
        number = count(found.cells["co_count"])
        if number is None or number < 1:
            return Rejection(f"no count of at least 1 but {brief(found.cells['co_count'])}")
        last = time(found.cells.get("last_co"), "coOccurrence.lastCo", self.notes)
        return PairCount(first, second, number, last)

    def _remark(self) -> None:
        remarks = self.notes.remarks
        if self.renamed:
            new = ", ".join(f"{old} is now {name}" for old, (name, _) in _RENAMED.items())
            remarks.append(
                f"Relations of a type that the server renames at its next start: {self.renamed:,} "
                f"({new})."
            )
        if self.no_time:
            remarks.append(
                f"Relations that ended at no known time: {self.no_time:,}, taken as of {LONG_AGO}."
            )
        if self.busy_days:
            remarks.append(
                "The access log has one line a day for an entity; the further accesses of "
                f"{self.busy_days:,} of them ({self.uncounted:,}) are in the counts alone."
            )


def _unknown_end(found: Found, ends: tuple[str, ...]) -> Rejection | None:
    reasons = []
    for number, end in enumerate(ends):
        entity_id, title = found.joined[2 * number : 2 * number + 2]
        if entity_id is None:
            reasons.append(f"no entity with id {brief(found.cells[end])}")
        elif name(title) is None:
            reasons.append(f"the entity with id {entity_id} has no name")
    return Rejection("; ".join(dict.fromkeys(reasons))) if reasons else None


def _names(found: Found) -> list[str]:
    # what has no name was rejected before
    return [str(name(title)) for title in found.joined[1::2]]
