"""How this memory's nearest vectors are found, for the command line, pages and JSON."""

from __future__ import annotations

from typing import TypedDict

from datasette.utils.sqlite import sqlite3

from ..config import Settings
from . import approximate, builds, choosing
from .overlay import COLLECTION


class Built(TypedDict):
    """What is known of the approximate index."""

    state: str  # filling, measuring, ready
    vectors: int
    recall: dict[str, float] | None  # by number of results: "10", "30", "300"
    questions: int | None  # that recall was measured with
    target_recall: float
    shortlisted: int | None
    rescored: int | None
    bytes: int  # on disk; in memory about as many
    built_at: str | None
    seconds: float


class Retrieval(TypedDict):
    """How the nearest vectors are found."""

    retriever: str  # the setting
    serves: str | None  # what a search uses now
    vectors: int
    approximate: Built | None
    reasons: list[str]  # why what the setting names does not serve
    due: str | None  # why a rebuild is due


def retrieval(conn: sqlite3.Connection, settings: Settings) -> Retrieval:
    """Reads only, and loads nothing."""
    reasons: list[str] = []
    found = builds.builds(conn)
    shown = next((b for b in found if b.state == "ready"), found[0] if found else None)
    return {
        "retriever": settings.retriever,
        "serves": choosing.serves(conn, settings, reasons) if vectors(conn) else None,
        "vectors": vectors(conn),
        "approximate": None if shown is None else _built(conn, shown),
        "reasons": reasons,
        "due": approximate.due(conn, shown) if shown and shown.state == "ready" else None,
    }


def vectors(conn: sqlite3.Connection) -> int:
    """Vectors of entities that are indexed."""
    row = conn.execute(
        "select vectors from limbic_indexes where collection = ?", [COLLECTION]
    ).fetchone()
    return int(row[0]) if row else 0


def _built(conn: sqlite3.Connection, build: builds.Build) -> Built:
    figures = build.figures
    return {
        "state": build.state,
        "vectors": build.vectors,
        "recall": figures.get("recall"),
        "questions": figures.get("questions"),
        "target_recall": build.target_recall,
        "shortlisted": build.shortlisted,
        "rescored": build.rescored,
        "bytes": build.nbytes,
        "built_at": build.built_at,
        "seconds": build.seconds,
    }
