"""The page of a proposed split and its JSON."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from split_helpers import add, placed, texts
from view_helpers import ONE_POINT_ZERO, base, digest, get, get_json, links, text_of, write

from datasette_limbic import connection
from datasette_limbic.actions import splitting
from datasette_limbic.reports.splits import propose_entity_split

pytestmark = pytest.mark.slow  # the pages are no other on another Python


@pytest.fixture
def split_db(path: Path) -> Path:
    """Atlas (1) is worth splitting; entities without, with one, and with the same observations."""
    with closing(connection.connect(path)) as conn:
        add(conn, "Atlas", "Tool", texts(24))
        add(conn, "Nothing", "Tool", [])
        add(conn, "Single", "Tool", ["only this"])
        add(conn, "Same", "Tool", ["the same text as before"] * 30)
        add(conn, "Subject", "Tool", texts(24, 1))
        add(conn, "Near", "Tool", texts(18))
        add(conn, "Smileys", "Tool", ["😀"] * 10 + ["🎉"] * 12)
    return path


async def test_page_and_json_say_what_the_library_says(split_db: Path, make_datasette: Any) -> None:
    datasette = make_datasette(split_db)
    body = await get_json(datasette, f"{base(split_db)}/split/1.json")
    with closing(connection.connect(split_db, readonly=True)) as conn:
        assert body == {
            "ok": True,
            **(found := propose_entity_split(conn, 1)),
            "arguments": splitting.given(found),
            "basis": splitting.seen(conn, 1).token(),
        }
    assert placed(body) == list(range(1, 25))
    html = (await get(datasette, f"{base(split_db)}/split/1")).text
    words = text_of(html)
    assert "Nothing has been changed." in words
    assert "once a person has looked at it and approved it" in words
    assert body["summary"] in words
    for child in body["children"]:
        assert child["name"] in words
        assert f"Atlas → contiene → {child['name']}" in words
        assert f"{child['name']} → parte_de → Atlas" in words
        for row in child["observations"]:
            assert row["content"] in words
    for row in body["stays"]:
        assert row["content"] in words
    for number in range(1, 25):
        assert html.count(f'id="observation-{number}"') == 1
    assert f"{base(split_db)}/entity/1" in links(html)
    assert f"{base(split_db)}/split/1.json" in links(html)
    assert "<form" not in html.partition("<h1")[2].partition("<footer")[0]


@pytest.mark.parametrize(
    ("number", "heading", "says"),
    [
        (1, "Worth splitting", "24 observations, over 20, the threshold of type"),
        (2, "Nothing in it", "It has no observations: there is nothing to split."),
        (3, "Too small to split", "1 observation is too few to split: topics count from 16 on"),
        (4, "All the same", "all of them say the same: look at its duplicates"),
        (5, "One subject", "about one subject"),
        (6, "Near its threshold", "an early one costs less than a late one"),
        (7, "No words to go by", "no words in them and no vectors"),
    ],
)
async def test_each_state_looks_different(
    split_db: Path, make_datasette: Any, number: int, heading: str, says: str
) -> None:
    datasette = make_datasette(split_db)
    html = (await get(datasette, f"{base(split_db)}/split/{number}")).text
    words = text_of(html)
    assert f">{heading}</h2>" in html
    assert says in words
    proposed = number in (1, 6)
    assert ("Nothing has been changed." in words) is proposed
    assert ("Relations that would be made" in words) is proposed
    assert ("Proposal" in words) is (number != 2)
    assert ("Nothing is proposed" in words) is (number not in (1, 2, 6))
    assert (f"{base(split_db)}/duplicates/4" in links(html)) is (number == 4)


async def test_archived_and_ended(split_db: Path, make_datasette: Any) -> None:
    write(
        split_db,
        (
            "update entities set archived_at = '2026-01-02', archived_reason = 'over' where id = 1",
            [],
        ),
        ("update observations set valid_to = '2020-01-01' where id in (1, 2)", []),
    )
    datasette = make_datasette(split_db)
    html = (await get(datasette, f"{base(split_db)}/split/1")).text
    words = text_of(html)
    assert "Archived 2026-01-02 . over" in words
    assert "restore it first" in words
    assert "and 2 that do not hold now" in words
    assert 'id="observation-1"' not in html
    assert "Relations that would be made" not in words


async def test_long_lists_are_cut_on_the_page_alone(path: Path, make_datasette: Any) -> None:
    with closing(connection.connect(path)) as conn:
        add(conn, "Large", "Tool", texts(2_400))
        add(conn, "Wordy", "Tool", ["start " + "x" * 100_000 + " end"])
    datasette = make_datasette(path)
    body = await get_json(datasette, f"{base(path)}/split/1.json")
    assert placed(body) == list(range(1, 2_401))
    html = (await get(datasette, f"{base(path)}/split/1")).text
    words = text_of(html)
    large = [child for child in body["children"] if child["size"] > 200]
    assert len(large) >= 2
    for child in large:
        assert f"and {child['size'] - 200:,} more: the JSON has them all" in words
        last = [row["id"] for row in child["observations"]][199:201]
        assert f'id="observation-{last[0]}"' in html
        assert f'id="observation-{last[1]}"' not in html
    assert len((await get(datasette, f"{base(path)}/split/2")).text) < 20_000


async def test_markup_in_names_and_texts_is_text(path: Path, make_datasette: Any) -> None:
    evil = "<script>alert(1)</script>"
    with closing(connection.connect(path)) as conn:
        add(conn, f"Atlas {evil}", evil, [f"{text} {evil}" for text in texts(24)])
    html = (await get(make_datasette(path), f"{base(path)}/split/1")).text
    assert evil not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html


@pytest.mark.parametrize(
    ("entity", "says"),
    [
        ("999", "no entity with the id 999"),
        ("Atlas", "'Atlas' is no entity id: search for the name instead"),
        ("-1", "is no entity id"),
        ("9" * 30, "is no entity id"),
        ("~C3~B1", "'ñ' is no entity id"),
    ],
)
async def test_no_such_entity(split_db: Path, make_datasette: Any, entity: str, says: str) -> None:
    datasette = make_datasette(split_db)
    body = await get_json(datasette, f"{base(split_db)}/split/{entity}.json", 404)
    assert says in body["error"]
    response = await get(datasette, f"{base(split_db)}/split/{entity}")
    assert response.status_code == 404


async def test_who_may_not_view_observations_sees_none(split_db: Path, make_datasette: Any) -> None:
    hidden = {"databases": {split_db.stem: {"tables": {"observations": {"allow": False}}}}}
    datasette = make_datasette(split_db, **({} if ONE_POINT_ZERO else {"metadata": hidden}))
    if ONE_POINT_ZERO:
        datasette.config = {**(datasette.config or {}), **hidden}
    response = await get(datasette, f"{base(split_db)}/split/1")
    assert response.status_code == 403
    body = await get_json(datasette, f"{base(split_db)}/split/1.json", 403)
    assert "children" not in body


async def test_looking_changes_no_byte(split_db: Path, make_datasette: Any) -> None:
    before = digest(split_db)
    datasette = make_datasette(split_db)
    for number in range(1, 8):
        await get_json(datasette, f"{base(split_db)}/split/{number}.json")
        await get(datasette, f"{base(split_db)}/split/{number}")
    assert digest(split_db) == before
    assert [each.name for each in split_db.parent.glob("memory.db*")] == ["memory.db"]
