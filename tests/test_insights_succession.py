"""What was judged is found again under whatever ids actions gave it; imports keep beside ours."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from duplicates_helpers import SAME
from health_helpers import change, entity
from insights_helpers import KEYS, counts, id_of, judge_all, memory, on, one, reflected, table

from datasette_limbic import connection
from datasette_limbic.actions.acting import act
from datasette_limbic.exporting import export_full
from datasette_limbic.importing import import_files
from datasette_limbic.insights import deciding, model


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = memory(tmp_path_factory.mktemp("succession") / "memory.db")
    change(
        path,
        ("insert into observations(id, entity_id, content) values (50, 1, ?)", [SAME]),
        entity(12, "CAFÉ"),
    )
    reflected(path)
    return path


@pytest.fixture(name="path")
def copy(master: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(master, tmp_path / "memory.db"))


def do(path: Path, name: str, arguments: dict[str, Any]) -> None:
    with closing(connection.connect(path)) as conn:
        act(conn, name, arguments, embed=False)


# ids that change ------------------------------------------------------------------------------


@pytest.mark.parametrize("back", [False, True])
def test_a_contradiction_that_moves(path: Path, back: bool) -> None:
    judge_all(path)
    do(path, "split", {"entity": 1, "children": [{"name": "Part", "observations": [3, 4]}]})
    assert counts(reflected(path)).keys() == {"left_judged"}
    assert one(path, "contradiction:3:4")["status"] == "dismissed"
    assert len(table(path, "select 1 from limbic_insights where kind = 'contradiction'")) == 1
    if back:
        do(path, "undo", {"change": 1})
        assert counts(reflected(path)).keys() == {"left_judged"}
    assert one(path, "contradiction:3:4")["judged_before"] == []


def test_duplicates_that_move(path: Path) -> None:
    judge_all(path)
    number = id_of(path, "duplicate:1:1")
    do(path, "split", {"entity": 1, "children": [{"name": "Part", "observations": [1, 2, 50]}]})
    (part,) = table(path, "select id from entities where name = 'Part'")
    assert counts(reflected(path)).keys() == {"left_judged"}
    assert id_of(path, f"duplicate:{part['id']}:1") == number


def test_the_first_duplicate_goes(path: Path) -> None:
    """That they say the same was denied of all three, so of the two that are left."""
    judge_all(path)
    number = id_of(path, "duplicate:1:1")
    do(path, "delete", {"observations": [1]})
    assert counts(reflected(path)).keys() == {"left_judged"}
    assert id_of(path, "duplicate:1:2") == number
    before = table(path)
    assert counts(reflected(path)).keys() == {"left_judged"}
    assert table(path) == before


def test_the_first_goes_and_another_comes(path: Path) -> None:
    judge_all(path)
    number = id_of(path, "duplicate:1:1")
    do(path, "delete", {"observations": [1]})
    change(path, ("insert into observations(id, entity_id, content) values (60, 1, ?)", [SAME]))
    assert counts(reflected(path))["raised_again"] == 1
    found = one(path, "duplicate:1:2")
    assert (found["id"], found["status"]) == (number, "pending")
    (judged,) = found["judged_before"]
    assert (judged["status"], judged["what_changed"]) == (
        "dismissed",
        "observation 60 is new; observation 1 is none of them any more",
    )


def test_too_few_are_the_same(path: Path) -> None:
    """One of three is less than half: that is another finding."""
    judge_all(path)
    do(path, "delete", {"observations": [1, 2]})
    change(
        path,
        *[
            ("insert into observations(id, entity_id, content) values (?, 1, ?)", [i, SAME])
            for i in (60, 61)
        ],
    )
    found = counts(reflected(path))
    assert (found["added"], "raised_again" in found) == (1, False)
    assert one(path, "duplicate:1:50")["judged_before"] == []
    assert one(path, "duplicate:1:1")["status"] == "dismissed"


@pytest.mark.parametrize("status", ["dismissed", "approved"])
def test_the_first_of_a_clash_goes(path: Path, status: str) -> None:
    judge_all(path, status)
    number = id_of(path, "name_clash:10")
    do(path, "archive", {"entity": 10, "reason": "over"})
    reflected(path)
    found = one(path, "name_clash:11")
    assert found["id"] == number
    if status == "dismissed":
        assert (found["status"], found["judged_before"]) == ("dismissed", [])
    else:
        (judged,) = found["judged_before"]
        assert "'Café' (10) is none of them any more" in judged["what_changed"]


def test_judged_ones_come_before_those_that_wait(path: Path) -> None:
    evidence = {"material": {"entity": 1, "observations": {"2": "x", "50": "x"}}}
    evidence |= {"facts": {}, "action": "merge", "arguments": {}}
    change(
        path,
        (
            "insert into limbic_insights(key, kind, entity_id, title, body, evidence,"
            " evidence_digest) values ('duplicate:1:77', 'duplicate', 1, 'T', 'B', ?, ?)",
            [json.dumps(evidence), model.digest_of(evidence["material"])],
        ),
    )
    number = id_of(path, "duplicate:1:1")
    on(path, deciding.dismiss, number)
    do(path, "delete", {"observations": [1]})
    assert counts(reflected(path))["withdrawn"] >= 1
    assert id_of(path, "duplicate:1:2") == number


# of another memory ----------------------------------------------------------------------------


def exported(path: Path, out: Path) -> Path:
    with closing(connection.connect(path)) as conn, out.open("w", encoding="utf-8") as file:
        export_full(conn, file)
    return out


def imported(path: Path, *files: Path) -> Any:
    with closing(connection.connect(path)) as conn:
        return import_files(conn, list(files)).files[0].insights


def other_memory(path: Path) -> Path:
    """The same ids, of other things."""
    memory(path)
    change(path, *[f"update entities set name = name || ' too' where id = {i}" for i in (1, 20)])
    change(
        path,
        "update observations set content = replace(replace(content, 'morning', 'evening'),"
        " 'MORNING', 'EVENING') where id in (1, 2)",
    )
    reflected(path)
    return path


@pytest.mark.parametrize("status", ["dismissed", "approved", None])
def test_ours_and_theirs_under_one_key(path: Path, tmp_path: Path, status: str | None) -> None:
    other = other_memory(tmp_path / "other.db")
    if status is not None:
        judge_all(other, status)
    before = {row["key"]: row for row in table(path)}
    file = exported(other, tmp_path / "other.ndjson")
    imported(path, file)
    after = {row["key"]: row for row in table(path)}
    ours = {key: row for key, row in after.items() if not key.startswith("imported:")}
    theirs = {key: row for key, row in after.items() if key not in ours}
    clash = before.keys() & {"duplicate:1:1", "contradiction:3:4", "bridge:20"}
    assert {key: ours[key] for key in clash} == {key: before[key] for key in clash}
    assert {row["status"] for row in theirs.values()} == {status or "pending"}
    assert {model.imported_key("duplicate:1:1", "one too")} <= theirs.keys()
    assert not any(one(path, key)["ours"] for key in theirs)
    # and neither a run nor the same file again touches them
    reflected(path)
    assert {row["key"]: row for row in table(path) if row["key"] in theirs} == theirs
    rows = table(path)
    found = imported(path, file)
    assert (found.added, found.updated) == (0, 0)
    assert table(path) == rows


def test_a_copy_that_was_judged_elsewhere(path: Path, tmp_path: Path) -> None:
    """The very same findings: what waits here stands as it was judged there, and no more."""
    other = Path(shutil.copy(path, tmp_path / "other.db"))
    on(path, deciding.dismiss, id_of(path, "bridge:20"), actor="here")
    change(path, ("update observations set content = ? where id = 2", [SAME + "!"]))
    reflected(path)
    on(other, deciding.dismiss, id_of(other, "contradiction:3:4"), actor="there", note="both hold")
    on(other, deciding.judge, id_of(other, "bridge:20"), "approved", actor="there")
    on(other, deciding.dismiss, id_of(other, "duplicate:1:1"), actor="there")
    before = {row["key"]: row for row in table(path)}
    file = exported(other, tmp_path / "other.ndjson")
    found = imported(path, file)
    assert (found.updated, found.added) == (1, 0)
    taken = one(path, "contradiction:3:4")
    assert (taken["status"], taken["judged_by"], taken["note"]) == (
        "dismissed", "there", "both hold",
    )  # fmt: skip
    assert taken["ours"] is True
    after = {row["key"]: row for row in table(path)}
    assert {k: v for k, v in after.items() if k != "contradiction:3:4"} == {
        k: v for k, v in before.items() if k != "contradiction:3:4"
    }
    # taken back here, it is not judged by the same file again
    on(path, deciding.reopen, id_of(path, "contradiction:3:4"))
    imported(path, file)
    assert one(path, "contradiction:3:4")["status"] == "pending"


def test_the_same_ids_of_other_names(path: Path, tmp_path: Path) -> None:
    """Same material, but a neighbour is another: no judgement is taken over."""
    other = Path(shutil.copy(path, tmp_path / "other.db"))
    change(
        other,
        "update entities set name = 'another' where id = 22",
        "update limbic_insights set created_at = '2026-01-01 00:00:00'",
    )
    reflected(other)
    judge_all(other)
    imported(path, exported(other, tmp_path / "other.ndjson"))
    assert one(path, "bridge:20")["status"] == "pending"
    assert one(path, model.imported_key("bridge:20", "Bridge"))["status"] == "dismissed"
    assert one(path, "contradiction:3:4")["status"] == "dismissed"


def test_what_an_earlier_import_put_under_a_key_of_ours(path: Path, tmp_path: Path) -> None:
    other = other_memory(tmp_path / "other.db")
    file = exported(other, tmp_path / "other.ndjson")
    imported(path, file)
    key = model.imported_key("duplicate:1:1", "one too")
    number = id_of(path, key)
    change(
        path,
        "delete from limbic_insights where key = 'duplicate:1:1'",
        f"update limbic_insights set key = 'duplicate:1:1' where id = {number}",
        f"update limbic_insights set status = 'dismissed' where id = {number}",
    )
    imported(path, file)
    assert id_of(path, key) == number
    assert one(path, key)["status"] == "dismissed"
    assert KEYS - {"duplicate:1:1"} <= {row["key"] for row in table(path)}


def test_its_own_older_export(path: Path, tmp_path: Path) -> None:
    """What was refreshed since is the same finding: not doubled, not set back."""
    file = exported(path, tmp_path / "own.ndjson")
    change(path, ("insert into observations(id, entity_id, content) values (60, 1, ?)", [SAME]))
    reflected(path)
    before = table(path)
    found = imported(path, file)
    assert (found.added, found.updated, found.already_there) == (0, 0, len(KEYS))
    assert table(path) == before
