"""Lists, which look like contradictions: many records of one mould."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .model import Pair

SERIES = 4
"""So many observations of one entity that differ from each other in dates, numbers and names alone
are a list, not contradictions."""


def of_a_series(pair: Pair) -> bool:
    """Whether a pair would be of a list, were there more like it: it differs in dates, numbers
    and names alone."""
    return pair.kind == "contradiction" and not (
        {part.partition(":")[0] for part in (pair.difference or "").split("; ")}
        - {"date", "number", "name"}
    )


def without_series(judged: Iterable[Pair]) -> Iterator[Pair]:
    """All but the contradictions among observations of one mould, where there are many such.

    "Sprint review on 3 May: 12 points", and so on for a year, is a list: two of them hardly ever
    contradict each other.
    """
    kept: list[Pair] = []
    figures: list[Pair] = []
    for pair in judged:
        (figures if of_a_series(pair) else kept).append(pair)
    yield from kept
    if figures:
        import networkx

        graph = networkx.Graph()
        graph.add_edges_from((pair.earlier_id, pair.later_id) for pair in figures)
        size = {
            node: len(component)
            for component in networkx.connected_components(graph)
            for node in component
        }
        yield from (pair for pair in figures if size[pair.earlier_id] < SERIES)
