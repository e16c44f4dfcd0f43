"""What changed since an index was made: these few vectors are compared exactly.

Two kinds: what the log of changes names (``changes``), and rows that a program embedded with
``llm embed-multi`` and nobody has indexed yet. So what is new is found at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from datasette.utils.sqlite import sqlite3

from .. import llm_store, vectors

if TYPE_CHECKING:
    import numpy

COLLECTION = "entities"
MOST_UNINDEXED = 2000
"""Rows that nobody has indexed yet, of which so many are looked at; the newest ones."""

_SMALL, _LARGE = 1e-15, 1e15
"""Lengths of vectors between which float32 is enough to tell them."""


class Overlay(NamedTuple):
    """Items whose vectors in the index do not count, and the vectors that do."""

    changed: numpy.ndarray
    """Ids (int64, sorted) whose place in the index is void: changed, or gone."""
    ids: numpy.ndarray
    """Ids (int64) of those that have a vector now."""
    vectors: numpy.ndarray
    """Their unit vectors, float32, a row each."""
    types: tuple[str, ...]
    """Their entity types."""
    archived: numpy.ndarray
    """Whether they are archived, bool."""

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        return int(self.changed.nbytes + self.ids.nbytes + self.vectors.nbytes)

    def and_(self, newer: Overlay) -> Overlay:
        """Both: of an item in both, what ``newer`` has counts."""
        import numpy

        if not len(newer.changed):
            return self
        keep = ~numpy.isin(self.ids, newer.changed)
        kept = zip(self.types, keep.tolist(), strict=True)
        return Overlay(
            numpy.union1d(self.changed, newer.changed),
            numpy.concatenate([self.ids[keep], newer.ids]),
            numpy.concatenate([self.vectors[keep], newer.vectors]),
            (*(name for name, there in kept if there), *newer.types),
            numpy.concatenate([self.archived[keep], newer.archived]),
        )

    def scores(
        self, query: numpy.ndarray, entity_type: str | None, include_archived: bool
    ) -> tuple[numpy.ndarray, numpy.ndarray]:
        """Ids and cosine similarities of those that a search may find."""
        import numpy

        keep = numpy.ones(len(self.ids), bool) if include_archived else ~self.archived
        if entity_type is not None:
            keep &= numpy.array([t == entity_type for t in self.types], bool)
        # not by BLAS, whose threads wait for those of other searches: 25 ms in place of one
        similar: numpy.ndarray = numpy.einsum("ij,j->i", self.vectors[keep], query)
        return self.ids[keep], similar


class Waiting(NamedTuple):
    """Entities that wait for a sync, as they are now; the newest MOST_UNINDEXED of them."""

    ids: numpy.ndarray
    """int64."""
    types: tuple[str, ...]
    archived: numpy.ndarray
    """bool."""

    def fit(self, entity_type: str | None, include_archived: bool) -> numpy.ndarray:
        """Which of them a search may find, as bool."""
        import numpy

        keep = numpy.ones(len(self.ids), bool) if include_archived else ~self.archived
        if entity_type is not None:
            keep = keep & numpy.array([t == entity_type for t in self.types], bool)
        return keep


def waiting(conn: sqlite3.Connection) -> Waiting:
    """Read what waits for a sync."""
    import numpy

    rows = conn.execute(
        "select e.id, e.entity_type, e.archived_at is not null from (select item_id"
        " from limbic_stale where collection = ? order by item_id desc limit ?) s"
        " cross join entities e on e.id = s.item_id order by e.id",
        [COLLECTION, MOST_UNINDEXED],
    ).fetchall()
    return Waiting(
        numpy.array([row[0] for row in rows], "i8"),
        tuple(row[1] or "" for row in rows),
        numpy.array([bool(row[2]) for row in rows], bool),
    )


def unindexed(conn: sqlite3.Connection) -> list[int]:
    """Entities that changed since the last sync and were embedded after it, by another program."""
    rows = conn.execute(
        "select s.item_id from (select item_id from limbic_stale where collection = ?1"
        " order by item_id desc limit ?2) s"
        " cross join collections c on c.name = ?1"
        " cross join embeddings m on m.collection_id = c.id and m.id = cast(s.item_id as text)"
        " where m.updated >= coalesce((select cast(strftime('%s', synced_at) as integer)"
        "  from limbic_indexes where collection = ?1), 0)",
        [COLLECTION, MOST_UNINDEXED],
    )
    return [row[0] for row in rows]


def overlay(conn: sqlite3.Connection, changed: Iterable[int], dimension: int) -> Overlay:
    """Read the vectors that ``changed`` have now."""
    import numpy

    ids = sorted(set(changed))
    found = unit_vectors(conn, ids, dimension)
    about = {
        row[0]: (row[1] or "", bool(row[2]))
        for row in conn.execute(
            "select id, entity_type, archived_at is not null from entities"
            " where id in (select value from json_each(?))",
            [json.dumps(list(found))],
        )
    }
    live = [item for item in found if item in about]
    matrix = (
        numpy.stack([found[item] for item in live]) if live else numpy.empty((0, dimension), "<f4")
    )
    return Overlay(
        numpy.array(ids, "i8"),
        numpy.array(live, "i8"),
        matrix,
        tuple(about[item][0] for item in live),
        numpy.array([about[item][1] for item in live], bool),
    )


def unit_vectors(
    conn: sqlite3.Connection, ids: Sequence[int], dimension: int
) -> dict[int, numpy.ndarray]:
    """The unit vectors of entities, of those that have a usable one."""
    import numpy

    collection = llm_store.collection(conn, COLLECTION)
    if collection is None or not ids:
        return {}
    rows = conn.execute(
        "select cast(id as integer), embedding from embeddings where collection_id = ?"
        " and id in (select cast(value as text) from json_each(?))",
        [collection[0], json.dumps(list(ids))],
    ).fetchall()
    units = vectors.units([row[1] for row in rows], dimension)
    return {
        row[0]: numpy.frombuffer(unit, "<f4")
        for row, unit in zip(rows, units, strict=True)
        if isinstance(unit, bytes)
    }


def similarities(
    conn: sqlite3.Connection, ids: Sequence[int], query: numpy.ndarray
) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Ids and exact cosine similarities of those of ``ids`` that have a usable vector."""
    import numpy

    collection = llm_store.collection(conn, COLLECTION)
    if collection is None or not len(ids):
        return numpy.empty(0, "i8"), numpy.empty(0, "f4")
    size = len(query) * 4
    rows = conn.execute(
        "select cast(id as integer), embedding from embeddings where collection_id = ?"
        " and id in (select cast(value as text) from json_each(?))"
        " and typeof(embedding) = 'blob' and length(embedding) = ?",
        [collection[0], json.dumps(list(ids)), size],
    ).fetchall()
    found = numpy.frombuffer(b"".join(row[1] for row in rows), "<f4").reshape(-1, len(query))
    with numpy.errstate(over="ignore"):
        norms = numpy.sqrt(numpy.einsum("ij,ij->i", found, found))
    if not ((norms > _SMALL) & (norms < _LARGE)).all():
        # squares of float32 have no room there
        found = found.astype("f8")
        norms = numpy.sqrt(numpy.einsum("ij,ij->i", found, found))
    # what cannot be used is never among the nearest: its code was not made either
    with numpy.errstate(all="ignore"):
        similar = numpy.einsum("ij,j->i", found, query) / norms
    good = numpy.isfinite(similar)
    return numpy.array([row[0] for row in rows], "i8")[good], similar[good]
