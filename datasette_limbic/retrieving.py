"""One run of a search's statement: with the first retriever that can bring candidates, in time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from datasette.utils import sqlite_timelimit
from datasette.utils.sqlite import sqlite3

from . import embedding, statement, text, text_statement
from .config import Settings
from .errors import RetrieverFailed
from .request import Request
from .retrieval import choosing, functions, plugins
from .retrieval.model import MAX_K, Retriever, Wanted
from .statement import Shape


def retrieve(
    conn: sqlite3.Connection,
    request: Request,
    shape: Shape,
    settings: Settings,
    reasons: list[str],
) -> tuple[list[dict[str, Any]], Shape, str | None, float | None]:
    """Run the statement with the candidates of the first retriever that can bring them.

    Where vectors take too long or cannot be read, run it with text alone.
    """
    if shape.listing:
        return _rows(conn, shape, request), shape, None, None
    candidates = choosing.choose if shape.vectors else choosing.choose_for_texts
    for retriever in candidates(conn, settings, reasons):
        served = _served(shape, retriever)
        try:
            with functions.guarded(retriever):
                retriever.prepare(conn, settings)
            with _serving(conn, request, shape, settings, retriever):
                rows = _rows(conn, served, request)
            with functions.guarded(retriever):
                note = functions.sentence(retriever, "note", retriever.note(conn, settings))
                recall = functions.share(retriever, retriever.recall(conn))
        except RetrieverFailed as error:
            reasons.append(f"{error}; another retriever searched")
            continue
        except sqlite3.Error as error:
            cause = functions.broken_off() or error
            failure: Exception | str | None = functions.failure()
            if failure is None and choosing.is_foreign(retriever) and not _is_slow(cause):
                failure = functions.said(retriever.name, cause)  # its own SQL
            if failure is not None:
                reasons.append(f"{failure}; another retriever searched")
                continue
            if not shape.vectors or not isinstance(cause, sqlite3.OperationalError):
                raise cause from None
            reasons.append(_without_vectors(cause, settings))
            has_text = bool(text.fts_terms(request.query) or text.cjk_runs(request.query))
            shape = replace(shape, vectors=False, text=has_text)
            break
        if note:
            reasons.append(note)
        return rows, served, retriever.name, recall if shape.vectors else None
    return _rows(conn, shape, request), shape, None, None


def again(
    conn: sqlite3.Connection, request: Request, shape: Shape, settings: Settings, by: str | None
) -> list[dict[str, Any]] | None:
    """The second run, of more texts; None where the retriever that served the first one fails now,
    or takes too long."""
    if by is None:
        return _rows(conn, shape, request)
    try:
        with _serving(conn, request, shape, settings, plugins.retriever(by)):
            return _rows(conn, shape, request)
    except RetrieverFailed:
        return None
    except sqlite3.Error as error:
        if functions.failure() is None and not _is_slow(functions.broken_off() or error):
            raise
        return None


@contextmanager
def _serving(
    conn: sqlite3.Connection,
    request: Request,
    shape: Shape,
    settings: Settings,
    retriever: Retriever,
) -> Iterator[None]:
    """Around a run of the statement that the retriever serves, limited in time."""
    limit = sqlite_timelimit(conn, settings.knn_time_limit_ms)
    with ExitStack() as stack:
        if shape.vectors and shape.text and (wanted := _wanted(conn, request, settings)):
            stack.enter_context(functions.meanwhile(retriever, conn, wanted, settings))
        stack.enter_context(functions.serving(retriever))
        stack.enter_context(limit)
        yield


def _wanted(conn: sqlite3.Connection, request: Request, settings: Settings) -> Wanted | None:
    """What will be asked for, or more of it; None where the query's vector is not at hand."""
    model = settings.model or embedding.collection_model(conn, "entities") or ""
    prefix = settings.query_prefix
    if not embedding.is_remembered(model, request.query, prefix=prefix):
        return None
    return Wanted(
        request.query,
        min(MAX_K, request.limit * request.expansion_factor),
        embedding.embed_query(model, request.query, prefix=prefix),
        request.type,
        request.include_archived,
    )


def _served(shape: Shape, retriever: Retriever) -> Shape:
    """The shape with the candidates of a retriever."""
    return replace(
        shape,
        nearest=retriever.sql or statement.nearest_by(retriever.name, texts_first=shape.text),
        hits=statement.hits_by(retriever.name, text_statement.asked_per_candidate(shape))
        if retriever.finds_texts
        else None,
    )


def _without_vectors(error: sqlite3.OperationalError, settings: Settings) -> str:
    """Why text alone was searched; raises what the text statement would meet as well."""
    if any(word in str(error) for word in ("locked", "malformed", "user-defined", "no such")):
        raise error
    if _is_slow(error):
        return (
            f"vector search took over {settings.knn_time_limit_ms} ms, so only text was "
            "searched (setting knn_time_limit_ms)"
        )
    return "the vector index cannot be read, so only text was searched: run datasette limbic sync"


def _is_slow(error: sqlite3.Error) -> bool:
    """Whether a statement was broken off for its time."""
    # vec0 says "chunks iter error" where SQLite was interrupted
    return "interrupted" in str(error) or "chunks iter" in str(error)


def _rows(conn: sqlite3.Connection, shape: Shape, request: Request) -> list[dict[str, Any]]:
    values = statement.values(shape, request.explained().named())
    cursor = conn.execute(statement.build(shape), values)
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
