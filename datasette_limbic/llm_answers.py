"""Answers as a language model reads them: compact JSON within a budget of characters.

Takes what ``serving`` answers, leaves out what only a person or a program needs, and says in
words what a score alone would not: that nothing fits, that a fact has ended, what was cut.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from . import text, times

# About 2,000 and 5,000 tokens of English: small beside any context that can call tools.
SEARCH_CHARS = 8_000
OPEN_CHARS = 20_000
# Of one observation: in a search, where it is to be recognised, and opened, where it is read.
SHORT, LONG = 400, 4_000
# What every result may take, however many share the budget.
LEAST = 300

NOT_CONFIDENT = (
    "Nothing in this memory seems to be about this. The results are only the nearest there are: "
    "do not take them for an answer. Say that the memory does not know, or search in other words."
)


def search_answer(answer: Mapping[str, Any], notes: list[str]) -> str:
    """What ``Memory.search`` returns, of what ``serving.search_semantic`` answers."""
    results = answer["results"]
    share = max(LEAST, SEARCH_CHARS // max(1, len(results)))
    if not results:
        notes = [f"Nothing found: {answer['reason']}.", *notes]
    elif not answer["confident"]:
        notes = [NOT_CONFIDENT, *notes]
    if answer["degraded"]:
        notes = [*notes, f"Less than the whole search: {answer['degraded']}."]
    return _json(
        {
            "search_id": answer["search_id"],
            "confident": answer["confident"],
            "note": " ".join(notes) or None,
            "results": [_result(row, answer["query"], share) for row in results],
            "recorded": _recorded(answer),
        }
    )


def open_answer(answer: Mapping[str, Any], notes: list[str]) -> str:
    """What ``Memory.open`` returns: entities whole, as far as the budget goes."""
    share = OPEN_CHARS // max(1, len(answer["entities"]))
    unknown = [plain(name) for name in answer["unknown"]]
    if unknown:
        notes = [
            "Names in unknown are not in this memory: use names exactly as a search gave them.",
            *notes,
        ]
    return _json(
        {
            "entities": [_entity(each, share) for each in answer["entities"]],
            "unknown": unknown,
            "note": " ".join(notes) or None,
            "recorded": _recorded(answer),
        }
    )


def rate_answer(rated: Mapping[str, Any] | None, reason: str | None) -> str:
    """What ``Memory.rate`` returns; ``rated`` is None where nothing was recorded for ``reason``."""
    found = {key: plain(rated[key]) for key in ("name", "rating", "query")} if rated else {}
    return _json({**found, "recorded": _yes_or_no(reason)})


def _recorded(answer: Mapping[str, Any]) -> str:
    return _yes_or_no(answer["recorded"]["reason"])


def _yes_or_no(reason: str | None) -> str:
    return "yes" if reason is None else f"no: {reason}"


def _result(row: Mapping[str, Any], query: str, share: int) -> dict[str, Any]:
    """One result. Of many observations, those are shown that share most words with the query."""
    observations = [plain(each) for each in row["observations"]]
    asked = set(text.word_tokens(query)) - text.STOP_WORDS

    def fit(index: int) -> tuple[int, int]:
        # the newest of those that fit equally well
        return -len(asked & set(text.word_tokens(observations[index]))), -index

    kept = _within(share, observations, sorted(range(len(observations)), key=fit), SHORT)
    return _given(
        {
            "name": plain(row["name"]),
            "entityType": plain(row["entityType"]),
            "final_score": _rounded(row["final_score"]),
            "why": _why(row),
            "observations": kept,
            "more_observations": len(observations) - len(kept) or None,
        }
    )


def _why(row: Mapping[str, Any]) -> str:
    """The factors of a rank in a line."""
    scoring = row["scoring"]
    parts = [
        ("similar in meaning", scoring["cosine_sim"]),
        ("share of the query's words", row["coverage"]),
        ("importance by use and links", scoring["importance"]),
        ("recency", scoring["temporal_factor"]),
        ("comes up together with the others", scoring["cooc_boost"]),
    ]
    found = [(name, _rounded(value)) for name, value in parts]
    return "; ".join(f"{name} {value}" for name, value in found if value)


def _entity(found: Mapping[str, Any], share: int) -> dict[str, Any]:
    """An opened entity: the newest observations first to fill the budget, live before ended."""
    entries = found["observations"]
    observations = [_dated(each, plain(each["content"]), found["now"]) for each in entries]
    order = sorted(range(len(entries)), key=lambda i: (bool(entries[i]["ended"]), -i))
    kept = _within(share * 3 // 4, observations, order, LONG)
    relations = [
        _dated(each, f"{arrow(each)} ({plain(each['entity_type'])})", found["now"])
        for arrow, key in ((_to, "relations_out"), (_from, "relations_in"))
        for each in found[key]
    ]
    linked = _within(share // 4, relations, range(len(relations)), SHORT)
    counts = found["counts"]
    entity: dict[str, Any] = {
        "name": plain(found["name"]),
        "entityType": plain(found["entityType"]),
        "archived": _archived(found),
        "ended": _ended(found["valid_to"], found["now"]),
        "observations": kept,
        "more_observations": counts["observations"] - len(kept) or None,
        "relations": linked,
        "more_relations": counts["relations_out"] + counts["relations_in"] - len(linked) or None,
        "more_relations_at_least": True if "relations" in found["at_least"] else None,
    }
    return _given(entity)


def _to(relation: Mapping[str, Any]) -> str:
    return f"{plain(relation['relation_type'])} → {plain(relation['entity_name'])}"


def _from(relation: Mapping[str, Any]) -> str:
    return f"{plain(relation['entity_name'])} → {plain(relation['relation_type'])} → this"


def _dated(row: Mapping[str, Any], words: str, now: str) -> str:
    """``words``, marked where the fact has ended or the entity at the other end is archived."""
    ended = _ended(row["valid_to"], now)
    if ended is not None:
        return f"[ended {ended}, no longer true] {words}"
    return f"[archived] {words}" if row.get("archived_at") is not None else words


def _ended(valid_to: Any, now: str) -> str | None:
    """When a fact ended, as UTC text; None where it still holds, or where no time can be read."""
    moment = times.to_sql(valid_to)
    return moment if moment is not None and moment <= now else None


def _archived(found: Mapping[str, Any]) -> str | None:
    if found["archived_at"] is None:
        return None
    reason = found["archived_reason"]
    return plain(found["archived_at"]) + (f": {plain(reason)}" if reason is not None else "")


def _within(budget: int, texts: Sequence[str], order: Iterable[int], longest: int) -> list[str]:
    """As many of ``texts`` as the budget takes, the first of ``order`` always, cut to ``longest``.

    They come back in the order in which they stand.
    """
    kept: dict[int, str] = {}
    left = budget
    for index in order:
        found = texts[index]
        shown = found if len(found) <= longest else found[: longest - 1] + "…"
        if kept and len(shown) > left:
            break
        kept[index] = shown
        left -= len(shown)
    return [kept[index] for index in sorted(kept)]


def plain(value: Any) -> str:
    """``value`` as text: any program may have put bytes or a number into a text column."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).decode("utf-8", "replace")
    return text.storable(str(value))


def _rounded(value: Any) -> float | None:
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return round(float(value), 3)


def _given(value: Mapping[str, Any]) -> dict[str, Any]:
    """``value`` without what is None: a model pays for each key."""
    return {key: item for key, item in value.items() if item is not None}


def _json(value: Mapping[str, Any]) -> str:
    return json.dumps(_given(value), ensure_ascii=False, allow_nan=False)
