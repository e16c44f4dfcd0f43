"""Observations of one entity that say the same, and those that contradict each other.

``duplicate``: observations that one of them says, by the kept pairs; approving merges them into
that one. A cluster hangs together through pairs, so it may take several of these. Its confidence is
that of its weakest pair: 1 for the same text, else the cosine, or the share of the
shorter text's words that the longer one holds, by whichever the pair was found.

``contradiction``: a kept pair; approving ends the earlier of the two. Its confidence is how alike
the two are but for the difference, the larger of cosine and share of words; 0.5 where neither is
known. How sure it is that only one of them is true, nobody but a person can tell.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from datasette.utils.sqlite import sqlite3

from ..duplicates import Observation, Pair, clusters
from ..duplicates.stars import by_pairs, stars
from ..reports.queries import queries
from .model import (
    SHOWN,
    Looking,
    Raised,
    Raising,
    between_0_and_1,
    entity_fact,
    key_of,
    named,
    short,
    text_digest,
    text_of,
)

_PAIRS = """
select q.entity_id, q.entity, q.entity_type, q.rule, q.cosine, q.containment, q.difference,
  q.earlier_id, cast(q.earlier as blob), o.created_at,
  q.later_id, cast(q.later as blob), l.created_at
from ({view}) q
join observations o on o.id = q.earlier_id
join observations l on l.id = q.later_id
where q.kind = '{kind}'
order by q.entity_id, q.earlier_id, q.later_id
"""


def duplicates(conn: sqlite3.Connection, look: Looking) -> Raising:
    """One of each cluster of duplicates, by entity and lowest id."""
    for entity, rows in groupby(_rows(conn, "duplicate", look), key=lambda row: row[:3]):
        pairs: list[Pair] = []
        known: dict[int, Observation] = {}
        for row in rows:
            earlier, later = _sides(row)
            known.update({earlier.id: earlier, later.id: later})
            pairs.append(
                Pair(entity[0], earlier.id, later.id, "duplicate", row[3], row[4], row[5], None)
            )
        found = clusters(pairs, list(known.values()))
        at = {number: i for i, cluster in enumerate(found) for number in cluster.ids}
        of: list[list[Pair]] = [[] for _ in found]
        for pair in pairs:
            of[at[pair.earlier_id]].append(pair)
        for cluster, its in zip(found, of, strict=True):
            members = [known[i] for i in cluster.ids]
            for kept, gone in stars(cluster, members, by_pairs(its, members)):
                why = cluster.why if kept == cluster.survivor_id else "it says most of them"
                yield _duplicate(entity, known[kept], gone, why, its, known)


def contradictions(conn: sqlite3.Connection, look: Looking) -> Raising:
    """One of each pair, by entity and ids. It stays the same one where both move elsewhere."""
    for row in _rows(conn, "contradiction", look):
        earlier, later = _sides(row)
        number, name, entity_type, rule, cosine, containment, difference = row[:7]
        first, second = sorted((earlier.id, later.id))
        known = [each for each in (cosine, containment) if each is not None]
        what = f" They differ in {difference}." if difference else ""
        yield Raised(
            key=key_of("contradiction", first, second),
            kind="contradiction",
            entity_id=number,
            title=f"Two observations of {named(name)} contradict each other",
            body=f"“{short(earlier.content, 200)}”, and later “{short(later.content, 200)}”.{what}"
            " If only the later one is true now, the earlier one ends: it stays as history.",
            material={
                "entity": number,
                "observations": {str(o.id): text_digest(o.content) for o in (earlier, later)},
                "earlier": earlier.id,
            },
            facts={
                "entity": entity_fact(number, name, entity_type),
                "difference": difference,
                "rule": rule,
                "cosine": cosine,
                "containment": containment,
                "earlier": _shown(earlier),
                "later": _shown(later),
            },
            action="end",
            arguments={"observation": earlier.id, "at": None},
            confidence=between_0_and_1(max(known)) if known else 0.5,
        )


def _rows(conn: sqlite3.Connection, kind: str, look: Looking) -> Iterator[Any]:
    view = queries(parametrised=True)["limbic_similar_observations"]
    yield from conn.execute(_PAIRS.format(view=view, kind=kind), look.values())


def _sides(row: tuple[Any, ...]) -> tuple[Observation, Observation]:
    number, first, second = row[0], row[7:10], row[10:13]
    return (
        Observation(first[0], number, text_of(first[1]), first[2]),
        Observation(second[0], number, text_of(second[1]), second[2]),
    )


def _duplicate(
    entity: tuple[Any, ...],
    keep: Observation,
    others: list[int],
    why: str,
    pairs: list[Pair],
    known: dict[int, Observation],
) -> Raised:
    number, name, entity_type = entity
    ids = tuple(sorted((keep.id, *others)))
    its = [p for p in pairs if p.earlier_id in ids and p.later_id in ids]
    rest = "other one goes" if len(others) == 1 else f"{len(others):,} others go"
    return Raised(
        key=key_of("duplicate", number, ids[0]),
        kind="duplicate",
        entity_id=number,
        title=f"{len(ids):,} observations of {named(name)} say the same",
        body=f"“{short(keep.content, 200)}” would be kept: {why}. The {rest}.",
        material={
            "entity": number,
            "observations": {str(i): text_digest(known[i].content) for i in ids},
        },
        facts={
            "entity": entity_fact(number, name, entity_type),
            "observations": [_shown(known[i]) for i in _first(ids, keep.id)],
            "count": len(ids),
            "keep": keep.id,
            "why": why,
            "rules": sorted({pair.rule for pair in its}) or ["exact"],
        },
        action="merge",
        arguments={"entity": number, "clusters": [{"keep": keep.id, "remove": others}]},
        # two copies of one text need no pair of their own
        confidence=min(map(_strength, its), default=1.0),
    )


def _first(ids: tuple[int, ...], keep: int) -> list[int]:
    """Those that are shown, that which is kept among them."""
    shown = list(ids[:SHOWN])
    return shown if keep in shown else [*shown[:-1], keep]


def _strength(pair: Pair) -> float:
    if pair.rule == "exact":
        return 1.0
    return between_0_and_1(pair.containment if pair.rule == "containment" else pair.cosine)


def _shown(observation: Observation) -> dict[str, Any]:
    return {
        "id": observation.id,
        "content": short(observation.content),
        "created_at": observation.created_at,
    }
