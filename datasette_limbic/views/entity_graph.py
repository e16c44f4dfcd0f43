"""What is near an entity, drawn: a page of its own, and the small picture on the entity's page."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from datasette.utils import tilde_decode
from datasette.utils.sqlite import sqlite3

from ..errors import BadParameter, UnknownEntity
from ..graph.drawing import draw
from ..graph.labels import html_size, short_line
from ..graph.layout import Positions, positions
from ..graph.model import Graph, Node
from ..graph.neighbourhood import LIMIT, MOST, Neighbourhood, RelationType, neighbourhood
from .common import Page, page, whole_number
from .display import named
from .entity_moment import as_asked, kept, moment, when

TAKES = ("hops", "relation", "co_occurrence", "archived", "limit", "as_of", "now", "filtered")
NEAR = 26
"""Nodes of the small picture."""
MOST_TYPES = 30
"""Relation types that the form offers, and that may be asked for."""
FORM_BYTES = 4_000
"""What all of those may take in HTML."""
LONGEST_TYPE, MOST_LETTERS = 200, 1_000
"""Letters of one value of ``relation``, and of all of them."""
LONGEST_QUERY = 80
"""Letters of the query that each link of the picture repeats: a longer list of relation types is
left out of it."""
# the filter that leaves nothing out
_ALL: dict[str, Any] = {"relation": [], "co_occurrence": True, "archived": True, "limit": LIMIT}


async def entity_picture(
    here: Page, entity_id: int, now: str | None = None, as_of: str | None = None
) -> dict[str, Any]:
    """The small picture of an entity's neighbours, for ``picture`` of limbic_graph_parts.html.

    ``nodes`` has the entity alone where it has no neighbours. ``now`` is UTC text, ``as_of`` what
    its links keep, as the URL has it.
    """

    def read(conn: sqlite3.Connection) -> tuple[Neighbourhood, Positions, tuple[int, int]]:
        found = neighbourhood(conn, entity_id, limit=NEAR, now=now, settings=here.settings)
        return _laid_out(found, small=True)

    found, places, (width, height) = await here.db.execute_fn(read)
    query = kept(as_of)
    graph = _linked(found.graph, lambda node: here.url(f"/entity/{node.id}") + query)
    drawn = await asyncio.to_thread(draw, graph, places, width=width, height=height)
    drawn["more_url"] = here.url(f"/entity/{entity_id}/graph") + query
    return drawn


def _laid_out(
    found: Neighbourhood, *, small: bool
) -> tuple[Neighbourhood, Positions, tuple[int, int]]:
    width, height = _size(len(found.graph.nodes), small=small)
    return found, positions(found.graph, width=width, height=height), (width, height)


def _size(nodes: int, *, small: bool) -> tuple[int, int]:
    """Width and height of a picture: few nodes need no high one."""
    if nodes <= 2:
        return 640, 140
    if nodes <= 5:
        return 640, 260
    if nodes <= 12:
        return 640, 360
    if small or nodes <= 24:
        return (720, 460) if small else (880, 520)
    return 1060, 680


def _linked(graph: Graph, url: Any) -> Graph:
    return replace(graph, nodes=[replace(node, url=url(node)) for node in graph.nodes])


async def graph_page(here: Page) -> tuple[str, dict[str, Any]]:
    """The neighbourhood of one entity, with a filter."""
    given = here.request.url_vars["entity"]
    wanted = whole_number(given)
    if wanted is None:
        shown = tilde_decode(given)[:60]
        raise UnknownEntity(f"{shown!r} is no entity id: search for the name instead")
    as_of, now = moment(here, "as_of"), moment(here, "now")
    hops = here.whole("hops", 1, 2)
    limit = here.whole("limit", LIMIT, MOST)
    chosen = _relations(here)
    # a form sends nothing for a box that is not ticked: then ``filtered`` says that it was one
    default = "0" if here.args.get("filtered") == "1" else "1"
    together = _switch(here, "co_occurrence", default)
    archived = _switch(here, "archived", default)

    def read(conn: sqlite3.Connection) -> tuple[Neighbourhood, Positions, tuple[int, int]]:
        found = neighbourhood(
            conn,
            wanted,
            hops=hops,
            relation_types=_followed(chosen) or None,
            co_occurrence=together,
            archived=archived,
            limit=limit,
            now=as_of or now,
            settings=here.settings,
        )
        if here.as_json:
            return found, {}, (0, 0)
        return _laid_out(found, small=False)

    found, places, (width, height) = await here.db.execute_fn(read)
    graph = found.graph
    data = {
        "focus": graph.focus,
        "hops": hops,
        "relation": chosen,
        "co_occurrence": together,
        "archived": archived,
        "limit": limit,
        "nodes": [_node(node, graph.by_links) for node in graph.nodes],
        "edges": [
            {
                "source": edge.source,
                "target": edge.target,
                "kind": edge.kind,
                "labels": list(edge.labels),
                "back": list(edge.back),
                "count": edge.count,
                "ended": edge.ended,
            }
            for edge in graph.edges
        ],
        "left_out": graph.left_out,
        "at_least": graph.at_least,
        "edges_left_out": graph.edges_left_out,
        "relation_types": [{"name": t.name, "count": t.count} for t in found.relation_types],
        "relation_types_at_least": found.types_at_least,
    }
    if here.as_json:
        return "limbic_entity_graph.html", data
    _decorate(here, data, found)
    own = data["_entity_url"]
    query = _query(data, here)
    if len(query) > LONGEST_QUERY:
        query = _query({**data, "relation": []}, here)
    # from this page: a database may have a long name, and there are many links
    graph = _linked(graph, lambda node: own if node.id == wanted else f"../{node.id}/graph{query}")
    data["_graph"] = await asyncio.to_thread(draw, graph, places, width=width, height=height)
    return "limbic_entity_graph.html", data


def _decorate(here: Page, data: dict[str, Any], found: Neighbourhood) -> None:
    """What the page shows beside the picture: the filter as a form, and links."""
    own = here.url(f"/entity/{data['focus']}")
    as_of = as_asked(here, "as_of")
    followed = _followed(data["relation"])
    offered = _offered(found.relation_types)
    known = {kind.name for kind in offered}
    data.update(
        _name=found.name,
        _title=named(found.name, data["focus"], 80),
        _archived=found.archived,
        _hidden=_times(here),
        _when=when(moment(here, "as_of") or "") if as_of else "",
        _graph_url=f"{own}/graph",
        _entity_url=own + kept(as_of),
        _alone=len(data["nodes"]) == 1,
        _filtered=bool(data["relation"]) or not data["co_occurrence"] or not data["archived"],
        _all_url=f"{own}/graph" + _query({**_ALL, "hops": data["hops"]}, here),
        _now_url=f"{own}/graph" + _query(data, here, without=("as_of",)),
        _two_hops_url=f"{own}/graph" + _query({**data, "hops": 2}, here),
        _limit=data["limit"] if data["limit"] != LIMIT else None,
        _choices=[
            {
                "name": kind.name,
                "text": short_line(kind.name, 60) or "–",
                "count": kind.count,
                "chosen": kind.name in followed,
            }
            for kind in offered
        ],
        # chosen by the URL, and no box of the form
        _other_choices=[name for name in followed if name not in known and "," not in name],
    )


def _node(node: Node, by_links: bool) -> dict[str, Any]:
    return {
        "id": node.id,
        "name": node.name,
        "entityType": node.entity_type,
        # the ranking's: where nothing has been used, that is 0
        "importance": 0.0 if by_links else node.importance,
        "archived": node.archived,
        "distance": node.distance,
        "relations": node.relations,
        "at_least": node.at_least,
    }


def _relations(here: Page) -> list[str]:
    """What ``relation`` says, each once: a type, or several with commas between them."""
    found = list(dict.fromkeys(value for value in here.request.args.getlist("relation") if value))
    if len(found) > MOST_TYPES:
        raise BadParameter(f"relation is given {len(found)} times: use at most {MOST_TYPES}")
    for value in found:
        if len(value) > LONGEST_TYPE:
            raise BadParameter(
                f"relation is {value[:40]!r}… of {len(value)} letters: use at most {LONGEST_TYPE}, "
                "or several of them"
            )
    if (letters := sum(map(len, found))) > MOST_LETTERS:
        raise BadParameter(f"relation has {letters} letters in all: use at most {MOST_LETTERS}")
    return found


def _offered(kinds: Sequence[RelationType]) -> list[RelationType]:
    """Types for the form: not those that it could not send back as they are."""
    found, room = [], FORM_BYTES
    for kind in kinds[:MOST_TYPES]:
        room -= html_size(kind.name)
        if len(kind.name) <= LONGEST_TYPE and kind.name.isprintable() and room >= 0:
            found.append(kind)
    return found


def _followed(chosen: list[str]) -> list[str]:
    """The types that those values name; one with a comma may be a type with a comma too."""
    pieces = (piece.strip() for value in chosen for piece in (value, *value.split(",")))
    return list(dict.fromkeys([*chosen, *(piece for piece in pieces if piece)]))


def _switch(here: Page, name: str, default: str) -> bool:
    value = here.args.get(name) or default
    if value not in ("0", "1"):
        raise BadParameter(f"{name} is {value[:40]!r}: use 1 or 0")
    return value == "1"


def _times(here: Page) -> dict[str, str]:
    """What links and forms keep of the moment that is asked for."""
    asked = {name: as_asked(here, name) for name in ("as_of", "now")}
    return {name: value for name, value in asked.items() if value}


def _query(data: dict[str, Any], here: Page, without: tuple[str, ...] = ()) -> str:
    """The filter as the query of a URL, without what is there anyway."""
    pairs: list[tuple[str, str]] = [("relation", name) for name in data["relation"]]
    if data["hops"] != 1:
        pairs.append(("hops", str(data["hops"])))
    pairs += [(name, "0") for name in ("co_occurrence", "archived") if not data[name]]
    if data["limit"] != LIMIT:
        pairs.append(("limit", str(data["limit"])))
    pairs += [(name, value) for name, value in _times(here).items() if name not in without]
    return "?" + urlencode(pairs) if pairs else ""


# the rights of the entity's own page, to which it belongs
entity_graph_page = page(graph_page, takes=TAKES)
