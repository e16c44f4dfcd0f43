"""The sync of one collection: what is to do, and doing it batch by batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from datasette.utils.sqlite import sqlite3

from . import embedding, embedding_target, llm_store, vectors
from .retrieval import changes
from .retrieval.building import fold_soon
from .sync_summary import CollectionSummary

CHECKED_AT_ONCE = 500
PASSES = 3
REBUILD_FROM = 1000

_CROSSED = (
    "select {id} from {table} where (valid_to is not null and datetime(valid_to) between"
    " :since and :now) or (valid_from is not null and datetime(valid_from) between :since and :now)"
)


class Job:
    """The sync of one collection."""

    def __init__(
        self,
        conn: sqlite3.Connection,
        name: str,
        model: str | None,
        settings: Any,
        reembed: bool,
    ) -> None:
        self.conn, self.name, self.reembed = conn, name, reembed
        self.batch_size: int | None = None
        self.progress: vectors.Progress | None = None
        self.full, self.usable = False, True
        self.done = self.total = 0
        self.summary = CollectionSummary(name)
        self.target = embedding_target.choose(
            conn, name, model=model, settings=settings, reembed=reembed
        )
        if reembed:
            # fail before anything is thrown away
            embedding.run_model(self.target.asked, [name])

    def run(self) -> CollectionSummary:
        """Do it all."""
        now = self.conn.execute("select datetime('now')").fetchone()[0]
        if not self.usable:
            self._unindexed()
        if self.reembed:
            self._discard()
        self._prune()
        if self.usable:
            self._drop_outdated()
        ids = self._work(now)
        for _ in range(PASSES):
            self.total = self.done + len(ids)
            for start in range(0, len(ids), CHECKED_AT_ONCE):
                self._check(ids[start : start + CHECKED_AT_ONCE])
                if self.name == "entities":
                    fold_soon(self.conn)
            # rows that changed while they were embedded
            ids = self._marked()
            if not ids:
                break
        self._prune()  # rows that went away meanwhile
        self._finish(now)
        return self.summary

    def _collection_id(self) -> int | None:
        found = llm_store.collection(self.conn, self.name)
        return found[0] if found else None

    def _unindexed(self) -> None:
        """Without sqlite-vec marks go and vec0 is not written: 0 vectors says that it has to be
        built again. Said first: this may end at any moment."""
        with llm_store.transaction(self.conn):
            cursor = self.conn.execute(
                "update limbic_indexes set vectors = 0 where collection = ? and vectors <> 0",
                [self.name],
            )
            if cursor.rowcount:
                changes.start_anew(self.conn, self.name)

    def _discard(self) -> None:
        with llm_store.transaction(self.conn):
            self.conn.execute(
                "delete from embeddings where collection_id = ?", [self._collection_id()]
            )
            embedding_target.ensure_collection(self.conn, self.target)
            if self.usable:
                vectors.rebuild(self.conn, self.name)

    def _prune(self) -> None:
        collection_id = self._collection_id()
        keys = llm_store.gone(self.conn, self.name, collection_id)
        dead = self.conn.execute(
            "select item_id from limbic_stale where collection = ?"
            f" and item_id not in (select id from {self.name})",
            [self.name],
        ).fetchall()
        if not keys and not dead:
            return
        with llm_store.transaction(self.conn):
            # asked again, now that nobody else can write
            keys = llm_store.gone(self.conn, self.name, collection_id)
            if collection_id is not None:
                llm_store.delete(self.conn, collection_id, keys)
            self.conn.execute(
                "delete from limbic_stale where collection = ?"
                f" and item_id not in (select id from {self.name})",
                [self.name],
            )
            if self.usable and vectors.table_dimension(self.conn, self.name) is not None:
                left_over = vectors.differences(self.conn, self.name)[1]
                vectors.delete(self.conn, self.name, left_over + [row[0] for row in dead])
        self.summary.pruned += len(keys)

    def _drop_outdated(self) -> None:
        """Take away an index of another model or dimension; it would answer nonsense."""
        made = vectors.table_dimension(self.conn, self.name)
        info = embedding.collection_info(self.conn, self.name)
        if made is None or info is None or not info.count:
            return
        row = self.conn.execute(
            "select model from limbic_indexes where collection = ?", [self.name]
        ).fetchone()
        if made != info.dimension or row is None or row[0] != info.model_id:
            vectors.rebuild(self.conn, self.name)
            self.summary.rebuilt = True

    def _marked(self) -> list[int]:
        rows = self.conn.execute(
            "select item_id from limbic_stale where collection = ? order by item_id", [self.name]
        )
        return [row[0] for row in rows]

    def _work(self, now: str) -> list[int]:
        """Ids to look at, in order: all, or those marked, missing or past a validity date."""
        if self.full:
            rows = self.conn.execute(f"select id from {self.name} order by id")
            return [row[0] for row in rows]
        ids = set(self._marked())
        ids.update(llm_store.missing(self.conn, self.name, self._collection_id()))
        if self.name == "entities":
            row = self.conn.execute(
                "select synced_at from limbic_indexes where collection = 'entities'"
            ).fetchone()
            span = {"since": (row and row[0]) or "0000-01-01", "now": now}
            for table, column in (("observations", "entity_id"), ("relations", "from_entity")):
                sql = _CROSSED.format(table=table, id=column)
                ids.update(row[0] for row in self.conn.execute(sql, span))
        return sorted(ids)

    def _check(self, ids: Sequence[int]) -> None:
        """Clear the marks of those whose stored vector is of the current text; embed the rest."""
        to_embed: list[tuple[int, str]] = []
        with llm_store.transaction(self.conn):
            collection_id = self._collection_id()
            have = {} if collection_id is None else llm_store.stored(self.conn, collection_id, ids)
            right = []
            for item, content in llm_store.texts(self.conn, self.name, ids).items():
                text = self.target.prefix + content
                if item in have and have[item][0] == llm_store.content_hash(text):
                    right.append((item, have[item][1]))
                else:
                    to_embed.append((item, text))
            self._index(right)
        self.summary.verified += len(right)
        self._advance(len(ids) - len(to_embed))
        self._embed(to_embed)

    def _embed(self, rows: list[tuple[int, str]]) -> None:
        """Embed outside the transaction, then store what has still the text that was embedded."""
        texts = [text for _, text in rows]
        for start, batch in embedding_target.batches(self.target, texts, self.batch_size):
            found = embedding_target.embed(self.target, batch)
            items = [item for item, _ in rows[start : start + len(batch)]]
            with llm_store.transaction(self.conn):
                fresh = embedding_target.store(
                    self.conn, self.target, list(zip(items, batch, found, strict=True))
                )
                self._index(fresh)
            self.summary.embedded += len(fresh)
            self._advance(len(batch))

    def _index(self, rows: Sequence[tuple[int, bytes]]) -> None:
        embedding_target.index(self.conn, self.name, rows, usable=self.usable)

    def _advance(self, count: int) -> None:
        self.done += count
        if self.progress and count:
            self.progress(min(self.done, self.total), self.total, self.name)

    def _finish(self, now: str) -> None:
        """Compare vec0 with what is stored, repair it, and write down when."""
        if self.usable:
            self._reconcile()
        with llm_store.transaction(self.conn):
            # Without sqlite-vec the marks are gone but vec0 was not written: 0 vectors says
            # that it has to be built again.
            self.conn.execute(
                "insert into limbic_indexes(collection, model, dimension, vectors, built_at,"
                " synced_at) values (:name, :model, 0, 0, '', :now)"
                " on conflict(collection) do update set synced_at = :now,"
                " vectors = iif(:usable, vectors, 0)",
                {
                    "name": self.name,
                    "model": self.target.stored_as,
                    "now": now,
                    "usable": self.usable,
                },
            )
        state = vectors.index_state(self.conn)[self.name]
        self.summary.model, self.summary.dimension = state["model"], state["dimension"]
        self.summary.items, self.summary.pending = state["items"], state["pending"]
        self.summary.indexed, self.summary.rejected = state["indexed"], state["rejected"]

    def _reconcile(self) -> None:
        row = self.conn.execute(
            "select vectors from limbic_indexes where collection = ?", [self.name]
        ).fetchone()
        state = vectors.index_state(self.conn)[self.name]
        made = vectors.table_dimension(self.conn, self.name) is not None
        absent, left_over = vectors.differences(self.conn, self.name)
        untrue = bool(state["indexed"] and row is not None and row[0] != state["indexed"])
        if (
            untrue
            or len(absent) >= REBUILD_FROM
            or (made and not state["stored"])
            or vectors.is_bloated(self.conn, self.name)
        ):
            changed = None if untrue else absent + left_over
            vectors.rebuild(self.conn, self.name, changed=changed)
            self.summary.rebuilt = True
            return
        if left_over:
            vectors.delete(self.conn, self.name, left_over)
        if absent:
            collection_id = self._collection_id()
            assert collection_id is not None  # something is stored in it
            found = llm_store.stored(self.conn, collection_id, absent)
            vectors.upsert(self.conn, self.name, [(i, blob) for i, (_, blob) in found.items()])
