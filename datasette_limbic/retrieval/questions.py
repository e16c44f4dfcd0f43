"""What an approximate search is measured with: vectors such as people's questions may have.

A question is seldom like the text of an entity, which names its type, its observations and its
neighbours one after the other; it is more like one observation, or a name. So a third of the
questions each are vectors of entities, of observations and of names, as far as they can be had:
those of observations are stored, or a model on this machine makes them.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from datasette.utils.sqlite import sqlite3

from .. import embedding, llm_store, vectors
from ..errors import LimbicError
from .overlay import unit_vectors

if TYPE_CHECKING:
    import numpy

log = logging.getLogger("datasette_limbic")

EACH = 130
"""Questions of each kind."""
_LONGEST = 300


def questions(
    conn: sqlite3.Connection, ids: numpy.ndarray, dimension: int, model: str | None
) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Unit vectors (float32, n × dimension), and for each the entity that it is the vector of, 0
    where it is none. The same ones for the same ``ids``."""
    import numpy

    rng = numpy.random.default_rng(len(ids))
    own = rng.permutation(ids)[:EACH].tolist()
    of_entities = unit_vectors(conn, own, dimension)
    rows = list(of_entities.values())
    itself = list(of_entities)
    others = _of_observations(conn, rng.permutation(ids)[:EACH].tolist(), dimension, model)
    others += _of_texts(_names(conn, rng.permutation(ids)[:EACH].tolist()), dimension, model)
    rows += others
    itself += [0] * len(others)
    stacked = numpy.stack(rows) if rows else numpy.empty((0, dimension), "f4")
    return stacked.astype("<f4"), numpy.array(itself, "i8")


def _of_observations(
    conn: sqlite3.Connection, entities: list[int], dimension: int, model: str | None
) -> list[numpy.ndarray]:
    """Vectors of one observation of each of these entities: as stored, else made."""
    import numpy

    found = conn.execute(
        "select min(id), content from observations where entity_id in"
        " (select value from json_each(?)) group by entity_id",
        [json.dumps(entities)],
    ).fetchall()
    collection = llm_store.collection(conn, "observations")
    if collection is not None and collection[1] == model:
        stored = llm_store.stored(conn, collection[0], [row[0] for row in found])
        units = vectors.units([blob for _, blob in stored.values()], dimension)
        usable = [numpy.frombuffer(unit, "<f4") for unit in units if isinstance(unit, bytes)]
        if len(usable) >= len(found) // 2:
            return usable
    return _of_texts([str(row[1])[:_LONGEST] for row in found], dimension, model)


def _names(conn: sqlite3.Connection, entities: list[int]) -> list[str]:
    rows = conn.execute(
        "select name from entities where id in (select value from json_each(?))",
        [json.dumps(entities)],
    )
    return [str(row[0])[:_LONGEST] for row in rows]


def _of_texts(texts: list[str], dimension: int, model: str | None) -> list[numpy.ndarray]:
    """Their vectors by a model that runs on this machine at no cost, else none."""
    import numpy

    texts = [text for text in texts if text.strip()]
    if model is None or not texts:
        return []
    try:
        if not embedding.is_local(model):
            return []
        made = embedding.run_model(model, texts)
    except LimbicError as error:
        log.info("recall is measured without questions of the model %s: %s", model, error)
        return []
    units = [embedding.unit_blob(vector) for vector in made]
    return [
        numpy.frombuffer(unit, "<f4")
        for unit in units
        if unit is not None and len(unit) == 4 * dimension
    ]
