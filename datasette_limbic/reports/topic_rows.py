"""The topics of the entities that are large enough to be split, as they are kept."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from datasette.utils.sqlite import sqlite3

from ..report_settings import APPROACHING, ReportSettings
from ..topics import Topics, analyse_topics
from .reading import Batch

LABEL_TERMS = 3


class TopicRow(NamedTuple):
    """A row of ``limbic_topics``."""

    entity_id: int
    topics: str
    diversity: float
    split_score: float


def topic_rows(conn: sqlite3.Connection, batch: Batch, settings: ReportSettings) -> list[TopicRow]:
    """A row for each entity of the batch that has at least 80 % of its type's threshold."""
    found = []
    types = dict(
        conn.execute(
            "select id, cast(entity_type as text) from entities"
            " where id in (select value from json_each(?))",
            [json.dumps(list(batch.entity_ids))],
        )
    )
    for entity_id, place in batch.entities():
        threshold = settings.threshold(types.get(entity_id))
        size = place.stop - place.start
        if size < APPROACHING * threshold:
            continue
        topics = analyse_topics(
            [row.content for row in batch.observations[place]],
            None if batch.vectors is None else batch.vectors[place],
            min_silhouette=settings.topic_min_silhouette,
        )
        score = split_score(size, threshold, topics.diversity)
        text = json.dumps(described(topics), ensure_ascii=False)
        found.append(TopicRow(entity_id, text, topics.diversity, score))
    return found


def split_score(observations: int, threshold: int, diversity: float) -> float:
    """observations / threshold · diversity, 0 without topics that stand apart.

    Source: DESIGN of the reports: the usual sum would list whatever is large.
    """
    return observations / threshold * diversity


def described(topics: Topics) -> list[dict[str, Any]]:
    """Each topic: ``label``, ``terms``, ``size``, ``silhouette`` (-1 to 1), ``stands_apart``."""
    return [
        {
            "label": ", ".join(terms[:LABEL_TERMS]),
            "terms": terms,
            "size": topics.labels.count(number),
            "silhouette": silhouette,
            "stands_apart": number in topics.apart,
        }
        for number, (terms, silhouette) in enumerate(
            zip(topics.terms, topics.silhouettes, strict=True)
        )
    ]
