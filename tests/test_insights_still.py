"""A yes is carried out only while what the insight says is so."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from duplicates_helpers import SAME
from health_helpers import change, entity, relate
from insights_helpers import KEYS, LARGE, id_of, memory, one, reflected, table

from datasette_limbic import connection
from datasette_limbic.actions.acting import act
from datasette_limbic.errors import StaleProposal


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = memory(tmp_path_factory.mktemp("still") / "memory.db")
    reflected(path)
    return path


@pytest.fixture(name="path")
def copy(master: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(master, tmp_path / "memory.db"))


def approve(path: Path, key: str, **options: Any) -> dict[str, Any]:
    found = one(path, key)
    arguments = found["arguments"]
    if found["kind"] == "split":
        half = [101 + 2 * i for i in range(12)]
        arguments = {"entity": LARGE, "children": [{"name": "Half", "observations": half}]}
    with closing(connection.connect(path)) as conn:
        return act(conn, found["action"], arguments, insight=found["id"], embed=False, **options)


OTHER = [
    ("contradiction:3:4", "update observations set content = 'Status: x' where id = 3",
     "observation 3 has another text"),
    ("contradiction:3:4", "update observations set valid_to = '2026-01-01' where id = 4",
     "observation 4 has ended"),
    ("contradiction:3:4", "delete from observations where id = 4",
     "observation 4 is not there any more"),
    ("contradiction:3:4", "update observations set entity_id = 2 where id = 4",
     "observation 4 belongs to entity 2 now"),
    ("contradiction:3:4", "update observations set created_at = '2026-01-09' where id = 3",
     "observation 4 is the earlier one now"),
    ("contradiction:3:4", "update entities set name = 'other' where id = 1",
     "'one' is called 'other' now"),
    ("duplicate:1:1", "update observations set content = 'Wholly other' where id = 1",
     "observation 1 has another text"),
    ("duplicate:1:1", "update entities set archived_at = '2026-01-01' where id = 1",
     "'one' is archived"),
    ("name_clash:10", "update entities set name = 'Bar' where id = 11",
     "'cafe' (11) is called 'Bar' now"),
    ("name_clash:10", "update entities set archived_at = '2026-01-01' where id = 11",
     "'cafe' (11) is none of them any more"),
    ("bridge:20", "update entities set archived_at = '2026-05-05 00:00:00' where id = 20",
     "archived at 2026-05-05 00:00:00, 2026-03-01 00:00:00 before"),
    ("bridge:20", "update entities set archived_at = null where id = 20",
     "it is not archived any more, or joins no live entities"),
    ("bridge:20", lambda conn: relate(conn, 21, 22), "joins no live entities"),
    (f"split:{LARGE}", f"delete from observations where entity_id = {LARGE} and id > 116",
     "observations 117, 118, 119 and 5 more are none of them any more"),
    ("archive_candidate:30", "insert into entity_access values (30, 4, '2026-11-28 00:00:00')",
     "accesses in all: 4, 0 before"),
    ("archive_candidate:30", "update entities set last_activity_at = '2026-11-28' where id = 30",
     "its own data last changed at 2026-11-28"),
    ("archive_candidate:30", lambda conn: relate(conn, 30, 10),
     "live entities linked with it: 1, 0 before"),
]  # fmt: skip


@pytest.mark.parametrize(("key", "happens", "said"), OTHER, ids=[f"{o[0]} {o[2]}" for o in OTHER])
def test_what_is_not_so_any_more(path: Path, key: str, happens: Any, said: str) -> None:
    change(path, happens)
    before = table(path)
    for options in ({"dry_run": True}, {}):
        with pytest.raises(StaleProposal) as caught:
            approve(path, key, **options)
        assert said in str(caught.value)
        assert "Look again" in str(caught.value)
    assert table(path) == before
    assert table(path, "select * from limbic_changes") == []
    # what is found then can be approved, where anything is
    reflected(path)
    if table(path, "select 1 from limbic_insights where key = ?", key):
        assert approve(path, key)["change"] == 1


@pytest.mark.parametrize("key", sorted(KEYS))
@pytest.mark.parametrize(
    "happens",
    [
        "update observations set similarity_flag = 0, confidence = 0.5",
        "update entities set entity_type = 'Tool' where id in (1, 10, 20)",
        ("insert into observations(id, entity_id, content) values (60, 40, ?)", ["Another one"]),
        ("insert into observations(id, entity_id, content) values (60, 1, ?)", [SAME]),
        entity(99, "Elsewhere", "Nothing to do with it"),
    ],
)
def test_what_makes_it_no_less_so(path: Path, key: str, happens: Any) -> None:
    change(path, happens)
    approve(path, key)
    assert one(path, key)["status"] == "approved"


def test_a_change_between_the_reading_and_the_writing(path: Path) -> None:
    """Inside the transaction too: what changes after the plan was read is seen."""
    from datasette_limbic.actions.acting import Action

    number = id_of(path, "contradiction:3:4")
    with closing(connection.connect(path)) as conn:
        action = Action("end", {"observation": 3}, insight=number, embed=False)
        action.read(conn)
        change(path, "update observations set content = 'Status: x' where id = 4")
        with pytest.raises(StaleProposal, match="observation 4 has another text"):
            action.write(conn)
    assert table(path, "select valid_to from observations where id = 3") == [{"valid_to": None}]


@pytest.mark.parametrize("evidence", ['{"why": 1}', "[]", "no JSON", '{"material": 3}'])
def test_imported_ones_say_nothing_to_compare(path: Path, evidence: str) -> None:
    change(
        path,
        (
            "insert into limbic_insights(id, key, kind, entity_id, title, body, evidence,"
            " evidence_digest) values (90, 'engrama:1', 'archive_candidate', 30, 'T', 'B', ?, 'd')",
            [evidence],
        ),
        "update entities set name = 'Other' where id = 30",
    )
    with closing(connection.connect(path)) as conn:
        act(conn, "archive", {"entity": 30, "reason": "r"}, insight=90, embed=False)
    assert table(path, "select status from limbic_insights where id = 90") == [
        {"status": "approved"}
    ]


@pytest.mark.parametrize("value", ["x'ff00fe'", "12345", "9e999", "''"])
def test_whatever_stands_in_a_column(path: Path, value: str) -> None:
    """What was raised of strange values is still so while they stand."""
    change(
        path,
        f"update observations set created_at = {value} where id in (1, 2, 3, 4)",
        f"update entities set name = {value} where id = 30",
        f"update entities set last_activity_at = {value} where id = 30",
    )
    reflected(path)
    for key in ("archive_candidate:30", "duplicate:1:1", "contradiction:3:4"):
        json.dumps(approve(path, key, dry_run=True))
