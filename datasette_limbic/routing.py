"""Which strategy a query gets: the points of the first document, in Spanish and English.

Factual queries lean on similarity, exploratory ones on how the graph has been used. Source: the
document's "Query Routing"; the English phrases are its Spanish ones translated.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from datasette_limbic.text import fold

# Strategy → (weight of base similarity, weight of the limbic score). 'limbic' orders by the
# limbic score alone: its second operand is the score itself, not the normalised one.
STRATEGIES: dict[str, tuple[float, float]] = {
    "cosine_heavy": (0.7, 0.3),
    "hybrid_balanced": (0.5, 0.5),
    "limbic_heavy": (0.3, 0.7),
    "limbic": (0.0, 1.0),
}
# What a user may ask for: 'auto' lets detect_query_type choose.
STRATEGY_CHOICES: tuple[str, ...] = ("auto", *STRATEGIES)

FACTUAL, INTERMEDIATE, EXPLORATORY = "factual", "intermediate", "exploratory"
CATEGORY_POINTS: dict[str, int] = {FACTUAL: 2, INTERMEDIATE: 1, EXPLORATORY: -2}
PHRASES: dict[str, tuple[str, ...]] = {
    FACTUAL: (
        *("qué es", "definición", "cómo funciona", "es un", "es una"),
        *("what is", "definition", "how does", "how it works", "is a", "is an"),
    ),
    INTERMEDIATE: (
        *("relación", "diferencia", "ejemplos", "comparar"),
        *("relation", "relationship", "difference", "examples", "compare"),
    ),
    EXPLORATORY: (
        *("explícame", "relación entre", "dime todo", "qué piensas"),
        *("explain", "relation between", "relationship between", "tell me everything"),
        *("tell me all", "what do you think"),
    ),
}
SHORT_QUERY_WORDS, LONG_QUERY_WORDS = 3, 10
SMALL_LIMIT, LARGE_LIMIT = 3, 10
COSINE_HEAVY_FROM, LIMBIC_HEAVY_TO = 2, -2


@dataclass(frozen=True)
class Route:
    """Why a query got its strategy.

    `points` maps each rule that applied (`factual`, `intermediate`, `exploratory`, `words`,
    `limit`) to what it added; their sum is `score`. `phrases` maps each category to the phrases
    found, as listed in `PHRASES`.
    """

    strategy: str
    score: int
    points: dict[str, int]
    phrases: dict[str, tuple[str, ...]]


def detect_query_type(query: str, limit: int) -> str:
    """The strategy for a query: `cosine_heavy`, `hybrid_balanced` or `limbic_heavy`.

    Phrases match ignoring case and accents, on word boundaries; each category counts once, and a
    longer phrase hides a shorter one inside it.
    """
    return explain_route(query, limit).strategy


def explain_route(query: str, limit: int) -> Route:
    """The same decision with its points and matched phrases."""
    phrases = _matched_phrases(query)
    points = {category: CATEGORY_POINTS[category] for category in phrases}
    words = len(query.split())
    if words <= SHORT_QUERY_WORDS:
        points["words"] = 1
    elif words >= LONG_QUERY_WORDS:
        points["words"] = -1
    if limit <= SMALL_LIMIT:
        points["limit"] = 1
    elif limit >= LARGE_LIMIT:
        points["limit"] = -1
    score = sum(points.values())
    if score >= COSINE_HEAVY_FROM:
        strategy = "cosine_heavy"
    elif score <= LIMBIC_HEAVY_TO:
        strategy = "limbic_heavy"
    else:
        strategy = "hybrid_balanced"
    return Route(strategy, score, points, phrases)


def _matched_phrases(query: str) -> dict[str, tuple[str, ...]]:
    folded = fold(query)
    found = [
        (match.start(), match.end(), category, phrase)
        for category, phrase, pattern in _patterns()
        for match in pattern.finditer(folded)
    ]
    result: dict[str, list[str]] = {}
    for start, end, category, phrase in found:
        hidden = any(
            other_start <= start and end <= other_end and other_end - other_start > end - start
            for other_start, other_end, _, _ in found
        )
        listed = result.setdefault(category, []) if not hidden else []
        if phrase not in listed:
            listed.append(phrase)
    return {category: tuple(listed) for category, listed in result.items()}


@lru_cache(maxsize=1)
def _patterns() -> tuple[tuple[str, str, re.Pattern[str]], ...]:
    return tuple(
        (category, phrase, re.compile(r"(?<!\w)" + r"\s+".join(fold(phrase).split()) + r"(?!\w)"))
        for category, phrases in PHRASES.items()
        for phrase in phrases
    )
