"""The page of one entity as people read it: words, links, what stands together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any
from urllib.parse import urlencode

from markupsafe import escape

from ..bounds import COUNTED
from ..entity import pages_of
from ..entity_relations import block_of
from ..entity_signals import SELDOM
from ..i18n import counting, figure, gettext, marked
from ..i18n import gettext as _
from . import charts, timeline
from .common import Page
from .display import named, short
from .entity_moment import as_asked, kept, when

OBSERVATIONS = 50
"""Observations that the page shows at once; its JSON has entity.PAGE."""
RELATIONS = 25
"""Relations of each way that the page shows at once, turned by themselves."""
GROUPED_FROM = 13
"""Relations of one way from which they are listed by type."""
TYPES = 12
"""Types that are named above a list."""
FORMS = 20
"""Rows up to which each has the forms that change it; where there are more, a link opens them."""
TEXT = 15_000
"""Bytes of observations on a page, as far as each of them shows at least LEAST characters."""
LEAST = 300
NAME = 2_000
LIKE = 100
# kind of a kept pair → badge, its colour
BADGES = {
    "contradiction": (marked("contradicts #%(id)s?"), "limbic-bad"),
    "duplicate": (marked("duplicate of #%(id)s"), "limbic-warn"),
    "look": (marked("near #%(id)s"), ""),
}

# what is kept of each kind, in words
PAIRS: dict[str, Callable[[int], str]] = {
    "duplicate": lambda n: counting("%(n)s duplicate pair", "%(n)s duplicate pairs", n),
    "contradiction": lambda n: counting("%(n)s contradiction", "%(n)s contradictions", n),
    "look": lambda n: counting("%(n)s pair worth a look", "%(n)s pairs worth a look", n),
}


# arguments that say which part of the page to show: its JSON has parts of its own
_PARTS = ("page", "relations_page", "change")


def decorate(here: Page, data: dict[str, Any], change: str | None) -> None:
    """What the template needs beside the JSON."""
    signals = data["signals"]
    data["_self_url"] = own = here.url(f"/entity/{data['id']}")
    data["_title"] = named(data["name"], data["id"], 80)
    data["_name_more"] = max(0, len(str(data["name"])) - NAME)
    data["_row_url"] = str(here.datasette.urls.row(here.db.name, "entities", str(data["id"])))
    data["_log_shown"] = shown = signals["weeks"] is not None
    data["_weeks"] = charts.weeks_words(signals["weeks"]) if shown else None
    data["_counted"] = COUNTED
    data["_partners"] = partners = charts.partner_bars(signals["co_occurrences"])
    for partner in partners:
        partner["_times"] = charts.whole(partner["co_count"])
    # those that come up often are the first of all, the others of those that were counted
    data["_of_counted"] = "partners" in data["at_least"] and (
        min((partner["_times"] for partner in partners), default=0) <= SELDOM
    )
    data["_timeline"] = timeline.picture(data["timeline"], data["now"], data["as_of"])
    data["_untimed"] = timeline.outside(data["timeline"])
    _decorate_date(here, data, own)
    most = pages_of(data["counts"]["observations"], OBSERVATIONS)
    data["_turns"] = {
        "observations": _turn(here, "page", data["page"], most),
        "relations": {
            **_turn(here, "relations_page", data["relations_page"], data["relations_pages"]),
            "at_least": any(way in data["at_least"] for way in ("relations_out", "relations_in")),
        },
    }
    _decorate_observations(here, data)
    _decorate_relations(data)
    _decorate_forms(here, data, change)
    _decorate_reports(here, data)


def _decorate_date(here: Page, data: dict[str, Any], own: str) -> None:
    """What other links keep of the date that is asked for, and what held then."""
    as_of, counts = as_asked(here, "as_of"), data["counts"]
    data["_keep"] = kept(as_of)
    data["_kept"] = data["_keep"].removeprefix("?")
    data["_day"] = data["as_of"][:10] if as_of else ""
    data["_when"] = when(data["as_of"]) if as_of else ""
    whole = {key: value for key, value in here.given.items() if key not in _PARTS}
    data["_json_url"] = f"{own}.json" + (f"?{urlencode(whole)}" if whole else "")
    now = {"now": here.given["now"]} if "now" in here.given else {}
    data["_now_url"] = own + (f"?{urlencode(now)}" if now else "")
    data["_hidden"] = now

    def least(name: str) -> str:
        return figure(counts[name]) + ("+" if name in data["at_least"] else "")

    relations = counts["relations"]
    data["_held"] = _("%(observations)s of %(all)s, %(relations)s of %(every)s") % {
        "observations": figure(counts["valid_observations"]),
        "all": counting("%(n)s observation", "%(n)s observations", counts["observations"]),
        "relations": least("valid_relations"),
        "every": counting("%(n)s relation", "%(n)s relations", relations, n=least("relations")),
    }


def _turn(here: Page, name: str, number: int, most: int) -> dict[str, Any]:
    """URLs of the pages before and after this one, None where there is none."""
    same = {key: value for key, value in here.given.items() if key not in (name, "change")}
    before, after = min(number - 1, most), number + 1

    def url(page: int) -> str:
        return f"?{urlencode({**same, name: page})}"

    return {
        "page": number,
        "pages": most,
        "before": url(before) if before else None,
        "after": url(after) if after <= most else None,
        "at_least": False,
    }


def _decorate_observations(here: Page, data: dict[str, Any]) -> None:
    """Texts that are not too long for a page, badges, and what holds apart from what does not."""
    rows = data["observations"]
    on_page = {row["id"] for row in rows}
    most = _room([str(row["content"]) for row in rows])
    url = here.url(f"/duplicates/{data['id']}")
    table = here.datasette.urls.table(here.db.name, "observations")
    for row in rows:
        row["_text"] = short(row["content"], most)
        row["_more"] = max(0, len(str(row["content"])) - most)
        row["_whole_url"] = f"{table}/{row['id']}"
        row["_badges"] = [_badge(pair, on_page, url) for pair in row["pairs"]]
        row["_hidden_pairs"] = row["pairs"][0]["pairs"] - len(row["pairs"]) if row["pairs"] else 0
        row["_flag"] = bool(row["similarity_flag"]) and not row["pairs"]
        older = row["supersedes"]
        row["_replaces_url"] = f"#observation-{older}" if older in on_page else f"{table}/{older}"
    dated = data["as_of"] is not None
    data["_true"] = [row for row in rows if row["valid"] or not dated]
    data["_apart"] = [row for row in rows if dated and not row["valid"]]
    data["_duplicates_url"] = url


def _room(texts: Sequence[str]) -> int:
    """Characters of each text that a page has room for, so that short ones stay whole."""
    waiting = sorted(map(len, texts))
    size = sum(len(escape(text).encode("utf-8", "replace")) for text in texts)
    left = TEXT * sum(waiting) // max(1, size)
    for done, length in enumerate(waiting):
        share = left // (len(waiting) - done)
        if length > share:
            return max(LEAST, share)
        left -= length
    return max([LEAST, *waiting])


def _badge(pair: dict[str, Any], on_page: set[int], url: str) -> dict[str, Any]:
    """One kept pair beside an observation that is in it: what it says, and where that leads."""
    text, colour = BADGES[pair["kind"]]
    return {
        "text": gettext(text) % {"id": pair["id"]},
        "colour": colour,
        "title": short(pair["content"], LIKE),
        "url": f"#observation-{pair['id']}" if pair["id"] in on_page else url,
        "difference": short(pair["difference"], LIKE) if pair.get("difference") else None,
    }


def _decorate_relations(data: dict[str, Any]) -> None:
    """Both lists, by type where they are long."""
    types = data["relation_types"]
    data["_block"] = _later_block(data)
    data["_ways"] = [
        {
            "key": key,
            "title": title,
            "arrow": arrow,
            "count": data["counts"][key],
            "groups": _groups(data[key], types[way], data["counts"][key]),
            "types": types[way][:TYPES] if _is_long(data["counts"][key], types[way]) else [],
            "more_types": max(0, len(types[way]) - TYPES),
            # types are counted of the first alone, also where a later page has counted all
            "plus": "+" if data["counts"][key] + (key in data["at_least"]) > COUNTED else "",
        }
        for way, key, title, arrow in (
            ("out", "relations_out", _("From here"), "→"),
            ("in", "relations_in", _("To here"), "←"),
        )
    ]


def _later_block(data: dict[str, Any]) -> tuple[int, int] | None:
    """Which relations of each way stand in the block of this page, where that is not the first."""
    start, block = block_of(data["relations_page"], RELATIONS)
    most = max(data["counts"][key] for key in ("relations_out", "relations_in"))
    return (start + 1, min(start + block, most)) if 0 < start < most else None


def _is_long(count: int, types: Sequence[dict[str, Any]]) -> bool:
    return count >= GROUPED_FROM and len(types) > 1


def _groups(
    rows: Sequence[dict[str, Any]], types: Sequence[dict[str, Any]], count: int
) -> list[dict[str, Any]]:
    """Rows in their order, under a heading for each type where there are many; what no longer
    holds, or not yet, under one of its own."""
    if not rows:
        return []
    if not _is_long(count, types):
        return [{"type": None, "over": False, "count": None, "rows": list(rows)}]
    counts = {each["relation_type"]: each["count"] for each in types}
    return [
        {
            "type": None if not valid else kind,
            "over": not valid,
            "count": counts.get(kind) if valid else None,
            "rows": list(some),
        }
        for (valid, kind), some in groupby(
            rows, key=lambda row: (row["valid"], row["relation_type"] if row["valid"] else None)
        )
    ]


def _decorate_forms(here: Page, data: dict[str, Any], change: str | None) -> None:
    """Which rows have the forms that change them; of many, those that were asked for alone."""
    rows = [("observation", row) for row in data["observations"]]
    rows += [("relation", row) for key in ("relations_out", "relations_in") for row in data[key]]
    few = len(rows) <= FORMS
    same = {key: value for key, value in here.given.items() if key != "change"}
    for kind, row in rows:
        name = f"{kind}-{row['id']}"
        row["_opened"] = name == change
        row["_forms"] = few or row["_opened"]
        row["_change_url"] = f"?{urlencode({**same, 'change': name})}#{name}"


def _decorate_reports(here: Page, data: dict[str, Any]) -> None:
    found = data["maintenance"] or {}
    pairs = found.get("pairs") or {}
    data["_pairs"] = [say(pairs[kind]) for kind, say in PAIRS.items() if pairs.get(kind)]
    data["_waits"] = (waits := found.get("waiting") or {"count": 0, "insights": []})
    data["_more_waits"] = waits["count"] - len(waits["insights"])
    for insight in waits["insights"]:
        insight["_url"] = here.url(f"/review/{insight['id']}")
