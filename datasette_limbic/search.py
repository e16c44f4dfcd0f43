"""Search: one function behind the page, its JSON, the command line and the Python API."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from datasette.utils.sqlite import sqlite3

from . import embedding, further, retrieving, schema, shaping, statement, text
from .config import Settings
from .request import Request, applied_parameters, parse
from .retrieval import held
from .statement import Shape

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

    shape, reasons = shaping.choose_shape(conn, request, settings)
    if replaced := held.replaced(conn):
        reasons.append(f"{replaced}; the old one was searched")
    if shape.listing:
        # there is no similarity to blend with
        request = replace(request, strategy="limbic")
    rows, shape, by, recall = retrieving.retrieve(conn, request, shape, settings, reasons)
    left_out = None
    if more := further.needed(conn, request, shape, rows):
        again: list[dict[str, Any]] | None = rows
        if more.shape is not None:
            again = retrieving.again(conn, request, more.shape, settings, by)
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
