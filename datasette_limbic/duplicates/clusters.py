"""Duplicates that hang together, and which observation of each such cluster to keep."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from datasette_limbic.text import counted

from .model import Observation, Pair, earlier_first


@dataclass(frozen=True)
class Cluster:
    """Observations of one entity that duplicates join, directly or through others."""

    entity_id: int
    ids: tuple[int, ...]
    """At least two, ascending."""
    survivor_id: int
    """The one suggested to keep: only a suggestion, nothing is deleted here."""
    why: str
    """Why that one, in words."""


def clusters(pairs: Iterable[Pair], observations: Sequence[Observation]) -> list[Cluster]:
    """Connected components of the ``duplicate`` pairs, by entity and lowest id.

    The survivor is the observation with the most text, since the longer of two says more; among
    equally long ones the earliest, which the others repeat.
    """
    import networkx

    known = {each.id: each for each in observations}
    graph = networkx.Graph()
    graph.add_edges_from(
        (pair.earlier_id, pair.later_id)
        for pair in pairs
        if pair.kind == "duplicate" and pair.earlier_id in known and pair.later_id in known
    )
    found = []
    for component in networkx.connected_components(graph):
        members = [known[i] for i in sorted(component)]
        kept, why = _survivor(members)
        found.append(Cluster(kept.entity_id, tuple(m.id for m in members), kept.id, why))
    return sorted(found, key=lambda cluster: (cluster.entity_id, cluster.ids))


def _survivor(members: Sequence[Observation]) -> tuple[Observation, str]:
    longest = max(len(m.content) for m in members)
    kept: Observation | None = None
    ties = 0
    for member in members:
        if len(member.content) == longest:
            ties += 1
            kept = member if kept is None else earlier_first(kept, member)[0]
    assert kept is not None  # a component has members
    length = counted(longest, "character", "characters")
    if ties == len(members):
        return kept, f"the earliest; all have {length}"
    if ties > 1:
        return kept, f"the earliest of the {ties} longest ({length})"
    return kept, f"the longest ({length})"
