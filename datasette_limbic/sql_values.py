"""What the SQL functions do with the values SQLite hands them, before the formulas.

Each takes SQLite values (None, int, float, str, bytes): checks them, reads numeric text as
numbers and '' as NULL, and calls the pure function. Errors name the argument and the value. Kept
thin: a search calls some of them a few hundred times. `sql_functions` says what each is for.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Protocol

from datasette_limbic import scoring, text
from datasette_limbic.routing import detect_query_type
from datasette_limbic.times import hours_since, parse_time

Embed = Callable[[str, "str | None"], "bytes | None"]


class TypeSettings(Protocol):
    """What the functions that know about entity types ask."""

    def half_life_days(self, entity_type: str | None, /) -> float | None: ...


def _number(value: Any, argument: str) -> Any:
    """A number, or None for NULL and ''. ValueError for other text, TypeError for a blob."""
    kind = type(value)
    if kind is float or kind is int or value is None:
        return value
    if kind is not str:
        raise TypeError(f"{argument} must be a number, not a blob")
    stripped = value.strip()
    if not stripped:
        return None
    try:
        number = float(stripped)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{argument} must be a number, not {value!r}")
    return number


def _bounded(value: Any, argument: str, low: float, high: float = math.inf) -> Any:
    number = _number(value, argument)
    if number is not None and not low <= number <= high:
        allowed = f"{low:g} or more" if high == math.inf else f"from {low:g} to {high:g}"
        raise ValueError(f"{argument} must be {allowed}, not {value!r}")
    return number


def as_text(value: Any, argument: str) -> str | None:
    """Text, or None for NULL. TypeError for a blob."""
    if isinstance(value, bytes):
        raise TypeError(f"{argument} must be text, not a blob")
    return value if value is None or isinstance(value, str) else str(value)


def _moment(now: Any) -> Any:
    """The time to reckon from: `now` as given, else the clock. ValueError if it is unreadable."""
    if now is None or now == "":
        return time.time()
    if parse_time(now) is None:
        raise ValueError(f"now must be a time, not {now!r}")
    return now


def norm(value: Any, low: Any, high: Any) -> float | None:
    value, low, high = _number(value, "value"), _number(low, "low"), _number(high, "high")
    if value is None or low is None or high is None:
        return None
    width = high - low
    return float((value - low) / width) if width > 0 else 1.0


def fused_base(cosine_sim: Any, coverage: Any) -> float:
    return scoring.fused_base(_number(cosine_sim, "cosine_sim"), _number(coverage, "coverage"))


def coverage(query: Any, name: Any, content: Any, terms: Any) -> float | None:
    if query is None or name is None or terms is None:
        return None
    return text.coverage(str(query), str(name), as_text(content, "content"), _terms(str(terms)))


@lru_cache(maxsize=64)
def _terms(terms: str) -> list[tuple[str, float, float]]:
    """The terms as the statement hands them over: the same JSON for each candidate of a query."""
    return [(match, frequency, weight) for match, frequency, weight in json.loads(terms)]


def idf(frequency: Any, rows: Any) -> float | None:
    number = _bounded(frequency, "frequency", 0)
    return None if number is None else scoring.idf(number, _number(rows, "rows"))


def arg(value: Any, default: Any, least: Any = None) -> Any:
    if value is None or value == "":
        return default
    low = -math.inf if least is None else least
    if isinstance(default, int):
        number = _bounded(value, "value", low)
        if number != int(number):
            raise ValueError(f"value must be a whole number, not {value!r}")
        return int(number)
    return _bounded(value, "value", low) if isinstance(default, float) else value


def limbic_score(
    base: Any,
    importance: Any,
    temporal_factor: Any,
    cooc_boost: Any,
    beta_sal: Any = None,
    gamma: Any = None,
) -> float | None:
    base = _number(base, "base")
    importance = _number(importance, "importance")
    temporal_factor = _number(temporal_factor, "temporal_factor")
    cooc_boost = _number(cooc_boost, "cooc_boost")
    beta_sal = _bounded(beta_sal, "beta_sal", 0)
    gamma = _bounded(gamma, "gamma", 0)
    if base is None or importance is None:
        return None
    return scoring.limbic_score(
        base, importance, temporal_factor, cooc_boost or 0.0, beta_sal=beta_sal, gamma=gamma
    )


def cosine_sim(distance: Any) -> float | None:
    return scoring.cosine_sim(_number(distance, "distance"))


def importance(
    access_count: Any, max_access: Any, degree: Any, beta_deg: Any = None, d_max: Any = None
) -> float | None:
    access_count = _number(access_count, "access_count")
    max_access = _number(max_access, "max_access")
    degree = _number(degree, "degree")
    beta_deg = _bounded(beta_deg, "beta_deg", 0)
    d_max = _bounded(d_max, "d_max", 1)
    if access_count is None or max_access is None or degree is None:
        return None
    return scoring.compute_importance(
        access_count, max_access, degree, beta_deg=beta_deg, d_max=d_max
    )


def temporal_factor(
    last_access: Any,
    created_at: Any,
    now: Any = None,
    lambda_hourly: Any = None,
    floor: Any = None,
) -> float | None:
    return scoring.compute_temporal_factor(
        last_access,
        created_at,
        now=_moment(now),
        lambda_hourly=_bounded(lambda_hourly, "lambda_hourly", 0),
        floor=_bounded(floor, "floor", 0, 1),
    )


def temporal_score(
    last_activity_at: Any, half_life_days: Any, degree: Any = None, now: Any = None
) -> float | None:
    half_life = _number(half_life_days, "half_life_days")
    return scoring.temporal_score(
        last_activity_at, half_life, _number(degree, "degree") or 0, now=_moment(now)
    )


def consolidation_importance(total_accesses: Any, days: Any) -> float | None:
    total = _number(total_accesses, "total_accesses")
    age = _number(days, "days")
    return None if total is None else scoring.consolidation_importance(total, age)


def rrf(*ranks: Any) -> float | None:
    if not ranks:
        raise TypeError("rrf takes at least one rank")
    return scoring.rrf(*[_number(rank, "rank") for rank in ranks])


def limbic_rrf(*arguments: Any) -> float | None:
    if len(arguments) < 2:
        raise TypeError("limbic_rrf takes k and at least one rank")
    k = _bounded(arguments[0], "k", 0)
    return scoring.rrf(*[_number(rank, "rank") for rank in arguments[1:]], k=k)


def cooc_term(
    co_count: Any,
    last_co: Any,
    now: Any = None,
    lambda_hourly: Any = None,
    floor: Any = None,
    unknown: Any = None,
) -> float | None:
    count = _number(co_count, "co_count")
    options = _cooc_options(lambda_hourly, floor, unknown)
    moment = _moment(now)
    if count is None:
        return None
    return scoring.cooc_term(count, hours_since(last_co, moment), **options)


@lru_cache(maxsize=64)
def _cooc_options(lambda_hourly: Any, floor: Any, unknown: Any) -> dict[str, float | None]:
    # the same ones for every pair of a statement
    return {
        "lambda_hourly": _bounded(lambda_hourly, "lambda_hourly", 0),
        "floor": _bounded(floor, "floor", 0, 1),
        "unknown": _bounded(unknown, "unknown", 0, 1),
    }


class CoocBoost:
    """Aggregate: the sum of the pairs' terms; `now` and the rest are those of the first row."""

    def __init__(self) -> None:
        self.total = 0.0
        self.options: tuple[Any, ...] | None = None
        self.cap: Any = None

    def step(
        self,
        co_count: Any,
        last_co: Any,
        now: Any = None,
        lambda_hourly: Any = None,
        floor: Any = None,
        cap: Any = None,
        unknown: Any = None,
    ) -> None:
        if self.options is None:
            self.options = (_moment(now), lambda_hourly, floor, unknown)
            self.cap = _bounded(cap, "cap", 0)
        self.total += cooc_term(co_count, last_co, *self.options) or 0.0

    def finalize(self) -> float:
        cap = scoring.COOC_CAP if self.cap is None else self.cap
        return self.total if cap is None else min(self.total, float(cap))


def blend(strategy: Any, base: Any, limbic_norm: Any) -> float | None:
    base = _number(base, "base")
    limbic_norm = _number(limbic_norm, "limbic_norm")
    if strategy is None or base is None or limbic_norm is None:
        return None
    return scoring.blend(strategy, base, limbic_norm)


def route(query: Any, limit: Any) -> str | None:
    words = as_text(query, "query")
    number = _number(limit, "limit")
    return None if words is None or number is None else detect_query_type(words, number)


def half_life(settings: TypeSettings, entity_type: Any) -> float | None:
    name = as_text(entity_type, "entity_type")
    return None if name is None else settings.half_life_days(name)


def threshold(find: Callable[[str], int], entity_type: Any) -> int | None:
    name = as_text(entity_type, "entity_type")
    return None if name is None else find(name)


def call(function: Callable[..., str], *args: object) -> str:
    """What a retriever answers, as JSON."""
    return function(*(None if arg == "" else arg for arg in args))


def nothing(*args: object) -> str:
    """Where there is no retriever."""
    return "[]"


def unknown(*_arguments: Any) -> None:
    """What a function answers that needs the memory, on a connection without one."""
    return None


def embed(embed: Embed | None, content: Any, collection: Any = None) -> bytes | None:
    words = as_text(content, "text")
    if embed is None or words is None or not words.strip():
        return None
    return embed(words, as_text(collection, "collection") or None)


def fts_query(query: Any) -> str | None:
    words = as_text(query, "text")
    return None if words is None else text.fts_query(words)


def fts_terms(query: Any) -> str | None:
    words = as_text(query, "text")
    if words is None:
        return None
    return _json([term._asdict() for term in text.fts_terms(words)])


def cjk_runs(query: Any) -> str | None:
    words = as_text(query, "text")
    return None if words is None else _json(text.cjk_runs(words))


def text_containment(a: Any, b: Any) -> float | None:
    first, second = as_text(a, "a"), as_text(b, "b")
    return None if first is None or second is None else text.text_containment(first, second)


def hours(then: Any, now: Any = None) -> float | None:
    return hours_since(then, _moment(now))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


class Match:
    """Aggregate: a MATCH expression of the terms of a query, and of whether each leads."""

    def __init__(self) -> None:
        self.terms: list[tuple[str, bool]] = []

    def step(self, term: Any, leads: Any) -> None:
        match = as_text(term, "term")
        if match:
            self.terms.append((match, bool(_number(leads, "leads"))))

    def finalize(self) -> str:
        return text.match(self.terms)


class TopicCount:
    """Aggregate: how many topics of three or more observations stand apart."""

    def __init__(self) -> None:
        self.ids: list[Any] = []
        self.contents: list[str] = []

    def step(self, content: Any) -> None:
        words = as_text(content, "content")
        if words is not None:
            self.contents.append(words)

    def finalize(self) -> int:
        from datasette_limbic.topics import analyse_topics  # slow to import: scikit-learn

        return len(analyse_topics(self.contents).apart)


class TopicClusters(TopicCount):
    """Aggregate: the topics as JSON, with the ids of their observations."""

    def step(self, identifier: Any, content: Any) -> None:  # type: ignore[override]
        words = as_text(content, "content")
        if words is not None:
            self.ids.append(
                as_text(identifier, "id") if isinstance(identifier, bytes) else identifier
            )
            self.contents.append(words)

    def finalize(self) -> str:  # type: ignore[override]
        from datasette_limbic.topics import analyse_topics, propose

        found = analyse_topics(self.contents)
        topics = [
            {
                "label": ", ".join(terms[:3]),
                "terms": terms,
                "silhouette": silhouette,
                "stands_apart": number in found.apart,
                "ids": [
                    i for i, label in zip(self.ids, found.labels, strict=True) if label == number
                ],
            }
            for number, (terms, silhouette) in enumerate(
                zip(found.terms, found.silhouettes, strict=True)
            )
        ]
        rest = [i for i, label in zip(self.ids, found.labels, strict=True) if label < 0]
        return _json(
            {
                "topics": topics,
                "without_words": rest,
                "stay": [self.ids[i] for i in propose(found).stay],
                "silhouette": found.silhouette,
                "diversity": found.diversity,
            }
        )
