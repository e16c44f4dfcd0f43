"""The one SQL statement of a search, put together from ``queries/*.sql``.

The ranking is always the same text; the two candidate CTEs, ``knn(id, distance, knn_rank)`` and
``fts(id, fts_rank, covered)``, have variants (no vectors, no text, no query), and what a query
cannot need is left out, since the link to Datasette's SQL page carries what ran and must stay
short.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import quote_plus

from . import text_statement
from .text_statement import NEWEST, SINCE, Reading, query_file

# Legal in a query string as they are (RFC 3986), so that the link stays short.
SAFE = "(),*:/!='"

# Order of the named parameters, on Datasette's stored query page too.
PARAMETERS = (
    "q",
    "limit",
    "strategy",
    "beta_sal",
    "gamma",
    "type",
    "recency",
    "consolidation",
    "include_archived",
    "as_of",
    "now",
    "explain",
    "expansion_factor",
    "rrf_k",
    "beta_deg",
    "d_max",
    "lambda_hourly",
    "temporal_floor",
    "cooc_temporal_floor",
    "cooc_cap",
    "unknown_temporal",
)

NO_KNN = "knn(id, distance, knn_rank) as (select null, null, null where 0)"
NO_TEXT = "fts(id, fts_rank, covered) as (select null, null, null where 0)"

# vec0 applies its own columns before the cut, so a type filter still fills the pool
TYPE_FILTER = "and entity_type = :type"
# The document's: text counts for what vectors missed alone, by its rank in the pool.
DOCUMENT_BASE = """case when rrf_score is null then 1.0 when distance is null then 0.2 + 0.6
  * limbic_norm(rrf_score, min(rrf_score) over (), max(rrf_score) over ()) else cosine_sim end"""
# Both kinds of evidence count, the stronger decides.
FUSED_BASE = "iif(rrf_score is null, 1.0, fused_base(cosine_sim, covered))"
# A form is shown before anyone has typed a query, and vec0 refuses NULL: any vector, no rows.
FORM_VECTOR = "ifnull(limbic_embed(:q), (select embedding from _limbic_vec_entities limit 1))"
# A form's type may be empty, and vec0 takes no condition on that: look at all instead.
FORM_K = "(trim(:q) <> '') * min(4096, (ifnull(:type, '') <> '') * 4096 + k"
# What a retriever does meanwhile (Retriever.meanwhile) is done by then.
TEXTS_FIRST = "cross join (select count(*) from hits)"
CUT_COUNT = ", (select count(*) from hits) as texts"
# Pools up to this size look every pair up; larger ones may scan (see queries/pairs_large.sql).
SMALL_POOL = 60


@dataclass(frozen=True)
class Shape:
    """Which candidates a search uses."""

    vectors: bool = True
    text: bool = True
    listing: bool = False
    hybrid: bool = True
    by_type: bool = False
    unspaced: bool = True
    large_pool: bool = True
    fusion: str = "fused"
    cut: bool = True
    reading: Reading = NEWEST
    form: bool = False
    nearest: str | None = None
    """The common table ``nearest(x, d)``, of another retriever than vec0."""
    hits: str | None = None
    """The common table ``hits(doc, score)``, of a retriever that finds texts."""


def nearest_vec0() -> str:
    """``nearest`` by the vec0 table, in SQL alone."""
    return query_file("nearest")


def nearest_by(retriever: str, *, texts_first: bool = False) -> str:
    """``nearest`` of a retriever that a function calls, after the texts were read or before."""
    sql = query_file("nearest_by").replace("/*texts_first*/", TEXTS_FIRST if texts_first else "")
    return sql.replace("{retriever}", retriever)


def hits_by(retriever: str, per_candidate: int = text_statement.CUT_PER_CANDIDATE) -> str:
    """``hits`` of a retriever that finds texts, so many for each candidate."""
    sql = query_file("hits_by").replace("{per_candidate}", str(per_candidate))
    return sql.replace("{retriever}", retriever)


@lru_cache(maxsize=64)
def build(
    shape: Shape, *, knn: str | None = None, text: str | None = None, readable: bool = False
) -> str:
    """The statement for ``shape``. ``knn`` and ``text`` replace the candidate CTEs (tests).

    ``readable`` keeps lines and comments: for the stored query, which no URL has to carry.
    """
    counted = (shape.cut or shape.reading.only) and shape.text and text is None
    counted = counted and not shape.listing
    if shape.listing:
        knn, text = query_file("recent"), NO_TEXT
    if knn is None:
        knn = query_file("knn") if shape.vectors else NO_KNN
    if text is None:
        text = query_file("fts") if shape.text else NO_TEXT
    nearest = shape.nearest or query_file("nearest")
    if shape.form:
        nearest = nearest.replace("limbic_embed(:q)", FORM_VECTOR).replace("min(4096, k", FORM_K)
    sql = query_file("search")
    for mark, piece in (
        ("/*knn*/", knn.strip()),
        ("/*nearest*/", nearest.strip()),
        ("/*text*/", text.strip()),
        ("/*terms*/", text_statement.terms(shape)),
        ("/*hits*/", (shape.hits or text_statement.hits(shape)).strip()),
        ("/*type*/", TYPE_FILTER if shape.by_type else ""),
        ("/*pairs*/", query_file("pairs_large" if shape.large_pool else "pairs").strip()),
        ("/*cut*/", text_statement.cut(shape)),
        ("/*texts*/", CUT_COUNT if counted else ""),
        ("/*base*/", FUSED_BASE if shape.fusion == "fused" else DOCUMENT_BASE),
        ("/*rrf*/", "rrf_score" if shape.hybrid else "null as rrf_score"),
    ):
        sql = sql.replace(mark, piece)
    if readable:
        return "\n".join(line.rstrip() for line in sql.splitlines() if line.strip())
    return compact(sql)


def compact(sql: str) -> str:
    """The statement without comments and indentation: URLs have a length limit.

    A line for each CTE remains.
    """
    lines = (line.split("--")[0].strip() for line in sql.splitlines())
    text = re.sub(" +", " ", " ".join(line for line in lines if line))
    for long, short in (("( ", "("), (" )", ")"), (", ", ",")):
        text = text.replace(long, short)
    return re.sub(r"\),(?=\w+(?:\([^()]+\))? as )|\) (?=select id,name)", _break, text)


def _break(match: re.Match[str]) -> str:
    return match.group().rstrip() + "\n"


def values(shape: Shape, named: Mapping[str, Any]) -> dict[str, Any]:
    """The statement's parameters, of those that a request names."""
    since = zip(SINCE, shape.reading.since, strict=True) if shape.reading.only else ()
    return {name: named[name] for name in PARAMETERS if name in named} | dict(since)


def url_query(sql: str, params: Mapping[str, object]) -> str:
    """``sql=…&q=…`` for Datasette's SQL page; characters that a query may hold stay readable.

    Parameters at their default are left out: Datasette sends '' for them.
    """
    given = [f"{name}={_quoted(str(value))}" for name, value in params.items()]
    return "&".join([f"sql={_quoted(sql)}", *given])


@lru_cache(maxsize=64)
def _quoted(text: str) -> str:
    return quote_plus(text, safe=SAFE)
