"""An entity as a person types it is the same one in commands, forms and addresses; in JSON a
number is an id and a text is a name."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from actions_helpers import opened
from test_cli_actions import run
from test_views_acting import submit
from test_views_observations import editing_datasette
from view_helpers import base, get, get_json, post_json, text_of

from datasette_limbic import connection
from datasette_limbic.actions.acting import act
from datasette_limbic.errors import NotAMemory, UnknownEntity
from datasette_limbic.reports.entities import find_entity, typed

# what is typed → the entity that is meant, by id; None where there is none
TYPED = {
    "Atlas": 1,
    "1": 1,
    "2024": 3,
    "2": 2,
    "007": 4,
    "999": None,
    "9" * 30: None,
    "Nobody": None,
}


@pytest.fixture
def memory(path: Path) -> Path:
    """Entities 1 Atlas, 2 "1" (which is the id of another one), 3 "2024", 4 "007", each with a
    change of its own."""
    with closing(connection.connect(path)) as conn:
        conn.executemany(
            "insert into entities(name, entity_type) values (?, 'Proyecto')",
            [("Atlas",), ("1",), ("2024",), ("007",)],
        )
        conn.commit()
        for number in range(1, 5):
            act(conn, "correct", {"entity": number, "confidence": 0.5}, embed=False)
    return path


@pytest.mark.parametrize(("text", "meant"), TYPED.items())
def test_what_is_typed(text: str, meant: int | None, memory: Path) -> None:
    with opened(memory, readonly=True) as conn:
        entity = typed(conn, text)
        if meant is None:
            with pytest.raises(UnknownEntity):
                find_entity(conn, entity)
        else:
            assert find_entity(conn, entity)["id"] == meant


def test_a_file_that_is_no_memory(tmp_path: Path) -> None:
    with (
        closing(connection.connect(tmp_path / "new.db", create=True)) as conn,
        pytest.raises(NotAMemory),
    ):
        typed(conn, "1")


@pytest.mark.parametrize(("text", "meant"), TYPED.items())
async def test_addresses(text: str, meant: int | None, memory: Path, make_datasette: Any) -> None:
    datasette = make_datasette(memory)
    status = 404 if meant is None else 200
    found = await get_json(datasette, f"{base(memory)}/review.json?entity={text}", status)
    assert meant is None or found["entity"]["id"] == meant
    page = await get(datasette, f"{base(memory)}/review?entity={text}")
    assert page.status_code == 200
    assert ("No such entity" in text_of(page.text)) is (meant is None)
    # the log may have what is there no longer: it finds nothing rather than failing
    found = await get_json(datasette, f"{base(memory)}/changes.json?entity={text}")
    assert [each["entity"]["id"] for each in found["changes"]] == [meant] * (meant is not None)
    assert found["entity"] == text or meant is None or str(meant) == found["entity"]


@pytest.mark.parametrize(("text", "meant"), TYPED.items())
async def test_forms(text: str, meant: int | None, memory: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, memory)
    fields = {"entity": text, "reason": "done", "approve": "1"}
    response = await submit(datasette, memory, "archive", fields)
    assert response.status_code == (404 if meant is None else 303)
    with opened(memory, readonly=True) as conn:
        found = conn.execute("select id from entities where archived_at is not null").fetchall()
    assert found == [(meant,)] * (meant is not None)


async def test_several_in_a_form(memory: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, memory)
    fields = [("keep", "2024"), ("others", "1"), ("others", "007"), ("approve", "1")]
    response = await submit(datasette, memory, "merge_entities", fields)
    assert response.status_code == 303
    with opened(memory, readonly=True) as conn:
        found = conn.execute("select id from entities where archived_at is not null").fetchall()
    assert found == [(1,), (4,)]


@pytest.mark.parametrize(("text", "meant"), TYPED.items())
@pytest.mark.parametrize("command", [("restore",), ("duplicates",), ("split",)])
def test_commands(command: tuple[str, ...], text: str, meant: int | None, memory: Path) -> None:
    said = run(*command, memory, text, code=1 if meant is None or command == ("restore",) else 0)
    assert ("no entity with the" in said) is (meant is None)
    names = {1: "Atlas", 2: "1", 3: "2024", 4: "007"}
    assert meant is None or names[meant] in said


@pytest.mark.parametrize(("text", "meant"), TYPED.items())
def test_filters_of_commands(text: str, meant: int | None, memory: Path) -> None:
    said = run("changes", memory, "--entity", text)
    assert ("is such a one" in said) is (meant is None)
    said = run("review", memory, "--entity", text, code=1 if meant is None else 0)
    assert ("no entity with the" in said) is (meant is None)


@pytest.mark.parametrize(
    ("entity", "meant"),
    [(1, 1), ("1", 2), ("2024", 3), (2024, None), ("007", 4), ("3", None)],
)
async def test_json(entity: Any, meant: int | None, memory: Path, make_datasette: Any) -> None:
    datasette = editing_datasette(make_datasette, memory)
    body = {"entity": entity, "reason": "done", "dry_run": True}
    answer = await post_json(
        datasette, f"{base(memory)}/actions/archive", body, 404 if meant is None else 200
    )
    assert meant is None or answer["arguments"]["entity"] == meant
