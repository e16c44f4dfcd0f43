"""Which words of a query a text must hold one of, and which only rate it.

Of a search of ten the best 360 texts are looked at. Behind a word of more texts than that the more
common ones do not lead: their own texts are not looked at, unless the others do not do.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from empty_memory import empty_memory
from hypothesis import given
from hypothesis import strategies as st

from datasette_limbic import connection, schema, search, statement, text, text_statement
from datasette_limbic.config import Settings
from datasette_limbic.request import parse
from datasette_limbic.statement import Shape

NOW = "2026-11-29 12:00:00"
LOOKED_AT = 360


@pytest.fixture(scope="module")
def conn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    found = connection.connect(empty_memory(tmp_path_factory.mktemp("leading") / "memory.db"))
    yield found
    found.close()


def kept(conn: Any, words: dict[str, Any], shape: Shape) -> str:
    """The terms that are kept of words of these frequencies, those that do not lead in brackets.
    A pair is a phrase, of so many tokens."""
    of = [(w, *(f if isinstance(f, tuple) else (f, 1))) for w, f in words.items()]
    terms = [[word, count, 1.0, 1 if many > 1 else 0, many, None] for word, count, many in of]
    conn.create_function("limbic_frequencies", 1, lambda _: json.dumps(terms))
    sql = statement.build(shape).partition("hits as materialized")[0].rstrip().rstrip(",")
    named = parse({"q": "x", "now": NOW}, Settings()).explained().named()
    values = {name: named[name] for name in statement.PARAMETERS}
    rows = conn.execute(f"{sql} select term, leads from kept order by pos", values)
    return " ".join(term if leads else f"({term})" for term, leads in rows)


MANY = {f"w{i}": 250 for i in range(40)}


@pytest.mark.parametrize(
    ("words", "expected", "without"),
    [
        ({"a": 100, "b": 500, "c": 9000, "d": 20_000}, "a b (c) (d)", "a b c"),
        ({"a": LOOKED_AT, "b": 9000}, "a b", "a b"),
        ({"a": LOOKED_AT + 1, "b": 9000}, "a (b)", "a b"),
        ({"b": 9000, "a": LOOKED_AT + 1}, "(b) a", "b a"),
        # as many texts lead, whichever of them come first
        ({"a": 500, "b": 500, "c": 600}, "a b (c)", "a b c"),
        # how many texts hold a phrase is not known
        ({"a-b": (500, 2), "c": 9000}, "a-b c", "a-b c"),
        ({"a": 500, "b-c": (900, 2), "d": 9000}, "a (b-c) (d)", "a b-c"),
        # what leads is no more than before
        ({"a": 300, "b": 9800, "c": 9850}, "a", "a"),
        ({"a": 500, "b": 39_500, "c": 39_600}, "a (b)", "a"),
        ({"a": 500, "b": 39_501}, "a", "a"),
        ({"a": 10_000, "b": 10_000}, "a", "a"),
        ({"a": 10_000, "b": 10_001}, "a (b)", "a"),
        # the more words, the fewer texts
        (MANY | {"x": 500}, " ".join([*MANY][:34]), " ".join([*MANY][:34])),
        ({}, "", ""),
    ],
    ids=str,
)
def test_which_words_lead(conn, words, expected, without):
    assert kept(conn, words, Shape()) == expected
    assert kept(conn, words, Shape(cut=False)) == without


@pytest.mark.parametrize(
    "shape", [Shape(), Shape(vectors=False), Shape(vectors=False, by_type=True)]
)
@given(st.lists(st.integers(0, 50_000), max_size=64))
def test_what_does_not_lead_is_behind_enough_texts_that_do(conn, shape, counts):
    words = {f"w{i}": count for i, count in enumerate(counts)}
    found = kept(conn, words, shape).split()
    leading = [words[term] for term in found if term[0] != "("]
    behind = [words[term[1:-1]] for term in found if term[0] == "("]
    most = 10_000
    if behind:
        enough = text_statement.per_candidate(shape) * 30
        assert max(leading) > enough
        assert sorted(counts)[: len(leading)] == sorted(leading)
        assert min(behind) > max(leading)
        assert sum(leading) + sum(behind) <= 4 * most
    elif not shape.vectors and len(leading) == 1:
        return  # the rarest there is, however common
    assert sum(leading) <= most
    assert len(found) * (sum(leading) + sum(behind)) <= text_statement.MOST_KEPT


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ([], '""'),
        ([("a", True), ("b", True)], "a OR b"),
        ([("a", False)], "a"),
        ([("a", True), ("b", False)], "(a) AND (a OR b OR b)"),
        ([("b", False), ("a", True), ("c", False)], "(a) AND (a OR b OR c OR b OR c)"),
    ],
)
def test_match(conn, terms, expected):
    assert text.match(terms) == expected
    rows = "select value ->> 0 as term, value ->> 1 as leads from json_each(?)"
    [found] = conn.execute(
        f"select ifnull(limbic_match(term, leads), '\"\"') from ({rows})", [json.dumps(terms)]
    ).fetchone()
    assert found == expected


WORDS = ("ant", "bee", "cow", "dog")


@given(
    st.lists(st.lists(st.sampled_from(WORDS), max_size=6), min_size=1, max_size=20),
    st.lists(
        st.tuples(st.sampled_from(WORDS), st.booleans()), min_size=1, unique_by=lambda t: t[0]
    ),
)
def test_those_that_lead_are_found_and_rated_as_by_all(conn, texts, terms):
    conn.execute("drop table if exists temp.f")
    conn.execute("create virtual table temp.f using fts5(name, content)")
    conn.executemany(
        "insert into temp.f values (?, ?)", [(" ".join(t[:2]), " ".join(t[2:])) for t in texts]
    )
    sql = "select rowid, bm25(f, 4.0, 1.0) from temp.f where f match ?"
    plain = dict(conn.execute(sql, [" OR ".join(term for term, _ in terms)]).fetchall())
    found = dict(conn.execute(sql, [text.match(terms)]).fetchall())
    leading = [term for term, leads in terms if leads] or [term for term, _ in terms]
    assert sorted(found) == [
        at for at, words in enumerate(texts, 1) if any(word in words for word in leading)
    ]
    times = 2 if 0 < len([1 for _, leads in terms if leads]) < len(terms) else 1
    assert found == {row: pytest.approx(times * plain[row]) for row in found}


@pytest.fixture(scope="module")
def layers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Entities of one word: 30 of *alpha*, 200 of *common*; the oldest has both. One candidate is
    fetched, of 12 texts, so that *common* does not lead."""
    path: Path = empty_memory(tmp_path_factory.mktemp("layers") / "memory.db")
    found = connection.connect(path)
    with found:
        schema.drop_triggers(found)
        found.executemany(
            "insert into entities(id, name, entity_type) values (?, ?, ?)",
            ((i, f"thing {i}", "Alpha" if i <= 30 else "Common") for i in range(1, 231)),
        )
        said = {1: "alpha and common", **dict.fromkeys(range(2, 31), "alpha and so on")}
        found.executemany(
            "insert into observations(entity_id, content) values (?, ?)",
            ((i, said.get(i, "common and so on")) for i in range(1, 231)),
        )
        schema.fill_indexes(found)
        found.execute("delete from limbic_stale")
        schema.create_triggers(found)
    yield found
    found.close()


def asked(conn: Any, **arguments: Any) -> dict[str, Any]:
    return search.search(
        conn, "alpha common", mode="text", now=NOW, limit=1, expansion_factor=1, **arguments
    )


def test_a_text_of_both_is_best(layers):
    answer = asked(layers)
    assert [row["id"] for row in answer["results"]] == [1]
    assert answer["results"][0]["coverage"] == pytest.approx(1)
    assert answer["degraded"] is None


@pytest.mark.parametrize("how", ["type", "archived"])
def test_texts_of_the_others_are_looked_at_where_those_that_lead_do_not_do(layers, how):
    arguments = {"type": "Common"} if how == "type" else {}
    if how == "archived":
        layers.execute("update entities set archived_at = ? where id <= 30", [NOW])
    try:
        answer = asked(layers, **arguments)
    finally:
        layers.rollback()
    assert [row["entityType"] for row in answer["results"]] == ["Common"]
    assert answer["degraded"] is None
