"""What is kept of the same texts stays the same, or ``keeping.RULES`` is raised.

A file remembers by which rules its pairs, topics and text keys were found. Where the code finds
others and RULES does not say so, old results stand next to new ones.
"""

from __future__ import annotations

import math
import random

import numpy
import pytest
from duplicates_helpers import kept, made

from datasette_limbic.duplicates import Observation, Thresholds, find_pairs
from datasette_limbic.reports import keeping
from datasette_limbic.reports.text_keys import text_key
from datasette_limbic.topics import analyse_topics

ADVICE = (
    "the same texts give other results than RULES {} gave: raise keeping.RULES, so that what files "
    "keep is looked at anew, and write down here what the new rules find"
)
# Each with the plane and the angle of its vector, in degrees: in one plane, 20 degrees are a cosine
# of .94, 35 of .82, 60 of .5; texts of different planes have one of 0.
TEXTS = (
    ("The deploy runs early in the morning.", 0, 0),
    ("the deploy runs early in the MORNING", 0, 0),
    (
        "In the morning, early, the deploy runs, after the backup was copied to the other disk",
        0,
        90,
    ),
    ("Releases go out before the office opens", 0, 20),
    ("Shipping happens around breakfast time", 0, 35),
    ("The deploy never runs early in the morning.", 0, 8),
    ("The server listens on port 8080.", 1, 0),
    ("The server listens on port 9090.", 1, 5),
    ("Status: open", 2, 0),
    ("Estado: abierto", 2, 1),
    ("Status: closed", 2, 2),
    ("The meeting is on 2026-03-04.", 3, 0),
    ("The meeting is on 2026-03-05.", 3, 1),
    ("Ana leads the payments team.", 4, 0),
    ("Bruno leads the payments team.", 4, 3),
    ("Task 15: write the report", 5, 0),
    ("Task 16: write the report", 5, 0),
    ("Task 17: write the report", 5, 0),
    ("Task 18: write the report", 5, 0),
    ("active", 6, 0),
    ("", 6, 1),
)
SUBJECTS = (
    "deploy release pipeline server rollback",
    "oranges valley harvest water orchard",
    "invoice tax euro payment receipt",
)
COMMON = "team week after before with today plan"


def matrix_of(places):
    """Vectors for (plane, degrees)."""
    found = numpy.zeros((len(places), 14), "<f4")
    for row, (plane, degrees) in enumerate(places):
        angle = math.radians(degrees)
        found[row, 2 * plane : 2 * plane + 2] = math.cos(angle), math.sin(angle)
    return found


def pairs_of(*, vectors):
    """(earlier, later, kind, rule, difference) of all pairs, without figures that are rounded."""
    observations = [
        Observation(number, 1, text, f"2026-01-{number:02} 00:00:00")
        for number, (text, _, _) in enumerate(TEXTS, 1)
    ]
    matrix = matrix_of([place for _, *place in TEXTS]) if vectors else None
    found = find_pairs(observations, matrix, Thresholds(0.85, 0.75, 0.7))
    return sorted((p.earlier_id, p.later_id, p.kind, p.rule, p.difference) for p in found)


def topics_of(*, vectors):
    """The topic of each text, and the topics that stand apart."""
    r = random.Random(11)
    texts, places = ["## Deploys", "Owner: Ana"], [(0, 0), (4, 0)]
    for plane, subject in enumerate(SUBJECTS):
        for _ in range(7):
            words = r.sample(subject.split(), 4) + r.sample(COMMON.split(), 3)
            texts.append(" ".join(words) + ".")
            places.append((plane, r.randrange(60)))
    found = analyse_topics(texts, matrix_of(places) if vectors else None)
    return "".join("-" if each < 0 else str(each) for each in found.labels), found.apart


def keys():
    return [text_key(text) for text, _, _ in TEXTS[:3] + TEXTS[-2:]]


FOUND = {
    1: {
        "pairs": [
            (1, 2, "duplicate", "exact", None),
            (1, 3, "duplicate", "containment", None),
            (1, 6, "contradiction", "wording", "negation"),
            (7, 8, "contradiction", "wording", "number: 8080 / 9090"),
            (9, 11, "contradiction", "wording", "status: open / closed"),
            (12, 13, "contradiction", "wording", "date: 2026-03-04 / 2026-03-05"),
        ],
        "pairs with vectors": [
            (1, 2, "duplicate", "exact", None),
            (1, 3, "duplicate", "containment", None),
            (1, 4, "duplicate", "cosine", None),
            (1, 5, "look", "cosine", None),
            (1, 6, "contradiction", "cosine", "negation"),
            (4, 5, "duplicate", "cosine", None),
            (4, 6, "duplicate", "cosine", None),
            (5, 6, "duplicate", "cosine", None),
            (7, 8, "contradiction", "cosine", "number: 8080 / 9090"),
            (9, 10, "duplicate", "cosine", None),
            (9, 11, "contradiction", "cosine", "status: open / closed"),
            (10, 11, "duplicate", "cosine", None),
            (12, 13, "contradiction", "cosine", "date: 2026-03-04 / 2026-03-05"),
            (14, 15, "contradiction", "cosine", "name: Ana / Bruno"),
        ],
        "topics": ("--000000011111112222222", [0, 1, 2]),
        "topics with vectors": ("--000000011111112222222", [0, 1, 2]),
        "keys": [-8616879969529592148, -8616879969529592148, -7932375363141330900, None, None],
    }
}
"""By RULES, what these rules find."""


@pytest.mark.parametrize("what", FOUND[1])
def test_the_rules_find_what_they_found(what):
    find = {
        "pairs": lambda: pairs_of(vectors=False),
        "pairs with vectors": lambda: pairs_of(vectors=True),
        "topics": lambda: topics_of(vectors=False),
        "topics with vectors": lambda: topics_of(vectors=True),
        "keys": keys,
    }
    assert keeping.RULES in FOUND, f"write down what RULES {keeping.RULES} find"
    assert find[what]() == FOUND[keeping.RULES][what], ADVICE.format(keeping.RULES)


def test_other_rules_are_other_results(tmp_path, monkeypatch):
    """So that raising RULES does what it is for: all is looked at anew."""
    path = made(tmp_path / "memory.db")
    assert kept(path).entities == 2
    assert kept(path).entities == 0
    monkeypatch.setattr(keeping, "RULES", keeping.RULES + 1)
    assert kept(path).entities == 2
    assert kept(path).entities == 0
