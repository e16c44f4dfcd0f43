"""The approximate index: whole, and of the vectors that are there.

What a sync or a search takes over by itself is no fault: vectors that changed since, a build that
was begun and waits to go on.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..retrieval import builds, changes, measuring
from ..retrieval.builds import Build
from ..retrieval.overlay import COLLECTION
from .context import Check, Context, Found
from .report import Repair
from .structure import lines
from .vectors import marked

TABLES = ("_limbic_ann_parts", "_limbic_ann_segments")
NEEDS = (
    "limbic_approximate.state",
    "_limbic_ann_parts.value",
    "_limbic_ann_segments.codes",
    "limbic_indexes.version",
    "_limbic_vec_changes.item_id",
    "limbic_stale.item_id",
    "embeddings.embedding",
    "collections.name",
    "entities.id",
)
_ROUNDING = 1
"""Steps by which a code may differ that another machine made."""
_OTHER_SIGNS = 0.02
"""Share of the bits that may differ: of values near the mean."""


def broken(context: Context, build: Build) -> Iterator[str]:
    """What is wrong with a build, in words."""
    conn = context.conn
    if not isinstance(build.target_recall, float) or not 0.5 <= build.target_recall <= 1:
        yield f"its target recall is {build.target_recall!r}"
    try:
        training = builds.training(conn, build)
        found = builds.segments(conn, build, training.words)
    except ValueError as error:
        yield str(error)
        return
    if build.state != "ready":
        return
    changed = changes.since(conn, COLLECTION, build.version)
    if changed is None:
        return  # the next sync builds it anew
    # compared exactly by every search, or what the next sync looks at
    apart = {*changed, *marked(context, COLLECTION)}
    import numpy  # not needed by any page, so not at the top

    order = numpy.argsort(found.ids)
    ids, missing, other, seen = found.ids[order], 0, 0, []
    for batch, rows, _ in measuring.unit_rows(conn, build.dimension):
        keep = ~numpy.isin(batch, list(apart))
        batch, rows = batch[keep], rows[keep]
        seen.append(batch)
        there = numpy.isin(batch, ids)
        missing += int((~there).sum())
        at = order[numpy.searchsorted(ids, batch[there])]
        signs, codes = training.encode(rows[there])
        steps = numpy.abs(codes.astype("i2") - found.codes[at]).max(axis=1, initial=0)
        bits = numpy.unpackbits((signs ^ found.signs[at]).view("u1"), axis=1).sum(axis=1)
        other += int(((steps > _ROUNDING) | (bits > 1 + _OTHER_SIGNS * build.dimension)).sum())
    known = numpy.concatenate([*seen, numpy.array(sorted(apart), "i8")]) if seen else ids[:0]
    gone = int((~numpy.isin(ids, known)).sum())
    for count, what in ((missing, "lacks"), (other, "has other codes for"), (gone, "still has")):
        if count:
            yield f"{what} {count:,} of the vectors"


def _index(context: Context) -> Found:
    found = Found()
    for line in lines(context)["approximate"]:
        found.add({"text": line})
    if found.count:
        return found
    for build in builds.builds(context.conn):
        for text in broken(context, build):
            found.add({"build": build.build, "text": text})
    return found


CHECKS = (
    Check(
        "approximate.index",
        "approximate indexes that are damaged or not in step",
        _index,
        Repair("sync"),
        NEEDS,
    ),
)
