"""Taking a change back: every row of it as it was, or nothing and what stands in the way.

A row that a newer change, or another program, has made into something else is never half put
back. What is only counted or found beside the facts (accesses, kept pairs, flags, times of
activity) moves by itself and stands in no way: it is put back as far as it is as the change left
it. What an entity was asked for since a split made it goes to the one that it was split from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from datasette.utils.sqlite import sqlite3

from ..errors import DependedOn, Refused
from . import changes, redoing, returning, rows, settling
from .changes import Change
from .model import Key, Plan, Row, RowChange, same
from .restored_pairs import still_true, without_lost_flags

SOFT = frozenset(("similarity_flag", "updated_at", "last_activity_at"))
MAX_SAID = 5
_OWNED = (
    ("entity_access", "entity_id"),
    ("co_occurrences", "entity_a_id"),
    ("co_occurrences", "entity_b_id"),
    ("limbic_insights", "entity_id"),
    ("limbic_topics", "entity_id"),
)
_LOGGED = ("entity_access_log", "limbic_feedback")
_SHOWN = ("content", "name", "title", "entity_id")


def plan(conn: sqlite3.Connection, arguments: Mapping[str, Any], now: str) -> Plan:
    """What undoing ``{"change": id}`` would do. Raises UnknownChange, Refused (undone already, or
    its rows were taken out of the log), DependedOn, naming what is newer, and BadParameter."""
    change = changes.read(conn, rows.whole_id("change", arguments.get("change")))
    if change.row["undone_by"] is not None:
        by = changes.read(conn, change.row["undone_by"])
        raise Refused(f"change {change.id} was undone already, by {changes.said(by.row)}")
    if not change.images:
        raise Refused(
            f"change {change.id} cannot be undone: its rows are no longer in the log of changes"
        )
    undone = _Undoing(conn, change)
    found = undone.changes()
    warnings = [*undone.warnings, *returning.archived(conn, found)]
    return Plan(
        "undo",
        f"Undo {changes.said(change.row)}: {change.row['summary']}",
        tuple(found),
        returning.seen(change.row, found, warnings),
        change.row["entity_id"],
        change.row["entity_name"],
        {"change": change.id},
        tuple(warnings),
        undoes=change.id,
    )


class _Undoing:
    def __init__(self, conn: sqlite3.Connection, change: Change) -> None:
        self.conn, self.change = conn, change
        self.warnings: list[str] = []
        self.against: list[tuple[str, Key, str]] = []
        """Rows that stand in the way, and what is the matter with each."""
        self.there = {
            table: rows.read(conn, table, [i.key for i in change.images if i.table == table])
            for table in {image.table for image in change.images}
        }
        self.mine = {(image.table, image.key) for image in change.images}
        self.created = {(i.table, i.key) for i in change.images if i.before is None}
        self.found = {(i.table, i.key): True for i in change.images if i.after is None}
        """Rows that come back, and others that were looked for: whether they are there."""
        self.columns: dict[str, dict[str, bool]] = {}
        """Of each table, and whether SQLite computes them."""
        self.dropped: set[tuple[str, str]] = set()
        self.since = returning.Accesses()

    def changes(self) -> list[RowChange]:
        """Every row to be put back. Raises DependedOn."""
        found: list[RowChange] = []
        for image in self.change.images:
            if image.table == settling.PAIRS:
                continue
            row = self.there[image.table].get(image.key)
            if image.before is None:
                found += self._take_away(image, row)
            elif image.after is None:
                found += self._bring_back(image, row)
            else:
                found += self._put_back(image, row)
        self.against += redoing.unsaid(self.conn, self.change)
        self._refuse()
        found = self.since.given(self.conn, found, self.change.row["entity_id"])
        back = still_true(self.conn, self.change)
        found = settling.settled(self.conn, found, back)
        return without_lost_flags(self.conn, found, self.change, back)

    def _take_away(self, image: RowChange, row: Row | None) -> Iterable[RowChange]:
        """A row that the change created."""
        derived = rows.TABLES[image.table].derived
        if row is None:
            if not derived:
                self._against(image, "is not there any more")
            return
        differing = _differing(image.after or {}, row)
        if differing and not derived:
            self._against(image, f"has another {', '.join(differing)}")
        if image.table == "entity_access" and ("entities", image.key) not in self.created:
            was, is_now = (image.after or {})["access_count"], row["access_count"]
            if _counts(was, is_now) and is_now > was:  # counted on since
                count = {"access_count": is_now}, {"access_count": is_now - was}
                yield RowChange(image.table, image.key, *count)
                return
        elif image.table == returning.ACCESS:
            self.since.add(row, (image.after or {})["access_count"])
        yield RowChange(image.table, image.key, row, None)
        if image.table == "entities":
            yield from self._owned(image.key[0])

    def _owned(self, number: int) -> Iterable[RowChange]:
        """What came to an entity that is taken away: facts stand in the way, else it goes along."""
        for table, columns in (
            ("observations", ("entity_id",)),
            ("relations", ("from_entity", "to_entity")),
        ):
            for column in columns:
                for key in rows.of(self.conn, table, column, [number]):
                    if (table, key) not in self.mine:
                        self.against.append((table, key, "came since"))
        for table, column in _OWNED:
            for key, row in rows.of(self.conn, table, column, [number]).items():
                if (table, key) not in self.mine:
                    self.mine.add((table, key))
                    if table == returning.ACCESS:
                        self.since.add(row)
                    yield RowChange(table, key, row, None)
        for table in _LOGGED:
            for key in rows.of(self.conn, table, "entity_id", [number]):
                yield RowChange(table, key, {"entity_id": number}, {"entity_id": None})

    def _bring_back(self, image: RowChange, row: Row | None) -> Iterable[RowChange]:
        """A row that the change removed."""
        before = dict(image.before or {})
        derived = rows.TABLES[image.table].derived
        if row is not None:
            if not derived:
                self._against(image, "has been given to another row")
            return
        before = self._as_columns(image, before)
        if image.table == "entities":
            # cast: a name that is no UTF-8 is bound as bytes
            taken = rows.where(self.conn, "entities", "name = cast(? as text)", [before["name"]])
            for key in taken:
                self.against.append(("entities", key, f"has the name {rows.named(before)} now"))
        if image.table == "relations":
            self._triple(image, before)
        if image.table == "limbic_insights" and self._is_raised(before):
            return
        if not self._has_ends(image, before):
            return
        if before.get("supersedes") is not None and not self._is_there(
            "observations", before["supersedes"]
        ):
            self.warnings.append(
                f"observation {image.key[0]} replaced observation {before['supersedes']}, which is "
                "not there any more: it will not name it"
            )
            before["supersedes"] = None
        yield RowChange(image.table, image.key, None, before)

    def _as_columns(self, image: RowChange, before: Row) -> Row:
        """The row with the columns that the table has now, without those that it computes."""
        if image.table not in self.columns:
            found = self.conn.execute(f"pragma table_xinfo({image.table})").fetchall()
            self.columns[image.table] = {row[1]: row[6] in (2, 3) for row in found}
        columns = self.columns[image.table]
        for name in before.keys() - columns.keys():
            if before[name] is not None and (image.table, name) not in self.dropped:
                self.dropped.add((image.table, name))
                self.warnings.append(
                    f"the table {image.table} has no column {name} any more: what it held of these "
                    "rows stays in the log of changes alone"
                )
        return {n: value for n, value in before.items() if columns.get(n) is False}

    def _is_raised(self, before: Row) -> bool:
        """Whether an insight was raised again since, as another row."""
        return bool(rows.where(self.conn, "limbic_insights", "key = ?", [before["key"]]))

    def _has_ends(self, image: RowChange, before: Row) -> bool:
        """Whether the entities that it belongs to are there, or come back too."""
        for column, table in rows.TABLES[image.table].references:
            number = before.get(column)
            if number is not None and not self._is_there(table, number):
                if not rows.TABLES[image.table].derived:
                    self.against.append((table, (number,), "is not there any more"))
                return False
        return True

    def _is_there(self, table: str, number: Any) -> bool:
        wanted = (table, (number,))
        if wanted not in self.found:
            self.found[wanted] = bool(rows.read(self.conn, table, [(number,)]))
        return self.found[wanted]

    def _put_back(self, image: RowChange, row: Row | None) -> Iterable[RowChange]:
        """A row of which the change altered columns."""
        before, after = image.before or {}, image.after or {}
        derived = rows.TABLES[image.table].derived
        if row is None:
            if not derived and set(after) - SOFT:
                self._against(image, "is not there any more")
            return
        differing = _differing(after, row)
        if differing and not derived:
            self._against(image, f"has another {', '.join(differing)}")
            return
        values = {}
        for name, value in before.items():
            if same(row.get(name), after.get(name)):
                values[name] = value
            elif name == "access_count" and _counts(row[name], after[name], value):
                # counted on since: only what the change added goes
                values[name] = max(0, row[name] - after[name] + value)
        entity = values.get("entity_id")
        if not derived and entity is not None and not self._is_there("entities", entity):
            self.against.append(("entities", (entity,), "is not there any more"))
        if image.table == "relations" and MOVED.intersection(values):
            self._triple(image, {**row, **values})
        if values:
            shown: Row = {n: row[n] for n in _SHOWN if n in row}
            yield RowChange(
                image.table, image.key, {name: row[name] for name in values}, values, shown
            )

    def _triple(self, image: RowChange, row: Row) -> None:
        same = rows.where(
            self.conn,
            "relations",
            "from_entity = ? and to_entity = ? and relation_type = ?",
            [row["from_entity"], row["to_entity"], row["relation_type"]],
        )
        for key in same:
            if key != image.key and ("relations", key) not in self.mine:
                self.against.append(("relations", key, "says the same now"))

    def _against(self, image: RowChange, what: str) -> None:
        self.against.append((image.table, image.key, what))

    def _refuse(self) -> None:
        if not self.against:
            return
        newer = changes.touching(
            self.conn, self.change.id, {(table, key) for table, key, _ in self.against}
        )
        said = []
        for table, key, what in self.against[:MAX_SAID]:
            text = f"{rows.TABLES[table].one} {key[0]} {what}"
            if (table, key) in newer:
                text += f" ({changes.said(newer[table, key])})"
            said.append(text)
        more = len(self.against) - MAX_SAID
        first = sorted({row["id"] for row in newer.values()}, reverse=True)
        advice = (
            f"Undo {' and '.join(f'change {number}' for number in first[:MAX_SAID])} first"
            if first
            else "Another program did that: put it right first"
        )
        raise DependedOn(
            f"change {self.change.id} cannot be undone, since something newer depends on it: "
            f"{'; '.join(said)}{f'; and {more:,} more' if more > 0 else ''}. {advice}"
        )


MOVED = frozenset(("from_entity", "to_entity"))


def _counts(*values: Any) -> bool:
    """Whether all are whole numbers: any program may have written something else."""
    return all(isinstance(value, int) for value in values)


def _differing(image: Row, row: Row) -> list[str]:
    """Columns that are another than they were left; one that is gone tells nothing."""
    return [
        n for n, value in image.items() if n not in SOFT and n in row and not same(row[n], value)
    ]
