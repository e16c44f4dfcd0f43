"""The times that files know of entities, and last_activity_at, which follows from them."""

from __future__ import annotations

from datasette.utils.sqlite import sqlite3

from ..times import parse_time
from .items import Entity

_NOTE_TIMES = """
insert into _limbic_import_times values (?, ?, ?) on conflict(entity_id) do update set
  own = coalesce(max(own, excluded.own), own, excluded.own),
  known = coalesce(max(known, excluded.known), known, excluded.known)
"""


def earliest(stored: str | None, given: str | None) -> str | None:
    """The earlier of two times, the stored one where they are equal or it cannot be read."""
    return stored if given is None or not _beats(given, stored, -1) else given


def latest(stored: str | None, given: str | None) -> str | None:
    """The later of two times, the stored one where they are equal or it cannot be read."""
    return stored if given is None or not _beats(given, stored, 1) else given


def _beats(given: str, stored: str | None, sign: int) -> bool:
    if stored is None:
        return True
    old, new = parse_time(stored), parse_time(given)
    return old is not None and new is not None and (new - old) * sign > 0


class Activity:
    """Collects the newest time known of each entity, in a temporary table.

    ``own`` is the last activity that a file itself tells; ``known`` is any other time of the
    entity, its observations, or its relations.
    """

    def __init__(self, conn: sqlite3.Connection) -> None:
        self.conn = conn
        self.waiting: list[tuple[int, str | None, str | None]] = []
        conn.execute(
            "create temp table _limbic_import_times"
            "(entity_id integer primary key, own text, known text)"
        )

    def note(self, entity_id: int, known: str, own: str | None = None) -> None:
        """One more time of the entity."""
        self.waiting.append((entity_id, own, known))

    def note_row(self, entity_id: int, entity: Entity) -> None:
        """All times that a row tells."""
        known = [t for t in (entity.created_at, entity.updated_at) if t]
        if not entity.only_texts:
            known += [o.created_at for o in entity.observations if o.created_at]
        if known or entity.last_activity_at:
            newest = max(known) if known else None
            self.waiting.append((entity_id, entity.last_activity_at, newest))

    def moves(self, entity_id: int, stored: str | None, given: str | None) -> bool:
        """Whether a row moves last_activity_at, which is written at the end of the import."""
        if latest(stored, given) == stored:
            return False
        row = self.conn.execute(
            "select own from temp._limbic_import_times where entity_id = ?", [entity_id]
        ).fetchone()
        return row is None or latest(row[0], given) != row[0]

    def flush(self) -> None:
        """Write what waits."""
        if self.waiting:
            self.conn.executemany(_NOTE_TIMES, self.waiting)
            self.waiting.clear()

    def settle(self) -> None:
        """Move last_activity_at on to what the files know, never back."""
        self.flush()
        updates = []
        for entity_id, own, known, stored in self.conn.execute(
            "select t.entity_id, t.own, t.known, e.last_activity_at"
            " from _limbic_import_times t join entities e on e.id = t.entity_id"
        ):
            newest = latest(stored, own or known)
            if newest != stored:
                updates.append((newest, entity_id))
        self.conn.executemany("update entities set last_activity_at = ? where id = ?", updates)
