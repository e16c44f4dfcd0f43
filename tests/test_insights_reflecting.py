"""What a person has judged stays judged, whatever is raised again, whoever else is at work."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import split_helpers
from datasette.utils.sqlite import sqlite3
from duplicates_helpers import SAME
from health_helpers import change, entity, relate
from insights_helpers import (
    KEYS,
    LARGE,
    counts,
    id_of,
    judge_all,
    memory,
    on,
    one,
    reflected,
    table,
)

from datasette_limbic import connection, schema
from datasette_limbic.errors import BadParameter, NotAMemory
from datasette_limbic.exporting import export_full
from datasette_limbic.importing import import_files
from datasette_limbic.insights import deciding, history, model, queue, reflecting, staging
from datasette_limbic.insights.differences import what_changed
from datasette_limbic.insights.reflecting import reflect

JUDGED = ("ana", "2026-11-01 12:00:00")


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = memory(tmp_path_factory.mktemp("insights") / "memory.db")
    reflected(path)
    return path


@pytest.fixture(name="path")
def copy(master: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(master, tmp_path / "memory.db"))


def says(number: int, text: str, of: int = 1) -> tuple[str, list[Any]]:
    return (
        "insert into observations(id, entity_id, content, created_at)"
        " values (?, ?, ?, '2026-02-01 00:00:00')",
        [number, of, text],
    )


def state(path: Path, key: str) -> tuple[Any, ...]:
    (row,) = table(path, "select * from limbic_insights where key = ?", key)
    return row["status"], row["judged_by"], row["judged_at"]


def test_twice_changes_not_a_byte(path: Path) -> None:
    before = path.read_bytes()
    found = reflected(path)
    assert counts(found) == {"unchanged": len(KEYS)}
    assert found["pending"] == len(KEYS)
    assert path.read_bytes() == before


def test_twice_judged_changes_not_a_byte(path: Path) -> None:
    judge_all(path)
    before = path.read_bytes()
    found = reflected(path)
    assert counts(found) == {"left_judged": len(KEYS)}
    assert found["pending"] == 0
    assert path.read_bytes() == before


def test_the_graph_is_left_alone(path: Path) -> None:
    tables = ("entities", "relations", "entity_access", "observations", "limbic_duplicates")
    change(path, "delete from limbic_insights")
    before = {name: table(path, f"select * from {name}") for name in tables}
    assert counts(reflected(path)) == {"added": len(KEYS)}
    assert {name: table(path, f"select * from {name}") for name in tables} == before


def test_what_waits_is_refreshed(path: Path) -> None:
    before = {row["key"]: row for row in table(path)}
    change(
        path,
        "update entities set name = 'uno' where id = 1",
        "update limbic_insights set created_at = '2026-01-01', updated_at = '2026-01-01'",
    )
    found = reflected(path, now="2026-11-30 10:00:00")
    assert counts(found) == {"refreshed": 2, "unchanged": 4}
    after = {row["key"]: row for row in table(path)}
    for key in KEYS:
        new = key in ("contradiction:3:4", "duplicate:1:1")
        assert ("'uno'" in after[key]["title"]) is new
        assert after[key]["updated_at"] == ("2026-11-30 10:00:00" if new else "2026-01-01")
        assert after[key]["created_at"] == "2026-01-01"
        assert after[key]["id"] == before[key]["id"]
        assert after[key]["evidence_digest"] == before[key]["evidence_digest"]


CHANGES: list[tuple[str, list[Any], str]] = [
    ("duplicate:1:1", [says(50, SAME)], "observation 50 is new"),
    (
        "duplicate:1:1",
        [says(50, SAME), says(51, SAME), says(52, SAME), says(53, SAME)],
        "observations 50, 51, 52 and 1 more are new",
    ),
    (
        "duplicate:1:1",
        [("update observations set content = ? where id = 2", [SAME + "!"])],
        "observation 2 has another text",
    ),
    (
        "contradiction:3:4",
        ["update observations set content = 'Status: blocked' where id = 4"],
        "observation 4 has another text",
    ),
    (
        "contradiction:3:4",
        ["update observations set created_at = '2026-01-09 00:00:00' where id = 3"],
        "observation 4 is the earlier one now",
    ),
    (
        "archive_candidate:30",
        ["insert into entity_access values (30, 2, '2026-01-01 00:00:00')"],
        "accesses in all: 2, 0 before; last accessed at 2026-01-01 00:00:00, never before",
    ),
    ("name_clash:10", [entity(12, "CAFÉ")], "'CAFÉ' (12) is new"),
    (
        "name_clash:10",
        ["update entities set name = 'CAFE' where id = 11"],
        "'cafe' (11) is called 'CAFE' now",
    ),
    (
        "name_clash:10",
        [entity(12, "CAFÉ"), "update entities set archived_at = '2026-01-01' where id = 11"],
        "'CAFÉ' (12) is new; 'cafe' (11) is none of them any more",
    ),
    (
        "bridge:20",
        ["update entities set archived_at = '2026-05-05 00:00:00' where id = 20"],
        "archived at 2026-05-05 00:00:00, 2026-03-01 00:00:00 before",
    ),
    (
        "bridge:20",
        [entity(25, "third"), lambda conn: relate(conn, 25, 20)],
        "entity 25 is linked with it now",
    ),
    (
        f"split:{LARGE}",
        [f"delete from observations where entity_id = {LARGE} and id > 122",
         *[says(130 + i, f"Wholly other words number{i}", LARGE) for i in range(8)]],
        "observations 130, 131, 132 and 5 more are new; observations 123, 124 are none of them any"
        " more",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("key", "happens", "said"), CHANGES, ids=[c[2] for c in CHANGES])
def test_raised_again_where_the_evidence_changed(
    path: Path, key: str, happens: list[Any], said: str
) -> None:
    status = "approved" if key.startswith("d") else "dismissed"
    judge_all(path, status)
    before = one(path, key)
    change(path, *happens)
    found = reflected(path, now="2026-11-30 10:00:00")
    assert counts(found) == {"raised_again": 1, "left_judged": len(KEYS) - 1}
    after = one(path, key)
    assert state(path, key) == ("pending", None, None)
    assert after["digest"] != before["digest"]
    (judged,) = after["judged_before"]
    assert said in judged["what_changed"]
    assert judged == {
        "what_changed": judged["what_changed"],
        "status": status,
        "judged_by": JUDGED[0],
        "judged_at": JUDGED[1],
        "evidence_digest": before["digest"],
        "title": before["title"],
        "body": before["body"],
        "confidence": before["confidence"],
        "note": None,
        "raised_again_at": "2026-11-30 10:00:00",
    }
    # and then it waits, as any other
    assert counts(reflected(path)) == {"unchanged": 1, "left_judged": len(KEYS) - 1}
    assert one(path, key) == after


def test_a_split_is_not_raised_again_for_each_observation(path: Path) -> None:
    judge_all(path)
    texts = split_helpers.texts(6, 2, seed=7)
    change(path, says(130, texts[0], LARGE))
    assert counts(reflected(path)) == {"left_judged": len(KEYS)}
    change(path, *[says(131 + i, text, LARGE) for i, text in enumerate(texts[1:5])])
    assert counts(reflected(path)) == {"left_judged": len(KEYS)}
    # six of twenty-four are a quarter
    change(path, says(140, texts[5], LARGE))
    assert counts(reflected(path)) == {"left_judged": len(KEYS) - 1, "raised_again": 1}


def test_a_judgement_comes_back_with_its_evidence(path: Path) -> None:
    judge_all(path)
    before = table(path)
    change(path, says(50, SAME))
    assert counts(reflected(path))["raised_again"] == 1
    change(path, "delete from observations where id = 50")
    found = reflected(path)
    assert counts(found) == {"withdrawn": 1, "left_judged": len(KEYS)}
    assert found["pending"] == 0
    for was, now in zip(before, table(path), strict=True):
        assert {**now, "updated_at": None} == {**was, "updated_at": None}


def test_a_judgement_comes_back_where_nothing_is_raised_any_more(path: Path) -> None:
    judge_all(path)
    change(path, says(50, SAME))
    reflected(path)
    change(path, "delete from observations where id in (2, 50)")
    assert counts(reflected(path)) == {"withdrawn": 1, "left_judged": len(KEYS)}
    assert state(path, "duplicate:1:1") == ("dismissed", *JUDGED)
    # the same two again: as judged, though the row is another
    change(path, says(2, SAME.upper() + "."))
    assert counts(reflected(path)) == {"left_judged": len(KEYS)}


def test_judged_several_times(path: Path) -> None:
    judge_all(path)
    for number in (50, 51):
        change(path, says(number, SAME))
        reflected(path)
        judge_all(path, "approved")
    change(path, says(52, SAME))
    reflected(path)
    said = [(j["status"], j["what_changed"]) for j in one(path, "duplicate:1:1")["judged_before"]]
    assert said == [
        ("dismissed", "observation 50 is new"),
        ("approved", "observation 51 is new"),
        ("approved", "observation 52 is new"),
    ]


def test_what_was_approved_and_done_stays_approved(path: Path) -> None:
    judge_all(path, "approved")
    before = table(path)
    change(
        path,
        "delete from observations where id = 1",
        "update observations set valid_to = '2026-11-01' where id = 3",
        "update entities set archived_at = '2026-11-01' where id in (10, 30)",
        "update entities set archived_at = null where id = 20",
        "update observations set entity_id = 2 where id > 110",
    )
    assert counts(reflected(path)) == {"left_judged": len(KEYS)}
    assert table(path) == before


def test_the_same_again_after_it_was_done_is_news(path: Path) -> None:
    judge_all(path, "approved")
    change(path, "delete from observations where id = 2")
    reflected(path)
    change(path, says(60, SAME))
    assert counts(reflected(path))["raised_again"] == 1
    (judged,) = one(path, "duplicate:1:1")["judged_before"]
    assert judged["what_changed"] == (
        "observation 60 is new; observation 2 is none of them any more"
    )


IMPORTED = """
insert into limbic_insights(key, kind, entity_id, title, body, evidence, evidence_digest, status,
  judged_by) values (?, ?, 1, 'Theirs', 'b', ?, ?, ?, 'them')
"""


@pytest.mark.parametrize("status", ["pending", "dismissed"])
@pytest.mark.parametrize(
    "key", ["engrama:i1", "duplicate:1:99", "duplicate", "archive_candidate:1"]
)
def test_imported_ones_are_left_alone(path: Path, key: str, status: str) -> None:
    kind = key.split(":")[0]
    change(path, (IMPORTED, [key, kind, '{"why": 1}', "d" * 32, status]))
    before = table(path)
    found = reflected(path)
    assert found["total"]["withdrawn"] == found["total"]["refreshed"] == 0
    assert table(path) == before


@pytest.mark.parametrize("status", ["pending", "dismissed"])
def test_a_key_of_ours_that_came_from_another_memory(path: Path, status: str) -> None:
    """Its ids mean something else here: no action is offered, and the next run puts it right."""
    change(path, "delete from limbic_insights where key = 'duplicate:1:1'")
    foreign = {
        "facts": {}, "action": "merge", "material": {"entity": 1},
        "arguments": {"entity": 1, "clusters": [{"keep": 77, "remove": [78]}]},
    }  # fmt: skip
    change(path, (IMPORTED, ["duplicate:1:1", "duplicate", json.dumps(foreign), "d" * 32, status]))
    (before,) = table(path, "select * from limbic_insights where key = 'duplicate:1:1'")
    assert (one(path, "duplicate:1:1")["action"], one(path, "duplicate:1:1")["ours"]) == (
        None,
        False,
    )
    assert counts(reflected(path))["added"] == 1
    found = one(path, "duplicate:1:1")
    assert (found["status"], found["ours"], found["judged_before"]) == ("pending", True, [])
    assert found["arguments"]["clusters"] == [{"keep": 2, "remove": [1]}]
    # theirs stands beside it, as it was judged there
    (after,) = table(path, "select * from limbic_insights where key like 'imported:%'")
    assert after == {**before, "key": model.imported_key("duplicate:1:1", "one")}
    assert counts(reflected(path)) == {"unchanged": len(KEYS)}


def test_an_export_carries_the_judgements(path: Path, tmp_path: Path) -> None:
    judge_all(path)
    change(path, says(50, SAME))
    reflected(path)
    on(path, deciding.dismiss, id_of(path, "duplicate:1:1"), actor="ben", note="they differ")
    change(path, says(51, SAME))
    reflected(path)
    export, copy = tmp_path / "full.ndjson", tmp_path / "copy.db"
    with closing(connection.connect(path)) as conn, export.open("w", encoding="utf-8") as out:
        export_full(conn, out)
    with closing(connection.connect(copy, create=True)) as conn:
        schema.init(conn)
        import_files(conn, [export])
    assert table(copy) == table(path)
    before = table(copy)
    assert counts(reflected(copy)) == {"unchanged": 1, "left_judged": len(KEYS) - 1}
    assert table(copy) == before
    assert [j["note"] for j in one(copy, "duplicate:1:1")["judged_before"]] == [None, "they differ"]


def test_only_some_kinds(path: Path) -> None:
    change(path, "delete from limbic_insights", "delete from observations where id in (2, 4)")
    found = reflected(path, kinds=["archive_candidate", "duplicate", "duplicate"])
    assert list(found["kinds"]) == ["duplicate", "archive_candidate"]
    assert {row["key"] for row in table(path)} == {"archive_candidate:30"}
    # a kind that is not looked at is not withdrawn
    change(path, entity(31, "Older", created_at="2020-01-01 00:00:00"))
    change(path, "update entities set archived_at = '2026-01-01' where id = 30")
    assert counts(reflected(path, kinds="duplicate")) == {}
    assert {row["key"] for row in table(path)} == {"archive_candidate:30"}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"kinds": ["nonsense"]}, "nonsense"),
        ({"now": "never"}, "never"),
    ],
)
def test_bad_input(path: Path, options: dict[str, Any], says: str) -> None:
    with pytest.raises(BadParameter, match=says):
        reflected(path, **options)


def test_no_memory(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "none.db").close()
    with (
        closing(connection.connect(tmp_path / "none.db", create=True)) as conn,
        pytest.raises(NotAMemory),
    ):
        reflect(conn)


def test_what_was_never_compared_is_left_alone(path: Path) -> None:
    change(path, "update limbic_reports set computed_at = null", "delete from limbic_duplicates")
    before = table(path)
    found = reflected(path, keep=False)
    assert found["left_out"].keys() == {"contradiction", "duplicate", "split"}
    assert "datasette limbic sync" in found["left_out"]["split"]
    assert found["kept"] is None
    assert table(path) == before


def test_a_file_of_an_earlier_version(path: Path) -> None:
    change(
        path,
        "alter table limbic_insights drop column judged_before",
        "delete from _sqlite_migrations where name = 'm005_actions'",
    )
    assert on(path, queue.insight, 1)["judged_before"] == []
    judged = id_of(path, "duplicate:1:1")
    change(
        path,
        f"update limbic_insights set status = 'approved' where id = {judged}",
        says(50, SAME),
    )
    assert counts(reflected(path))["raised_again"] == 1
    assert one(path, "duplicate:1:1")["judged_before"][0]["status"] == "approved"


def test_progress_is_told(path: Path) -> None:
    change(path, says(50, SAME))
    told: list[tuple[int, int, str]] = []
    reflected(path, progress=lambda *step: told.append(step))
    assert told == [(1, 1, "reports"), *((i, 6, "insights") for i in range(1, 7))]


# others at work ---------------------------------------------------------------------------------


def test_two_at_once(path: Path) -> None:
    change(path, "delete from limbic_insights")
    start = threading.Barrier(2, timeout=30)
    found: list[dict[str, Any]] = []

    def run() -> None:
        with closing(connection.connect(path)) as conn:
            start.wait()
            found.append(reflect(conn))

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(each["total"]["added"] for each in found) == [0, len(KEYS)]
    assert {row["key"] for row in table(path)} == KEYS


def test_what_changes_while_it_is_looked_at(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found, then gone: what was found is found again before it is written."""
    change(path, "delete from limbic_insights")
    fill, filled = staging.fill, []

    def meanwhile(*args: Any) -> None:
        fill(*args)
        if not filled:
            change(
                path, "delete from entities where id = 30", "delete from observations where id = 2"
            )
        filled.append(True)

    monkeypatch.setattr(staging, "fill", meanwhile)
    reflected(path)
    assert len(filled) == 2
    assert {row["key"] for row in table(path)} == KEYS - {"archive_candidate:30", "duplicate:1:1"}


@pytest.mark.parametrize("failing", ["_withdraw", "_turned_back", "_raised_again"])
def test_a_failure_leaves_all_as_it_was(
    path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    judge_all(path)
    change(
        path,
        says(50, SAME),
        entity(31, "Older", created_at="2020-01-01 00:00:00"),
        "update limbic_insights set status = 'pending' where key = 'bridge:20'",
        "update entities set archived_at = null where id = 20",
    )
    before = table(path)

    def fails(*args: Any) -> Any:
        raise sqlite3.OperationalError("disk I/O error")

    with closing(connection.connect(path)) as conn:
        with monkeypatch.context() as patch:
            patch.setattr(reflecting, failing, fails)
            with pytest.raises(sqlite3.OperationalError, match="disk"):
                reflect(conn)
        assert not conn.in_transaction
        assert conn.execute("select name from sqlite_temp_master").fetchall() == []
        assert table(path) == before
        assert counts(reflect(conn)) == {
            "added": 1, "raised_again": 1, "withdrawn": 1, "left_judged": 4,
        }  # fmt: skip


def test_a_locked_file_is_left_as_it_was(path: Path) -> None:
    change(path, "delete from limbic_insights")
    with closing(connection.connect(path)) as other, closing(connection.connect(path)) as conn:
        conn.execute("pragma busy_timeout = 20").fetchone()
        other.execute("begin immediate")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            reflect(conn)
        other.rollback()
        assert not conn.in_transaction
        assert counts(reflect(conn)) == {"added": len(KEYS)}


def test_a_file_that_is_only_read(path: Path) -> None:
    with (
        closing(connection.connect(path, readonly=True)) as conn,
        pytest.raises(sqlite3.OperationalError, match="readonly"),
    ):
        reflect(conn)


@pytest.mark.parametrize("at", ["fill", "_withdraw"])
def test_killed(path: Path, at: str) -> None:
    judge_all(path)
    change(path, says(50, SAME))
    reflected(path)
    change(
        path,
        "delete from observations where id = 50",
        entity(31, "Older", created_at="2020-01-01 00:00:00"),
    )
    # what is compared again is kept, whatever comes after
    with closing(connection.connect(path)) as conn:
        reflecting.keeping.keep(conn)
    before = table(path)
    script = (
        "import os, signal, sys\n"
        "from datasette_limbic import connection\n"
        "from datasette_limbic.insights import history, reflecting, staging\n"
        "at = sys.argv[2]\n"
        "where = next(m for m in (staging, reflecting, history) if hasattr(m, at))\n"
        "real = getattr(where, at)\n"
        "def killed(*args):\n"
        "    real(*args)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "setattr(where, at, killed)\n"
        "reflecting.reflect(connection.connect(sys.argv[1]))\n"
    )
    ended = subprocess.run([sys.executable, "-c", script, str(path), at], timeout=60, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert table(path) == before
    assert counts(reflected(path)) == {"added": 1, "withdrawn": 1, "left_judged": len(KEYS)}


def test_within_a_transaction_of_the_callers(path: Path) -> None:
    change(path, "delete from limbic_insights")
    with closing(connection.connect(path)) as conn:
        conn.execute("begin immediate")
        assert counts(reflect(conn)) == {"added": len(KEYS)}
        assert conn.in_transaction
        conn.rollback()
        assert conn.execute("select name from sqlite_temp_master").fetchall() == []
    assert table(path) == []


def test_what_is_withdrawn_is_in_no_log(path: Path) -> None:
    """Datasette's connections are without foreign keys."""
    number = id_of(path, "duplicate:1:1")
    change(
        path,
        "insert into limbic_changes(action, summary, before, after, insight_id)"
        f" values ('merge', 's', '{{}}', '{{}}', {number})",
        "delete from observations where id = 2",
    )
    with closing(connection.connect(path)) as conn:
        conn.execute("pragma foreign_keys = off")
        assert counts(reflect(conn))["withdrawn"] == 1
    assert table(path, "select insight_id from limbic_changes") == [{"insight_id": None}]


@pytest.mark.parametrize(
    "text", [None, "", "no JSON", "{}", "[1]", '[{"status": "dismissed"}]', '[{"status": "no"}]']
)
def test_whatever_stands_in_judged_before(path: Path, text: Any) -> None:
    assert history.read(text) == []
    change(path, ("update limbic_insights set judged_before = ?", [text]))
    assert counts(reflected(path)) == {"unchanged": len(KEYS)}


@pytest.mark.parametrize(
    ("kind", "before", "after", "said"),
    [
        ("duplicate", {"entity": 1}, {"entity": 1}, None),
        ("duplicate", None, {"entity": 1}, "its evidence is another than that which was judged"),
        ("split", {"entity": 1}, {"entity": 2}, "its evidence is another than that which"),
        ("duplicate", {"entity": 1}, {"entity": 2}, None),
        ("contradiction", {"entity": 1}, {"entity": 2}, None),
        ("duplicate", {"observations": [1]}, {"observations": {"1": "a"}}, "observation 1 is new"),
        (
            "split",
            {"observations": {str(i): "a" for i in range(20)}, "topics": [1, 2]},
            {"observations": {str(i): "a" for i in range(20)}, "topics": [1, 2, 3]},
            "3 topics stand apart, 2 before",
        ),
        (
            "split",
            {"observations": {str(i): "a" for i in range(20)}, "topics": [1, 2]},
            {"observations": {str(i): "b" * (i < 5) or "a" for i in range(20)}, "topics": [1, 2]},
            "observations 0, 1, 2 and 2 more have another text",
        ),
        (
            "split",
            {"observations": {str(i): "a" for i in range(20)}, "topics": [1, 2]},
            {"observations": {str(i): "b" * (i < 4) or "a" for i in range(20)}, "topics": [2, 1]},
            None,
        ),
    ],
)
def test_what_changed(kind: str, before: Any, after: Any, said: str | None) -> None:
    found = what_changed(kind, before, after)
    assert found is None if said is None else found is not None and found.startswith(said)
