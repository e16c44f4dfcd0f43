"""What others change between comparing new observations and writing them."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from embedding_helpers import fill_and_sync

from datasette_limbic.adding import Adding, add_observations
from datasette_limbic.connection import connect
from datasette_limbic.reports.keeping import keep
from datasette_limbic.schema import init

SHORT = "maple cedar willow birch poplar"
LONG = "maple cedar willow birch and then very many further things that nobody has said before"


@pytest.fixture(name="conn")
def memory(tmp_path: Path) -> Any:
    with closing(connect(tmp_path / "memory.db", create=True)) as found:
        init(found)
        found.execute("insert into entities(id, name) values (1, 'one')")
        found.execute("insert into observations(entity_id, content) values (1, ?)", [SHORT])
        found.commit()
        keep(found)
        yield found


def pairs(conn: Any) -> list[tuple[Any, ...]]:
    found = conn.execute(
        "select earlier_id, later_id, kind, rule, round(cosine, 4), round(containment, 4),"
        " difference from limbic_duplicates order by 1, 2"
    )
    return [tuple(row) for row in found]


def keys(conn: Any) -> list[tuple[Any, ...]]:
    found = conn.execute("select observation_id, key from _limbic_text_keys order by 1")
    return [tuple(row) for row in found]


def compared(conn: Any, content: str) -> Adding:
    adding = Adding([{"id": 1, "contents": [content]}])
    adding.read(conn)
    adding.embed()
    adding.compare(conn)
    return adding


@pytest.mark.parametrize(("before", "after", "found"), [("0.7", "0.9", 0), ("0.9", "0.7", 1)])
def test_other_rules(conn: Any, before: str, after: str, found: int) -> None:
    change = "update limbic_settings set value = ? where key = 'containment_threshold'"
    conn.execute(change, [before])
    conn.commit()
    keep(conn)
    adding = compared(conn, LONG)
    conn.execute(change, [after])
    conn.commit()
    adding.write(conn)
    written = pairs(conn)
    assert len(written) == found
    assert adding.answer["counts"]["flagged"] == found
    keep(conn)
    assert pairs(conn) == written


def test_another_vector_of_the_same_text(tmp_path: Path, models: Any) -> None:
    with closing(connect(tmp_path / "vectors.db", create=True)) as conn:
        init(conn)
        fill_and_sync(conn, 2)
        adding = compared(conn, "fact of a number")
        assert not any(pair[1] > 4 for pair in pairs(conn))
        (blob,) = adding.blobs.values()
        conn.execute(
            "update embeddings set embedding = ? where id = '1' and collection_id ="
            " (select id from collections where name = 'observations')",
            [blob],
        )
        conn.commit()
        adding.write(conn)
        written = [pair for pair in pairs(conn) if pair[1] == 5]
        assert (1, 5, 1.0) in [(pair[0], pair[1], pair[4]) for pair in written]
        keep(conn, full=True)
        assert [pair for pair in pairs(conn) if pair[1] == 5] == written


@pytest.mark.parametrize(
    ("limits", "holds"),
    [
        ({}, True),
        ({"valid_to": "2999-01-01"}, True),
        ({"valid_from": "2020-01-01"}, True),
        ({"valid_to": "2020-01-01"}, False),
        ({"valid_from": "2999-01-01"}, False),
    ],
)
def test_what_does_not_hold_is_kept_out_of_the_reports(
    conn: Any, limits: dict[str, str], holds: bool
) -> None:
    add_observations(conn, [{"id": 1, "contents": [{"content": SHORT.upper(), **limits}]}])
    assert [row[:2] for row in pairs(conn)] == ([(1, 2)] if holds else [])
    assert [row[0] for row in keys(conn)] == ([1, 2] if holds else [1])
    before = pairs(conn), keys(conn)
    keep(conn, full=True)
    assert (pairs(conn), keys(conn)) == before
