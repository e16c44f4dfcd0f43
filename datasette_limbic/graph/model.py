"""What a picture of the graph is made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Node:
    """An entity, or a community of ``members`` entities.

    ``importance`` is from 0 to 1 and becomes the size; ``url`` is where the node leads;
    ``distance`` is how many steps it is from the focus, ``relations`` how many it has that hold:
    at least so many where ``at_least`` says that not all were counted.
    """

    id: int
    name: str
    entity_type: str
    importance: float = 0.0
    archived: bool = False
    kind: Literal["entity", "community"] = "entity"
    members: int = 1
    url: str = ""
    distance: int = 0
    relations: int = 0
    at_least: bool = False


@dataclass(frozen=True)
class Edge:
    """Relations between two nodes, or how often they come up together.

    ``labels`` are the relation types from source to target, most frequent first, ``back`` those
    the other way; none for co-occurrence. ``count`` is how many relations it stands for, or how
    many times together. ``directed`` False draws no arrow.
    """

    source: int
    target: int
    labels: tuple[str, ...] = ()
    kind: Literal["relation", "co_occurrence"] = "relation"
    count: int = 1
    ended: bool = False
    back: tuple[str, ...] = ()
    directed: bool = True


@dataclass
class Graph:
    """Nodes and edges between them; ``focus`` is the node that it is about, ``left_out`` how many
    there would be besides: at least so many where ``at_least`` says that not all were counted.

    ``edges_left_out`` are those between its nodes. ``by_links`` says that nothing has been used
    yet, so that importance is how much a node is linked to.
    """

    nodes: list[Node] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    focus: int | None = None
    left_out: int = 0
    at_least: bool = False
    edges_left_out: int = 0
    by_links: bool = False


def text_of(value: Any) -> str:
    """A text as another program may have written it."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return "" if value is None else str(value)
