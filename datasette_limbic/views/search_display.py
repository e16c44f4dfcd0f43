"""What the search page shows of each result: badges, its bar, its moves, and what losers lacked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import request, whatif
from ..answers import plain
from ..highlights import Highlights
from ..i18n import gettext as _
from ..i18n import marked as marked_string
from ..i18n import ngettext
from ..search import Pool
from ..text import EXACT_NAME
from . import search_form, search_steps
from .common import Page
from .display import isolated, named, number
from .search_words import Words

SHOWN = 3
"""Observations of a result. Those past ``IN_FULL`` are brief, or a page of 100 were too large."""
IN_FULL, SHOWN_BELOW = 10, 1
LENGTH, LENGTH_BELOW = 600, 160
LOSERS = 50
"""Candidates that the page lists under "why not"; its JSON has all."""

LACKED = {
    "base": marked_string("base similarity"),
    "salience": marked_string("salience: less used or less connected"),
    "time": marked_string("time: used or created longer ago"),
    "cooc": marked_string("co-occurrence with the others"),
}


def decorate(
    answer: dict[str, Any],
    here: Page,
    pool: Pool,
    in_force: request.Request,
    found: Mapping[int, Highlights],
    archived: frozenset[int],
) -> dict[str, Any]:
    """The answer with what the search template needs beside it.

    ``in_force`` is the same search without what the sliders vary, ``found`` the observations to
    show of each result.
    """
    asked, results = pool.request, answer["results"]
    words = Words(asked.query)
    losers = answer.get("losers", [])[:LOSERS]
    rows = {row["id"]: row for row in pool.rows}
    whole = search_steps.scale([rows[row["id"]] for row in results], asked.parameters)
    before = whatif.ranks(pool, in_force) if _differs(pool, in_force) else {}
    lacking = whatif.lacks(pool, asked.limit) if losers else {}
    for rank, row in enumerate([*results, *losers], 1):
        pooled = rows[row["id"]]
        row["_rank"], row["_in_full"] = rank, rank <= IN_FULL
        row["_url"] = here.url(f"/entity/{row['id']}")
        row["_name"] = isolated(words.marked(named(row["name"], row["id"])))
        row["_badges"] = _badges(row, answer, words, archived)
        row["_move"] = _move(before[row["id"]] - rank) if before else None
        row["_bar"] = search_steps.bar(pooled, asked.parameters, pool.strategy, whole)
        row["_lack"] = _lack(lacking.get(row["id"]))
        _add_observations(row, found.get(row["id"]), words, rank)
    answer["_scale"] = number(whole)
    answer["_losers"] = losers
    answer["_last"] = results[-1] if results else None
    answer["_moved"] = sum(bool(row["_move"]) for row in results)
    answer["_varied"] = bool(before)
    search_form.add_links(answer, here)
    search_form.add_form(answer, here, asked, in_force)
    return answer


def _differs(pool: Pool, in_force: request.Request) -> bool:
    asked = pool.request
    if not pool.rows or asked.parameters != in_force.parameters:
        return bool(pool.rows)
    return pool.strategy != whatif.strategy_of(in_force, pool)


def _badges(
    row: dict[str, Any], answer: dict[str, Any], words: Words, archived: frozenset[int]
) -> list[dict[str, str]]:
    """Why a result is among the candidates, and what to beware of: ``kind, text, title``."""
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
    if covered is not None and 1 - 1e-9 < covered < EXACT_NAME:
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
    row: dict[str, Any], found: Highlights | None, words: Words, rank: int
) -> None:
    shown, length = (SHOWN, LENGTH) if rank <= IN_FULL else (SHOWN_BELOW, LENGTH_BELOW)
    kept = (found.shown if found else [])[:]
    while len(kept) > shown:  # the nearest by meaning is never left out
        del kept[-2 if kept[-1].nearest else -1]
    row["_shown"] = [
        {
            "html": words.marked(words.around(str(plain(o.content) or ""), length)),
            "nearest": o.nearest and found is not None and found.total > 1,
        }
        for o in kept
    ]
    row["_more"] = (found.total if found else 0) - len(kept)


def _lack(lack: whatif.Lack | None) -> dict[str, Any] | None:
    """What a candidate lacked, in the visitor's language."""
    if lack is None:
        return None
    return {
        "factor": _(LACKED[lack.factor]),
        "own": number(lack.own),
        "needed": number(lack.needed),
        "would_be": number(lack.would_be),
        "enough": lack.enough,
    }


def _move(places: int) -> dict[str, str] | None:
    """How far a result moved up against what is in force: an arrow, and the same in words."""
    if not places:
        return None
    if places > 0:
        said = ngettext(
            "%(n)s place higher than with what is in force",
            "%(n)s places higher than with what is in force",
            places,
        )
    else:
        said = ngettext(
            "%(n)s place lower than with what is in force",
            "%(n)s places lower than with what is in force",
            -places,
        )
    count = number(abs(places))
    return {
        "kind": "up" if places > 0 else "down",
        "arrow": ("▲" if places > 0 else "▼") + count,
        "text": said % {"n": count},
    }
