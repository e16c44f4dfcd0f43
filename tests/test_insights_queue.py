"""The review queue: in which order, what is shown of each, and deciding once."""

from __future__ import annotations

import json
import shutil
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from datasette.utils.sqlite import sqlite3
from health_helpers import change
from insights_helpers import KEYS, LARGE, id_of, judge_all, memory, on, one, reflected, table

from datasette_limbic import connection
from datasette_limbic.errors import (
    BadParameter,
    NotAMemory,
    Refused,
    UnknownEntity,
    UnknownInsight,
)
from datasette_limbic.insights import deciding, queue
from datasette_limbic.insights.model import KINDS

AT = "2026-11-30 10:00:00"
ROW = """
insert into limbic_insights(id, key, kind, entity_id, title, body, evidence, evidence_digest,
  confidence, status) values (?, ?, ?, ?, 'T', 'B', ?, 'd', ?, 'pending')
"""


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = memory(tmp_path_factory.mktemp("insights") / "memory.db")
    reflected(path)
    return path


@pytest.fixture(name="path")
def copy(master: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(master, tmp_path / "memory.db"))


def theirs(number: int, kind: str, confidence: Any = 1.0, evidence: str = "{}") -> tuple[str, Any]:
    return ROW, [number, f"engrama:{number}", kind, None, evidence, confidence]


def listed(path: Path, **options: Any) -> list[int]:
    return [row["id"] for row in on(path, queue.insights, **options)["insights"]]


def test_the_order(path: Path) -> None:
    change(
        path,
        "update limbic_insights set confidence = 0.5",
        theirs(90, "stale"),
        *[theirs(100 + i, kind, 0.25) for i, kind in enumerate(KINDS)],
        *[theirs(110 + i, kind, 0.75) for i, kind in enumerate(KINDS)],
        *[theirs(120 + i, kind, 0.5) for i, kind in enumerate(KINDS)],
        theirs(91, "another", "what?"),
    )
    found = on(path, queue.insights)["insights"]
    assert [row["kind"] for row in found[:-2]] == [kind for kind in KINDS for _ in range(4)]
    for i in range(6):
        assert [row["id"] for row in found[4 * i : 4 * i + 4]] == [
            110 + i,
            id_of(path, next(key for key in KEYS if key.startswith(KINDS[i] + ":"))),
            120 + i,
            100 + i,
        ]
    assert [(row["id"], row["confidence"]) for row in found[-2:]] == [(90, 1.0), (91, 0.0)]


def test_one_after_another(path: Path) -> None:
    change(path, *[theirs(90 + i, "split", 0.9 - i / 10) for i in range(3)])
    change(path, *[theirs(96 + i, "split", 0.1 + i / 10) for i in range(3)])
    order = listed(path)
    assert len(order) == len(KEYS) + 6
    for place, number in enumerate(order):
        found = on(path, queue.insight, number)
        assert found["previous"] == (order[place - 1] if place else None)
        assert found["next"] == (order[place + 1] if place + 1 < len(order) else None)
        assert (found["position"], found["pending"]) == (place + 1, len(order))
    decided = on(path, deciding.dismiss, order[2], actor="ana")
    # it leads on from where it stood
    assert (decided["previous"], decided["next"]) == (order[1], order[3])
    assert (decided["position"], decided["pending"]) == (None, len(order) - 1)
    assert on(path, queue.insight, order[1])["next"] == order[3]


def test_what_is_shown_of_each(path: Path) -> None:
    (row,) = on(path, queue.insights, kind="contradiction")["insights"]
    found = one(path, "contradiction:3:4")
    assert {key: value for key, value in found.items() if key in row} == row
    assert found.keys() - row.keys() == {"judged_before", "previous", "next", "pending", "position"}
    assert found["entity"] == {"id": 1, "name": "one", "entityType": "Thing", "archived_at": None}
    assert (found["status"], found["judgements"], found["note"]) == ("pending", 0, None)
    json.dumps(found, allow_nan=False)


def test_filters_counts_and_pages(path: Path) -> None:
    on(path, deciding.dismiss, id_of(path, "duplicate:1:1"), actor="ana")
    whole = on(path, queue.insights, size=2)
    waits, gone = ({"approved": 0, "pending": 1 - n, "dismissed": n} for n in (0, 1))
    assert whole["counts"] == {kind: gone if kind == "duplicate" else waits for kind in KINDS}
    assert list(whole["counts"]) == list(KINDS)
    assert (whole["count"], whole["page"], whole["pages"], whole["size"]) == (5, 1, 3, 2)
    paged = [i for page in (1, 2, 3) for i in listed(path, page=page, size="2")]
    assert paged == listed(path)
    assert listed(path, page=4, size=2) == []
    assert len(listed(path, status=None)) == 6
    assert listed(path, status="dismissed") == [id_of(path, "duplicate:1:1")]
    assert listed(path, kind="duplicate") == []
    assert listed(path, kind="nothing of the kind") == []
    assert listed(path, kind="split") == [id_of(path, f"split:{LARGE}")]
    about = on(path, queue.insights, entity="one", status=None)
    assert {row["key"] for row in about["insights"]} == {"contradiction:3:4", "duplicate:1:1"}
    assert about["entity"]["id"] == 1
    assert about["counts"].keys() == {"contradiction", "duplicate"}
    assert on(path, queue.insights, entity=1)["count"] == 1


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"status": "open"}, BadParameter, "open"),
        ({"page": 0}, BadParameter, "page"),
        ({"size": 5000}, BadParameter, "size"),
        ({"entity": 999}, UnknownEntity, "999"),
        ({"entity": "nobody"}, UnknownEntity, "nobody"),
    ],
)
def test_bad_questions(path: Path, options: dict[str, Any], error: type, says: str) -> None:
    with pytest.raises(error, match=says):
        on(path, queue.insights, **options)


def test_reading_writes_nothing(path: Path) -> None:
    before = path.read_bytes()
    with closing(connection.connect(path, readonly=True)) as conn:
        queue.insights(conn)
        queue.insight(conn, 1)
    assert path.read_bytes() == before


def test_dismissing(path: Path) -> None:
    number = id_of(path, "duplicate:1:1")
    before = one(path, "duplicate:1:1")
    found = on(path, deciding.dismiss, number, actor="ana", note="  they differ in tone ", now=AT)
    assert found == one(path, "duplicate:1:1")
    assert (found["status"], found["judged_by"], found["judged_at"]) == ("dismissed", "ana", AT)
    assert found["note"] == "they differ in tone"
    for name in ("facts", "action", "arguments", "digest", "updated_at", "ours"):
        assert found[name] == before[name], name
    # nothing else of the queue has changed
    others = [row for row in table(path) if row["id"] != number]
    assert [row["status"] for row in others] == ["pending"] * 5
    assert reflected(path)["total"]["left_judged"] == 1


@pytest.mark.parametrize(
    "decide", [deciding.dismiss, lambda *a, **k: deciding.judge(*a, "approved", **k)]
)
@pytest.mark.parametrize("by", ["ana", None])
def test_judged_already(path: Path, decide: Any, by: str | None) -> None:
    on(path, deciding.dismiss, 1, actor=by, now=AT)
    before = table(path)
    with pytest.raises(Refused) as raised:
        on(path, decide, 1, actor="ben")
    assert f"was dismissed by {by or 'somebody unnamed'} at {AT} already" in str(raised.value)
    assert table(path) == before


def test_two_people_at_once(path: Path) -> None:
    start = threading.Barrier(2, timeout=30)
    said: list[str] = []

    def decide(actor: str, status: str) -> None:
        with closing(connection.connect(path)) as conn:
            start.wait()
            try:
                said.append(deciding.judge(conn, 1, status, actor=actor)["judged_by"])
            except Refused as error:
                said.append(str(error))

    threads = [
        threading.Thread(target=decide, args=args)
        for args in (("ana", "approved"), ("ben", "dismissed"))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    (row,) = table(path, "select judged_by from limbic_insights where id = 1")
    winner = row["judged_by"]
    assert sorted(said, key=len)[0] == winner
    assert f"by {winner} at " in sorted(said, key=len)[1]


def test_what_was_shown_is_what_is_judged(path: Path) -> None:
    shown = one(path, "duplicate:1:1")
    change(path, "insert into observations(id, entity_id, content) select 50, 1, content from"
           " observations where id = 1")  # fmt: skip
    reflected(path)
    with pytest.raises(Refused, match="is not what was shown: its evidence changed at "):
        on(path, deciding.dismiss, shown["id"], digest=shown["digest"])
    assert one(path, "duplicate:1:1")["status"] == "pending"
    now = one(path, "duplicate:1:1")
    assert on(path, deciding.dismiss, now["id"], digest=now["digest"])["status"] == "dismissed"


def test_part_of_a_transaction(path: Path) -> None:
    """An action and its approval are written together or not at all."""
    with closing(connection.connect(path)) as conn:
        conn.execute("begin immediate")
        assert deciding.judge(conn, 1, "approved", actor="ana")["status"] == "approved"
        assert conn.in_transaction
        conn.rollback()
    assert table(path)[0]["status"] == "pending"


def test_opened_again(path: Path) -> None:
    number = id_of(path, "duplicate:1:1")
    before = table(path)
    on(path, deciding.dismiss, number, actor="ana", note="no", now="2026-11-01 12:00:00")
    found = on(path, deciding.reopen, number, actor="ben", now=AT)
    assert (found["status"], found["judged_by"], found["note"]) == ("pending", None, None)
    (judged,) = found["judged_before"]
    assert (judged["status"], judged["judged_by"], judged["note"]) == ("dismissed", "ana", "no")
    assert (judged["what_changed"], judged["raised_again_at"]) == ("opened again by ben", AT)
    assert found["judgements"] == 1
    # its evidence is the same, and yet the judgement does not come back
    assert reflected(path)["total"]["unchanged"] == len(KEYS)
    after = {row["id"]: row for row in table(path)}
    for row in before:
        keep = {"judged_before": None, "updated_at": None}
        assert {**after[row["id"]], **keep} == {**row, **keep}
    with pytest.raises(
        Refused, match=f"waits for a decision already: opened again by ben, at {AT}"
    ):
        on(path, deciding.reopen, number)


def test_opened_again_and_nothing_raises_it(path: Path) -> None:
    number = id_of(path, "duplicate:1:1")
    on(path, deciding.dismiss, number)
    on(path, deciding.reopen, number)
    change(path, "delete from observations where id = 2")
    assert reflected(path)["total"]["withdrawn"] == 1
    with pytest.raises(UnknownInsight):
        on(path, queue.insight, number)


def test_what_waits_cannot_be_opened(path: Path) -> None:
    with pytest.raises(Refused, match=r"waits for a decision already$"):
        on(path, deciding.reopen, 1)


def test_what_is_in_effect_is_to_be_undone_first(path: Path) -> None:
    number = id_of(path, "bridge:20")
    judge_all(path, "approved")
    change(
        path,
        "insert into limbic_changes(id, action, summary, before, after, insight_id)"
        f" values (7, 'restore', 's', '{{}}', '{{}}', {number})",
    )
    with pytest.raises(Refused, match=r"approved by ana at .* carried out as change 7: undo that"):
        on(path, deciding.reopen, number)
    change(
        path,
        "insert into limbic_changes(id, action, summary, before, after, insight_id, undoes)"
        f" values (8, 'undo', 's', '{{}}', '{{}}', {number}, 7)",
        "update limbic_changes set undone_by = 8 where id = 7",
    )
    assert on(path, deciding.reopen, number)["status"] == "pending"


@pytest.mark.parametrize("number", [0, 999, -1, 1 << 70, True, "1", None, 1.0])
@pytest.mark.parametrize("ask", [queue.insight, deciding.dismiss, deciding.reopen])
def test_no_such_insight(path: Path, ask: Any, number: Any) -> None:
    before = path.read_bytes()
    with pytest.raises(UnknownInsight, match="no insight"):
        on(path, ask, number)
    assert path.read_bytes() == before


def test_a_long_note(path: Path) -> None:
    with pytest.raises(BadParameter, match="1,001 characters"):
        on(path, deciding.dismiss, 1, note="x" * 1001)
    assert on(path, deciding.dismiss, 1, note="\ud800" + "é" * 999)["note"] == "\ufffd" + "é" * 999


@pytest.mark.parametrize(
    "evidence", ["{}", '{"facts": 1}', "[1]", "3", "no JSON", '"text"', "null"]
)
def test_what_an_import_brought(path: Path, evidence: str) -> None:
    """Decided as any other; nothing is carried out by ids that may be another memory's."""
    change(path, theirs(90, "split", 0.5, evidence))
    before = table(path)
    found = on(path, queue.insight, 90)
    assert (found["ours"], found["action"], found["arguments"]) == (False, None, None)
    try:
        facts = json.loads(evidence)
    except ValueError:
        facts = evidence
    assert found["facts"] == facts
    judged = on(path, deciding.dismiss, 90, actor="ana", note="hm")
    assert (judged["facts"], judged["note"]) == (facts, "hm")
    opened = on(path, deciding.reopen, 90)
    assert (opened["facts"], opened["note"]) == (facts, None)
    assert reflected(path)["total"]["unchanged"] == len(KEYS)
    assert on(path, queue.insight, 90) == opened
    assert [row["id"] for row in table(path)] == [row["id"] for row in before]


def test_an_entity_that_is_gone(path: Path) -> None:
    change(path, "update limbic_insights set entity_id = 999 where key = 'archive_candidate:30'")
    found = one(path, "archive_candidate:30")
    assert found["entity"] == {"id": 999, "name": None, "entityType": None, "archived_at": None}
    assert reflected(path)["total"]["refreshed"] == 1
    assert one(path, "archive_candidate:30")["entity"]["name"] == "Old"


def test_no_memory(tmp_path: Path) -> None:
    with closing(connection.connect(tmp_path / "none.db", create=True)) as conn:
        for ask in (
            queue.insights,
            lambda c: queue.insight(c, 1),
            lambda c: deciding.dismiss(c, 1),
        ):
            with pytest.raises(NotAMemory):
                ask(conn)


def test_rows_by_name_as_datasette_has_them(path: Path) -> None:
    with closing(connection.connect(path)) as conn:
        conn.row_factory = sqlite3.Row
        assert [row["id"] for row in queue.insights(conn)["insights"]] == listed(path)
        assert queue.insight(conn, 2) == on(path, queue.insight, 2)
        assert deciding.dismiss(conn, 2, actor="ana")["status"] == "dismissed"
