"""``datasette limbic review``: the queue, one decision, and deciding on the command line."""

from __future__ import annotations

import json
import re
import shlex
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from actions_helpers import differing, dump
from click.testing import CliRunner
from datasette.utils.sqlite import sqlite3
from insights_helpers import LARGE, judge_all
from review_helpers import (
    ORDER,
    ids,
    queued_fixture,  # noqa: F401
    queued_master_fixture,  # noqa: F401
)
from view_helpers import digest, rows, write

from datasette_limbic import connection
from datasette_limbic.cli import limbic

OBEYED = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\u2028]")
IMPORTED = ("engrama:1", "engrama:2")


def run(*words: Any, ok: bool = True) -> str:
    """What the command prints; fails unless it ends as it should."""
    result = CliRunner().invoke(limbic, ["review", *map(str, words)])
    assert (result.exit_code == 0) is ok, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    assert not OBEYED.search(result.output)
    return result.output


def suggested(output: str) -> list[str]:
    """The words of the command line that a dry run ends with."""
    [last] = [each for each in output.splitlines() if each.startswith("  datasette limbic review")]
    return shlex.split(last)[3:]


def dumped(path: Path) -> dict[str, list[str]]:
    with closing(connection.connect(path, readonly=True)) as conn:
        return dump(conn)


def status(path: Path, number: int) -> tuple[Any, ...]:
    return rows(path, "select status, judged_by from limbic_insights where id = ?", number)[0]


def test_the_list(queued: Path) -> None:
    before = digest(queued)
    number = ids(queued)
    output = run(queued)
    listed = [int(each) for each in re.findall(r"^(\d+)  ", output, re.M)]
    assert sorted(listed) == sorted(number.values())
    assert listed[:5] == [number[kind] for kind in ORDER[:5]]
    assert "8 pending." in output
    assert "imported" in output
    found = json.loads(run(queued, "--json", "--kind", "split"))
    assert [row["id"] for row in found["insights"]] == [number["split"]]
    assert found["pending"] == 8
    assert str(number["split"]) in run(queued, "--entity", LARGE)
    assert str(number["duplicate"]) in run(queued, "--entity", "one")
    assert "No insight is such a one; 8 are pending." in run(queued, "--status", "approved")
    assert "No more on page 3 of 1." in run(queued, "--page", 3)
    assert digest(queued) == before


def test_empty_lists(queued: Path, empty_db: Path) -> None:
    output = run(empty_db)
    assert "Nothing has been raised yet: datasette limbic reflect" in output
    assert "not looked at yet" in output
    judge_all(queued)
    assert "Nothing waits for a decision: 8 judged, see --status all." in run(queued)
    assert "dismissed by ana" in run(queued, "--status", "all")
    write(queued, ("insert into observations(entity_id, content) values (1, 'news')", []))
    assert "Out of date: 1 entity changed since. Look again:" in run(queued)


@pytest.mark.parametrize("kind", [*ORDER, *IMPORTED])
def test_look_approve_and_undo(kind: str, queued: Path) -> None:
    number = ids(queued)[kind]
    before, seen = dumped(queued), digest(queued)
    shown = run(queued, number)
    assert "Nothing has been changed. To decide:" in shown
    title = rows(queued, "select title from limbic_insights where id = ?", number)[0][0]
    assert title.split("\n")[0][:8] in shown
    looked = json.loads(run(queued, number, "--json"))
    assert looked["insight"]["id"] == number
    assert looked["decision"] is None
    output = run(queued, number, "--approve")
    assert digest(queued) == seen
    words = suggested(output)
    assert words[:3] == [str(queued), str(number), "--approve"]
    assert "--yes" in words
    done = run(*words, "--actor", "ana")
    assert status(queued, number) == ("approved", "ana")
    if kind == "engrama:2":
        assert looked["answer"] is None
        assert "Approved: insight" in done
        assert rows(queued, "select * from limbic_changes") == []
        run(queued, number, "--reopen", "--yes")
        assert status(queued, number) == ("pending", None)
        return
    assert looked["answer"]["dry_run"] is True
    assert "Done: change 1." in done
    assert rows(queued, "select action, insight_id, actor from limbic_changes") == [
        (looked["answer"]["action"], number, "ana")
    ]
    assert "Approved by ana" in run(queued, number)
    assert "To take it back: datasette limbic undo" in run(queued, number)
    refused = run(queued, number, "--approve", "--yes", ok=False)
    assert "was approved by ana" in refused
    CliRunner().invoke(limbic, ["undo", str(queued), "1", "--yes"], catch_exceptions=False)
    assert differing(before, dumped(queued)) == {}


@pytest.mark.parametrize(
    ("kind", "options", "sql"),
    [
        ("contradiction", ["--observation", "4", "--at", "2026-02-01"],
         "select valid_to = '2026-02-01 00:00:00' from observations where id = 4"),
        ("duplicate", ["--keep", "1"], "select count(*) = 0 from observations where id = 2"),
        ("name_clash", ["--keep", "10"],
         "select archived_at is not null from entities where id = 11"),
        ("archive_candidate", ["--reason", "said \x1b[1mso"],
         "select archived_reason = 'said ' || char(27) || '[1mso' from entities where id = 30"),
    ],
)  # fmt: skip
def test_another_choice(kind: str, options: list[str], sql: str, queued: Path) -> None:
    number = ids(queued)[kind]
    seen = digest(queued)
    looked = json.loads(run(queued, number, *options, "--json"))
    assert looked["answer"]["dry_run"] is True
    run(queued, number, *options, "--approve")
    assert digest(queued) == seen
    run(queued, number, *options, "--approve", "--yes")
    assert rows(queued, sql) == [(1,)]


def test_dismissing_and_opening_again(queued: Path) -> None:
    number = ids(queued)["contradiction"]
    seen = digest(queued)
    output = run(queued, number, "--dismiss", "--note", "both  hold", "--actor", "ana")
    assert digest(queued) == seen
    assert "Status: open" in output
    words = shlex.split(output[output.index("  datasette limbic review") :])[3:]
    output = run(*words)
    assert "Dismissed: insight" in output
    assert f"Next: datasette limbic review {queued} {ids(queued)['duplicate']}" in output
    assert status(queued, number) == ("dismissed", "ana")
    assert "Dismissed by ana" in run(queued, number)
    assert "“both hold”" in run(queued, number)
    assert "was dismissed by ana" in run(queued, number, "--dismiss", "--yes", ok=False)
    found = json.loads(run(queued, number, "--reopen", "--yes", "--json"))
    assert found["decision"] == "reopen"
    assert found["insight"]["status"] == "pending"
    assert "Before, dismissed by ana" in run(queued, number)


def test_what_no_longer_applies(queued: Path) -> None:
    write(queued, ("update entities set archived_at = '2026-01-01' where id = 30", []))
    number = ids(queued)["archive_candidate"]
    output = run(queued, number)
    assert "It cannot be approved:" in output
    assert "is archived" in output
    assert "is archived" in run(queued, number, "--approve", ok=False)
    assert "is archived" in run(queued, number, "--approve", "--yes", ok=False)
    run(queued, number, "--dismiss", "--yes")


def test_a_stale_basis(queued: Path) -> None:
    number = ids(queued)["contradiction"]
    words = suggested(run(queued, number, "--approve"))
    assert "--basis" in words
    write(queued, ("update entities set entity_type = 'Door' where id = 1", []))
    assert "the type of entity 1 was" in run(*words, ok=False)
    assert status(queued, number)[0] == "pending"


@pytest.mark.parametrize("yes", [[], ["--yes"]])
def test_what_is_not_so_any_more(queued: Path, yes: list[str]) -> None:
    number = ids(queued)["contradiction"]
    write(queued, ("update observations set content = 'Status: ajar' where id = 3", []))
    said = run(queued, number, "--approve", *yes, ok=False)
    assert "not so any more: observation 3 has another text. Look again" in said
    assert status(queued, number)[0] == "pending"


BAD = [
    (["--approve"], "which one? Give the ID"),
    (["--yes"], "which one? Give the ID"),
    (["--keep", "1"], "which one? Give the ID"),
    (["1", "--yes"], "--yes to what? Say --approve"),
    (["1", "--approve", "--dismiss"], "--approve and --dismiss are both given"),
    (["1", "--kind", "split"], "1 is one insight: leave out --kind"),
    (["1", "--note", "x"], "--note says why something is dismissed"),
    (["1", "--dismiss", "--keep", "1"], "--keep is for approving"),
    (["999"], "no insight 999"),
    (["999", "--dismiss", "--yes"], "no insight 999"),
    (["1", "--keep", "1"], "unknown argument keep: choose observation, at here"),
    (["1", "--observation", "9"], "observation is 9: use one of 3, 4"),
    (["1", "--approve", "--yes", "--basis", "none"], "none of a proposal"),
    (["1", "--reopen", "--yes"], "waits for a decision already"),
    (["--entity", "Nobody"], "no entity with the name 'Nobody'"),
    (["1", "--approve", "--note", "x"], "leave it out here"),
    (["--page", "0"], "page is 0"),
]


def test_bad_input_is_a_sentence(queued: Path, tmp_path: Path) -> None:
    assert ids(queued)["contradiction"] == 1
    seen = digest(queued)
    for words, said in BAD:
        output = run(queued, *words, ok=False)
        assert said in output, words
        assert output.count("Error: ") == 1, words
        assert digest(queued) == seen, words
    assert "does not exist" in run(tmp_path / "none.db", ok=False)


def test_a_locked_file(queued: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    number = ids(queued)["bridge"]
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_S", 0.05)
    with closing(sqlite3.connect(queued, isolation_level=None)) as other:
        other.execute("begin immediate")
        for decision in ("--approve", "--dismiss"):
            output = run(queued, number, decision, "--yes", ok=False)
            assert "is locked by another program" in output
        other.execute("rollback")
    assert status(queued, number) == ("pending", None)
    run(queued, number, "--dismiss", "--yes")
    assert status(queued, number)[0] == "dismissed"
