"""Whether one entity is to be split, by its size and its topics, and why.

Source: "Mantenimiento & Operaciones", "Splitting de Entidades".
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from typing import Any

from datasette.utils.sqlite import sqlite3

from ..answers import plain
from ..text import counted
from ..topics import MIN_TOPIC_SIZE, Topics, analyse_topics
from .split_subject import Subject, approaching_from, read_subject
from .topic_rows import described, split_score

# The page, its JSON and an approval ask for the same entity one after another, and topics of some
# hundred observations take seconds.
_KEPT = 32
_kept: OrderedDict[bytes, Topics] = OrderedDict()
_lock = threading.Lock()


def analyze_entity_split(
    conn: sqlite3.Connection, entity: int | str, *, settings: Any = None
) -> dict[str, Any]:
    """Whether an entity, by id (a number) or exact name, is to be split. Reads only.

    ``observations`` counts those that hold now, ``ended_observations`` the others; ``threshold``
    is that of its type, ``size_ratio`` observations / threshold. ``topics``: ``label``, ``terms``,
    ``size``, ``silhouette`` (-1 to 1, how firm it is), ``stands_apart``. ``diversity`` is 1 + the
    silhouette of the topics that stand apart, or 0 with fewer than two; ``split_score`` is
    size_ratio · diversity. ``needs_split`` is observations > threshold and split_score > 1;
    ``approaching`` is from 80 % of the threshold up to it, with topics that stand apart. Neither
    is ever true of an archived entity. ``verdict`` names the case and
    ``reason`` says it in a sentence. ``vectors`` says whether embeddings were used, else why not.

    Raises UnknownEntity and NotAMemory.
    """
    subject = read_subject(conn, entity, settings=settings)
    found: dict[str, Any] = plain(analysis(subject, topics_of(subject)))
    return found


def topics_of(subject: Subject) -> Topics:
    """The topics of what holds. Takes seconds for hundreds of observations, once."""
    texts = [row.content for row in subject.rows]
    bar = subject.settings.topic_min_silhouette
    digest = hashlib.blake2b(repr(bar).encode(), digest_size=16)
    digest.update(subject.digest.encode())
    if subject.vectors is not None:
        digest.update(subject.vectors.tobytes())
    key = digest.digest()
    with _lock:
        if key in _kept:
            _kept.move_to_end(key)
            return _kept[key]
    topics = analyse_topics(texts, subject.vectors, min_silhouette=bar)
    with _lock:
        _kept[key] = topics
        while len(_kept) > _KEPT:
            _kept.popitem(last=False)
    return topics


def analysis(subject: Subject, topics: Topics) -> dict[str, Any]:
    """The dict of ``analyze_entity_split``."""
    size, threshold = len(subject.rows), subject.threshold
    score = split_score(size, threshold, topics.diversity)
    live = subject.archived_at is None
    needs = live and size > threshold and score > 1
    near = live and approaching_from(threshold) <= size <= threshold and topics.diversity > 0
    found = {
        "id": subject.id,
        "name": subject.name,
        "entityType": subject.entity_type,
        "archived_at": subject.archived_at,
        "archived_reason": subject.archived_reason,
        "observations": size,
        "ended_observations": subject.ended,
        "threshold": threshold,
        "approaching_from": approaching_from(threshold),
        "size_ratio": size / threshold,
        "topics": described(topics),
        "topics_apart": len(topics.apart),
        "silhouette": topics.silhouette,
        "diversity": topics.diversity,
        "split_score": score,
        "needs_split": needs,
        "approaching": near,
        "vectors": _vectors(subject, topics),
        "warnings": list(subject.settings.warnings),
    }
    found["verdict"] = _verdict(subject, topics, found)
    found["reason"] = _REASONS[found["verdict"]](found)
    return found


def _verdict(subject: Subject, topics: Topics, found: dict[str, Any]) -> str:
    size = len(subject.rows)
    if not size:
        return "empty"
    if subject.archived_at is not None:
        return "archived"
    if found["needs_split"]:
        return "split"
    if size < found["approaching_from"]:
        return "too_few"
    if found["approaching"]:
        return "approaching"
    if topics.diversity > 0:
        return "loose"
    if len({row.content for row in subject.rows}) == 1:
        return "identical"
    return "one_subject" if topics.count else "no_words"


def _observations(found: dict[str, Any]) -> str:
    return counted(found["observations"], "observation", "observations")


def _limit(found: dict[str, Any]) -> str:
    kind = f"type {found['entityType']!r:.60}" if found["entityType"] else "its type"
    return f"{found['threshold']:,}, the threshold of {kind}"


def _large(found: dict[str, Any]) -> str:
    """How many, against the threshold, for an entity that has at least 80 % of it."""
    size, threshold = found["observations"], found["threshold"]
    where = "over" if size > threshold else "just at" if size == threshold else "near"
    return f"{_observations(found)}, {where} {_limit(found)}"


def _empty(found: dict[str, Any]) -> str:
    ended = found["ended_observations"]
    if not ended:
        return "It has no observations: there is nothing to split."
    return (
        f"None of its {counted(ended, 'observation', 'observations')} holds now: there is nothing "
        "to split."
    )


def _too_few(found: dict[str, Any]) -> str:
    return (
        f"{_observations(found)} {'is' if found['observations'] == 1 else 'are'} too few to split: "
        f"topics count from {found['approaching_from']:,} on, 80 % of {_limit(found)}."
    )


def _archived(found: dict[str, Any]) -> str:
    return (
        f"It is archived, so no split is proposed of its {_observations(found)}: "
        "restore it first if it is to be split."
    )


def _split(found: dict[str, Any]) -> str:
    return (
        f"{_large(found)}, and {found['topics_apart']} topics stand apart: the split score of "
        f"{found['split_score']:.2f} is above 1, so it is worth splitting."
    )


def _approaching(found: dict[str, Any]) -> str:
    return (
        f"{_large(found)}, and {found['topics_apart']} topics stand apart: it needs no split yet, "
        "but an early one costs less than a late one."
    )


def _loose(found: dict[str, Any]) -> str:
    return (
        f"{_large(found)}, but its topics overlap: the split score of {found['split_score']:.2f} "
        "is not above 1, so it needs no split."
    )


def _one_subject(found: dict[str, Any]) -> str:
    return (
        f"{_large(found)}, but about one subject: no two groups of at least {MIN_TOPIC_SIZE} "
        "observations stand apart, so a split would only scatter it."
    )


def _identical(found: dict[str, Any]) -> str:
    return (
        f"{_large(found)}, but all of them say the same: look at its duplicates, there is nothing "
        "to split."
    )


def _no_words(found: dict[str, Any]) -> str:
    return (
        f"{_large(found)}, but no words in them and no vectors to tell topics by, so no split can "
        "be proposed."
    )


_REASONS = {
    "empty": _empty,
    "too_few": _too_few,
    "archived": _archived,
    "split": _split,
    "approaching": _approaching,
    "loose": _loose,
    "one_subject": _one_subject,
    "identical": _identical,
    "no_words": _no_words,
}


def _vectors(subject: Subject, topics: Topics) -> dict[str, Any]:
    """``used``, ``model``, how many are ``without`` one, and why none are used."""
    size = len(subject.rows)
    if subject.vectors is None:
        missing = (
            "no observation has a vector of its present text: 'datasette limbic sync' makes one"
        )
        why = missing if size else "there is nothing to embed"
        return {"used": False, "model": None, "without": size, "reason": why}
    import numpy  # not needed to start Datasette

    has = numpy.isfinite(subject.vectors).all(axis=1).tolist()
    reason: str | None = None
    if not topics.vectors_used:
        texts = {row.content for row in subject.rows}
        known = {row.content for row, some in zip(subject.rows, has, strict=True) if some}
        reason = (
            f"only {len(known):,} of {len(texts):,} different observations have a vector, and at "
            "least half are needed: 'datasette limbic sync' makes the others"
        )
    without = size - sum(has)
    return {
        "used": topics.vectors_used,
        "model": subject.model,
        "without": without,
        "reason": reason,
    }
