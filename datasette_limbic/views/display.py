"""What templates show, worked out beforehand: numbers as text, widths of bars, marked words."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlencode

from datasette.utils.sqlite import sqlite3
from markupsafe import Markup, escape

from .. import request, text, times
from ..config import FUSIONS, MODES, RECENCIES, STRATEGIES
from .common import Page

SHOWN_OBSERVATIONS = 3
MAX_NAME = 200
MAX_SHOWN = 600
# What the search form has a field for; any other argument of the URL it carries on unseen.
FORM_FIELDS = (
    "q",
    "type",
    "limit",
    "mode",
    "strategy",
    "recency",
    "fusion",
    "beta_sal",
    "gamma",
    "as_of",
    "include_archived",
)
_WORD = re.compile(r"\w+")


def number(value: Any, digits: int = 3) -> str:
    """A number for people; an en dash where it is unknown."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.{digits}f}"
    return f"{value:,}" if isinstance(value, int) else str(value)[:20]


def day(value: Any) -> str:
    """The day of a stored time; the whole of it stands in a title attribute."""
    moment = times.to_sql(value)
    if moment is None:
        return "unknown" if not value else str(value)[:20]
    return Markup('<time datetime="{}Z" title="{} UTC">{}</time>').format(
        moment.replace(" ", "T"), moment, moment[:10]
    )


def moment(value: Any) -> str:
    """A stored time to the second."""
    found = times.to_sql(value)
    if found is None:
        return day(value)
    return Markup('<time datetime="{}Z">{} UTC</time>').format(found.replace(" ", "T"), found[:19])


def short(value: Any, most: int = MAX_NAME) -> str:
    """The beginning of a long text."""
    return text.cut(str(value), most)


def named(name: Any, entity: Any, most: int = MAX_NAME) -> str:
    """The name of an entity as the text of a link, which one of spaces alone would leave empty."""
    found = str("" if name is None else name)
    return short(found, most) if text.shows(found) else f"unnamed (#{entity})"


def isolated(value: Any, most: int = MAX_NAME) -> Markup:
    """The beginning of a text of the memory, which turns nothing around it.

    A character such as U+202E turns what follows from right to left, up to the end of its element.
    """
    return Markup("<bdi>{}</bdi>").format(
        value if isinstance(value, Markup) else short(value, most)
    )


def isolated_name(name: Any, entity: Any, most: int = MAX_NAME) -> Markup:
    """``named``, as ``isolated`` has it."""
    return Markup("<bdi>{}</bdi>").format(named(name, entity, most))


def sentence(value: Any, most: int = 400) -> str:
    """A reason or a warning as a sentence of its own, with a capital letter and a full stop."""
    found = short(value, most)
    if "_" not in found.partition(" ")[0]:  # the name of a table stays as it is written
        found = found[:1].upper() + found[1:]
    return found + ("" if found.endswith((".", "…")) else ".")


FILTERS = {
    "limbic_number": number,
    "limbic_day": day,
    "limbic_moment": moment,
    "limbic_short": short,
    "limbic_text": isolated,
    "limbic_name": isolated_name,
    "limbic_sentence": sentence,
}


def entity_types(conn: sqlite3.Connection) -> list[str]:
    """The memory's entity types, most frequent first, for the filter."""
    return [
        row[0]
        for row in conn.execute(
            "select entity_type from entities group by 1 order by count(*) desc, 1 limit 200"
        )
    ]


def stored_query(asked: request.Request) -> str:
    """URL query of the stored query page for this search."""
    return urlencode(asked.varied())


def marked(content: str, terms: set[str]) -> Markup:
    """``content`` escaped, with the words that the query holds in <mark>."""
    pieces, last = [], 0
    for match in _WORD.finditer(content):
        if terms.intersection(text.fts_tokens(match.group())):
            pieces.append(escape(content[last : match.start()]))
            pieces.append(Markup("<mark>") + escape(match.group()) + Markup("</mark>"))
            last = match.end()
    pieces.append(escape(content[last:]))
    return Markup("").join(pieces)


def around(content: str, terms: set[str]) -> str:
    """At most MAX_SHOWN characters of ``content``, with the first word that the query holds."""
    if len(content) <= MAX_SHOWN:
        return content
    start = 0
    for match in _WORD.finditer(content[:100_000]):
        if terms.intersection(text.fts_tokens(match.group()[:MAX_SHOWN])):
            start = max(0, match.start() - MAX_SHOWN // 4)
            break
    piece = content[start : start + MAX_SHOWN]
    return ("…" if start else "") + piece + ("…" if start + MAX_SHOWN < len(content) else "")


def query_tokens(query: str) -> set[str]:
    return {token for term in text.fts_terms(query) for token in term.tokens}


def observations(contents: list[str], terms: set[str]) -> list[tuple[int, Markup]]:
    """The observations to show: those with most words of the query, then the first ones."""
    order = sorted(
        range(len(contents)),
        key=lambda i: (-len(terms.intersection(text.fts_tokens(contents[i][:100_000]))), i),
    )
    return [(i, marked(around(contents[i], terms), terms)) for i in order[:SHOWN_OBSERVATIONS]]


def bars(row: dict[str, Any], top: float, parameters: dict[str, Any]) -> list[dict[str, Any]]:
    """The factors of a score: what each is, what it multiplies by, and a width in per cent.

    A width is the share of the most that the factor can be, for co-occurrence of the pool's
    largest (``top``).
    """
    scoring = row["scoring"]
    temporal = scoring["temporal_factor"]
    shown = [
        ("base", "base similarity", scoring["base"], None, 1.0),
        (
            "salience",
            "salience",
            scoring["importance"],
            1 + parameters["beta_sal"] * scoring["importance"],
            1 + parameters["beta_deg"],
        ),
        (
            "time",
            "recency",
            temporal,
            parameters["unknown_temporal"] if temporal is None else temporal,
            1.0,
        ),
        (
            "cooc",
            "co-occurrence",
            scoring["cooc_boost"],
            1 + parameters["gamma"] * scoring["cooc_boost"],
            top or 1.0,
        ),
    ]
    return [
        {
            "key": key,
            "label": label,
            "value": value,
            "factor": factor,
            "width": round(100 * min(1.0, max(0.0, (value or 0.0) / most)), 1),
        }
        for key, label, value, factor, most in shown
    ]


def decorate(answer: dict[str, Any], here: Page, asked: request.Request) -> dict[str, Any]:
    """The answer with what the search template needs beside it."""
    terms = query_tokens(asked.query)
    rows = answer["results"] + answer.get("losers", [])
    top = max((row["scoring"]["cooc_boost"] for row in rows), default=0.0)
    for rank, row in enumerate(rows, 1):
        row["_rank"] = rank
        row["_url"] = here.url(f"/entity/{row['id']}")
        row["_bars"] = bars(row, top, answer["parameters"])
        row["_name"] = isolated(marked(named(row["name"], row["id"]), terms))
        contents = row.get("observations") or []
        row["_shown"] = observations(contents, terms)
        row["_more"] = max(0, len(contents) - SHOWN_OBSERVATIONS)
    args = {k: v for k, v in here.given.items() if k not in ("explain", "search_id")}
    # with the id of a logged search, whose ratings both show
    same = {k: v for k, v in here.given.items() if k != "explain"}
    answer["_explain_url"] = here.url("/search?") + urlencode({**same, "explain": 1})
    answer["_plain_url"] = here.url("/search?") + urlencode(same)
    answer["_unfiltered_url"] = here.url("/search?") + urlencode(
        {k: v for k, v in args.items() if k not in ("type", "as_of")}
    )
    answer["_opened"] = bool(set(args) - {"q"})
    answer["_carried"] = [
        (name, args[name]) for name in request.ARGUMENTS if name in args and name not in FORM_FIELDS
    ]
    answer["_defaults"] = {
        name: getattr(here.settings, name) for name in ("mode", "strategy", "recency", "fusion")
    }
    answer["_options"] = {
        "mode": MODES,
        "strategy": STRATEGIES,
        "recency": RECENCIES,
        "fusion": FUSIONS,
    }
    answer["_given"] = here.given
    return answer
