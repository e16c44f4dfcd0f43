"""Which observations of a result a page shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from datasette_limbic import connection, embedding, highlights
from datasette_limbic.config import Settings
from datasette_limbic.search import Pool, rank

NOW = "2026-11-29 12:00:00"


def pool_of(conn: Any, query: str, **arguments: Any) -> Pool:
    return rank(conn, query, settings=Settings(), now=NOW, **arguments)


def shown(conn: Any, pool: Pool, entity: int, most: int = 3) -> list[tuple[str, bool]]:
    found = highlights.highlights(conn, pool, [entity], most)
    return [(o.content, o.nearest) for o in found[entity].shown] if entity in found else []


def memory(path: Path, *observations: str, **columns: Any) -> Any:
    """A connection to the memory with one entity more, 900, that has these observations."""
    conn = connection.connect(path)
    conn.execute("insert into entities(id, name, entity_type) values (900, 'Kiln', 'Thing')")
    conn.executemany(
        "insert into observations(id, entity_id, content) values (?, 900, ?)",
        [(9000 + i, content) for i, content in enumerate(observations)],
    )
    for name, value in columns.items():
        conn.execute(f"update observations set {name} = ? where id = 9000", [value])
    conn.commit()
    return conn


@pytest.mark.parametrize(
    ("query", "texts", "expected"),
    [
        ("zebra", ["one", "two", "a Zébra", "three"], ["a Zébra", "one", "two"]),
        # most words first, and the rarer word before the more frequent one
        ("zebra quagga", ["zebra", "no", "quagga zebra"], ["quagga zebra", "zebra", "no"]),
        ("zebra", ["one", "two", "three", "four"], ["one", "two", "three"]),
        # scripts without spaces are found inside a run
        ("身份", ["one", "two", "three", "用户身份管理"], ["用户身份管理", "one", "two"]),
        ('"); drop table x --', ["one", "table"], ["table", "one"]),
        ("", ["one", "two"], ["one", "two"]),
        ("zebra", [], []),
    ],
)
def test_what_holds_the_words_comes_first(
    query: str, texts: list[str], expected: list[str], empty_db: Path
) -> None:
    conn = memory(empty_db, *texts)
    found = highlights.highlights(conn, pool_of(conn, query), [900], 3)
    assert [o.content for o in found[900].shown] if texts else found == {}
    if texts:
        assert [o.content for o in found[900].shown] == expected
        assert found[900].total == len(texts)
    conn.close()


@pytest.mark.parametrize(
    ("columns", "as_of", "there"),
    [
        ({"valid_to": "2026-01-01"}, None, False),
        ({"valid_to": "2026-01-01"}, "2025-06-01", True),
        ({"valid_to": "no time"}, None, True),
        ({"valid_from": "2027-01-01"}, None, False),
        ({}, None, True),
    ],
)
def test_only_what_holds_then_is_shown_and_counted(
    columns: dict[str, str], as_of: str | None, there: bool, empty_db: Path
) -> None:
    conn = memory(empty_db, "a zebra", "other", **columns)
    found = highlights.highlights(conn, pool_of(conn, "zebra", as_of=as_of), [900], 3)[900]
    assert ("a zebra" in [o.content for o in found.shown]) is there
    assert found.total == 1 + there
    conn.close()


def test_the_nearest_by_meaning_is_always_shown(demo_db: Path) -> None:
    conn = connection.connect(demo_db)
    pool = pool_of(conn, "who fixed the geocoder")
    query = embedding.embed_query("limbic-multilingual", "who fixed the geocoder")
    nearest = {
        entity: content
        for entity, content, _ in conn.execute(
            """select entity_id, o.content, min(vec_distance_cosine(embedding, ?))
            from observations o join embeddings e on e.id = cast(o.id as text)
            join collections c on c.id = e.collection_id and c.name = 'observations'
            group by entity_id""",
            [query],
        )
    }
    ids = [row["id"] for row in pool.rows]
    found = highlights.highlights(conn, pool, ids, 2)
    assert len(found) > 10
    for entity, these in found.items():
        [one] = [o.content for o in these.shown if o.nearest]
        assert one == nearest[entity]
        assert len(these.shown) == min(2, these.total)
    # words still come first
    worded = [o for these in found.values() for o in these.shown[:1] if "eocoder" in o.content]
    assert worded
    assert not any(
        o.nearest
        for o in highlights.highlights(conn, pool_of(conn, "geocoder", mode="text"), ids, 2)[
            ids[0]
        ].shown
    )
    conn.close()


def test_vectors_of_another_model_or_size_name_no_nearest(demo_db: Path) -> None:
    conn = connection.connect(demo_db)
    pool = pool_of(conn, "geocoder")
    first = pool.rows[0]["id"]
    assert any(nearest for _, nearest in shown(conn, pool, first))
    conn.execute(
        """update embeddings set embedding = substr(embedding, 1, 256)
        where collection_id = (select id from collections where name = 'observations')"""
    )
    assert not any(nearest for _, nearest in shown(conn, pool, first))
    conn.execute("rollback")
    conn.execute("update collections set model = 'other' where name = 'observations'")
    assert not any(nearest for _, nearest in shown(conn, pool, first))
    conn.close()


def test_vectors_are_compared_for_the_first_results_only(
    demo_db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conn = connection.connect(demo_db, readonly=True)
    pool = pool_of(conn, "geocoder")
    ids = [row["id"] for row in pool.rows[:5]]
    found = highlights.highlights(conn, pool, ids, 3)
    monkeypatch.setattr(highlights, "COMPARED", found[ids[0]].total + found[ids[1]].total)
    named = {
        entity: any(o.nearest for o in these.shown)
        for entity, these in highlights.highlights(conn, pool, ids, 3).items()
    }
    assert [named[entity] for entity in ids] == [True, True, False, False, False]
    # one of too many is passed over, and no other for it
    total = {entity: these.total for entity, these in found.items()}
    ids.sort(key=lambda entity: (-total[entity], entity))
    assert total[ids[0]] > total[ids[1]]
    monkeypatch.setattr(highlights, "COMPARED", total[ids[0]] - 1)
    left, expected = total[ids[0]] - 1, []
    for entity in ids:
        expected.append(total[entity] <= left)
        left -= total[entity] if expected[-1] else 0
    these = highlights.highlights(conn, pool, ids, 3)
    assert [any(o.nearest for o in these[entity].shown) for entity in ids] == expected
    assert expected[:2] == [False, True]
    conn.close()


def test_a_word_of_over_10000_texts_is_not_looked_for(empty_db: Path) -> None:
    conn = memory(empty_db, "one", "common", "two", "a zebra")
    conn.execute("insert into entities(id, name, entity_type) values (901, 'Much', 'Thing')")
    conn.execute(
        """insert into observations(entity_id, content) with recursive n(i) as
        (select 1 union all select i + 1 from n where i < 9998) select 901, 'common' from n"""
    )
    pool = pool_of(conn, "common zebra")
    # 9,999 have the one, and one has the other
    assert [text for text, _ in shown(conn, pool, 900)] == ["a zebra", "common", "one"]
    conn.execute("insert into observations(entity_id, content) values (901, 'common')")
    assert [text for text, _ in shown(conn, pool, 900)] == ["a zebra", "one", "common"]
    conn.close()


def test_one_statement_and_few_rows_however_many_observations(empty_db: Path) -> None:
    conn = memory(empty_db, *(f"fact {i} about nothing" for i in range(5000)), "the zebra")
    pool = pool_of(conn, "zebra")
    asked: list[str] = []
    conn.set_trace_callback(asked.append)
    found = highlights.highlights(conn, pool, [900], 3)[900]
    conn.set_trace_callback(None)
    assert found.total == 5001
    assert found.shown[0].content == "the zebra"
    assert len(found.shown) == 3
    # FTS5 asks its own tables besides, which SQLite shows as comments
    assert [sql[:40] for sql in asked if not sql.startswith("-- ") or "\nwith" in sql] == [
        asked[0][:40]
    ]
    conn.close()


def test_archived_and_types(demo_db: Path) -> None:
    conn = connection.connect(demo_db, readonly=True)
    assert highlights.archived(conn, [1, 10, 3, 10**18]) == {10}
    types = highlights.entity_types(conn)
    assert types[0] == "Persona" or len(types) > 3
    assert len(types) == len(set(types))
    conn.close()
    conn = connection.connect(demo_db)
    conn.executemany(
        "insert into entities(name, entity_type) values (?, ?)",
        [(f"n{i}", "t" * 101 if i % 2 else f"t{i}") for i in range(300)],
    )
    conn.commit()
    found = highlights.entity_types(conn)
    assert len(found) == 100
    assert types[0] in found
    assert max(map(len, found)) <= 100
    conn.close()
