"""Bring vectors and text index in line with the rows: embed what changed, prune what went.

One batch is one transaction, and what is left to do is read from the tables each time, so a
sync that was killed at any point is continued by the next one.
"""

from __future__ import annotations

import time
from typing import Any

from datasette.utils.sqlite import sqlite3

from . import vectors
from .connection import vec_missing
from .index_repair import repair_text_indexes
from .retrieval import following
from .schema import COLLECTIONS, has_reports, has_versions, init, require_memory
from .sync_job import Job
from .sync_summary import CollectionSummary, SyncSummary

__all__ = ["CollectionSummary", "SyncSummary", "sync"]


def sync(
    conn: sqlite3.Connection,
    *,
    model: str | None = None,
    settings: Any = None,
    progress: vectors.Progress | None = None,
    full: bool = False,
    batch_size: int | None = None,
    reembed: bool = False,
    repair: bool = False,
    reports: bool = True,
) -> SyncSummary:
    """Embed what changed in both collections, prune what went, index the vectors, repair FTS.

    What follows the vectors, an approximate index, is brought in step too.

    Then look again at the entities that changed: pairs alike, flags, topics (``reports.keep``),
    unless ``reports`` is False. Last, where ``settings.retriever`` is ``postgres``, push to the
    server what it lacks; what goes wrong there stands in ``pushed.problem``.

    The model is ``model``, else ``settings.model``, else the collection's own, else the other
    collection's, else the packaged one. ``full`` checks every text instead of those marked,
    which finds what went past the triggers, and a change of ``snapshot_max_chars`` or of
    ``settings.passage_prefix``. ``reembed`` discards the vectors first, and may change the
    model. ``repair`` first puts right what ``datasette limbic check`` finds and what can be
    rebuilt, then syncs as ``full`` does, and says what is left for a person.
    ``progress(done, total, collection)`` is called after each step.

    Raises NotAMemory, UnknownModel, VectorsUnavailable (the model failed), and
    IndexedElsewhere where the collection has vectors of another model.
    """
    started = time.monotonic()
    summary = SyncSummary(vectors_missing=vec_missing(conn))
    if repair:
        from .repairing import repair as put_right  # an ordinary sync has no use for the checks

        summary.repaired = put_right(conn, settings=settings)
        full = True
    require_memory(conn)
    if not has_versions(conn) or (reports and not has_reports(conn)):
        init(conn)  # first: it may find names that are taken
    # nothing is touched when one of the two cannot be synced
    jobs = [Job(conn, name, model, settings, reembed) for name in COLLECTIONS]
    summary.text_added, summary.text_removed = repair_text_indexes(conn, full=full)
    for job in jobs:
        job.batch_size, job.progress, job.full = batch_size, progress, full
        job.usable = summary.vectors_missing is None
        summary.collections.append(job.run())
    summary.retrieval = following.follow(conn, settings=settings, progress=progress)
    if reports:
        from .reports.keeping import keep  # numpy and scikit-learn, once there is something to do

        summary.reports = keep(conn, settings=settings, progress=progress, full=full)
    if getattr(settings, "retriever", None) == "postgres":
        from .retrieval.postgres.push import push  # psycopg, an extra

        summary.pushed = push(conn, settings, progress)
    if repair:
        from .integrity import check

        summary.left = check(conn, settings=settings).findings
    summary.seconds = round(time.monotonic() - started, 3)
    return summary
