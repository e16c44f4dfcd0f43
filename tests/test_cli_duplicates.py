"""``datasette limbic duplicates``."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from duplicates_helpers import OTHER, SAME, asked, kept, made, written
from view_helpers import digest

from datasette_limbic.cli import limbic


@pytest.fixture(name="path")
def memory(tmp_path):
    return made(tmp_path / "memory.db")


def run(path, *args, code=0):
    """The output; the file is as it was."""
    before = digest(path)
    result = CliRunner().invoke(limbic, ["duplicates", str(path), *args])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    assert digest(path) == before
    return result.output


def test_whole_memory(path):
    written(
        path,
        f"insert into observations(id, entity_id, content) values (6, 2, '{SAME}')",
        "insert into entities(id, name, archived_at) values (3, 'O.N.E', '2026-01-01')",
    )
    out = run(path)
    assert "1 duplicates, 1 contradictions?, 0 worth a look" in out
    assert "one (Thing): duplicate\n  exact, no cosine, words held 1.00\n" in out
    assert f"    [1] {SAME}\n" in out
    assert "differ in status: open / closed" in out
    assert "The same text in several entities: 1\n" in out
    assert "in 2 entities: one [1], one [2], two [6]" in out
    assert "one [1] (Thing, 4 observations); O.N.E [3] (Generic, 0 observations, archived)" in out


def test_what_changed_since_is_seen(path):
    kept(path)
    assert "[2] (flagged)" in run(path)
    written(path, f"update observations set content = '{OTHER}' where id = 2")
    out = run(path)
    assert "0 duplicates" in out
    assert "The same text in several entities: 1" in out
    assert asked(path, "select count(*) from limbic_report_pending") == [(1,)]


def test_kind(path):
    out = run(path, "--kind", "contradiction")
    assert "contradiction?" in out
    assert SAME not in out
    assert json.loads(run(path, "--kind", "look", "--json"))["pairs"] == []


@pytest.mark.parametrize("entity", ["1", "one"])
def test_one_entity(path, entity):
    out = run(path, entity)
    assert out.startswith("one (Thing): 4 observations\nSimilarity not computed: ")
    assert "duplicates from cosine 0.85 (no vectors)" in out
    assert "Contradictions? (alike, but they state something different): 1" in out
    assert "Duplicates: 1\n  exact, no cosine, words held 1.00\n" in out
    assert "Suggested to keep, of 1 that hang together:\n  [2] of 2, the longest" in out
    found = json.loads(run(path, entity, "--json"))
    assert found["counts"]["pairs"] == 1


def test_a_name_of_digits(path):
    written(path, "insert into entities(id, name) values (7, '2026')")
    assert run(path, "2026").startswith("2026 (Generic)")
    assert "No two of them are alike." in run(path, "2026")
    assert "has no entity with the id 2027" in run(path, "2027", code=1)
    assert "has no entity with the name" in run(path, "9" * 40, code=1)


def test_thresholds(path):
    found = json.loads(
        run(path, "1", "--threshold", "0.9", "--containment-threshold", "0.6", "--look", "0.5",
            "--json")
    )  # fmt: skip
    assert found["thresholds"] == {"cosine": 0.9, "look": 0.5, "containment": 0.6}


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["1", "--threshold", "1.5"], "threshold is '1.5': use a number from 0 to 1"),
        (["1", "--threshold", "high"], "threshold is 'high'"),
        (["1", "--containment-threshold", "nan"], "containment_threshold is 'nan'"),
        (["1", "--look", "-3"], "look is '-3'"),
        (["--threshold", "0.9"], "--threshold 0.9 is for one ENTITY"),
        (["--containment-threshold", "0.9"], "--containment-threshold 0.9 is for one ENTITY"),
        (["1", "--kind", "look"], "--kind look is for the whole memory"),
        (["--page", "0"], "page is 0"),
        (["--size", "0"], "size is 0"),
        (["nobody"], "no entity with the name 'nobody'"),
    ],
)
def test_bad_arguments(path, args, words):
    assert words in run(path, *args, code=1)


def test_pages(path):
    for _ in range(4):
        written(path, f"insert into observations(entity_id, content) values (2, '{OTHER}')")
    assert "Page 2 of 2: --page turns it" in run(path, "2", "--size", "2", "--page", "2")
    out = run(path, "--size", "4", "--page", "2")
    assert "Page 2 of 2" in out
    assert out.count("\n    [") == 4


def test_bytes_in_a_name(path):
    """Any program may write them; JSON has no bytes."""
    written(path, "insert into entities(name) values (x'4f4e45')")
    found = json.loads(run(path, "--json"))
    assert found["name_clashes"]["groups"][0]["members"][1]["name"] == "ONE"


def test_no_file(tmp_path):
    result = CliRunner().invoke(limbic, ["duplicates", str(tmp_path / "none.db")])
    assert result.exit_code == 1
    assert "does not exist" in result.output
