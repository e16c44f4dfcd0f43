"""Duplicates and contradictions among the observations of one entity, as they stand now."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any

from datasette.utils.sqlite import sqlite3

from ..config import number
from ..duplicates import Cluster, Pair, clusters, find_pairs
from ..schema import require_memory
from . import keeping, reading
from .entities import PAGE, find_entity, pages, paging
from .reading import Batch

LISTS = {"pairs": "duplicate", "contradictions": "contradiction", "worth_a_look": "look"}


def find_duplicate_observations(
    conn: sqlite3.Connection,
    entity: int | str,
    threshold: float | str | None = None,
    containment_threshold: float | str | None = None,
    *,
    look: float | str | None = None,
    page: int = 1,
    size: int = PAGE,
    settings: Any = None,
) -> dict[str, Any]:
    """Which observations of an entity, by id or name, are alike; compared now, nothing is written.

    ``threshold`` is the cosine from which two are duplicates, ``look`` that from which they are
    worth a look, ``containment_threshold`` the share of the shorter text's words that the longer
    one holds; each 0 to 1, left out: as ``limbic_settings`` has it, else what suits the model.
    ``settings`` are the plugin's, for the prefix of what was embedded.

    ``pairs`` (duplicates), ``contradictions`` and ``worth_a_look`` hold ``size`` each, the
    strongest first: ``earlier`` and ``later`` (id, content, created_at, similarity_flag),
    ``cosine`` (-1 to 1), ``containment`` (0 to 1), ``rule``, ``difference``. ``clusters`` are
    duplicates that hang together, with the ``survivor`` that is suggested and ``why``. Without
    vectors the words alone are compared, and ``similarity`` says so. An entity of thousands of
    observations takes seconds.

    Source: "Mantenimiento & Operaciones", with contradictions told apart.
    Raises UnknownEntity, BadParameter and NotAMemory.
    """
    require_memory(conn)
    page, size = paging(page, size)
    rules = keeping.rules(conn)
    given = {
        name: number(word, value, 0, 1)
        for name, word, value in (
            ("cosine", "threshold", threshold),
            ("containment", "containment_threshold", containment_threshold),
            ("look", "look", look),
        )
        if value is not None and value != ""
    }
    thresholds = replace(rules.thresholds, **given)
    thresholds = replace(thresholds, look=thresholds.lowest)
    found = find_entity(conn, entity)
    prefix = getattr(settings, "passage_prefix", None) or ""
    batch = reading.read(conn, [found["id"]], info=rules.info, prefix=prefix)
    alike = sorted(find_pairs(batch.observations, batch.vectors, thresholds), key=_strength)
    by_list = {name: [p for p in alike if p.kind == kind] for name, kind in LISTS.items()}
    grouped = clusters(by_list["pairs"], batch.observations)
    start = (page - 1) * size
    shown = {name: all_of[start : start + size] for name, all_of in by_list.items()}
    shown_clusters = grouped[start : start + size]
    texts = _texts(conn, batch, shown.values(), shown_clusters)
    return {
        "entity": found,
        "observations": len(batch.observations),
        "thresholds": asdict(thresholds),
        "model": rules.info.model_id if rules.info and rules.info.count else None,
        "similarity": _similarity(batch),
        "counts": {
            **{name: len(all_of) for name, all_of in by_list.items()},
            "clusters": len(grouped),
        },
        "page": page,
        "pages": pages(size, len(grouped), *map(len, by_list.values())),
        "size": size,
        **{name: [_pair(p, texts) for p in some] for name, some in shown.items()},
        "clusters": [
            {"ids": list(c.ids), "survivor": texts[c.survivor_id], "why": c.why}
            for c in shown_clusters
        ],
    }


def _strength(pair: Pair) -> tuple[Any, ...]:
    return (
        pair.rule != "exact",
        -2.0 if pair.cosine is None else -pair.cosine,
        -(pair.containment or 0.0),
        pair.earlier_id,
        pair.later_id,
    )


def _similarity(batch: Batch) -> dict[str, Any]:
    """Whether vectors could be compared, and why not."""
    count, without = len(batch.observations), batch.without_vector
    reason = None
    if count and without == count:
        reason = (
            "no observation of this entity has a vector of its present text, so only words were"
            " compared: run 'datasette limbic sync'"
        )
    elif without:
        reason = (
            f"{without:,} of {count:,} observations have no vector of their present text, so of"
            " those only words were compared: run 'datasette limbic sync'"
        )
    return {"computed": without < count, "reason": reason, "without_vector": without}


def _texts(
    conn: sqlite3.Connection,
    batch: Batch,
    shown: Iterable[list[Pair]],
    grouped: list[Cluster],
) -> dict[int, dict[str, Any]]:
    """The observations that are shown, by id."""
    wanted = {i for some in shown for p in some for i in (p.earlier_id, p.later_id)}
    wanted |= {c.survivor_id for c in grouped}
    flags: dict[int, int] = dict(
        conn.execute(
            "select id, similarity_flag from observations where entity_id in"
            " (select value from json_each(?))",
            [f"[{','.join(map(str, batch.entity_ids))}]"],
        ).fetchall()
    )
    return {
        o.id: {
            "id": o.id,
            "content": o.content,
            "created_at": o.created_at,
            "similarity_flag": flags.get(o.id, 0),
        }
        for o in batch.observations
        if o.id in wanted
    }


def _pair(pair: Pair, texts: dict[int, dict[str, Any]]) -> dict[str, Any]:
    return {
        "rule": pair.rule,
        "cosine": pair.cosine,
        "containment": pair.containment,
        "difference": pair.difference,
        "earlier": texts[pair.earlier_id],
        "later": texts[pair.later_id],
    }
