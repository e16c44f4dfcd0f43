"""What a split would make of one entity: new entities, what goes where, what stays, and why."""

from __future__ import annotations

from typing import Any

from datasette.utils.sqlite import sqlite3

from ..answers import plain
from ..i18n import marked as _
from ..schema import SPLIT_RELATIONS
from ..text import counted
from ..topic_form import is_form
from ..topics import MIN_FIRMNESS, MIN_TOPIC_SIZE, Topics, propose
from .split_analysis import analysis, topics_of
from .split_names import child_names
from .split_subject import SplitObservation, Subject, read_subject
from .topic_rows import LABEL_TERMS

STAYS = {
    "no_split": _("no split is proposed"),
    "form": _("a heading or a short field, which belongs to the whole"),
    "no_words": _("nothing to tell its topic by: no words and no vector"),
    "small_group": f"its group is too small: fewer than {MIN_TOPIC_SIZE} are firmly of its topic",
    "loose_topic": _("its topic does not stand apart from the others"),
    "unclear": _("not clearly of one topic"),
}
"""Why an observation stays in the parent, by the code that stands beside it."""


def propose_entity_split(
    conn: sqlite3.Connection, entity: int | str, *, settings: Any = None
) -> dict[str, Any]:
    """How an entity, by id (a number) or exact name, could be split. Reads only.

    Everything that ``analyze_entity_split`` says, and: ``children``, each with a ``name`` that no
    entity has, ``entityType``, ``terms``, ``firmness`` (0 to 1) and its ``observations``;
    ``stays``, the observations that stay in the parent as general, each with a ``reason`` (a key
    of ``STAYS``) and a ``why``. Every observation that holds is in exactly one of these; those
    that ended stay and are counted in ``ended_observations``. ``relations`` are those that would
    be made, ``moving`` and ``staying`` count observations, ``summary`` says it in a sentence.
    ``digest`` is of what the proposal was made from: another one means that something changed.

    Where no split is due, or archived, ``children`` is empty. Raises UnknownEntity and NotAMemory.
    """
    return proposal(read_subject(conn, entity, settings=settings))


def proposal(subject: Subject) -> dict[str, Any]:
    """The dict of ``propose_entity_split``. May take seconds, see ``topics_of``."""
    topics = topics_of(subject)
    found = analysis(subject, topics)
    due = found["needs_split"] or found["approaching"]
    parts = propose(topics) if due else None
    moves = parts.moves if parts else []
    names = child_names(subject.name, [move.terms for move in moves], subject.taken)
    children = [
        {
            "name": name,
            "entityType": subject.entity_type,
            "label": ", ".join(move.terms[:LABEL_TERMS]),
            "terms": move.terms,
            "firmness": move.firmness,
            "topic": move.topic,
            "size": len(move.texts),
            "observations": [_shown(subject.rows[i], topics.firmness[i]) for i in move.texts],
        }
        for name, move in zip(names, moves, strict=True)
    ]
    stay = parts.stay if parts else range(len(subject.rows))
    stays = []
    for i in stay:
        reason = _reason(topics, i, subject.rows[i].content) if due else "no_split"
        stays.append(
            {
                **_shown(subject.rows[i], topics.firmness[i]),
                "topic": topics.labels[i] if topics.labels[i] >= 0 else None,
                "reason": reason,
                "why": STAYS[reason],
            }
        )
    found |= {
        "children": children,
        "stays": stays,
        "moving": sum(len(move.texts) for move in moves),
        "staying": len(stays),
        "relations": [relation for name in names for relation in _relations(subject.name, name)],
        "digest": subject.digest,
    }
    found["summary"] = _summary(found, due)
    shown: dict[str, Any] = plain(found)
    return shown


def _shown(row: SplitObservation, firmness: float) -> dict[str, Any]:
    return {
        "id": row.id,
        "content": row.content,
        "created_at": row.created_at,
        "kind": row.kind,
        "similarity_flag": row.similarity_flag,
        "firmness": firmness,
    }


def _reason(topics: Topics, i: int, content: str) -> str:
    """The key of STAYS for a text that ``topics.propose`` leaves."""
    topic = topics.labels[i]
    if topic < 0:
        return "form" if is_form(content) else "no_words"
    if topic in topics.apart:
        return "unclear" if topics.firmness[i] < MIN_FIRMNESS else "small_group"
    return "small_group" if topics.labels.count(topic) < MIN_TOPIC_SIZE else "loose_topic"


def _relations(parent: str, child: str) -> list[dict[str, str]]:
    contains, part_of = SPLIT_RELATIONS
    return [
        {"from": parent, "relation_type": contains, "to": child},
        {"from": child, "relation_type": part_of, "to": parent},
    ]


def _summary(found: dict[str, Any], due: bool) -> str:
    made = len(found["children"])
    if made:
        return (
            f"{counted(made, 'new entity', 'new entities')} would take "
            f"{found['moving']:,} of {found['observations']:,} observations; "
            f"{found['staying']:,} would stay as general."
        )
    if due:
        return (
            "Nothing is proposed: topics stand apart, but fewer than two of them have at least "
            f"{MIN_TOPIC_SIZE} observations that are clearly of one topic."
        )
    return "Nothing is proposed, and everything stays as it is."
