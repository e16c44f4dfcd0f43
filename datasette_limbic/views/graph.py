"""The map: a small memory whole, a large one by its communities, each of which opens its own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from .. import i18n
from ..errors import BadParameter, Busy
from ..graph import full_map
from ..graph.atlas import NOT_LINKED, Community, Sheet
from ..graph.drawing import draw
from ..graph.model import Graph, Node
from ..i18n import gettext as _
from . import graph_found
from .common import Page, page, whole_number
from .display import light
from .graph_found import Drawn

TEMPLATE = "limbic_graph.html"
PATIENCE = 6.0
"""Seconds after which a page says that the map is being drawn, and does not wait for it."""
OVERVIEW_PATIENCE = 0.15
OVERVIEW_MOST = 2_000
"""Entities of a memory whose map is begun for the overview."""
OVERVIEW_NODES = 80
"""So many on the overview, which has more to show than a map."""
DEEPEST = 100
ROWS = 30
"""Rows of each table: a page of more grows heavy, and its JSON has all."""
NAME = 30
"""Letters of a name in the picture: as much as its page can bear 200 times."""


async def _graph(here: Page) -> tuple[str, dict[str, Any]]:
    entity, level = _asked(here)
    try:
        drawn, as_of = await graph_found.within(graph_found.sheet(here, entity, level), PATIENCE)
    except Busy:
        if here.as_json:
            raise
        return TEMPLATE, {"_waiting_for_map": True, "_again": here.url("/graph" + _query(here))}
    data = {**_as_json(drawn.sheet), "as_of": as_of}
    if not here.as_json:
        data["_waiting_for_map"] = False
        data["_again"] = here.url("/graph" + _query(here))
        _decorate(here, data, drawn.sheet)
        data["_graph"] = await _picture(here, drawn)
    return TEMPLATE, data


async def _picture(here: Page, drawn: Drawn) -> dict[str, Any]:
    """The picture, and the first rows of its tables."""
    key = "page", i18n.language(), here.url()
    made = await drawn.picture(
        key, lambda: _draw(_linked(here, drawn.sheet), drawn, edge_labels=True)
    )
    return {
        **made,
        "rows": made["rows"][:ROWS],
        "links": made["links"][:ROWS],
        "more_rows": made["more_rows"] or max(len(made["rows"]), len(made["links"])) > ROWS,
    }


def _draw(graph: Graph, drawn: Drawn, *, edge_labels: bool) -> dict[str, Any]:
    width, height = drawn.size
    return draw(graph, drawn.places, width=width, height=height, edge_labels=edge_labels)


def _asked(here: Page) -> tuple[int | None, int]:
    given = here.given.get("community")
    level = here.whole("level", 1, DEEPEST)
    if given is None:
        if "level" in here.given:
            raise BadParameter("level is of a community: add community, the id of an entity in it")
        return None, 1
    entity = whole_number(given, signed=True)
    if entity is None:
        raise BadParameter(f"community is {given[:40]!r}: use the id of an entity in it")
    return entity, level


def _query(here: Page) -> str:
    return "?" + urlencode(here.given) if here.given else ""


def _as_json(sheet: Sheet) -> dict[str, Any]:
    """The sheet as JSON has it."""
    return {
        "entities": sheet.entities,
        "relations": sheet.relations,
        "unlinked": sheet.unlinked,
        "community": _community(sheet.path[-1]) if sheet.path else None,
        "path": [_community(each) for each in sheet.path],
        "nodes": [_node(node, sheet) for node in sheet.graph.nodes],
        "edges": [
            {
                "source": edge.source,
                "target": edge.target,
                "count": edge.count,
                "labels": list(edge.labels),
                "back": list(edge.back),
            }
            for edge in sheet.graph.edges
        ],
        "communities": [
            {**_community(each), "relations": each.relations, "leaving": each.leaving}
            for each in sheet.communities
        ],
        "left_out": {"edges": sheet.graph.edges_left_out, "entities": sheet.entities_left_out},
    }


def _node(node: Node, sheet: Sheet) -> dict[str, Any]:
    is_group = node.id == NOT_LINKED
    return {
        "id": None if is_group else node.id,
        "kind": "not_linked" if is_group else node.kind,
        "name": node.name,
        "entityType": None if is_group else node.entity_type,
        "importance": node.importance if node.kind == "entity" else None,
        "members": node.members,
        "community": sheet.community_of.get(node.id),
    }


def _community(each: Community) -> dict[str, Any]:
    return {
        "id": each.id,
        "name": each.name,
        "level": each.level,
        "members": each.members,
        "communities": each.communities,
        "types": [{"entityType": name, "count": count} for name, count in each.types],
    }


def _decorate(here: Page, data: dict[str, Any], sheet: Sheet) -> None:
    """What the template shows besides."""
    data["_whole_url"] = here.url("/graph")
    data["_full_url"] = here.url("/graph.svg")
    data["_full_too_large"] = sheet.entities > full_map.MOST
    data["_full_most"] = full_map.MOST
    data["_by_communities"] = any(each.level is not None for each in sheet.communities)
    data["_shared"] = any(each.communities > 1 for each in sheet.communities)
    data["_unlinked_url"] = _unlinked_url(here)
    data["_around"] = [
        {
            "name": each.name,
            "id": each.id,
            "members": each.members,
            "url": _community_url(here, each),
        }
        for each in sheet.path
    ]
    data["_rows"] = [
        {
            "id": each.id,
            "name": each.name,
            "url": _community_url(here, each),
            "members": each.members,
            "communities": each.communities,
            "types": [name for name, _count in each.types],
            "relations": each.relations,
            "leaving": each.leaving,
        }
        for each in sheet.communities
    ]


def _linked(here: Page, sheet: Sheet) -> Any:
    """The graph with the address of each node."""
    levels = {each.id: each for each in sheet.communities}
    unlinked = _unlinked_url(here)

    def addressed(node: Node) -> Node:
        if node.id == NOT_LINKED:
            return replace(node, name=_("not linked"), url=unlinked)
        node = replace(node, name=light(node.name, NAME))
        if node.kind == "community":
            return replace(node, url=_community_url(here, levels[node.id]))
        return replace(node, url=_entity_url(here, node.id))

    return replace(sheet.graph, nodes=[addressed(node) for node in sheet.graph.nodes])


def _entity_url(here: Page, entity: int) -> str:
    return here.url(f"/entity/{entity}")


def _community_url(here: Page, each: Community) -> str:
    """Where a community is opened; one that cannot be leads to its most important entity."""
    if each.level is None:
        return _entity_url(here, each.id)
    asked = {"community": each.id, **({"level": each.level} if each.level > 1 else {})}
    return here.url("/graph?") + urlencode(asked)


def _unlinked_url(here: Page) -> str:
    """The list of entities without relations."""
    return here.url("/health?list=orphans")


async def overview_map(here: Page) -> dict[str, Any] | None:
    """The map of the whole, for ``picture`` of limbic_graph_parts.html, where it is at hand.

    None where it still has to be computed, or there is nothing to draw. Never takes long: that of
    a memory of at most OVERVIEW_MOST entities is begun, and there the next time.
    """
    drawn = await graph_found.known(here) or await _begun(here)
    if drawn is None or not drawn.sheet.graph.nodes:
        return None
    return await _small_picture(here, drawn)


async def _begun(here: Page) -> Drawn | None:
    """The map of a small memory, where it takes no time; it goes on where it does."""
    if not await graph_found.is_small(here, OVERVIEW_MOST):
        return None
    try:
        drawn, _as_of = await graph_found.within(graph_found.sheet(here), OVERVIEW_PATIENCE)
    except Busy:
        return None
    return drawn


async def _small_picture(here: Page, drawn: Drawn) -> dict[str, Any]:
    def make() -> dict[str, Any]:
        graph = _most_important(_linked(here, drawn.sheet), OVERVIEW_NODES)
        return _draw(graph, drawn, edge_labels=False)

    return await drawn.picture(("overview", i18n.language(), here.url()), make)


def _most_important(graph: Graph, most: int) -> Graph:
    """The ``most`` nodes that matter most, where they stand, and the lines between them."""
    if len(graph.nodes) <= most:
        return graph
    by_weight = sorted(graph.nodes, key=lambda node: (-node.members, -node.importance, node.id))
    kept = {node.id for node in by_weight[:most]}
    between = [edge for edge in graph.edges if edge.source in kept and edge.target in kept]
    strongest = sorted(between, key=lambda edge: (-edge.count, edge.source, edge.target))
    return replace(
        graph,
        nodes=[node for node in graph.nodes if node.id in kept],
        edges=strongest[: 2 * most],
        left_out=graph.left_out + len(graph.nodes) - most,
        edges_left_out=graph.edges_left_out + max(0, len(between) - 2 * most),
    )


# all that search reads: every node leads to its entity
graph_page = page(_graph, takes=("community", "level"))
