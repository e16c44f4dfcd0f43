"""Which candidates a search can use: the shape of its statement."""

from __future__ import annotations

import logging

from datasette.utils.sqlite import sqlite3

from . import connection, embedding, statement, substrings, text
from .config import Settings
from .errors import LimbicError, ModelMismatch, UnknownModel
from .request import Request
from .statement import Shape

log = logging.getLogger("datasette_limbic")


def choose_shape(
    conn: sqlite3.Connection, request: Request, settings: Settings
) -> tuple[Shape, list[str]]:
    """Which candidates this search can use, and a sentence for each that it has to do without."""
    reasons: list[str] = []
    if not request.query:
        return Shape(vectors=False, text=False, listing=True, hybrid=False), reasons
    has_text = request.mode != "semantic" and bool(
        text.fts_terms(request.query) or text.cjk_runs(request.query)
    )
    vectors = request.mode != "text"
    if vectors:
        problem = _vectors_unusable(conn, request.query, settings)
        if problem:
            reasons.append(problem)
            vectors = False
            # a semantic search without vectors still answers, from the text
            has_text = has_text or bool(text.fts_terms(request.query))
    runs = text.cjk_runs(request.query) if has_text else []
    if runs and substrings.short_runs(request.query) and not substrings.can_be_found(conn):
        reasons.append(
            "the file has no index for one or two characters of a script without spaces, so only "
            "longer runs were searched for: run datasette limbic init"
        )
    return (
        Shape(
            vectors=vectors,
            text=has_text,
            hybrid=request.mode == "hybrid",
            by_type=request.type is not None and len(request.type) <= 1000,
            unspaced=bool(runs),
            fusion=request.fusion,
            large_pool=2 * request.limit * request.expansion_factor > statement.SMALL_POOL,
        ),
        reasons,
    )


def _vectors_unusable(conn: sqlite3.Connection, query: str, settings: Settings) -> str | None:
    """Why there is no vector search for this query, in a sentence; None where there is."""
    missing = connection.vec_missing(conn)
    if missing:
        return f"{missing}, so only text was searched"
    model_id = embedding.collection_model(conn, "entities")
    row = conn.execute(
        "select dimension, vectors from limbic_indexes where collection = 'entities'"
    ).fetchone()
    if model_id is None or row is None or not row[1]:
        return "there are no vectors yet, so only text was searched: run datasette limbic sync"
    model_id = settings.model or model_id
    try:
        vector = embedding.embed_query(model_id, query, prefix=settings.query_prefix)
    except UnknownModel as error:
        return f"{error}; only text was searched"
    except LimbicError as error:
        return f"{error}; only text was searched"
    except Exception as error:  # a model is foreign code: its failure must not end the search
        log.exception("embedding the query with %s failed", model_id)
        return f"the model {model_id} failed ({error!s:.200}), so only text was searched"
    if len(vector) != row[0] * 4:
        return str(
            ModelMismatch(
                f"the model {model_id} makes vectors of {len(vector) // 4} dimensions and the "
                f"index has {row[0]}, so only text was searched: run datasette limbic sync, or "
                "set the model that made the vectors"
            )
        )
    return None
