"""What a source brought when it was last imported, so that importing it again is a sync.

Three states are compared: the source then, the source now, the memory now. What the source did
not change is left as it is here, so a person's corrections and deletions stay; what it changed
is taken over where nobody changed it here.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from hashlib import blake2b
from pathlib import Path
from typing import Any

from datasette.utils.sqlite import sqlite3

from .batches import Inserts
from .items import Entity
from .moved import Moved
from .source import Source
from .source_state import NO_FLAGS, Fields, State, Text, brief, digest, fields_of

# Texts remembered of entities that come again, over all of them.
_REMEMBERED = 100_000
_BATCH = 1000
_UPSERT = """
insert into _limbic_source_entities(source_id, key, entity_id, import_id, entity_type,
  archived_at, valid_from, valid_to, observations)
values (?, ?, ?, ?, ?, ?, ?, ?, ?)
on conflict(source_id, key) do update set entity_id = excluded.entity_id,
  import_id = excluded.import_id, entity_type = excluded.entity_type,
  archived_at = excluded.archived_at, valid_from = excluded.valid_from,
  valid_to = excluded.valid_to, observations = excluded.observations
"""


class Baseline:
    """The last known state of one source. ``restore`` brings back what is not here any more."""

    def __init__(
        self,
        conn: sqlite3.Connection,
        source: Source,
        import_id: int,
        moved: Moved,
        restore: bool = False,
    ) -> None:
        self.conn, self.import_id, self.moved, self.restore = conn, import_id, moved, restore
        self.complete_rows, self.whole = source.complete_rows, source.whole
        self.source_id = int(
            conn.execute(
                "insert into _limbic_sources(location, name, format, import_id)"
                " values (?, ?, ?, ?) on conflict(location) do update set"
                " name = excluded.name, format = excluded.format, import_id = excluded.import_id"
                " returning id",
                [location_of(source.path), storable(source.path.name), source.format, import_id],
            ).fetchall()[0][0]
        )
        #: whether this source was imported before; else only this import's own rows are there
        self.known = (
            conn.execute(
                "select 1 from _limbic_source_entities where source_id = ? limit 1",
                [self.source_id],
            ).fetchone()
            is not None
        )
        self.pending: dict[str, tuple[Any, ...]] = {}
        self.new = Inserts(
            "_limbic_source_entities",
            ("source_id", "key", "entity_id", "import_id", "observations"),
            dict.fromkeys(Fields._fields, "null"),
        )
        self.states: OrderedDict[str, State] = OrderedDict()
        self.remembered = 0
        self.put_away = False
        self.gone_texts = 0
        #: whether the source says anything else than at its last import
        self.changed = False

    def state(self, key: str) -> State | None:
        """The entity as an earlier import, or earlier rows of this one, had it."""
        if key in self.states:
            self.states.move_to_end(key)
            return self.states[key]
        state = self._load(key)
        if state is None:
            return None
        while self.states and self.remembered > _REMEMBERED:
            self._put_away()
        self.remembered += len(state.texts)
        self.states[key] = state
        return state

    def _load(self, key: str) -> State | None:
        waiting = self.pending.pop(key, None)
        if waiting is None and self.put_away:
            packed = self.conn.execute(
                "select state from temp._limbic_import_states where key = ?", [key]
            ).fetchone()
            if packed is not None:
                return State.unpack(packed[0])
        row = (
            waiting
            or self.conn.execute(
                "select source_id, key, entity_id, import_id, entity_type, archived_at,"
                " valid_from, valid_to, observations from _limbic_source_entities"
                " where source_id = ? and key = ?",
                [self.source_id, key],
            ).fetchone()
        )
        if row is None:
            return None
        _, _, entity_id, import_id, *fields, blob = row
        state = State(entity_id, import_id, Fields(*fields), blob, import_id != self.import_id)
        state.dirty = waiting is not None
        return state

    def note(self, key: str, entity_id: int, entity: Entity, digests: list[bytes]) -> None:
        """Keep what the source says of an entity of which nothing was known before."""
        self.changed = True
        fields = fields_of(entity)
        if entity.only_texts:
            blob = b"".join([found[:7] + NO_FLAGS for found in sorted(digests)])
        elif len(set(digests)) == len(digests):
            blob = b"".join(sorted(map(brief, digests, entity.observations)))
        else:
            state = State(entity_id, self.import_id, fields, b"", is_earlier=False)
            state.see_texts(entity.observations, digests)
            blob = state.blob()
        self.pending[key] = (self.source_id, key, entity_id, self.import_id, *fields, blob)

    def _put_away(self) -> None:
        """The entity that was not seen for longest; an entity may have rows far apart."""
        key, state = self.states.popitem(last=False)
        self.remembered -= len(state.texts)
        if not self.put_away:
            self.put_away = True
            self.conn.execute(
                "create temp table _limbic_import_states(key text primary key, state) without rowid"
            )
        self.conn.execute(
            "insert or replace into temp._limbic_import_states values (?, ?)", [key, state.pack()]
        )

    def flush(self) -> None:
        """Write what waits of new entities."""
        for source_id, key, entity_id, import_id, *fields, blob in self.pending.values():
            self.new.add((source_id, key, entity_id, import_id, blob), *fields)
        self.new.flush(self.conn)
        self.pending.clear()

    def finish(self) -> None:
        """Write the rest, when all rows of the source were read."""
        self.flush()
        if self.put_away:
            while self.states:
                self._put_away()
            rows = self.conn.execute("select key, state from temp._limbic_import_states")
            while some := rows.fetchmany(_BATCH):
                self._keep({key: State.unpack(packed) for key, packed in some})
            self.conn.execute("drop table temp._limbic_import_states")
            self.put_away = False
        self._keep(self.states)
        self.states.clear()
        self.remembered = 0

    def _keep(self, states: dict[str, State]) -> None:
        rows = []
        for key, state in states.items():
            fields = state.fields(self.complete_rows)
            if state.dirty and fields is not None:
                head = (self.source_id, key, state.entity_id, self.import_id)
                blob = state.blob(self.whole)
                rows.append((*head, *fields, blob))
                told = (state.stored_id, state.before, state.stored)
                self.changed = self.changed or told != (state.entity_id, fields, digest(blob))
            if state.before is not None and self.whole:
                self.gone_texts += self._kept(state.entity_id, state.gone())
        self.conn.executemany(_UPSERT, rows)

    def _kept(self, entity_id: int, gone: dict[bytes, Text]) -> int:
        """How many of the texts that are gone from the source are still here."""
        if not gone:
            return 0
        where, args, _ = self.moved.observations(entity_id)
        here = Counter(
            digest(content)[:7]
            for (content,) in self.conn.execute(
                f"select content from observations where {where}", args
            )
        )
        return sum(
            min(max(0, here[key] - len(text.now)), len(text.before) - len(text.now))
            for key, text in gone.items()
        )

    def gone(self) -> tuple[int, int]:
        """How many entities, and observations of those that stayed, an earlier import had and
        this one did not, and are still here. To be asked when the source is finished."""
        row = self.conn.execute(
            "select count(*) from _limbic_source_entities s join entities e on e.id = s.entity_id"
            " where s.source_id = ? and s.import_id < ?"
            " and (s.entity_type is not null or s.observations <> x'')",
            [self.source_id, self.import_id],
        ).fetchone()
        return int(row[0]), self.gone_texts


def location_of(path: Path) -> str:
    """What a source is known by: a digest of its path, with links followed."""
    whole = str(path.resolve()).encode("utf-8", "replace")
    return blake2b(whole, digest_size=16).hexdigest()


def storable(name: str) -> str:
    """A file name may hold bytes that are no text."""
    return name.encode("utf-8", "replace").decode("utf-8")
