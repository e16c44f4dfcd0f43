"""What the search page shows of each result: badges, its bar, its moves, and what losers lacked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .. import request, whatif
from ..answers import plain
from ..highlights import Highlights
from ..i18n import gettext as _
from ..i18n import marked, ngettext
from ..search import Pool
from ..text import EXACT_NAME
from . import search_form, search_steps
from .common import Page
from .display import isolated, light, named, number
from .search_words import Phrase, Words

IN_FULL = 10
"""Results that say all there is to say of them."""
OBSERVED = 20
"""Results that show an observation. Where more are listed, the first have less room, too."""
SHOWN, SHOWN_OF_MANY, SHOWN_BELOW = 3, 2, 1
"""Observations of a result in full, in full among many, and below."""
LENGTH, LENGTH_OF_MANY, LENGTH_BELOW = 600, 200, 120
"""Characters of an observation, likewise."""
NAME, NAME_OF_MANY, NAME_BELOW = 200, 100, 60
TYPE, TYPE_BELOW = 60, 20
LOSERS = 20
"""Candidates that the page lists under "why not"; its JSON has all."""

LACKED = {
    "base": marked("base similarity"),
    "salience": marked("salience: less used or less connected"),
    "cooc": marked("co-occurrence with the others"),
}
# Consolidation weighs how long ago it was used, too.
CONSOLIDATED = marked("salience: less used, longer ago, or less connected")
# What time is counted from depends on the recency that was asked for.
TIMES = {
    "access": marked("time: used or created longer ago"),
    "activity": marked("time: its activity counts as less recent"),
    "freshest": marked("time: neither its use nor its activity counts as that recent"),
}
UNKNOWN_TIME = marked("time: not known")


def decorate(
    answer: dict[str, Any],
    here: Page,
    pool: Pool,
    asked: tuple[request.Request, request.Request],
    found: Mapping[int, Highlights],
    archived: frozenset[int],
) -> dict[str, Any]:
    """The answer with what the search template needs beside it.

    ``asked`` is the search as it was asked and the same without what the sliders vary, ``found``
    the observations to show of each result.
    """
    parameters, results = pool.request.parameters, answer["results"]
    words = Words(pool.request.query)
    losers = answer.get("losers", [])[:LOSERS]
    rows = {row["id"]: row for row in pool.rows}
    whole = search_steps.scale([rows[row["id"]] for row in results], parameters)
    before = whatif.ranks(pool, asked[1]) if _differs(pool, asked[1]) else {}
    for rank, row in enumerate([*results, *losers], 1):
        of_it = found.get(row["id"])
        texts = [str(plain(o.content) or "") for o in of_it.shown] if of_it else []
        name, in_full = str(row["name"] or ""), rank <= IN_FULL and rank <= len(results)
        parts = words.parts(name, texts)
        row["_rank"], row["_in_full"] = rank, in_full
        row["_url"] = here.url(f"/entity/{row['id']}")
        row["_titled"] = in_full and len(results) <= OBSERVED
        room = (NAME if row["_titled"] else NAME_OF_MANY) if in_full else NAME_BELOW
        row["_name"] = isolated(words.marked(light(named(name, row["id"]), room), parts))
        row["_short"] = light(named(name, row["id"]), NAME_BELOW)
        row["_type"] = light(str(row["entityType"] or ""), TYPE if in_full else TYPE_BELOW)
        row["_badges"] = _badges(row, answer, words, parts, texts, archived)
        row["_move"] = _move(before[row["id"]] - rank, not in_full) if before else None
        if rank <= len(results):
            row["_bar"] = search_steps.bar(rows[row["id"]], parameters, pool.strategy, whole)
            _add_observations(row, of_it, words, rank, len(results))
    if losers:
        _add_lacks(losers, pool, rows)
    answer["_factors"] = search_steps.titles()
    answer["_scale"] = number(whole)
    answer["_losers"] = losers
    answer["_last"] = results[-1] if results else None
    answer["_moved"] = sum(bool(row["_move"]) for row in results)
    answer["_varied"] = bool(before)
    search_form.add_links(answer, here)
    search_form.add_form(answer, here, *asked)
    return answer


def _differs(pool: Pool, in_force: request.Request) -> bool:
    asked = pool.request
    if not pool.rows or asked.parameters != in_force.parameters:
        return bool(pool.rows)
    return pool.strategy != whatif.strategy_of(in_force, pool)


def _badges(
    row: dict[str, Any],
    answer: dict[str, Any],
    words: Words,
    parts: set[Phrase],
    texts: Sequence[str],
    archived: frozenset[int],
) -> list[dict[str, str]]:
    """Why a result is among the candidates, and what to beware of: ``kind, text, title``.

    ``parts`` are the words that stand inside words of its name alone, ``texts`` its observations.
    """
    found: list[dict[str, str]] = []

    def add(kind: str, text: str, title: str) -> None:
        found.append({"kind": kind, "text": text, "title": title})

    if row["knn_rank"] is not None:
        add(
            "knn",
            _("meaning #%(rank)s") % {"rank": number(row["knn_rank"])},
            _("its place among the nearest by meaning"),
        )
    if row["fts_rank"] is not None:
        add(
            "fts",
            _("text #%(rank)s") % {"rank": number(row["fts_rank"])},
            _("its place among the texts that hold words of the query"),
        )
    covered = row["coverage"]
    if covered is not None and covered >= EXACT_NAME:
        add("good", _("exact name"), _("its name is what was asked for"))
    elif words.in_text(str(row["name"] or "")):
        add("good", _("in the name"), _("its name holds words of the query"))
    if parts:
        add("good", _("part of the name"), _("a longer word of its name holds what was asked for"))
    # a part counts as the word where no text has the word
    every = covered is not None and 1 - 1e-9 < covered < EXACT_NAME
    if every and not words.nowhere([str(row["name"] or ""), *texts]):
        add("good", _("every word"), _("its name and one observation hold every word of the query"))
    similarity = row["scoring"]["cosine_sim"]
    if similarity is not None and similarity < answer["confidence_floor"] and not covered:
        add(
            "warn",
            _("far"),
            _("similarity %(own)s: a match by meaning needs %(floor)s")
            % {"own": number(similarity), "floor": number(answer["confidence_floor"])},
        )
    if row["id"] in archived:
        add("warn", _("archived"), _("listed because archived ones were asked for too"))
    return found


def _add_observations(
    row: dict[str, Any], found: Highlights | None, words: Words, rank: int, listed: int
) -> None:
    if not row["_in_full"]:
        shown, length = SHOWN_BELOW if rank <= OBSERVED else 0, LENGTH_BELOW
    elif listed > OBSERVED:
        shown, length = SHOWN_OF_MANY, LENGTH_OF_MANY
    else:
        shown, length = SHOWN, LENGTH
    kept = found.shown[:] if found else []
    while len(kept) > shown:  # the nearest by meaning is never left out for another
        del kept[-2 if kept[-1].nearest and len(kept) > 1 else -1]
    row["_shown"] = [
        {
            "html": words.marked(words.around(str(plain(o.content) or ""), length)),
            "nearest": o.nearest and found is not None and found.total > 1,
        }
        for o in kept
    ]
    row["_more"] = (found.total if found else 0) - len(kept)


def _add_lacks(
    losers: Sequence[dict[str, Any]], pool: Pool, rows: Mapping[int, dict[str, Any]]
) -> None:
    """Add to each loser its factors and what it lacked, in the visitor's language."""
    lacking = whatif.lacks(pool, pool.request.limit)
    for row in losers:
        lack, pooled = lacking.get(row["id"]), rows[row["id"]]
        row["_factors"] = search_steps.factors(pooled, pool.request.parameters)
        row["_lack"] = lack and {
            "factor": lacked(lack.factor, pool.request, pooled["temporal_factor"] is not None),
            "own": number(lack.own),
            "needed": number(lack.needed),
            "would_be": number(lack.would_be),
            "enough": lack.enough,
        }


def lacked(factor: str, asked: request.Request, has_time: bool) -> str:
    """What it means to lack a factor in this search, of a candidate whose time is known or not."""
    if factor == "time":
        return _(TIMES[asked.recency] if has_time else UNKNOWN_TIME)
    if factor == "salience" and asked.consolidation:
        return _(CONSOLIDATED)
    return _(LACKED[factor])


def _move(places: int, briefly: bool) -> dict[str, str] | None:
    """How far a result moved up against what is in force: an arrow, and the same in words."""
    if not places:
        return None
    up, far = places > 0, abs(places)
    if briefly:
        said = (
            ngettext("%(n)s place higher", "%(n)s places higher", far)
            if up
            else ngettext("%(n)s place lower", "%(n)s places lower", far)
        )
    elif up:
        said = ngettext(
            "%(n)s place higher than with what is in force",
            "%(n)s places higher than with what is in force",
            far,
        )
    else:
        said = ngettext(
            "%(n)s place lower than with what is in force",
            "%(n)s places lower than with what is in force",
            far,
        )
    count = number(far)
    return {
        "kind": "up" if up else "down",
        "arrow": ("▲" if up else "▼") + count,
        "text": said % {"n": count},
    }
