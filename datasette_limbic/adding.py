"""Adding observations: written, compared and searchable when the call returns.

The steps are apart because a model or a comparison may take long and must hold neither a
transaction nor the thread that writes: ``read``, ``embed``, ``compare`` (``gather`` and ``find``
for each of ``groups``), ``write`` (one transaction; False: to be compared again), then the same
for the text of each entity as a whole, ``embed_entities`` and ``store_entities``. Killed between
any two of them, the memory is whole, and the next sync does what is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from datasette.utils.sqlite import sqlite3

from . import adding_answer, adding_input, adding_similar, embedding, embedding_target, llm_store
from .adding_rows import Placed, Row, place
from .adding_similar import PROVISIONAL, Compared, Gathered
from .config import Settings
from .connection import unwritten
from .duplicates import Observation
from .embedding_target import Target
from .errors import LimbicError, NotRecorded, NotWritable
from .reports import reading
from .reports.keeping import rules
from .schema import COLLECTIONS, has_reports, require_memory

TRIES = 5
"""So often everything is compared again because others wrote meanwhile."""
AT_ONCE = 0.3
"""Seconds that a comparison may take while others wait to write; one of more is done before."""
CHANGING = (
    f"nothing was added: others changed the entities {TRIES} times while they were compared. "
    "Send it again"
)
SYNC = embedding_target.SYNC


def add_observations(
    conn: sqlite3.Connection, items: Any, *, settings: Settings | None = None
) -> dict[str, Any]:
    """Add observations to entities that are there, as MCP server-memory's tool of this name.

    ``items`` is a list of ``{"entityName" or "id", "contents": […]}``; each of the contents is a
    text, or an object with ``content`` and if wanted ``kind``, ``confidence`` (0 to 1),
    ``valid_from``, ``valid_to``. A text that the entity holds already, character by character, is
    skipped; what cannot be added stands in ``rejected`` with the reason and spoils nothing else:
    where ``results`` is empty, nothing was added.

    Each new observation says what it is alike to in its entity (``similar``), and those that
    repeat an earlier one get their ``similarity_flag``. The vectors are made by the model that
    the file was embedded with, however much that costs; without it (``similarity.computed``
    false) texts are compared by their words alone, and the next sync does the rest.

    Raises BadParameter (no list, empty, over ``adding_input.MAX_OBSERVATIONS``), NotAMemory,
    NotWritable (a file of an earlier version), NotRecorded (others changed these entities each
    time that they were compared), and sqlite3.Error where nothing could be written.
    """
    adding = Adding(items, settings=settings)
    adding.read(conn)
    adding.embed()
    for _ in range(TRIES):
        adding.compare(conn)
        if adding.write(conn):
            break
    else:
        raise NotRecorded(CHANGING)
    adding.embed_entities()
    adding.store_entities(conn)
    return adding.answer


class _Changed(Exception):
    """What was compared is not what is there."""


class Adding:
    """One call. Raises BadParameter where ``items`` is no list of what may be added."""

    def __init__(self, items: Any, *, settings: Settings | None = None) -> None:
        self.asked = adding_input.read(items)
        self.settings = settings or Settings()
        self.prefix = self.settings.passage_prefix or ""
        self.placed = Placed()
        self.targets: dict[str, Target] = {}
        self.reasons: dict[str, str] = {}
        """Why no vectors are made or indexed, by collection."""
        self.blobs: dict[int, bytes] = {}
        self.compared: dict[tuple[int, ...], Compared] = {}
        self.changed: list[tuple[int, str]] = []
        self.entity_blobs: list[bytes] = []
        self.answer: dict[str, Any] = {}

    def read(self, conn: sqlite3.Connection) -> None:
        """Find the entities and the models. Raises NotAMemory, NotWritable (an older file)."""
        require_memory(conn)
        if not has_reports(conn):
            raise NotWritable(
                "nothing was added: the file is of an earlier version of this plugin. Run "
                "'datasette limbic init' on it to bring it up to date"
            )
        self.placed = place(conn, self.asked)
        for name in COLLECTIONS:
            info = embedding.collection_info(conn, name)
            if info is None or not info.count:
                self.reasons[name] = f"there are no vectors of {name} yet: {SYNC}"
                continue
            try:
                self.targets[name] = embedding_target.choose(conn, name, settings=self.settings)
            except LimbicError as error:
                self.reasons[name] = str(error)

    def embed(self) -> None:
        """Embed the new texts; needs no connection."""
        new = self.placed.new
        found = self._embedded("observations", [self.prefix + row.new.content for row in new])
        self.blobs = {row.number: blob for row, blob in zip(new, found, strict=False)}

    def _embedded(self, name: str, texts: Sequence[str]) -> list[bytes]:
        """Vectors of the texts; none where they cannot be had, and ``reasons`` says why."""
        target = self.targets.get(name)
        found: list[bytes] = []
        if target is None:
            return found
        try:
            for _, batch in embedding_target.batches(target, texts):
                found += embedding_target.embed(target, batch)
        except LimbicError as error:
            self.reasons[name] = str(error)
            return []
        return found

    def compare(self, conn: sqlite3.Connection) -> None:
        """Compare the new texts with those of their entities. Reads only."""
        for group in self.groups(conn):
            gathered = self.gather(conn, group)
            if gathered is not None:
                self.find(gathered)

    def groups(self, conn: sqlite3.Connection) -> list[list[int]]:
        """The entities, as many at a time as fit into memory; the same again while they can be."""
        ids = sorted({row.entity_id for row in self.placed.new})
        groups = [list(each) for each in self.compared]
        if sorted(i for group in groups for i in group) != ids:
            groups = list(reading.batches(conn, ids))
            kept = {tuple(group) for group in groups}
            self.compared = {key: each for key, each in self.compared.items() if key in kept}
        return groups

    def gather(self, conn: sqlite3.Connection, group: Sequence[int]) -> Gathered | None:
        """What is to be compared, None where it was already, as it stands now. Reads only."""
        new = self._observations(group, _now(conn))
        before = self.compared.get(tuple(group))
        return adding_similar.gather(conn, group, new, rules(conn), self.prefix, before)

    def find(self, gathered: Gathered) -> None:
        """Compare it; needs no connection."""
        self.compared[gathered.entity_ids] = adding_similar.find(gathered)

    def _observations(
        self, entity_ids: Sequence[int], now: str
    ) -> list[tuple[Observation, bytes | None]]:
        wanted = set(entity_ids)
        return [
            (
                Observation(PROVISIONAL + row.number, row.entity_id, row.new.content, now),
                self.blobs.get(row.number),
            )
            for row in self.placed.new
            if row.entity_id in wanted and row.holds(now)
        ]

    def write(self, conn: sqlite3.Connection) -> bool:
        """Write all of it in one transaction, and make the answer. sqlite3.Error as it comes.

        False where so much changed since that comparing it would keep others from writing: then
        nothing was written, and it is to be compared and written again.
        """
        try:
            with llm_store.transaction(conn):
                self._write(conn)
        except _Changed:
            return False
        self._say()
        return True

    def _write(self, conn: sqlite3.Connection) -> None:
        self.placed = place(conn, self.asked)
        now, new = _now(conn), self.placed.new
        left = AT_ONCE
        for group in self.groups(conn):
            gathered = self.gather(conn, group)
            if gathered is not None:
                left -= gathered.seconds
                if left < 0:
                    raise _Changed
                self.find(gathered)
        for row in new:
            row.insert(conn)
        self._store(conn, new)
        ids = {PROVISIONAL + row.number: row.id for row in new if row.id is not None}
        pairs = [p for each in self.compared.values() for p in adding_similar.written(each, ids)]
        held = [
            Observation(row.id, row.entity_id, row.new.content)
            for row in new
            if row.id is not None and row.holds(now)
        ]
        adding_similar.keep(conn, held, pairs)
        self.changed = self._unindexed(conn, sorted({row.entity_id for row in new}))
        self.answer = adding_answer.make(conn, self.placed, pairs)

    def _store(self, conn: sqlite3.Connection, new: Sequence[Row]) -> None:
        """The vectors of what was just written."""
        target = self.targets.get("observations")
        rows = [
            (row.id, self.prefix + row.new.content, self.blobs[row.number])
            for row in new
            if row.id is not None and row.number in self.blobs
        ]
        if target is None or not rows:
            return
        try:
            stored = embedding_target.store(conn, target, rows)
        except LimbicError as error:  # embedded with another model, just now
            self.reasons["observations"] = str(error)
        else:
            self._index(conn, target, stored)

    def _index(
        self, conn: sqlite3.Connection, target: Target, rows: Sequence[tuple[int, bytes]]
    ) -> None:
        """Make vectors findable, where the index is whole but for them; else sync makes it."""
        reason = embedding_target.unusable(conn, target)
        if reason is None:
            embedding_target.index(conn, target.name, rows)
        else:
            self.reasons[f"index of {target.name}"] = reason

    def _unindexed(self, conn: sqlite3.Connection, ids: Sequence[int]) -> list[tuple[int, str]]:
        """Entities whose text as a whole is to be embedded, with it. Those whose stored vector
        is of this very text, since a long one is cut, are indexed at once."""
        target = self.targets.get("entities")
        if target is None:
            return []
        found = llm_store.collection(conn, "entities")
        have = llm_store.stored(conn, found[0], ids) if found else {}
        right, rest = [], []
        for item, content in llm_store.texts(conn, "entities", ids).items():
            text = target.prefix + content
            if item in have and have[item][0] == llm_store.content_hash(text):
                right.append((item, have[item][1]))
            else:
                rest.append((item, text))
        self._index(conn, target, right)
        return rest

    def embed_entities(self) -> None:
        """Embed the text of each entity that got something; needs no connection."""
        self.entity_blobs = self._embedded("entities", [text for _, text in self.changed])

    def store_entities(self, conn: sqlite3.Connection) -> None:
        """Store those vectors, so that search finds what is new, and say so in the answer.

        What keeps this from being done is said and never raised: the observations are there.
        """
        target = self.targets.get("entities")
        if target is not None and self.entity_blobs:
            rows = [
                (item, text, blob)
                for (item, text), blob in zip(self.changed, self.entity_blobs, strict=True)
            ]
            try:
                with llm_store.transaction(conn):
                    stored = embedding_target.store(conn, target, rows)
                    self._index(conn, target, stored)
            except (LimbicError, sqlite3.Error) as error:
                self.reasons["entities"] = unwritten("the memory", error)
            else:
                if len(stored) < len(rows):
                    self.reasons["entities"] = f"an entity changed meanwhile: {SYNC}"
        self._say()

    def _say(self) -> None:
        """What the answer says of vectors."""
        target = self.targets.get("observations")
        nothing = None if self.placed.new else "nothing was added"
        why = nothing or self.reasons.get("observations")
        self.answer["similarity"] = {
            "computed": why is None,
            "model": target.stored_as if target else None,
            "reason": why,
        }
        why = nothing or self.reasons.get("entities") or self.reasons.get("index of entities")
        self.answer["search"] = {"updated": why is None, "reason": why}


def _now(conn: sqlite3.Connection) -> str:
    """The present as SQLite writes it into ``created_at``."""
    return str(conn.execute("select datetime('now')").fetchone()[0])
