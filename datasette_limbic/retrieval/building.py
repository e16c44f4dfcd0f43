"""Building the approximate index, and keeping it in step: ``datasette limbic index`` and sync.

A build is begun, filled batch by batch, measured, and then takes the place of the one before it.
Each step is a transaction of its own, so a build that was killed goes on where it was, writers
never wait long, and searches use the old index until the new one is ready.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from datasette.utils.sqlite import sqlite3

from .. import embedding, llm_store
from ..config import choice
from ..errors import BadParameter, VectorsUnavailable
from . import builds, changes, codes, measuring, state
from .approximate import read
from .base import MOST_CHANGED
from .builds import Build
from .overlay import COLLECTION, overlay

if TYPE_CHECKING:
    import numpy

log = logging.getLogger("datasette_limbic")

Progress = Callable[[int, int, str], None]
"""Called with (done, total, what)."""

KINDS = ("auto", "exact", "approximate")
TARGET = 0.98
WORTH_FROM = 50_000
"""Vectors from which ``--kind auto`` builds it: below, comparing all takes a few milliseconds."""
LEAST = 2
"""Vectors without which nothing can be built or measured."""
FOLD_FROM = 200
"""Changes from which they are taken into the index: fewer are compared exactly as quickly."""
MEASURE_AGAIN = 0.2
"""Share of new vectors after which the index is measured again."""
_BATCH = 10_000
_SEGMENTS = 400
"""Segments from which they are put together, as are those of which a third is void."""


def check_target(value: float) -> float:
    """A recall to aim for. Raises BadParameter outside 0.5 to 1."""
    if not 0.5 <= value <= 1:
        raise BadParameter(f"the target recall is {value}: use a share from 0.5 to 1, such as .98")
    return value


def index(
    conn: sqlite3.Connection,
    kind: str = "auto",
    *,
    target_recall: float = TARGET,
    anew: bool = False,
    progress: Progress | None = None,
) -> Build | None:
    """What ``datasette limbic index`` does: ``kind`` of KINDS. Returns the approximate index, None
    where there is none now. Raises as ``build`` does."""
    check_target(target_recall)
    choice("kind", kind, KINDS)
    if kind == "auto":
        count = state.vectors(conn)
        kind = "approximate" if count >= WORTH_FROM else "exact"
    if kind == "approximate":
        return build(conn, target_recall=target_recall, anew=anew, progress=progress)
    drop(conn)
    return None


def build(
    conn: sqlite3.Connection,
    *,
    target_recall: float = TARGET,
    anew: bool = False,
    progress: Progress | None = None,
) -> Build:
    """Build the approximate index of the entities; goes on with one that was begun.

    ``anew`` throws away what was begun. Raises BadParameter, and VectorsUnavailable where there
    are too few vectors.
    """
    check_target(target_recall)
    info = embedding.collection_info(conn, COLLECTION)
    if info is None or info.count < LEAST or not info.dimension:
        count = info.count if info else 0
        raise VectorsUnavailable(
            f"there are {count} vectors of entities, which is too few for an index: embed them "
            "with 'datasette limbic sync' first"
        )
    begun = builds.unfinished(conn)
    if begun is not None and (
        anew
        or (begun.model, begun.dimension) != (info.model_id, info.dimension)
        or begun.target_recall != target_recall
        or changes.since(conn, COLLECTION, begun.version) is None
    ):
        _drop(conn, begun)
        begun = None
    if begun is not None:
        try:
            return _finish(conn, begun, info.count, progress)
        except ValueError as error:
            log.warning("what was begun of the approximate index is left: %s", error)
            _drop(conn, begun)
    begun = _begin(conn, info, target_recall, progress)
    return _finish(conn, begun, info.count, progress)


def _begin(
    conn: sqlite3.Connection,
    info: embedding.CollectionInfo,
    target: float,
    progress: Progress | None,
) -> Build:
    started = time.monotonic()
    _say(progress, 0, 1, "training")
    # before the vectors are read: what changes meanwhile is newer than this
    version = changes.version(conn, COLLECTION).now
    sample = _sample(conn, info)
    if not len(sample):
        raise VectorsUnavailable(
            "no vector of the entities can be used: 'datasette limbic sync' names what is wrong"
        )
    training = codes.train(sample)
    with llm_store.transaction(conn):
        begun = builds.begin(
            conn,
            training,
            model=info.model_id,
            version=version,
            count=info.count,
            target_recall=target,
        )
        begun = builds.change(conn, begun.build, seconds=time.monotonic() - started)
    _say(progress, 1, 1, "training")
    return begun


def _sample(conn: sqlite3.Connection, info: embedding.CollectionInfo) -> numpy.ndarray:
    """Unit vectors of entities drawn at random; the same ones for the same memory."""
    import numpy

    from .overlay import unit_vectors

    ids = numpy.array([r[0] for r in conn.execute("select id from entities order by id")], "i8")
    size = min(len(ids), codes.SAMPLE)
    picked = numpy.random.default_rng(0).choice(ids, size, replace=False) if size else ids
    picked = numpy.sort(picked)
    rows = numpy.empty((len(picked), info.dimension), "f4")
    at = 0
    for start in range(0, len(picked), _BATCH):
        found = unit_vectors(conn, picked[start : start + _BATCH].tolist(), info.dimension)
        for vector in found.values():
            rows[at] = vector
            at += 1
    return rows[:at]


def _finish(conn: sqlite3.Connection, begun: Build, total: int, progress: Progress | None) -> Build:
    """Fill, measure and serve a build."""
    training = builds.training(conn, begun)
    started = time.monotonic()
    before = begun.seconds
    if begun.state == "filling":
        done = begun.vectors
        _say(progress, done, total, "codes")
        for ids, rows, last in measuring.unit_rows(
            conn, begun.dimension, after=begun.filled_to, batch=_BATCH
        ):
            signs, short = training.encode(rows)
            done += len(ids)
            with llm_store.transaction(conn):
                _require(conn, begun)
                builds.add_segment(conn, begun.build, ids, signs, short)
                begun = builds.change(
                    conn,
                    begun.build,
                    filled_to=last,
                    vectors=done,
                    seconds=before + time.monotonic() - started,
                )
            _say(progress, done, max(total, done), "codes")
        with llm_store.transaction(conn):
            _require(conn, begun)
            begun = builds.change(conn, begun.build, state="measuring")
    begun = _measured(conn, begun, progress)
    with llm_store.transaction(conn):
        _require(conn, begun)
        ready = builds.change(
            conn,
            begun.build,
            state="ready",
            built_at=_now(conn),
            seconds=before + time.monotonic() - started,
        )
        builds.discard(conn, keep=ready.build)
    return ready


def _require(conn: sqlite3.Connection, begun: Build) -> None:
    """Raise VectorsUnavailable where another program went on with the build, or dropped it."""
    if begun not in builds.builds(conn):
        raise VectorsUnavailable(
            "another program is building the approximate index of this memory: wait for it, then "
            "see 'datasette limbic status', and run this again where it stopped"
        )


def _measured(conn: sqlite3.Connection, build: Build, progress: Progress | None) -> Build:
    """Measure a build, and set its search by that."""
    found = read(conn, build)
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        _say(progress, min(done, build.vectors), build.vectors, "recall")

    if len(found.ids) < LEAST:
        return build
    result = measuring.measure(conn, found, build.target_recall, advance)
    with llm_store.transaction(conn):
        _require(conn, build)
        return builds.change(
            conn,
            build.build,
            shortlisted=result.shortlisted,
            rescored=result.rescored,
            recall=result.recall,
            measured=json.dumps(result.as_dict()),
            measured_vectors=len(found.ids),
            measured_changed=build.changed,
        )


def keep_in_step(conn: sqlite3.Connection, progress: Progress | None = None) -> Build | None:
    """After the vectors changed: take the changes into the index. None where there is no index.

    Where anything may have changed, the model did or the index is damaged, it is built anew; once
    a fifth of the vectors is new, changed or gone, it is measured again.
    """
    current = builds.serving(conn)
    if current is None:
        return None
    info = embedding.collection_info(conn, COLLECTION)
    if info is None or info.count < LEAST or not info.dimension:
        with llm_store.transaction(conn):
            builds.discard(conn)
        return None
    changed = changes.since(conn, COLLECTION, current.version)
    if changed is None or (current.model, current.dimension) != (info.model_id, info.dimension):
        return build(conn, target_recall=current.target_recall, progress=progress)
    if len(changed) < FOLD_FROM:
        return current
    try:
        current = _fold(conn, current)
        since = current.changed - (current.measured_changed or 0)
        if since > MEASURE_AGAIN * max(1, current.measured_vectors or 0):
            current = _measured(conn, current, progress)
    except ValueError as error:
        log.warning("%s: it is built anew", error)
        return build(conn, target_recall=current.target_recall, progress=progress)
    return current


def _fold(conn: sqlite3.Connection, current: Build) -> Build:
    """One more segment: codes of what changed, and marks for what is gone."""
    import numpy

    with llm_store.transaction(conn):
        _require(conn, current)
        training = builds.training(conn, current)
        changed = changes.since(conn, COLLECTION, current.version) or []
        version = changes.version(conn, COLLECTION).now
        over = overlay(conn, changed, current.dimension)
        builds.add_segment(conn, current.build, over.ids, *training.encode(over.vectors))
        builds.add_gone(conn, current.build, numpy.setdiff1d(over.changed, over.ids))
        current = builds.change(
            conn,
            current.build,
            version=version,
            vectors=builds.count(conn, current, training.words),
            changed=current.changed + len(changed),
        )
        _put_together(conn, current)
    return current


def fold_soon(conn: sqlite3.Connection) -> None:
    """In the middle of a sync: take changes into the index before they are too many for searches
    to compare exactly. A damaged index is left to the end of the sync."""
    current = builds.serving(conn)
    if current is None:
        return
    behind = changes.count_since(conn, COLLECTION, current.version, MOST_CHANGED)
    if behind is not None and behind > MOST_CHANGED:
        try:
            _fold(conn, current)
        except (ValueError, VectorsUnavailable) as error:
            log.warning("%s", error)


def _put_together(conn: sqlite3.Connection, current: Build) -> None:
    """Write the segments anew where there are very many, or much of them is void."""
    count, items = conn.execute(
        "select count(*), sum(items) from _limbic_ann_segments where build = ?", [current.build]
    ).fetchone()
    if count <= _SEGMENTS and items * 2 <= 3 * max(current.vectors, 1000):
        return
    found = read(conn, current)
    conn.execute("delete from _limbic_ann_segments where build = ?", [current.build])
    for start in range(0, len(found.ids), _BATCH):
        there = slice(start, start + _BATCH)
        builds.add_segment(
            conn, current.build, found.ids[there], found.signs.rows(there), found.codes[there]
        )


def drop(conn: sqlite3.Connection) -> None:
    """Take the approximate index away; searches are exact again."""
    with llm_store.transaction(conn):
        builds.discard(conn)


def _drop(conn: sqlite3.Connection, begun: Build) -> None:
    with llm_store.transaction(conn):
        for table in ("_limbic_ann_segments", "_limbic_ann_parts", "limbic_approximate"):
            conn.execute(f"delete from {table} where build = ?", [begun.build])


def _now(conn: sqlite3.Connection) -> Any:
    return conn.execute("select datetime('now')").fetchone()[0]


def _say(progress: Progress | None, done: int, total: int, what: str) -> None:
    if progress:
        progress(done, total, what)
