"""A graph with its positions as numbers and words that a template prints: no arithmetic there."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ..i18n import gettext as _
from ..i18n import ngettext
from .labels import (
    EDGE_SIZE,
    LONGEST,
    NAME_SIZE,
    Box,
    Label,
    Wanted,
    html_size,
    place,
    plain_line,
    short_line,
)
from .layout import TARGET, Positions, label_above, radii
from .lines import RING, line_of, tidy
from .model import Edge, Graph, Node

TYPES = 8
MAX_TITLE = 60
MAX_IN_EDGE = 24
MAX_KINDS = 3
"""Relation types that are told of a line, each way."""
ROWS_BYTES, ROW_TAGS = 17_000, 150
LINKS_BYTES, LINK_TAGS = 12_000, 36
"""What the tables may take of a page, and the tags of a row: with names of a usual length there is
room for all; the rest is in the picture, and in the JSON."""
# Edges are named in the picture where they are few; else for whoever points at a node.
NAMED_EDGES = 40


def draw(
    graph: Graph,
    positions: Positions,
    *,
    width: float,
    height: float,
    edge_labels: bool = True,
) -> dict[str, Any]:
    """All that ``picture`` and ``graph_table`` of limbic_graph_parts.html print.

    ``nodes`` and ``edges`` with rounded coordinates, classes and titles, ``legend``, ``desc``,
    ``rows`` and ``links`` for the tables. Names what it draws in the language of the page.
    """
    nodes = [node for node in graph.nodes if node.id in positions]
    sizes = radii(graph)
    classes = _classes(nodes)
    names = {node.id: shown_name(node, MAX_TITLE) for node in nodes}
    edges = [
        edge
        for edge in graph.edges
        if edge.source in names and edge.target in names and edge.source != edge.target
    ]
    twice = Counter(_pair(edge) for edge in edges)
    lines = [line_of(edge, positions, sizes, twice[_pair(edge)] > 1) for edge in edges]
    written = _labels(
        graph, nodes, edges, lines, positions, sizes, width, height, edge_labels=edge_labels
    )
    drawn_nodes = [
        {
            "id": node.id,
            "x": tidy(positions[node.id][0]),
            "y": tidy(positions[node.id][1]),
            "r": tidy(sizes[node.id]),
            # what can be pressed is 24 px
            "hit": TARGET if sizes[node.id] < TARGET else None,
            "ring": tidy(sizes[node.id] + RING),
            "class": classes[node.entity_type],
            "url": node.url,
            "title": _title(node, names[node.id], graph.by_links),
            # without room, the script writes it where somebody points at the node
            "label": _printed(written["node", node.id], positions[node.id]),
            "focus": node.id == graph.focus,
            "archived": node.archived,
            "community": node.kind == "community",
        }
        for node in sorted(nodes, key=lambda n: (n.importance, -n.id))
    ]
    drawn_edges = [
        {
            **line,
            "source": edge.source,
            "target": edge.target,
            "kind": edge.kind,
            "ended": edge.ended,
            "strong": edge.kind == "relation" and edge.count > 1,
            "label": _printed(label := written.get(("edge", i))),
            "waiting": label.text if label is not None and not label.shown else None,
        }
        for i, (edge, line) in enumerate(zip(edges, lines, strict=True))
    ]
    rows, links = _rows(nodes, names), _links(edges, names)
    return {
        "width": tidy(width),
        "height": tidy(height),
        "nodes": drawn_nodes,
        "edges": drawn_edges,
        "legend": _legend(nodes, classes),
        "has_relations": any(e.kind == "relation" and not e.ended for e in edges),
        "has_co_occurrence": any(e.kind == "co_occurrence" for e in edges),
        "has_ended": any(e.ended for e in edges),
        "has_archived": any(node.archived for node in nodes),
        "has_communities": any(node.kind == "community" for node in nodes),
        "left_out": graph.left_out,
        "at_least": graph.at_least,
        "edges_left_out": graph.edges_left_out,
        "by_links": graph.by_links,
        "focus": graph.focus,
        "desc": _desc(graph, nodes, edges, names),
        "rows": rows,
        "links": links,
        "more_rows": len(rows) < len(nodes) or len(links) < len(edges),
    }


def shown_name(node: Node, most: int) -> str:
    """The name of a node in a text of SVG, isolated; one that shows nothing is called by its id."""
    return short_line(node.name, most) or _("unnamed (#%(id)s)") % {"id": node.id}


def _pair(edge: Edge) -> tuple[int, int]:
    return min(edge.source, edge.target), max(edge.source, edge.target)


def _classes(nodes: list[Node]) -> dict[str, str]:
    """The class of each type: numbered by how many nodes of the picture have it."""
    counts = Counter(node.entity_type for node in nodes)
    order = sorted(counts, key=lambda kind: (-counts[kind], kind))
    return {kind: f"limbic-type-{i if i < TYPES else 'other'}" for i, kind in enumerate(order)}


def _legend(nodes: list[Node], classes: dict[str, str]) -> list[dict[str, Any]]:
    counts = Counter(classes[node.entity_type] for node in nodes)
    found = [
        {"class": name, "text": plain_line(kind[:200]) or _("no type"), "count": counts[name]}
        for kind, name in classes.items()
        if name != "limbic-type-other"
    ]
    if other := counts["limbic-type-other"]:
        found.append({"class": "limbic-type-other", "text": _("other types"), "count": other})
    return found


def _labels(
    graph: Graph,
    nodes: list[Node],
    edges: list[Edge],
    lines: list[dict[str, Any]],
    positions: Positions,
    sizes: dict[int, float],
    width: float,
    height: float,
    *,
    edge_labels: bool,
) -> dict[object, Label]:
    """Where the names of nodes and edges stand; nodes choose before edges."""
    taken = []
    wanted = []
    for node in nodes:
        (x, y), r = positions[node.id], sizes[node.id]
        if node.id == graph.focus or node.kind == "community":
            r += RING
        taken.append(Box(x - r - 1, y - r - 1, x + r + 1, y + r + 1))
        weight = node.importance + (10 if node.id == graph.focus else 0) - node.distance * 0.01
        text = shown_name(node, LONGEST)
        size = NAME_SIZE + 1 if node.id == graph.focus else NAME_SIZE
        above = label_above(graph, (x, y), height)
        wanted.append(Wanted(("node", node.id), text, x, y, r, weight, size, above))
    written = place(wanted, taken, width=width, height=height)
    if edge_labels:
        named = [(i, e) for i, e in enumerate(edges) if e.labels or e.back]
        taken += [label.box for label in written.values() if label.shown]
        few = len(named) <= NAMED_EDGES
        texts = [
            Wanted(
                ("edge", i),
                _edge_text(edge),
                lines[i]["middle"][0],
                lines[i]["middle"][1],
                0,
                (edge.count if graph.focus in (edge.source, edge.target) else 0) - i / 1e6,
                EDGE_SIZE,
            )
            for i, edge in named
        ]
        written |= place(texts, taken, width=width, height=height, show=few)
    for line in lines:
        del line["middle"]
    return written


def _edge_text(edge: Edge) -> str:
    first = (*edge.labels, *edge.back)
    text = short_line(first[0], MAX_IN_EDGE) or "–"
    return f"{text} +{len(first) - 1}" if len(first) > 1 else text


def _printed(
    label: Label | None, origin: tuple[float, float] = (0.0, 0.0)
) -> dict[str, Any] | None:
    """A label that found room, with its place from ``origin`` and the class for its side."""
    if label is None or not label.shown:
        return None
    return {
        "text": label.text,
        "x": tidy(label.x - origin[0]),
        "y": tidy(label.y - origin[1]),
        "class": "" if label.anchor == "middle" else f"limbic-{label.anchor}",
    }


def _title(node: Node, name: str, by_links: bool) -> str:
    """What is said of a node to whoever points at it, and its name to a screen reader."""
    kind = short_line(node.entity_type, MAX_IN_EDGE) or _("no type")
    if node.kind == "community":
        count = ngettext("%(n)s entity", "%(n)s entities", node.members) % {
            "n": f"{node.members:,}"
        }
        return f"{name} · {count} · {kind}"
    relations = ngettext("%(n)s relation", "%(n)s relations", node.relations) % {"n": _least(node)}
    importance = _("importance %(n)s") % {"n": f"{node.importance:.2f}"}
    parts = (name, kind, relations) if by_links else (name, kind, importance, relations)
    said = " · ".join(parts)
    return f"{said} · {_('archived')}" if node.archived else said


def _least(node: Node) -> str:
    """How many relations a node has, with a plus where it has at least so many."""
    return f"{node.relations:,}" + ("+" if node.at_least else "")


def _said(edge: Edge) -> str:
    """What an edge says in the table, with an arrow for each direction."""
    if edge.kind == "co_occurrence":
        times = ngettext("%(n)s time together", "%(n)s times together", edge.count)
        return times % {"n": f"{edge.count:,}"}
    if not edge.labels and not edge.back:
        relations = ngettext("%(n)s relation", "%(n)s relations", edge.count)
        return relations % {"n": f"{edge.count:,}"}
    said = [
        f"{sign} {', '.join(_kinds(labels))}" if edge.directed else ", ".join(_kinds(labels))
        for sign, labels in (("→", edge.labels), ("←", edge.back))
        if labels
    ]
    return "; ".join(said) + (f" ({_('ended')})" if edge.ended else "")


def _kinds(labels: tuple[str, ...]) -> list[str]:
    found = [short_line(label, MAX_IN_EDGE) or "–" for label in labels[:MAX_KINDS]]
    return [*found, f"+{len(labels) - MAX_KINDS}"] if len(labels) > MAX_KINDS else found


def _brief(name: str) -> str:
    return short_line(name, MAX_IN_EDGE)


def _desc(graph: Graph, nodes: list[Node], edges: list[Edge], names: dict[int, str]) -> str:
    """The picture in a sentence or two."""
    drawn = ngettext("%(n)s node", "%(n)s nodes", len(nodes)) % {"n": f"{len(nodes):,}"}
    lines = ngettext("%(n)s line", "%(n)s lines", len(edges)) % {"n": f"{len(edges):,}"}
    said = _("%(nodes)s and %(lines)s between them.") % {"nodes": drawn, "lines": lines}
    if graph.focus in names:
        said += " " + _("%(name)s is in the middle.") % {"name": _brief(names[graph.focus])}
    if graph.left_out:
        what = (
            _("At least %(n)s more are left out.")
            if graph.at_least
            else _("%(n)s more are left out.")
        )
        said += " " + what % {"n": f"{graph.left_out:,}"}
    elif graph.at_least:
        said += " " + _("More are left out.")
    return said + " " + _("The table below says the same.")


def _rows(nodes: list[Node], names: dict[int, str]) -> list[dict[str, Any]]:
    """A row of the table for each node, the most important first, as far as there is room."""
    order = sorted(nodes, key=lambda n: (n.distance, -n.importance, -n.members, n.id))
    rows = [
        {
            "id": node.id,
            "name": names[node.id],
            "url": node.url,
            "type": short_line(node.entity_type, MAX_IN_EDGE) or _("no type"),
            "importance": node.importance,
            "relations": node.relations,
            "at_least": node.at_least,
            "members": node.members,
            "archived": node.archived,
        }
        for node in order
    ]
    return _with_room(rows, ("name", "url", "type"), ROWS_BYTES, ROW_TAGS)


def _links(edges: list[Edge], names: dict[int, str]) -> list[dict[str, Any]]:
    """A row of the table for each edge, as far as there is room."""
    rows = [
        {"from": _brief(names[edge.source]), "to": _brief(names[edge.target]), "text": _said(edge)}
        for edge in edges
    ]
    return _with_room(rows, ("from", "to", "text"), LINKS_BYTES, LINK_TAGS)


def _with_room(
    rows: list[dict[str, Any]], texts: tuple[str, ...], room: int, tags: int
) -> list[dict[str, Any]]:
    """The first rows, as many as take at most ``room`` bytes of HTML, ``tags`` of each besides."""
    for count, row in enumerate(rows):
        room -= tags + sum(html_size(row[text]) for text in texts)
        if room < 0:
            return rows[:count]
    return rows
