"""A memory to look at in a browser: communities, hubs, years of use, a search log, kept reports.

``build(path, 100_000)`` makes 100,000 entities with 1,000,000 observations in some minutes; any
other size has the same shape. The first entity is a hub of half of all; the next ones have LARGE
observations and MANY neighbours, where the memory is large enough for that.

Vectors are made up and stored under the packaged model, so that a search runs as it always does.
Those of observations are short (NARROW): no page reads more of them than those of one entity.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import numpy

from datasette_limbic import connection, llm_model, schema, vectors

from . import filling, memory

MEAN_OBSERVATIONS = 10
LARGE = 5_000
MANY = 2_000
LARGE_ENTITIES = 3
WIDE, NARROW = 512, 64
SPREAD = 1.2
LOOKED_AT = 2_000
TYPES = (
    "Person", "Project", "Session", "Decision", "Tool", "Domain", "Concept", "Bug", "Place",
    "Organisation", "Document", "Event",
)  # fmt: skip
RELATIONS = ("uses", "part_of", "knows", "depends_on", "decided_in", "about", "near", "replaces")
CLIENTS = ("claude-code", "cursor", "cli", None)
_CHUNK = 50_000


def build(path: Path, entities: int, *, reports: bool = True) -> None:
    """Write the memory, index it and, unless told otherwise, look for what reports keep."""
    rng = numpy.random.default_rng(42)
    with closing(connection.connect(path, create=True)) as conn:
        with filling.filling(conn, for_reports=True):
            names = _write_entities(conn, rng, entities)
            owners = _write_observations(conn, rng, entities)
            first, second = _write_relations(conn, rng, entities)
            _write_use(conn, rng, names, first, second)
            _write_searches(conn, rng, names)
            _write_vectors(conn, rng, "entities", entities, WIDE)
            _write_vectors(conn, rng, "observations", len(owners), NARROW)
        for collection in schema.COLLECTIONS:
            vectors.rebuild(conn, collection)
        conn.execute("update limbic_indexes set synced_at = datetime('now')")
        conn.commit()
        conn.execute("analyze")
        if reports:
            _look_for_reports(conn)


def _look_for_reports(conn: Any) -> None:
    """Keep pairs and topics, of LOOKED_AT entities where there are more.

    The others count as looked at: all of 100,000 would take a quarter of an hour, and pages read
    what is kept.
    """
    from datasette_limbic.reports import keeping

    with conn:
        conn.execute("delete from limbic_report_pending where entity_id > ?", [LOOKED_AT])
        conn.execute(
            "insert into limbic_reports(report, settings, entities, observations, seconds)"
            " values (?, ?, 0, 0, 0)",
            [keeping.NAME, keeping.rules(conn).text()],
        )
    keeping.keep(conn)


def _write_entities(conn: Any, rng: numpy.random.Generator, entities: int) -> list[str]:
    names = filling.names(rng, entities)
    kinds = (rng.zipf(1.5, entities) - 1).clip(0, len(TYPES) - 1).tolist()
    created = sorted(filling.moments(rng, entities))
    active_at = filling.moments(rng, entities, lately=2.0)
    conn.executemany(
        "insert into entities(id, name, entity_type, created_at, updated_at, last_activity_at)"
        " values (?1, ?2, ?3, ?4, ?4, ?5)",
        (
            (i, name, TYPES[kind], made, max(made, active))
            for i, (name, kind, made, active) in enumerate(
                zip(names, kinds, created, active_at, strict=True),
                1,
            )
        ),
    )
    conn.execute(
        "update entities set archived_at = last_activity_at, archived_reason = 'no longer in use'"
        " where id % 50 = 7"
    )
    conn.execute("update entities set valid_from = created_at where id % 20 = 3")
    conn.execute("update entities set valid_to = last_activity_at where id % 100 = 3")
    return names


def _write_observations(conn: Any, rng: numpy.random.Generator, entities: int) -> list[int]:
    """Most entities have few, LARGE_ENTITIES of them very many. Returns the entity of each."""
    total = entities * MEAN_OBSERVATIONS
    large = min(LARGE, total // 50)
    weight = rng.pareto(1.6, entities) + 0.3
    counts = (weight / weight.sum() * (total - large * LARGE_ENTITIES)).astype("i8").clip(1, 400)
    counts[1 : 1 + LARGE_ENTITIES] = large
    short = total - int(counts.sum())
    counts[-entities // 2 :] += max(0, short) // (entities // 2)
    owners = numpy.repeat(numpy.arange(1, entities + 1), counts).tolist()
    created = [row[0] for row in conn.execute("select created_at from entities order by id")]
    said = filling.moments(rng, len(owners))
    at = 0
    for start in range(0, len(owners), _CHUNK):
        texts = memory.sentences(rng, min(_CHUNK, len(owners) - start))
        texts[1::40] = [f"{text} too" for text in texts[0::40][: len(texts[1::40])]]
        conn.executemany(
            "insert into observations(id, entity_id, content, created_at) values (?, ?, ?, ?)",
            (
                (i + 1, owners[i], text, max(said[i], created[owners[i] - 1]))
                for i, text in enumerate(texts, at)
            ),
        )
        at += len(texts)
    conn.execute("update observations set valid_to = created_at where id % 50 = 9")
    return owners


def _blocks(rng: numpy.random.Generator, entities: int) -> Any:
    """The bounds of communities: of 5 to 2,000 entities with neighbouring ids."""
    sizes = (rng.pareto(1.1, entities // 5 + 2) * 20 + 5).astype("i8").clip(5, 2_000)
    bounds = numpy.concatenate([[0], numpy.cumsum(sizes)])
    return numpy.append(bounds[bounds < entities], entities)


def _write_relations(
    conn: Any, rng: numpy.random.Generator, entities: int
) -> tuple[list[int], list[int]]:
    """About three for each entity. Nine of ten stay in a community, which the hubs join.

    Returns the pairs that co-occur too.
    """
    bounds = _blocks(rng, entities)
    first = rng.integers(0, entities, entities * 5 // 2)
    block = numpy.searchsorted(bounds, first, side="right") - 1
    size = bounds[block + 1] - bounds[block]
    inside = bounds[block] + (rng.random(len(first)) ** 2 * size).astype("i8")
    second = numpy.where(
        rng.random(len(first)) < 0.9, inside, rng.integers(0, entities, len(first))
    )
    kind = (rng.zipf(1.7, len(first)) - 1).clip(0, len(RELATIONS) - 1)
    pairs = list(zip((first + 1).tolist(), (second + 1).tolist(), kind.tolist(), strict=True))
    others = numpy.arange(1, entities + 1)
    pairs += [(i, 1, 1) for i in others[rng.random(entities) < 0.5].tolist()]
    for hub in range(2, 2 + LARGE_ENTITIES):
        around = rng.choice(entities, min(MANY, entities // 5), replace=False) + 1
        pairs += [(hub, i, hub) for i in around.tolist()]
    made = filling.moments(rng, len(pairs))
    conn.executemany(
        "insert or ignore into relations(from_entity, to_entity, relation_type, created_at)"
        " values (?, ?, ?, ?)",
        (
            (a, b, RELATIONS[k], moment)
            for (a, b, k), moment in zip(pairs, made, strict=True)
            if a != b
        ),
    )
    return [a for a, _, _ in pairs[::2]], [b for _, b, _ in pairs[::2]]


def _write_use(
    conn: Any, rng: numpy.random.Generator, names: list[str], first: list[int], second: list[int]
) -> None:
    """Accesses of a third of the entities, few of them often, and pairs that were used together."""
    entities = len(names)
    picked = (rng.zipf(1.3, entities * 3) % (entities // 3 + 1)).tolist()
    at = filling.moments(rng, len(picked), lately=1.5)
    filling.write_accesses(
        conn,
        names,
        (
            (1 + 3 * i, None if i % 4 else names[3 * i], moment)
            for i, moment in zip(picked, at, strict=True)
            if 3 * i < entities
        ),
    )
    low = numpy.minimum(first, second)
    high = numpy.maximum(first, second)
    step = rng.integers(1, entities, len(low) * 2)
    start = rng.integers(1, entities + 1, len(step))
    other = (start + step - 1) % entities + 1
    low = numpy.concatenate([low, numpy.minimum(start, other)])
    high = numpy.concatenate([high, numpy.maximum(start, other)])
    keys = numpy.unique(low * (entities + 1) + high)
    keys = keys[keys // (entities + 1) != keys % (entities + 1)].tolist()
    counts = rng.zipf(2.0, len(keys)).clip(1, 200).tolist()
    lasts = filling.moments(rng, len(keys))
    filling.write_pairs(
        conn,
        (
            (*divmod(key, entities + 1), count, moment)
            for key, count, moment in zip(keys, counts, lasts, strict=True)
        ),
    )


def _write_searches(conn: Any, rng: numpy.random.Generator, names: list[str]) -> None:
    """A search for each five entities, ten candidates each; half of them led to an opening."""
    count, entities = len(names) // 5, len(names)
    made = sorted(filling.moments(rng, count, lately=1.5))
    shown = rng.integers(1, entities + 1, (count, 10)).tolist()
    filling.write_searches(
        conn,
        names,
        made,
        shown,
        mode="hybrid",
        strategy="rrf",
        clients=CLIENTS,
        event=lambda i: ("opened", "useful", "not_useful")[i // 2 % 3],
    )


def _write_vectors(
    conn: Any, rng: numpy.random.Generator, collection: str, count: int, dimension: int
) -> None:
    rows = memory.clustered(rng, count, dimension, SPREAD)
    memory.write_vectors(conn, collection, rows, llm_model.MODEL_ID)
