"""Headings and short fields: part of a record's form, in no topic of their own."""

from __future__ import annotations

import pytest

from datasette_limbic.topic_form import MAX_CHARS, is_form
from datasette_limbic.topics import analyse_topics, propose

FORM = [
    "Status: Open",
    "  Priority: P1 - Medium ",
    "Discovered date: 2026-01-14",
    "Responsable: Inés",
    "=== PHASE 2: Event store (8 tests) ===",
    "## Wichtige Punkte",
    "Files changed:",
    "状態: 完了",
]
NOT = [
    "",
    "   ",
    "Tom is allergic to peanuts.",
    "The port is 8080",
    "Deploy: tag a commit on main and wait for the pipeline",
    "Note: nobody answers the phone after six",
    "Status: Open\nPriority: high",
    "10:30 is when the shop opens",
    "https://example.com/path",
    "- bullet of a list",
    "C++ and C# are both in use",
    "用户身份",
    "==",
    "x" * MAX_CHARS + ":",
]
BICYCLES = [f"The bicycle {part} was greased and the saddle raised" for part in "abcdef"]
TAXES = [f"The tax office wants form {number} before spring ends" for number in "uvwxyz"]
FIELDS = ["Status: open", "Status: closed", "Status: reopened", "Status: done", "Status: lost"]


@pytest.mark.parametrize("text", FORM)
def test_form(text: str) -> None:
    assert is_form(text)


@pytest.mark.parametrize("text", NOT)
def test_content(text: str) -> None:
    assert not is_form(text)


def test_fields_are_in_no_topic_and_stay() -> None:
    texts = [*BICYCLES, *FIELDS, *TAXES]
    topics = analyse_topics(texts)
    fields = range(len(BICYCLES), len(BICYCLES) + len(FIELDS))
    assert [topics.labels[i] for i in fields] == [-1] * len(FIELDS)
    assert not any("status" in term.lower() for terms in topics.terms for term in terms)
    assert [move.texts for move in propose(topics).moves] == [
        [0, 1, 2, 3, 4, 5],
        list(range(11, 17)),
    ]
    assert propose(topics).stay == list(fields)


def test_where_most_is_fields_they_count() -> None:
    topics = analyse_topics([*FIELDS, *BICYCLES[:3]])
    assert min(topics.labels) == 0
