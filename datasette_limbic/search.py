"""Search: one function behind the page, its JSON, the command line and the Python API."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from datasette.utils import sqlite_timelimit
from datasette.utils.sqlite import sqlite3

from . import (
    connection,
    embedding,
    further,
    schema,
    statement,
    substrings,
    text,
    text_statement,
)
from .config import Settings
from .errors import LimbicError, ModelMismatch, RetrieverFailed, UnknownModel
from .request import Request, applied_parameters, parse
from .retrieval import choosing, functions, held, plugins
from .retrieval.model import Retriever
from .statement import Shape

log = logging.getLogger("datasette_limbic")

MAX_K = 4096
# Which ranking an answer shows: the limbic one, or base similarity alone to compare it with.
LIMBIC, BASELINE = "limbic", "baseline"

ROW_KEYS = ("base", "cosine_sim", "importance", "temporal_factor", "cooc_boost", "limbic_norm")


@dataclass(frozen=True)
class Pool:
    """All candidates of one search, best first, and how they were found."""

    request: Request
    shape: Shape
    rows: list[dict[str, Any]]
    degraded: list[str]
    retriever: str | None = None
    """What brought the candidates; None where there was nothing to search for."""
    recall: float | None = None
    """What share of the nearest it was measured to find; None where it finds all."""
    all_looked_at: bool = True
    """Whether no text that matches was left out although there was room in the pool."""

    @property
    def strategy(self) -> str:
        """The strategy that ranked them: what ``auto`` came to."""
        return self.rows[0]["routing_strategy"] if self.rows else self.request.strategy

    def by_base(self) -> list[dict[str, Any]]:
        """The same candidates in the order of base similarity alone: the baseline."""
        return sorted(self.rows, key=lambda row: (-row["base"], row["id"]))


def search(
    conn: sqlite3.Connection,
    query: str | Request = "",
    *,
    settings: Settings | None = None,
    sql_link: Callable[[str], str] | None = None,
    **arguments: Any,
) -> dict[str, Any]:
    """Rank the entities of a memory for a query.

    ``conn`` comes from ``connection.connect`` (or is prepared by the plugin); ``query`` is text
    or a parsed Request; ``arguments`` are those of the URL (``limit``, ``mode``, ``strategy``,
    ``type``, ``explain``, ``now`` …). Returns the response of the JSON API: ``query, limit,
    mode, strategy, now, parameters, candidates, degraded, confident, policy, results, sql_url``
    and, with ``explain``, ``losers``. ``sql_link`` turns the URL query of the SQL page into a
    URL. Never writes. Raises BadParameter and NotAMemory.
    """
    settings = settings or Settings()
    found = rank(conn, query, settings=settings, **arguments)
    return answer(conn, found, settings=settings, sql_link=sql_link)


def rank(
    conn: sqlite3.Connection, query: str | Request, *, settings: Settings, **arguments: Any
) -> Pool:
    """The whole pool of a search, ranked. Never writes. Raises as ``search`` does."""
    schema.require_memory(conn)
    if not isinstance(query, Request):
        query = parse({"q": query, **arguments}, settings, applied_parameters(conn))
    request = query

    shape, reasons = choose_shape(conn, request, settings)
    if replaced := held.replaced(conn):
        reasons.append(f"{replaced}; the old one was searched")
    if shape.listing:
        # there is no similarity to blend with
        request = replace(request, strategy="limbic")
    rows, shape, by, recall = _retrieve(conn, request, shape, settings, reasons)
    left_out = None
    if more := further.needed(conn, request, shape, rows):
        again = rows if more.shape is None else _again(conn, request, more.shape, settings, by)
        if again is None:
            left_out = "not all texts that match could be looked at in time"
        elif not further.is_full(again, request):
            left_out = more.said(again)
        if again is not None:
            rows, shape = again, more.shape or shape
    if left_out:
        reasons.append(left_out)
    return Pool(request, shape, rows, reasons, by, recall, left_out is None)


def answer(
    conn: sqlite3.Connection,
    pool: Pool,
    *,
    settings: Settings,
    sql_link: Callable[[str], str] | None = None,
    policy: str = LIMBIC,
    whole: bool = True,
) -> dict[str, Any]:
    """The response of the JSON API for a pool: what ``search`` returns.

    ``policy`` BASELINE serves it in the order of base similarity, which is the final score then.
    Not ``whole``: results without observations, for who reads those to show (``highlights``).
    """
    request, shape, rows = pool.request, pool.shape, pool.rows
    if policy == BASELINE:
        rows = [{**row, "final_score": row["base"]} for row in pool.by_base()]
    results, losers = rows[: request.limit], rows[request.limit :]
    observations = _observations(conn, [r["id"] for r in results], request) if whole else {}
    best = max((r["cosine_sim"] for r in rows if r["cosine_sim"] is not None), default=None)
    floor = settings.floor(
        settings.model or (embedding.collection_model(conn, "entities") if shape.vectors else None)
    )
    confident = bool(rows) and (
        shape.listing
        or (best is not None and best >= floor)
        or _holds_every_term(request.query, rows)
    )
    url_query = statement.url_query(
        statement.build(shape), statement.values(shape, request.varied())
    )
    response: dict[str, Any] = {
        "query": request.query,
        "limit": request.limit,
        "mode": request.mode,
        "strategy": request.strategy,
        "fusion": request.fusion,
        "recency": request.recency,
        "now": request.now,
        "parameters": request.parameters.as_dict(),
        "type": request.type,
        "as_of": request.as_of,
        "include_archived": request.include_archived,
        "policy": policy,
        "candidates": len(rows),
        "degraded": "; ".join(pool.degraded) or None,
        "retriever": pool.retriever,
        "recall": pool.recall,
        "confident": confident,
        "best_cosine_sim": best,
        "confidence_floor": floor,
        "reason": None if rows else _why_empty(conn, pool),
        "results": [
            _result(r, request, observations.get(r["id"], []) if whole else None) for r in results
        ],
        "sql_url": sql_link(url_query) if sql_link else "?" + url_query,
    }
    if request.explain:
        response["losers"] = [_result(r, request, None) for r in losers]
    return response


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


def _retrieve(
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
            limit = sqlite_timelimit(conn, settings.knn_time_limit_ms)
            with functions.serving(retriever), limit:
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


def _again(
    conn: sqlite3.Connection, request: Request, shape: Shape, settings: Settings, by: str | None
) -> list[dict[str, Any]] | None:
    """The second run, of more texts; None where the retriever that served the first one fails now,
    or takes too long."""
    if by is None:
        return _rows(conn, shape, request)
    try:
        limit = sqlite_timelimit(conn, settings.knn_time_limit_ms)
        with functions.serving(plugins.retriever(by)), limit:
            return _rows(conn, shape, request)
    except sqlite3.Error as error:
        if functions.failure() is None and not _is_slow(functions.broken_off() or error):
            raise
        return None


def _served(shape: Shape, retriever: Retriever) -> Shape:
    """The shape with the candidates of a retriever."""
    return replace(
        shape,
        nearest=retriever.sql or statement.nearest_by(retriever.name),
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


def _result(
    row: Mapping[str, Any], request: Request, observations: list[str] | None
) -> dict[str, Any]:
    """One result as the API shows it; losers carry no observations."""
    matched = [name for name in ("knn", "fts") if row[f"{name}_rank"] is not None]
    result = {
        "id": row["id"],
        "name": row["name"],
        "entityType": row["entity_type"],
        "observations": observations,
        "distance": row["distance"],
        "limbic_score": row["limbic_score"],
        "final_score": row["final_score"],
        "rrf_score": row["rrf_score"],
        "routing_strategy": row["routing_strategy"],
        "matched_by": matched,
        "knn_rank": row["knn_rank"],
        "fts_rank": row["fts_rank"],
        "coverage": row["covered"],
        "access_count": row["access_count"],
        "last_access": row["last_access"],
        "degree": row["degree"],
        "scoring": {key: row[key] for key in ROW_KEYS} | {"recency": request.recency},
    }
    if observations is None:
        del result["observations"]
    return result


def _observations(
    conn: sqlite3.Connection, ids: Sequence[int], request: Request
) -> dict[int, list[str]]:
    """Observations of the entities ``ids`` that hold at the time of the search, oldest first."""
    found: dict[int, list[str]] = {i: [] for i in ids}
    marks = ",".join("?" * len(ids))
    at = request.as_of or request.now
    for entity_id, content in conn.execute(
        f"""select entity_id, content from observations where entity_id in ({marks})
        and coalesce(julianday(valid_to) > julianday(?), 1)
        and coalesce(julianday(valid_from) <= julianday(?), 1) order by id""",
        [*ids, at, at],
    ):
        found[entity_id].append(content)
    return found


def _holds_every_term(query: str, rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a text hit holds every term of the query; stop words alone are no evidence."""
    if all(set(term.tokens) <= text.STOP_WORDS for term in text.fts_terms(query)):
        return False
    return any(row["covered"] is not None and row["covered"] > 1 - 1e-9 for row in rows)


def _why_empty(conn: sqlite3.Connection, pool: Pool) -> str:
    """A sentence for an empty answer: an empty memory and a filter are different things."""
    request = pool.request
    if not conn.execute("select exists (select 1 from entities)").fetchone()[0]:
        return "this memory is empty: import a file with datasette limbic import"
    if request.type is not None:
        known = conn.execute(
            "select exists (select 1 from entities where entity_type = ?)", [request.type]
        ).fetchone()[0]
        if not known:
            return f"no entity has the type {request.type[:80]!r}"
    if not pool.all_looked_at:
        return "none of the texts that were looked at matches"
    return "nothing in this memory matches"
