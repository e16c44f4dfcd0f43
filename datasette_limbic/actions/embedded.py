"""The vectors that go with an action: made before its transaction opens, stored inside of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from datasette.utils.sqlite import sqlite3

from .. import embedding, embedding_target, llm_store, vectors
from ..config import Settings
from ..embedding_target import SYNC, Target
from ..errors import LimbicError, NotEmbedded
from ..schema import COLLECTIONS
from . import snapshots
from .model import New, Plan, RowChange


class Outdated(Exception):
    """What was embedded is not what is there: it is to be read and embedded again."""


class Embedded:
    """The vectors of all that one action touches.

    ``choose`` and ``look`` read, ``embed`` needs no connection, ``store`` writes. Without
    ``wanted`` no model is called.
    """

    def __init__(self, settings: Settings, *, wanted: bool = True) -> None:
        self.settings, self.wanted = settings, wanted
        self.targets: dict[str, Target] = {}
        self.reasons: dict[str, str] = {}
        """Why no vectors are made or indexed, by collection."""
        self.texts: dict[str, list[str]] = {}
        """What is to be embedded, by collection."""
        self.blobs: dict[str, dict[str, bytes]] = {}
        """Vectors by collection and text: the ids of new rows are not known before they are
        written."""

    @property
    def reason(self) -> str | None:
        """Why search does not find all of it, None where it does."""
        return next((self.reasons[key] for key in _ORDER if key in self.reasons), None)

    def choose(self, conn: sqlite3.Connection) -> None:
        """The model of each collection; none where there are no vectors, or none are wanted.

        Raises NotEmbedded where it is not the one that the file names.
        """
        self.targets, self.reasons = {}, {}
        for name in COLLECTIONS:
            info = embedding.collection_info(conn, name)
            if not self.wanted:
                self.reasons[name] = f"not asked for: {SYNC}"
            elif info is None or not (info.count or _index_of(conn, name, info.model_id)):
                self.reasons[name] = f"there are no vectors of {name} yet: {SYNC}"
            else:
                try:
                    target = embedding_target.choose(conn, name, settings=self.settings)
                except LimbicError as error:
                    raise _not_embedded(error) from error
                # the last item may be gone: its undoing is embedded as it was
                left = 0 if info.count else _index_of(conn, name, target.stored_as)
                self.targets[name] = replace(target, dimension=target.dimension or left)

    def look(self, conn: sqlite3.Connection, plan: Plan) -> None:
        """Find the texts that would be there and have no vector of exactly this text yet."""
        found: dict[str, list[str]] = {}
        target = self.targets.get("entities")
        if target is not None:
            touched, _ = snapshots.touched(conn, plan)
            made = snapshots.texts(conn, plan, touched)
            have = _stored(conn, "entities", [e for e in made if not isinstance(e, New)])
            found["entities"] = [
                target.prefix + text
                for each, text in made.items()
                if have.get(each) != llm_store.content_hash(target.prefix + text)
            ]
        target = self.targets.get("observations")
        if target is not None:
            images = {change.key[0]: change.after or {} for change in _embeddable(plan)}
            new = [image["content"] for image in images.values() if "content" in image]
            found["observations"] = [target.prefix + each for each in _as_text(conn, new)]
            moved = [each for each, image in images.items() if "content" not in image]
            have = _stored(conn, "observations", moved)
            found["observations"] += [
                target.prefix + text
                for each, text in llm_store.texts(conn, "observations", moved).items()
                if have.get(each) != llm_store.content_hash(target.prefix + text)
            ]
        self.texts = found

    def embed(self) -> None:
        """Embed those texts; needs no connection. Raises NotEmbedded where the model fails."""
        for name, texts in self.texts.items():
            made = self.blobs.setdefault(name, {})
            missing = [text for text in dict.fromkeys(texts) if text not in made]
            target = self.targets[name]
            try:
                for _, batch in embedding_target.batches(target, missing):
                    made.update(zip(batch, embedding_target.embed(target, batch), strict=True))
            except LimbicError as error:
                raise _not_embedded(error) from error

    def store(self, conn: sqlite3.Connection, done: Plan, touched: Iterable[int]) -> None:
        """Write vectors and index of all that a plan changed, and of these entities; inside its
        transaction. Raises Outdated where a text is another than was embedded."""
        created = [c.key[0] for c in done.of("entities") if c.before is None]
        self._collection(conn, "entities", {*touched, *created}, done)
        changed = {c.key[0] for c in _embeddable(done)}
        self._collection(conn, "observations", changed, done)

    def _collection(
        self, conn: sqlite3.Connection, name: str, ids: Iterable[int], done: Plan
    ) -> None:
        gone = [change.key[0] for change in done.of(name) if change.after is None]
        found = llm_store.collection(conn, name)
        if found is not None:
            llm_store.delete(conn, found[0], map(str, gone))
        target = self.targets.get(name)
        if target is None or found is None:
            self._forget(conn, name, gone)
            return
        there = sorted(set(ids) - set(gone))
        have = llm_store.stored(conn, found[0], there)
        right: list[tuple[int, bytes]] = []
        fresh: list[tuple[int, str, bytes]] = []
        for item, content in llm_store.texts(conn, name, there).items():
            text = target.prefix + content
            if item in have and have[item][0] == llm_store.content_hash(text):
                right.append((item, have[item][1]))
            elif text in self.blobs.get(name, {}):
                fresh.append((item, text, self.blobs[name][text]))
            else:
                raise Outdated
        try:
            stored = embedding_target.store(conn, target, fresh)
        except LimbicError as error:  # embedded with another model, just now
            raise Outdated from error
        reason = embedding_target.unusable(conn, target)
        if reason is not None:
            self.reasons[f"index of {name}"] = reason
            return
        embedding_target.index(conn, name, [*right, *stored])
        vectors.delete(conn, name, gone)
        self._forget(conn, name, gone)

    def _forget(self, conn: sqlite3.Connection, name: str, gone: Iterable[int]) -> None:
        """Marks of rows that are not there, where no index holds them any more."""
        if not self.reasons.get(name) or vectors.table_dimension(conn, name) is None:
            conn.executemany(
                "delete from limbic_stale where collection = ? and item_id = ?",
                [(name, item) for item in gone],
            )


_ORDER = ("entities", "observations", "index of entities", "index of observations")
_EMBEDDED = frozenset(("entity_id", "content", "valid_from", "valid_to"))
"""With another one of these the triggers mark an observation for the index."""


def _embeddable(plan: Plan) -> list[RowChange]:
    """Observations whose vector or place in the index the plan changes, and that stay."""
    return [
        change
        for change in plan.of("observations")
        if change.after is not None and (change.before is None or _EMBEDDED & change.after.keys())
    ]


def _as_text(conn: sqlite3.Connection, values: Iterable[Any]) -> list[str]:
    """Contents as they are read for embedding, whatever type another program gave them."""
    return [
        value
        if isinstance(value, str)
        else conn.execute("select cast(cast(? as text) as blob)", [value])
        .fetchone()[0]
        .decode("utf-8", "replace")
        for value in values
    ]


def _index_of(conn: sqlite3.Connection, name: str, model: str) -> int:
    """The dimension of a collection's index where it was made with this model, else 0."""
    row = conn.execute("select model from limbic_indexes where collection = ?", [name]).fetchone()
    return (vectors.table_dimension(conn, name) or 0) if row and row[0] == model else 0


def _stored(conn: sqlite3.Connection, name: str, ids: Iterable[int]) -> dict[Any, bytes | None]:
    """Hash of the text of each vector that is there."""
    found = llm_store.collection(conn, name)
    if found is None:
        return {}
    return {item: row[0] for item, row in llm_store.stored(conn, found[0], list(ids)).items()}


def _not_embedded(error: Exception) -> NotEmbedded:
    return NotEmbedded(
        f"nothing was changed, since what would change could not be embedded: {error}. Put that "
        "right, or do it without embedding (embed: false, --no-embed), and run 'datasette limbic "
        "sync' afterwards"
    )
