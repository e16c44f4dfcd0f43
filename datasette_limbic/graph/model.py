"""What a picture of the graph is made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Node:
    """An entity, or a community of ``members`` entities.

    ``importance`` is from 0 to 1 and becomes the size; ``url`` is where the node leads.
    """

    id: int
    name: str
    entity_type: str
    importance: float = 0.0
    archived: bool = False
    kind: Literal["entity", "community"] = "entity"
    members: int = 1
    url: str = ""


@dataclass(frozen=True)
class Edge:
    """Relations between two nodes in one direction, or how often they come up together.

    ``labels`` are the relation types, most frequent first, none for co-occurrence; ``count`` is
    how many relations it stands for, or how many times together.
    """

    source: int
    target: int
    labels: tuple[str, ...] = ()
    kind: Literal["relation", "co_occurrence"] = "relation"
    count: int = 1
    ended: bool = False


@dataclass
class Graph:
    """Nodes and edges between them; ``focus`` is the node that it is about, ``left_out`` how many
    there would be besides."""

    nodes: list[Node] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    focus: int | None = None
    left_out: int = 0
