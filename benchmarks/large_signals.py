"""A memory with more signals than any search may read: ten million pairs, hubs of 50,000.

No row is embedded: what is measured on it is what use leaves behind, and how it is read again.
``HUBS`` says what each of the first entities has very much of; the last entity is one more hub of
pairs, with all of its partners before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy

from datasette_limbic import connection

from . import filling, memory

HUBS = (
    "pairs", "archived", "relations", "contents", "archived neighbours", "ended relations",
    "accesses",
)  # fmt: skip
"""Names of the first entities, each after ``hub of``."""
LAST = "hub of pairs, all before it"
ARCHIVED_EVERY = 4
_CHUNK = 250_000


@dataclass(frozen=True)
class Sizes:
    """How much of each there is. ``hub`` at most a quarter of ``entities``."""

    entities: int = 200_000
    pairs: int = 10_000_000
    hub: int = 50_000
    relations: int = 300_000
    accesses: int = 2_000_000
    searches: int = 50_000


def hub(name: str) -> int:
    """The id of one of HUBS."""
    return HUBS.index(name) + 1


def build(path: Path, sizes: Sizes | None = None) -> None:
    """Write the memory, with its text index. 10 million pairs take some two minutes."""
    sizes = sizes or Sizes()
    rng = numpy.random.default_rng(42)
    with closing(connection.connect(path, create=True)) as conn:
        with filling.filling(conn):
            names = _write_entities(conn, rng, sizes)
            _write_relations(conn, rng, sizes)
            _write_pairs(conn, rng, sizes)
            _write_accesses(conn, rng, sizes, names)
            _write_searches(conn, rng, sizes, names)
        conn.execute("analyze")
        conn.commit()


def _write_entities(conn: Any, rng: numpy.random.Generator, sizes: Sizes) -> list[str]:
    names = filling.names(rng, sizes.entities)
    names[: len(HUBS)] = [f"hub of {name}" for name in HUBS]
    names[-1] = LAST
    made = sorted(filling.moments(rng, sizes.entities))
    conn.executemany(
        "insert into entities(id, name, created_at, updated_at, last_activity_at)"
        " values (?1, ?2, ?3, ?3, ?3)",
        ((i, name, at) for i, (name, at) in enumerate(zip(names, made, strict=True), 1)),
    )
    conn.execute(
        "update entities set archived_at = created_at, archived_reason = 'no longer in use'"
        " where id = ? or id % ? = 0 and id > ? and id < ?",
        [hub("archived"), ARCHIVED_EVERY, len(HUBS), sizes.entities],
    )
    texts = memory.sentences(rng, sizes.entities)
    conn.executemany(
        "insert into observations(id, entity_id, content, created_at) values (?1, ?1, ?2, ?3)",
        ((i, text, at) for i, (text, at) in enumerate(zip(texts, made, strict=True), 1)),
    )
    return names


def _write_relations(conn: Any, rng: numpy.random.Generator, sizes: Sizes) -> None:
    """Hubs of ``hub`` relations, half of them either way; the others lead anywhere."""
    others = numpy.arange(len(HUBS) + 1, sizes.entities)
    archived = others % ARCHIVED_EVERY == 0
    live, gone = others[~archived], others[archived]
    around = {
        "relations": ("uses", live, None),
        "contents": ("contiene", live, None),
        "archived neighbours": ("uses", gone, None),
        "ended relations": ("uses", live, "2020-01-01 00:00:00"),
    }
    made: list[tuple[int, int, str, str | None]] = []
    for name, (kind, ends, over) in around.items():
        picked = rng.choice(ends, min(len(ends), sizes.hub), replace=False).tolist()
        for place, other in enumerate(picked):
            one, two = (hub(name), other) if place % 2 else (other, hub(name))
            made.append((one, two, kind, over))
        # and a few that count, after all of the others
        made += [(hub(name), int(other), "uses", None) for other in live[-5:]]
    left = max(0, sizes.relations - len(made))
    ends = rng.choice(others, (left, 2))
    made += [(a, b, "near", None) for a, b in ends[ends[:, 0] != ends[:, 1]].tolist()]
    conn.executemany(
        "insert or ignore into relations(from_entity, to_entity, relation_type, valid_to)"
        " values (?, ?, ?, ?)",
        made,
    )


def _pairs(rng: numpy.random.Generator, sizes: Sizes) -> Any:
    """Pairs as ``low * (entities + 1) + high``, in order: those of the hubs, and any others."""
    wide = sizes.entities + 1
    others = numpy.arange(len(HUBS) + 1, sizes.entities)
    keys = [
        hub(name) * wide + rng.choice(others, sizes.hub, replace=False)
        for name in ("pairs", "archived", "relations")
    ]
    keys.append(rng.choice(others, sizes.hub, replace=False) * wide + sizes.entities)
    hubs = [*range(1, len(HUBS) + 1), sizes.entities]
    keys.append(numpy.array([a * wide + b for a in hubs for b in hubs if a < b]))
    left = max(0, sizes.pairs - sum(map(len, keys)))
    ends = rng.integers(len(HUBS) + 1, sizes.entities, (left * 51 // 50, 2))
    ends = ends[ends[:, 0] != ends[:, 1]][:left]
    keys.append(ends.min(axis=1) * wide + ends.max(axis=1))
    return numpy.unique(numpy.concatenate(keys))


def _write_pairs(conn: Any, rng: numpy.random.Generator, sizes: Sizes) -> None:
    keys = _pairs(rng, sizes)
    lasts = filling.moments(rng, 10_000)

    def rows() -> Iterator[tuple[int, int, int, str]]:
        for start in range(0, len(keys), _CHUNK):
            part = keys[start : start + _CHUNK]
            counts = rng.zipf(2.0, len(part)).clip(1, 200).tolist()
            low, high = (each.tolist() for each in divmod(part, sizes.entities + 1))
            picked = rng.integers(0, len(lasts), len(part)).tolist()
            yield from zip(low, high, counts, (lasts[i] for i in picked), strict=True)

    # made anew afterwards: in order is many times quicker than row by row
    indexes = conn.execute(
        "select name, sql from sqlite_master where type = 'index' and sql is not null"
        " and tbl_name = 'co_occurrences'"
    ).fetchall()
    for name, _ in indexes:
        conn.execute(f"drop index {name}")
    filling.write_pairs(conn, rows())
    for _, sql in indexes:
        conn.execute(sql)


def _write_accesses(conn: Any, rng: numpy.random.Generator, sizes: Sizes, names: list[str]) -> None:
    """A tenth of them of one entity, a twentieth of each other hub, the rest of anything."""
    count = sizes.accesses
    owners = rng.integers(1, sizes.entities + 1, count)
    owners[: count // 10] = hub("accesses")
    owners[count // 10 : count // 2] = rng.integers(1, len(HUBS) + 1, count // 2 - count // 10)
    at = sorted(filling.moments(rng, count))
    rng.shuffle(owners)
    filling.write_accesses(
        conn,
        names,
        (
            (owner, names[owner - 1] if i % 4 else None, moment)
            for i, (owner, moment) in enumerate(zip(owners.tolist(), at, strict=True))
        ),
    )


def _write_searches(conn: Any, rng: numpy.random.Generator, sizes: Sizes, names: list[str]) -> None:
    """Ten candidates each, one of them a hub; half of the searches led to opening that."""
    made = sorted(filling.moments(rng, sizes.searches))
    shown = rng.integers(1, sizes.entities + 1, (sizes.searches, 10))
    shown[:, 0] = rng.integers(1, len(HUBS) + 1, sizes.searches)
    filling.write_searches(
        conn,
        names,
        made,
        shown.tolist(),
        mode="text",
        strategy="limbic",
        clients=["benchmark"],
        event=lambda _: "opened",
    )
