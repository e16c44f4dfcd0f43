"""What new observations are alike to: compared before they are written, kept with them.

The rules and the whole entity are those of ``reports.keep``, so that the next sync finds the
same; only pairs with a new observation are kept here.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from datasette.utils.sqlite import sqlite3

from .duplicates import Observation, Pair, Thresholds, find_pairs
from .duplicates.candidates import NEAREST
from .duplicates.stated import LOOKED_AT
from .reports import reading
from .reports.keeping import Rules
from .reports.kept_rows import insert_keys, insert_pairs

PROVISIONAL = 1 << 62
"""From here on an id stands for an observation that is not written yet: later than any."""
SHOWN = 1_000
"""Characters of a similar text that an answer holds."""
# Seconds, about: finding what is alike, taking a text apart, judging a pair.
_BY_CHARACTER, _APART, _BY_PAIR = 2e-7, 1.5e-6, 5e-5
_ORDER = {"duplicate": 0, "contradiction": 1, "look": 2}


@dataclass(frozen=True)
class Compared:
    """The pairs of some entities, true of exactly what was compared."""

    new: tuple[tuple[int, int], ...]
    """Id and entity of each new observation."""
    seen: bytes
    pairs: tuple[Pair, ...]


@dataclass(frozen=True)
class Gathered:
    """What is to be compared, as at one moment."""

    entity_ids: tuple[int, ...]
    new: tuple[tuple[int, int], ...]
    seen: bytes
    observations: list[Observation]
    """Those that are there, then the new ones."""
    vectors: Any
    thresholds: Thresholds

    @property
    def seconds(self) -> float:
        """About how long ``find`` takes: whether something may wait for it."""
        sizes = [min(len(each.content), LOOKED_AT) for each in self.observations]
        new, all_of = len(self.new), max(1, len(sizes))
        judged = new * min(2 * NEAREST, all_of)
        taken_apart = min(all_of, judged + new) / all_of
        return sum(sizes) * (_BY_CHARACTER + taken_apart * _APART) + judged * _BY_PAIR


def gather(
    conn: sqlite3.Connection,
    entity_ids: Sequence[int],
    new: Sequence[tuple[Observation, bytes | None]],
    rules: Rules,
    prefix: str,
    before: Compared | None = None,
) -> Gathered | None:
    """What ``find`` compares with the ``new`` observations (each with its llm blob, or None).

    None where ``before`` is of exactly this: a write transaction then need not wait for a
    comparison. Reads only.
    """
    batch = reading.read(conn, entity_ids, info=rules.info, prefix=prefix)
    new_ids = tuple((each.id, each.entity_id) for each, _ in new)
    seen = _digest(batch, rules)
    if before is not None and before.seen == seen and before.new == new_ids:
        return None
    return Gathered(
        tuple(entity_ids),
        new_ids,
        seen,
        [*batch.observations, *(each for each, _ in new)],
        _joined(batch, [blob for _, blob in new], rules),
        rules.thresholds,
    )


def find(gathered: Gathered) -> Compared:
    """Pairs of the entities with a new observation; needs no connection."""
    pairs = find_pairs(
        gathered.observations,
        gathered.vectors,
        gathered.thresholds,
        only={each for each, _ in gathered.new},
    )
    return Compared(gathered.new, gathered.seen, tuple(pairs))


def _digest(batch: reading.Batch, rules: Rules) -> bytes:
    # how many vectors the file has in all decides nothing
    dimension = rules.info.dimension if rules.info else None
    what = (batch.observations, rules.text(), dimension)
    found = hashlib.sha256(repr(what).encode("utf-8", "surrogatepass"))
    if batch.vectors is not None:
        found.update(batch.vectors.tobytes())
    return found.digest()


def _joined(batch: reading.Batch, blobs: list[bytes | None], rules: Rules) -> Any:
    """Vectors of what is there and what is new, NaN where there is none; None without any."""
    import numpy  # not needed to start Datasette

    from .vectors import units

    dimension = rules.info.dimension if rules.info else 0
    if not dimension or (batch.vectors is None and not any(blobs)):
        return None
    empty = numpy.full(dimension, numpy.nan, "<f4").tobytes()
    there = len(batch.observations)
    old = batch.vectors if batch.vectors is not None else numpy.full((there, dimension), numpy.nan)
    found = [each if isinstance(each, bytes) else empty for each in units(blobs, dimension)]
    added = numpy.frombuffer(b"".join(found), "<f4").reshape(len(found), dimension)
    return numpy.concatenate([old.astype("<f4", copy=False), added])


def written(compared: Compared, ids: dict[int, int]) -> list[Pair]:
    """The pairs with the ids that the observations got."""
    return [
        replace(
            p,
            earlier_id=ids.get(p.earlier_id, p.earlier_id),
            later_id=ids.get(p.later_id, p.later_id),
        )
        for p in compared.pairs
    ]


def keep(conn: sqlite3.Connection, added: Sequence[Observation], pairs: Sequence[Pair]) -> None:
    """Write pairs and text keys of new observations; triggers set the flags."""
    insert_pairs(conn, pairs)
    insert_keys(conn, added)


def by_observation(
    conn: sqlite3.Connection, ids: Sequence[int], pairs: Sequence[Pair]
) -> dict[int, list[dict[str, Any]]]:
    """For each of ``ids`` what it is alike to, as an answer has it, the surest first."""
    others = {i for p in pairs for i in (p.earlier_id, p.later_id)}
    texts = dict(
        conn.execute(
            f"select id, substr(cast(content as text), 1, {SHOWN}) from observations"
            " where id in (select value from json_each(?))",
            [json.dumps(sorted(others))],
        )
    )
    found: dict[int, list[dict[str, Any]]] = {each: [] for each in ids}
    for p in sorted(pairs, key=lambda p: (_ORDER[p.kind], -(p.cosine or 0))):
        for one, other in ((p.earlier_id, p.later_id), (p.later_id, p.earlier_id)):
            if one in found:
                found[one].append(
                    {
                        "id": other,
                        "content": texts.get(other),
                        "kind": p.kind,
                        "rule": p.rule,
                        "cosine": p.cosine,
                        "containment": p.containment,
                        "difference": p.difference,
                    }
                )
    return found
