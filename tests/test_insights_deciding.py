"""Deciding on a finding: one way for Python, HTTP and the command line."""

from __future__ import annotations

import json
import re
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from actions_helpers import differing, dump
from click.testing import CliRunner
from health_helpers import change
from insights_helpers import LARGE, id_of, memory, on, one, reflected, table
from review_helpers import (
    ORDER,
    ids,
    queued_fixture,  # noqa: F401
    queued_master_fixture,  # noqa: F401
)
from test_views_observations import editing_datasette
from view_helpers import base, digest, get_json, post_json

from datasette_limbic import connection
from datasette_limbic.actions.acting import act
from datasette_limbic.api import decide
from datasette_limbic.cli import limbic
from datasette_limbic.errors import BadParameter, Refused
from datasette_limbic.insights import deciding
from datasette_limbic.insights.model import KINDS
from datasette_limbic.insights.words import WORDS

IMPORTED = ("engrama:1", "engrama:2")
HALF = [101 + 2 * i for i in range(12)]
PART = [{"name": "Half", "observations": HALF}]
SECONDS = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")


@pytest.fixture(name="kind_of", scope="module")
def kind_of_fixture(queued_master: Path) -> dict[str, int]:
    return ids(queued_master)


FITTING: list[tuple[str, str, dict[str, Any]]] = [
    ("contradiction", "end", {"observation": 3}),
    ("contradiction", "end", {"observation": 4, "at": "2026-01-05"}),
    ("duplicate", "merge", {"entity": 1, "clusters": [{"keep": 2, "remove": [1]}]}),
    ("duplicate", "merge", {"entity": "one", "clusters": [{"keep": 1, "remove": [2]}]}),
    ("name_clash", "merge_entities", {"keep": 11, "others": [10]}),
    ("name_clash", "merge_entities", {"keep": "Café", "others": ["cafe"]}),
    ("bridge", "restore", {"entity": "Bridge"}),
    ("split", "split", {"entity": LARGE, "children": PART}),
    ("archive_candidate", "archive", {"entity": 30, "reason": "said so"}),
    ("engrama:1", "archive", {"entity": 11, "reason": "said so"}),
]
OTHER: list[tuple[str, str, dict[str, Any]]] = [
    ("name_clash", "correct", {"entity": 1, "confidence": 0.5}),
    ("name_clash", "merge_entities", {"keep": 10, "others": [11, 2]}),
    ("name_clash", "merge_entities", {"keep": 2, "others": [10]}),
    ("name_clash", "archive", {"entity": 10, "reason": "x"}),
    ("contradiction", "end", {"observation": 1}),
    ("contradiction", "end", {"relation": 1}),
    ("contradiction", "delete", {"observations": [3]}),
    ("duplicate", "merge", {"entity": 2, "clusters": [{"keep": 60, "remove": [61]}]}),
    ("duplicate", "delete", {"observations": [1]}),
    ("bridge", "archive", {"entity": 21, "reason": "x"}),
    ("split", "split", {"entity": 1, "children": [{"name": "x", "observations": [3]}]}),
    ("split", "archive", {"entity": LARGE, "reason": "x"}),
    ("archive_candidate", "archive", {"entity": 21, "reason": "x"}),
    ("engrama:1", "archive", {"entity": 10, "reason": "x"}),
    ("engrama:1", "correct", {"entity": 11, "confidence": 0.5}),
    ("engrama:2", "archive", {"entity": 11, "reason": "x"}),
    ("engrama:2", "correct", {"entity": 1, "confidence": 0.5}),
]


@pytest.mark.parametrize(("kind", "name", "arguments"), FITTING)
def test_an_action_that_fits_approves(
    kind: str, name: str, arguments: dict[str, Any], queued: Path, kind_of: dict[str, int]
) -> None:
    with closing(connection.connect(queued)) as conn:
        before = dump(conn)
        would = act(conn, name, arguments, insight=kind_of[kind], dry_run=True)
        done = act(conn, name, would["arguments"], insight=kind_of[kind], basis=would["basis"])
        (row,) = table(queued, "select * from limbic_insights where id = ?", kind_of[kind])
        assert row["status"] == "approved"
        act(conn, "undo", {"change": done["change"]})
        assert differing(dump(conn), before) == {}


@pytest.mark.parametrize(("kind", "name", "arguments"), OTHER)
def test_a_yes_to_one_thing_is_none_to_another(
    kind: str, name: str, arguments: dict[str, Any], queued: Path, kind_of: dict[str, int]
) -> None:
    change(
        queued,
        "insert into observations(id, entity_id, content) values (60, 2, 'Closed on Sundays'),"
        " (61, 2, 'closed on sundays')",
    )
    before = digest(queued)
    with closing(connection.connect(queued)) as conn:
        act(conn, name, arguments, dry_run=True)  # without the finding it could be done
        for dry_run in (True, False):
            with pytest.raises(Refused) as raised:
                act(conn, name, arguments, insight=kind_of[kind], dry_run=dry_run)
            assert raised.value.status == 409
            what = "it came with an import" if kind == "engrama:2" else "proposes: "
            assert what in str(raised.value)
    assert digest(queued) == before


async def test_over_http_too(queued: Path, make_datasette: Any, kind_of: dict[str, int]) -> None:
    datasette = editing_datasette(make_datasette, queued)
    before = digest(queued)
    body = {"entity": 1, "confidence": 0.5, "insight": kind_of["name_clash"]}
    for dry_run in (True, False):
        found = await post_json(
            datasette, f"{base(queued)}/actions/correct", {**body, "dry_run": dry_run}, 409
        )
        said = 'proposes: merge_entities {"keep": 11, "others": [10]}, where keep may be chosen'
        assert said in found["error"]
    assert digest(queued) == before


@pytest.mark.parametrize("kind", [*ORDER, *IMPORTED])
def test_approving_and_undoing(kind: str, queued: Path, kind_of: dict[str, int]) -> None:
    number, before = kind_of[kind], digest(queued)
    with closing(connection.connect(queued)) as conn:
        standing = dump(conn)
        would = decide(conn, number, "approve", dry_run=True)
        assert digest(queued) == before
        assert would["decision"] is None
        assert (would["insight"]["status"], would["change"]) == ("pending", None)
        done = decide(conn, number, "approve", actor="ana", digest=would["insight"]["digest"])
        assert done.keys() == would.keys()
        assert (done["decision"], done["insight"]["status"]) == ("approve", "approved")
        assert done["insight"]["judged_by"] == "ana"
        assert done["next"] == would["next"] != number
        if kind == "engrama:2":
            assert (done["answer"], done["change"]) == (None, None)
            back = decide(conn, number, "reopen", actor="ben")
            assert back["insight"]["judged_before"][0]["judged_by"] == "ana"
            return
        assert done["answer"]["diff"]["counts"] == would["answer"]["diff"]["counts"]
        assert done["change"]["id"] == done["answer"]["change"]
        with pytest.raises(Refused, match=r"was approved by ana at .* already"):
            decide(conn, number, "dismiss")
        with pytest.raises(Refused, match="carried out as change 1: undo that first"):
            decide(conn, number, "reopen")
        act(conn, "undo", {"change": done["change"]["id"]})
        assert differing(dump(conn), standing) == {}


def test_a_no_and_its_note(queued: Path, kind_of: dict[str, int]) -> None:
    number, before = kind_of["split"], digest(queued)
    with closing(connection.connect(queued)) as conn:
        would = decide(conn, number, "dismiss", note="whole", dry_run=True)
        assert (would["decision"], would["answer"]) == (None, None)
        with pytest.raises(Refused, match="waits for a decision already"):
            decide(conn, number, "reopen", dry_run=True)
        assert digest(queued) == before
        done = decide(conn, number, "dismiss", note="whole", actor="ana")
        assert (done["insight"]["status"], done["insight"]["note"]) == ("dismissed", "whole")
        seen = digest(queued)
        decide(conn, number, "reopen", dry_run=True)
        assert digest(queued) == seen
        noted = decide(conn, kind_of["engrama:2"], "approve", note="seen")
        assert (noted["insight"]["status"], noted["insight"]["note"]) == ("approved", "seen")


BAD: list[tuple[str, str, dict[str, Any], str]] = [
    ("split", "burn", {}, "decision is 'burn'"),
    ("split", "dismiss", {"chosen": {"children": PART}}, "children is for approving"),
    ("split", "dismiss", {"basis": "x"}, "basis is for approving"),
    ("split", "reopen", {"chosen": {"keep": 1}}, "keep is for approving"),
    ("split", "reopen", {"basis": "x"}, "basis is for approving"),
    ("split", "reopen", {"note": "x"}, "note is for approving and dismissing"),
    ("split", "reopen", {"digest": "x"}, "digest is for approving and dismissing"),
    ("split", "approve", {"note": "x"}, "a note says why something is dismissed"),
    ("engrama:2", "approve", {"basis": "x"}, "basis is that of an action"),
    ("engrama:2", "approve", {"chosen": {"keep": 1}}, "there is nothing to choose"),
    ("duplicate", "approve", {"chosen": {"keep": 3}}, "use one of 2, 1"),
    ("duplicate", "dismiss", {"note": "x" * 1001}, "use at most 1,000"),
]


@pytest.mark.parametrize(("kind", "decision", "options", "said"), BAD)
async def test_what_does_not_go_together(
    kind: str, decision: str, options: dict[str, Any], said: str, queued: Path,
    kind_of: dict[str, int], make_datasette: Any,
) -> None:  # fmt: skip
    before = digest(queued)
    with closing(connection.connect(queued)) as conn:
        for dry_run in (True, False):
            with pytest.raises(BadParameter, match=re.escape(said)):
                decide(conn, kind_of[kind], decision, dry_run=dry_run, **options)
    datasette = editing_datasette(make_datasette, queued)
    body = {"arguments" if key == "chosen" else key: value for key, value in options.items()}
    url = f"{base(queued)}/review/{kind_of[kind]}"
    found = await post_json(datasette, url, {"decision": decision, **body}, 400)
    assert said in found["error"]
    assert digest(queued) == before


@pytest.mark.parametrize("decision", ["approve", "dismiss"])
@pytest.mark.parametrize("kind", ["duplicate", "engrama:2"])
def test_the_digest_is_looked_at_again_in_the_transaction(
    decision: str, kind: str, queued: Path, kind_of: dict[str, int]
) -> None:
    """Evidence that changed after it was read, and before it was written."""
    number = kind_of[kind]
    (row,) = table(queued, "select * from limbic_insights where id = ?", number)
    with closing(connection.connect(queued)) as conn:
        asked = deciding.Decision(number, decision, digest=row["evidence_digest"])
        asked.read(conn)
        asked.embed()
        # all else stays as it was, so that nothing but the digest tells
        kept = json.loads(row["evidence"])
        change(
            queued,
            (
                "update limbic_insights set evidence = ?, evidence_digest = 'other' where id = ?",
                [json.dumps({**kept, "more": 1}), number],
            ),
        )
        before = digest(queued)
        with pytest.raises(Refused, match="is not what was shown: its evidence changed at "):
            asked.write(conn)
        assert not conn.in_transaction
    assert digest(queued) == before


def test_one_form_of_time(queued: Path, kind_of: dict[str, int]) -> None:
    with closing(connection.connect(queued)) as conn:
        for kind, decision in (("bridge", "approve"), ("engrama:2", "approve"),
                               ("split", "dismiss")):  # fmt: skip
            found = decide(conn, kind_of[kind], decision)["insight"]
            assert SECONDS.fullmatch(found["judged_at"]), kind


async def test_pages_and_commands_say_the_same(
    queued: Path, kind_of: dict[str, int], make_datasette: Any
) -> None:
    """The same names for the same things, before and after."""
    datasette = editing_datasette(make_datasette, queued)
    number = kind_of["bridge"]
    url = f"{base(queued)}/review/{number}"

    def told(*words: str) -> dict[str, Any]:
        given = ["review", str(queued), str(number), *words, "--actor", "agent", "--json"]
        result = CliRunner().invoke(limbic, given)
        assert result.exit_code == 0, result.output
        return timeless(json.loads(result.stdout))

    def timeless(found: dict[str, Any]) -> dict[str, Any]:
        text = SECONDS.sub("now", json.dumps({k: v for k, v in found.items() if k != "ok"}))
        shown: dict[str, Any] = json.loads(text)
        for name in ("basis", "diff"):  # with the time and who looks
            (shown["answer"] or {}).pop(name, None)
        return shown

    looked = await get_json(datasette, f"{url}.json")
    assert timeless(looked) == told()
    done = await post_json(datasette, url, {"decision": "approve"})
    assert done.keys() - {"ok"} == looked.keys() - {"ok"}
    judged = await get_json(datasette, f"{url}.json")
    assert timeless(judged) == told()
    same = ("insight", "change", "next")
    assert [judged[name] for name in same] == [done[name] for name in same]
    with closing(connection.connect(queued)) as conn:
        act(conn, "undo", {"change": done["change"]["id"]})
    again = told("--approve", "--yes")
    # the second change of the same kind, and an undone one between them
    assert again.keys() == timeless(done).keys()
    assert again["answer"].keys() == timeless(done)["answer"].keys()


def test_each_kind_has_words() -> None:
    assert WORDS.keys() == set(KINDS)
    assert len({each.title for each in WORDS.values()}) == len(KINDS)


def test_of_no_use_once_it_is_decided(tmp_path: Path) -> None:
    """A note and who judged it are taken away by opening it again, all else stays."""
    path = Path(shutil.copy(memory(tmp_path / "first.db"), tmp_path / "memory.db"))
    reflected(path)
    before = table(path)
    number = id_of(path, "duplicate:1:1")
    on(path, decide, number, "dismiss", note="no", actor="ana")
    on(path, decide, number, "reopen", actor="ben")
    left = {"judged_before": None, "updated_at": None}
    assert [{**row, **left} for row in table(path)] == [{**row, **left} for row in before]
    assert one(path, "duplicate:1:1")["judged_before"][0]["what_changed"] == "opened again by ben"
