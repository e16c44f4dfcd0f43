"""Entities with their observations: two cursors side by side, both in the order of the ids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from typing import Any

from datasette.utils.sqlite import sqlite3

from ..items import Entity, Item, Observation, Rejection
from ..notes import Notes
from .cells import LONG_AGO, brief, name, raw, text, time, unreadable
from .tables import Cells, Found, Layout

_ARCHIVED = "archivado"
_CURRENT = "activo"
# Statuses named one by one; the rest is counted together.
_MAX_STATUSES = 50


class EntityReader:
    """Reads the tables ``entities`` and ``observations``.

    An observation that belongs to an entity is part of its item; one that does not, or that
    holds NULL, is an item of its own. ``passed`` counts the rows of both tables.
    """

    def __init__(self, conn: sqlite3.Connection, layout: Layout, notes: Notes) -> None:
        self.conn, self.layout, self.notes = conn, layout, notes
        self.passed = 0
        self.dangling = 0
        self.no_time = 0
        self.observations: Iterator[Found] = iter(())
        self.waiting: Found | None = None

    def items(self) -> Iterator[Item]:
        """Every row of the two tables, once; then what is to be said about all of them."""
        linked = "supersedes" in self.layout.tables["observations"]
        if linked:
            self._find_superseded()
        self.observations = self._observations(linked)
        self._next()
        entities = self.conn.execute(self.layout.select("entities", order="order by t.id"))
        for entity in self.layout.rows("entities", entities):
            yield from self._orphans(before=entity.line)
            self.passed += 1
            yield from self._entity(entity, self._own(entity.line))
        yield from self._orphans()
        self._remark()

    def _next(self) -> Found | None:
        """The observation that waits; from now on the next one does."""
        found, self.waiting = self.waiting, next(self.observations, None)
        self.passed += found is not None
        return found

    def _own(self, entity_id: int) -> Iterator[Found]:
        while self.waiting is not None and self.waiting.cells["entity_id"] == entity_id:
            found = self._next()
            if found:
                yield found

    def _orphans(self, before: int | None = None) -> Iterator[Item]:
        """Those that wait and belong to no entity, for none has been read that they name."""
        while self.waiting is not None:
            given = self.waiting.cells["entity_id"]
            if before is not None and _follows(given, before):
                return
            yield _rejected(self.waiting, f"no entity with id {brief(given)}")
            self._next()

    def _find_superseded(self) -> None:
        """Which observations are replaced, and when by the first that did: few, but any number."""
        self.conn.execute("drop table if exists temp._limbic_superseded")
        self.conn.execute("create temp table _limbic_superseded(id integer primary key, since)")
        since = "created_at" if "created_at" in self.layout.tables["observations"] else "null"
        self.conn.execute(
            f"insert or ignore into temp._limbic_superseded select supersedes, {since}"
            " from observations"
            " where typeof(supersedes) = 'integer' and supersedes <> id order by id"
        )

    def _observations(self, linked: bool) -> Iterator[Found]:
        joined = ", s.id, s.since, p.id" if linked else ", null, null, null"
        joins = (
            "left join temp._limbic_superseded s on s.id = t.id"
            " left join observations p on p.id = t.supersedes and p.id <> t.id"
        )
        select = partial(self.layout.select, "observations", joined, joins if linked else "")
        order = "order by t.entity_id, t.id"
        found: Iterable[tuple[Any, ...]]
        if self._sorts(select(order)):
            # Whole rows would be sorted in memory, depending on how SQLite was built. The ids
            # alone are small, and each row is then looked up by its own.
            ids = self.conn.execute(f"select t.id from observations t {order}")
            one = select("where t.id = ?")
            found = chain.from_iterable(self.conn.execute(one, key) for key in ids)
        else:
            found = self.conn.execute(select(order))
        return self.layout.rows("observations", found)

    def _sorts(self, sql: str) -> bool:
        plan = self.conn.execute(f"explain query plan {sql}").fetchall()
        return any("TEMP B-TREE" in str(step) for step in plan)

    def _entity(self, found: Found, own: Iterator[Found]) -> Iterator[Item]:
        title = text(found.cells["name"], self.notes)
        if title is None:
            why = "no name" if found.cells["name"] is None else "an empty name"
            yield Item(found.line, raw(found.cells), Rejection(f"entities row {found.line}: {why}"))
            for observation in own:
                yield _rejected(observation, f"its entity (id {found.line}) has {why}")
            return
        entity = Entity(title, None, [], [])
        broken = []
        for observation in own:
            if observation.cells["content"] is None:
                broken.append(_rejected(observation, f"no content, in {title[:60]}"))
            else:
                self._add(entity, observation)
        self._fill(entity, found.cells)
        yield Item(found.line, raw(found.cells), entity)
        yield from broken

    def _fill(self, entity: Entity, cells: Cells) -> None:
        entity.entity_type = text(cells.get("entity_type"), self.notes)
        entity.created_at = time(cells.get("created_at"), "createdAt", self.notes)
        entity.updated_at = time(cells.get("updated_at"), "updatedAt", self.notes)
        status = name(cells.get("status"))
        kind = status.strip().casefold() if status else _CURRENT
        if kind == _ARCHIVED:
            entity.archived_at = (
                entity.updated_at or entity.created_at or _newest(entity) or self._long_ago()
            )
            entity.archived_reason = f"status: {_ARCHIVED}"
        elif kind != _CURRENT:
            shown = f"status {' '.join(kind.split())[:60]}"
            carried = self.notes.not_carried
            if shown not in carried and len(carried) >= _MAX_STATUSES:
                shown = "other statuses"
            carried[shown] += 1

    def _add(self, entity: Entity, found: Found) -> None:
        cells = found.cells
        content = text(cells["content"], self.notes)
        if content is None:
            entity.skipped.append("an empty text")
            return
        created = time(cells.get("created_at"), "observation.createdAt", self.notes)
        replaced, since, older = found.joined
        entity.observations.append(
            Observation(
                content,
                created,
                kind=text(cells.get("kind"), self.notes),
                valid_to=self._valid_to(cells, created, replaced is not None, since),
                flag=self._flag(cells.get("similarity_flag")),
                ref=None if replaced is None else found.line,
                supersedes=self._supersedes(cells.get("supersedes"), older),
            )
        )

    def _valid_to(
        self, cells: Cells, created: str | None, replaced: bool, since: object
    ) -> str | None:
        given = cells.get("superseded_at")
        if given is None and not replaced:
            return None
        return (
            time(given, "observation.validTo", self.notes)
            or (time(since, "observation.validTo", None) if replaced else None)
            or created
            or self._long_ago()
        )

    def _supersedes(self, given: object, older: int | None) -> int | None:
        if given is not None and older is None:
            self.dangling += 1
        return older

    def _flag(self, given: Any) -> int:
        if given in (0, 1):
            return int(given)
        if given is not None:
            unreadable(given, "observation.similarityFlag", self.notes)
        return 0

    def _long_ago(self) -> str:
        self.no_time += 1
        return LONG_AGO

    def _remark(self) -> None:
        if self.dangling:
            self.notes.remarks.append(
                f"Observations that replace one which is not in the file: {self.dangling:,}."
            )
        if self.no_time:
            self.notes.remarks.append(
                f"Rows that are archived or replaced at no known time: {self.no_time:,}, "
                f"taken as of {LONG_AGO}."
            )


def _follows(given: object, entity_id: int) -> bool:
    """Whether it is this entity's id or stands after it: SQL sorts NULL, numbers, all else."""
    if given is None:
        return False
    return not isinstance(given, (int, float)) or given >= entity_id


def _newest(entity: Entity) -> str | None:
    """The newest time that its observations know."""
    known = [t for o in entity.observations for t in (o.created_at, o.valid_to) if t]
    return max(known, default=None)


def _rejected(found: Found, reason: str) -> Item:
    return Item(found.line, raw(found.cells), Rejection(f"observations row {found.line}: {reason}"))
