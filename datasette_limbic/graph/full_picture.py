"""The full map as numbers and words that a template prints as SVG, colours and all.

A picture of its own has no sheet of ours, and may have no <style> under a strict
Content-Security-Policy: what it looks like stands in its attributes, on a light ground.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

from ..i18n import gettext as _
from ..i18n import ngettext
from .atlas import entity_node
from .drawing import MAX_TITLE, shown_name
from .full_map import MARGIN, STEP, Circle, FullMap
from .labels import Wanted, place, short_line, width_of
from .lines import tidy
from .whole import Whole

COLOURS = ("#3568a8", "#b0671a", "#1e7f6d", "#8a4fb0", "#b23a55", "#5f7d1f", "#2a8fa8", "#7a6a58")
OTHER = "#6b6b6b"
SMALLEST, LARGEST = 3.5, 8.0
NAME_SIZE = 3.6
NAME_LETTERS = 11
"""So many letters of a name find room below its circle; all of it is said when pointed at."""
LEGEND_SIZE = 14.0
LEGEND_LINE = 24.0
LOWEST_TITLE, HIGHEST_TITLE = 11.0, 34.0
# characters that XML may not have, beside those that ``plain_line`` leaves out
_NO_XML = {0xFFFE: None, 0xFFFF: None}


def full_picture(
    whole: Whole, placed: FullMap, *, name: str, url: Callable[[int], str]
) -> dict[str, Any]:
    """What limbic_graph_full.html prints. ``url`` is that of an entity.

    Names what it draws in the language of the page.
    """
    counts = Counter(whole.types)
    order = sorted(counts, key=lambda kind: (-counts[kind], kind))
    fills = dict(zip(order, COLOURS, strict=False))
    legend, top = _legend(order, counts, fills, placed.width)
    points = [(x, tidy(y + top)) for x, y in placed.points.tolist()]
    return {
        "width": tidy(placed.width),
        "height": tidy(placed.height + top),
        "title": _("Map of %(name)s") % {"name": _xml(short_line(name, 80))},
        "desc": _desc(whole),
        "whole": _("Whole map"),
        "legend": legend,
        "circles": [
            _circle(whole, each, number, top) for number, each in enumerate(placed.circles, 1)
        ],
        "lines": "".join(
            f"M{points[a][0]} {points[a][1]}L{points[b][0]} {points[b][1]}"
            for a, b in zip(whole.one.tolist(), whole.other.tolist(), strict=True)
        ),
        "nodes": [
            _node(whole, at, points[at], fills, url(int(whole.ids[at]))) for at in range(len(whole))
        ],
        "titles": _titles(whole, placed, top),
    }


def _circle(whole: Whole, each: Circle, number: int, top: float) -> dict[str, Any]:
    """A community, and the part of the picture that shows it large."""
    name = _xml(shown_name(entity_node(whole, whole.foremost(each.members)), MAX_TITLE))
    y, reach = each.y + top, each.radius + 2 * STEP
    return {
        "x": each.x,
        "y": tidy(y),
        "r": each.radius,
        "view": f"c{number}",
        "box": f"{tidy(each.x - reach)} {tidy(y - reach)} {tidy(2 * reach)} {tidy(2 * reach)}",
        "title": _("Community of %(name)s") % {"name": name},
    }


def _desc(whole: Whole) -> str:
    entities = ngettext("%(n)s entity", "%(n)s entities", len(whole)) % {"n": f"{len(whole):,}"}
    relations = ngettext("%(n)s relation", "%(n)s relations", whole.relations) % {
        "n": f"{whole.relations:,}"
    }
    return _(
        "%(entities)s and %(relations)s. Press a community to see it large, an entity to open it."
    ) % {
        "entities": entities,
        "relations": relations,
    }


def _legend(
    order: list[str], counts: Counter[str], fills: dict[str, str], width: float
) -> tuple[list[dict[str, Any]], float]:
    """The types in lines across the top, and how high that is."""
    said = [(fills[kind], _kind(kind), counts[kind]) for kind in order[: len(COLOURS)]]
    if len(order) > len(COLOURS):
        rest = sum(counts[kind] for kind in order[len(COLOURS) :])
        said.append((OTHER, _("other types"), rest))
    found, x, line = [], MARGIN, 1
    for fill, text, count in said:
        shown = f"{text} {count:,}"
        wide = 16 + width_of(shown, LEGEND_SIZE) + 18
        if x + wide > width and x > MARGIN:
            x, line = MARGIN, line + 1
        middle = line * LEGEND_LINE
        found.append(
            {
                "fill": fill,
                "text": shown,
                "x": tidy(x + 6),
                "y": middle,
                "at": tidy(x + 16),
                "base": middle + 5,
            }
        )
        x += wide
    return found, line * LEGEND_LINE if found else 0.0


def _node(
    whole: Whole, at: int, point: tuple[float, float], fills: dict[str, str], url: str
) -> dict[str, Any]:
    node = entity_node(whole, at)
    share = math.sqrt(min(1.0, max(0.0, node.importance)))
    return {
        "x": point[0],
        "y": point[1],
        "r": tidy(SMALLEST + (LARGEST - SMALLEST) * share),
        "fill": fills.get(node.entity_type, OTHER),
        "url": url,
        "title": f"{_xml(shown_name(node, MAX_TITLE))} · {_kind(node.entity_type)}",
        "name": _xml(shown_name(node, NAME_LETTERS)),
        "base": tidy(point[1] + STEP / 2),
    }


def _titles(whole: Whole, placed: FullMap, top: float) -> list[dict[str, Any]]:
    """The names of the communities where they find room, each on the upper edge of its circle."""
    wanted = [
        Wanted(
            at,
            _xml(shown_name(entity_node(whole, whole.foremost(each.members)), 30)),
            each.x,
            each.y - each.radius + top,
            0,
            weight=len(each.members),
            size=_title_size(each),
        )
        for at, each in enumerate(placed.circles)
    ]
    found = place(wanted, [], width=placed.width, height=placed.height + top)
    return [
        {
            "x": tidy(label.x),
            "y": tidy(label.y),
            "anchor": label.anchor,
            "text": label.text,
            "size": tidy(label.size),
            "halo": tidy(label.size / 4),
        }
        for label in found.values()
        if label.shown
    ]


def _title_size(each: Circle) -> float:
    return min(HIGHEST_TITLE, max(LOWEST_TITLE, each.radius / 7))


def _kind(kind: str) -> str:
    return _xml(short_line(kind, 40)) or _("no type")


def _xml(text: str) -> str:
    return text.translate(_NO_XML)
