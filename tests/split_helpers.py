"""Memories whose entities have topics that stand apart, or none."""

from __future__ import annotations

import random
from typing import Any


def texts(size: int, topics: int = 3, seed: int = 0) -> list[str]:
    """``size`` texts, in turn about each of ``topics`` that share no word."""
    rng = random.Random(seed)
    letters = "bdfgklmnprst"
    words = [
        [
            f"{letters[t]}{vowel}{letters[t]}{letters[-1 - t]}{end}{letters[t]}"
            for vowel in "aeiou"
            for end in "aeiou"
        ]
        for t in range(topics)
    ]
    return [" ".join(rng.sample(words[i % topics], 10)) for i in range(size)]


def add(conn: Any, name: str, entity_type: str, contents: list[str]) -> int:
    """An entity with these observations; its id."""
    number: int = conn.execute(
        "insert into entities(name, entity_type) values (?, ?)", [name, entity_type]
    ).lastrowid
    conn.executemany(
        "insert into observations(entity_id, content) values (?, ?)",
        [(number, content) for content in contents],
    )
    conn.commit()
    return number


def placed(found: dict[str, Any]) -> list[int]:
    """Ids of all observations of a proposal, each as often as it stands there."""
    moved = [row["id"] for child in found["children"] for row in child["observations"]]
    return sorted(moved + [row["id"] for row in found["stays"]])
