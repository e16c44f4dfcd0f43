"""The one SQL statement of a search, put together from ``queries/*.sql``.

The ranking is always the same text; the two candidate CTEs, ``knn(id, distance, knn_rank)`` and
``fts(id, fts_rank, covered)``, have variants (no vectors, no text, no query), and what a query
cannot need is left out, since the link to Datasette's SQL page carries what ran and must stay
short.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from importlib import resources
from urllib.parse import quote_plus

from . import substrings

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
# Without vectors, the rarest word that there is, however common.
RAREST = "or total = df"
# bm25() reads all texts of a word; where there are so many it has next to nothing to say.
BM25 = "bm25(_limbic_fts, 4.0, 1.0)"
RATED = f"iif((select sum(df * tokens) from kept) < 100000,\n      {BM25}, 0)"
PART_RATED = "bm25(_limbic_trigram)"
UNRATED = "-(select max(idf) from terms)"
# A phrase of such words is looked for in the newest texts of its rarest one alone: SQLite reads
# every place of each of its words, also where they never stand together, and in this order alone it
# begins where it is told to. To rate it would read them all.
SINGLE = "where rarest is null"
PHRASE_FROM = """(select rowid from _limbic_fts where _limbic_fts match (
    select ifnull(max('"' || rarest || '"'), '""') from kept)
  order by rowid desc limit 1 offset (select {places} / ifnull(max(tokens), 1) from kept))"""
PHRASE = f"""select rowid, 0 from _limbic_fts
  where _limbic_fts match (
    select ifnull(max(term), '""') from kept where rarest is not null)
    and rowid >= ifnull({PHRASE_FROM}, 0) /*of_phrase*/
  order by +rowid desc limit {{texts}}"""
# What is read where the newest texts do not fill the pool although there are more: of them those
# that count. A text that is not of a type is passed over by its number, where the type has few.
COUNTS = """exists (select 1 from live where live_id = iif({doc} & 1,
  (select entity_id from observations where id = {doc} >> 1
    and (valid_to is null and valid_from is null or exists (select 1 from p
      where ifnull(julianday(valid_to) > at, 1) and ifnull(julianday(valid_from) <= at, 1)))),
  {doc} >> 1))"""
# Not :type itself: SQLite prepares a statement anew whose plan may depend on a parameter, 30 ms.
OF_TYPE = """select id * 2 from entities where entity_type = (select typ from p) union all
  select o.id * 2 + 1 from entities e cross join observations o on entity_id = e.id
  where entity_type = (select typ from p)"""
COUNTS_OF_TYPE = f"iif({{doc}} in ({OF_TYPE}), {COUNTS}, 0)"
# Where thousands of texts match, the best of them fill the pool, with room for archived entities.
# Where they do not (one entity has most of them, or they held at another time, or are of another
# type), search runs again and looks at all. Of a type it does so at once beside vectors, where a
# second run would compare them all again.
CUT_PER_CANDIDATE = 12
CUT_PER_CANDIDATE_OF_TYPE = 60
CUT = "order by 2, 1 limit (select {looked_at} from p)"
CUT_COUNT = ", (select count(*) from hits) as texts"
# The document's: text counts for what vectors missed alone, by its rank in the pool.
DOCUMENT_BASE = """case when rrf_score is null then 1.0 when distance is null then 0.2 + 0.6
  * limbic_norm(rrf_score, min(rrf_score) over (), max(rrf_score) over ()) else cosine_sim end"""
# Both kinds of evidence count, the stronger decides.
FUSED_BASE = "iif(rrf_score is null, 1.0, fused_base(cosine_sim, covered))"
# A form is shown before anyone has typed a query, and vec0 refuses NULL: any vector, no rows.
FORM_VECTOR = "ifnull(limbic_embed(:q), (select embedding from _limbic_vec_entities limit 1))"
# A form's type may be empty, and vec0 takes no condition on that: look at all instead.
FORM_K = "(trim(:q) <> '') * min(4096, (ifnull(:type, '') <> '') * 4096 + k"
# One or two characters of scripts without spaces between words: see substrings.py.
SHORT_RUNS = f"""union all select * from (select * from (select value as doc,
  {UNRATED} from json_each(limbic_short_runs(:q{{of_runs}}))) /*of_runs*/)"""
# Pools up to this size look every pair up; larger ones may scan (see queries/pairs_large.sql).
SMALL_POOL = 60


@dataclass(frozen=True)
class Reading:
    """How many of the newest texts are read of those that a search by text matches."""

    texts: int
    """Of those that hold its words."""
    places: int
    """Places of a phrase of common words: each of its parts in the texts of the rarest one."""
    parts: int
    """Of those that hold a part of a word, or a run of three characters."""
    short_runs: int
    """Places of one and two characters."""
    only: str = ""
    """Which of the texts are taken; without it all of them are."""
    words_from: int = 0
    """The oldest text that is read of those that hold its words, if not all are."""
    parts_from: int = 0
    """The same of those that hold a part of a word."""


NEWEST = Reading(texts=10_000, places=15_000, parts=4_000, short_runs=substrings.MOST_PLACES)
FURTHER = Reading(texts=12_500, places=25_000, parts=15_000, short_runs=15_000, only=COUNTS)
FURTHER_OF_TYPE = replace(FURTHER, texts=45_000, only=COUNTS_OF_TYPE)


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


@cache
def _query(name: str) -> str:
    return (resources.files("datasette_limbic") / "queries" / f"{name}.sql").read_text("utf-8")


def nearest_vec0() -> str:
    """``nearest`` by the vec0 table, in SQL alone."""
    return _query("nearest")


def nearest_by(retriever: str) -> str:
    """``nearest`` of a retriever that a function calls."""
    return _query("nearest_by").replace("{retriever}", retriever)


def hits_by(retriever: str) -> str:
    """``hits`` of a retriever that finds texts."""
    sql = _query("hits_by").replace("{per_candidate}", str(CUT_PER_CANDIDATE))
    return sql.replace("{retriever}", retriever)


def _hits(shape: Shape) -> str:
    """``hits`` by the file's own indexes."""
    reading = shape.reading
    sql = _query("hits")
    for mark, piece in (
        # with vectors no phrase of so many texts is kept
        ("/*single*/", "" if shape.vectors else SINGLE),
        ("/*phrase*/", "" if shape.vectors else f"\n    union all select * from ({PHRASE})"),
        ("/*rated*/", BM25 if shape.vectors else RATED),
        # in the second run to read all texts that hold a part would take as long once more
        ("/*part_rated*/", UNRATED if reading.only else PART_RATED),
        ("/*short_runs*/", SHORT_RUNS if shape.unspaced else ""),
        ("/*of_words*/", _taken(reading, "_limbic_fts.rowid", reading.words_from)),
        ("/*of_phrase*/", _taken(reading, "_limbic_fts.rowid")),
        ("/*of_parts*/", _taken(reading, "_limbic_trigram.rowid", reading.parts_from)),
        ("/*of_runs*/", f"where {_only(reading, 'doc')}" if reading.only else ""),
        ("{texts}", str(NEWEST.texts)),
        ("{places}", str(reading.places)),
        ("{parts}", str(NEWEST.parts)),
        ("{of_runs}", f", {reading.short_runs}" if reading.only else ""),
    ):
        sql = sql.replace(mark, piece)
    return sql


def _taken(reading: Reading, doc: str, oldest: int = 0) -> str:
    """The condition on which texts are taken, of those from the oldest that is read."""
    since = f"and {doc} >= {oldest} " if oldest else ""
    return since + (f"and {_only(reading, doc)}" if reading.only else "")


def _only(reading: Reading, doc: str) -> str:
    return reading.only.replace("{doc}", doc)


def per_candidate(shape: Shape) -> int:
    """How many texts are looked at for each candidate, where they are cut."""
    return CUT_PER_CANDIDATE_OF_TYPE if shape.by_type else CUT_PER_CANDIDATE


def is_cut(shape: Shape) -> bool:
    """Whether only the best texts are looked at."""
    return shape.cut and not (shape.by_type and shape.vectors)


def _looked_at(shape: Shape) -> str:
    return f"{per_candidate(shape)} * k + invalid + hidden"


def matched(shape: Shape) -> str:
    """What a search by text matches, in one row: how many texts hold its words, a phrase of common
    ones left out; how many a part of a word or a run (one more than are read, at most); how many
    texts are looked at without reading further; whether a phrase of common words was looked for in
    the newest texts alone."""
    return compact(
        f"""{_before_hits(shape)}, found as (
  select count(*) as parts from (select 1 from _limbic_trigram
    where _limbic_trigram match limbic_parts(:q) limit {shape.reading.parts + 1}))
select (select ifnull(sum(df), 0) from kept {SINGLE}), parts,
  {_looked_at(shape)}, {_phrase_from(shape)} is not null
from found, p"""
    )


def oldest_read(shape: Shape) -> str:
    """In one row, the oldest text that is read of those that hold the words, of those that hold a
    phrase of common ones, and of those that hold a part of a word; null where all are read."""
    return compact(
        f"""{_before_hits(shape)}
select (select rowid from _limbic_fts where _limbic_fts match (
    select ifnull(group_concat(term, ' OR '), '""') from kept {SINGLE})
  order by rowid desc limit 1 offset {shape.reading.texts}),
  {_phrase_from(shape)},
  (select rowid from _limbic_trigram where _limbic_trigram match limbic_parts(:q)
  order by rowid desc limit 1 offset {shape.reading.parts})"""
    )


def _before_hits(shape: Shape) -> str:
    before, _, _ = build(shape).partition("hits as materialized")
    return before.rstrip().rstrip(",")


def _phrase_from(shape: Shape) -> str:
    return PHRASE_FROM.replace("{places}", str(shape.reading.places))


@lru_cache(maxsize=64)
def build(
    shape: Shape, *, knn: str | None = None, text: str | None = None, readable: bool = False
) -> str:
    """The statement for ``shape``. ``knn`` and ``text`` replace the candidate CTEs (tests).

    ``readable`` keeps lines and comments: for the stored query, which no URL has to carry.
    """
    counted = shape.cut and shape.text and text is None and not shape.listing
    if shape.listing:
        knn, text = _query("recent"), NO_TEXT
    if knn is None:
        knn = _query("knn") if shape.vectors else NO_KNN
    if text is None:
        text = _query("fts") if shape.text else NO_TEXT
    nearest = shape.nearest or _query("nearest")
    if shape.form:
        nearest = nearest.replace("limbic_embed(:q)", FORM_VECTOR).replace("min(4096, k", FORM_K)
    sql = _query("search")
    for mark, piece in (
        ("/*knn*/", knn.strip()),
        ("/*nearest*/", nearest.strip()),
        ("/*text*/", text.strip()),
        ("/*hits*/", (shape.hits or _hits(shape)).strip()),
        ("/*type*/", TYPE_FILTER if shape.by_type else ""),
        ("/*rarest*/", "" if shape.vectors else RAREST),
        ("/*pairs*/", _query("pairs_large" if shape.large_pool else "pairs").strip()),
        ("/*cut*/", CUT.format(looked_at=_looked_at(shape)) if is_cut(shape) else ""),
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


def url_query(sql: str, params: dict[str, object]) -> str:
    """``sql=…&q=…`` for Datasette's SQL page; characters that a query may hold stay readable.

    Parameters at their default are left out: Datasette sends '' for them.
    """
    given = [f"{name}={_quoted(str(params[name]))}" for name in PARAMETERS if name in params]
    return "&".join([f"sql={_quoted(sql)}", *given])


@lru_cache(maxsize=64)
def _quoted(text: str) -> str:
    return quote_plus(text, safe=SAFE)
