"""``datasette limbic index``."""

from __future__ import annotations

import json

import pytest
from cli_helpers import Terminal
from click.testing import CliRunner
from embedding_helpers import fill

from datasette_limbic import search
from datasette_limbic.cli.index import index_command
from datasette_limbic.cli.status import status_command
from datasette_limbic.cli.sync import sync_command
from datasette_limbic.retrieval import building


def run(*args, command=index_command):
    return CliRunner().invoke(command, [str(a) for a in args])


@pytest.fixture
def filled(path, conn, models):
    fill(conn, 60)
    assert run(path, "-m", "bag", command=sync_command).exit_code == 0
    return path


def test_approximate(filled, conn):
    before = search.search(conn, "thing 7")
    result = run(filled, "--kind", "approximate")
    assert result.exit_code == 0, result.output
    assert "retrieval: approximate (auto)" in result.stdout
    assert "approximate index of 60 vectors" in result.stdout
    assert "of the nearest 30, measured with" in result.stdout
    found = search.search(conn, "thing 7")
    assert found["retriever"] == "approximate"
    assert [r["id"] for r in found["results"]] == [r["id"] for r in before["results"]]
    assert "approximate index of 60 vectors" in run(filled, command=status_command).stdout


def test_exact_takes_it_away(filled, conn):
    run(filled, "--kind", "approximate")
    result = run(filled, "--kind", "exact")
    assert result.exit_code == 0, result.output
    assert "60 vectors are compared one by one" in result.stdout
    assert search.search(conn, "thing 7")["retriever"] == "vec0"
    for table in ("limbic_approximate", "_limbic_ann_parts", "_limbic_ann_segments"):
        assert conn.execute(f"select count(*) from {table}").fetchone()[0] == 0


@pytest.mark.parametrize(("worth_from", "kind"), [(60, "approximate"), (61, "vec0")])
def test_auto_goes_by_size(filled, conn, monkeypatch, worth_from, kind):
    monkeypatch.setattr(building, "WORTH_FROM", worth_from)
    assert json.loads(run(filled, "--json").stdout)["serves"] == kind


def test_json(filled):
    found = json.loads(run(filled, "--kind", "approximate", "--json").stdout)
    built = found["approximate"]
    assert built["state"] == "ready"
    assert built["vectors"] == found["vectors"] == 60
    assert built["recall"].keys() == {"10", "30", "300"}
    assert all(0.9 <= value <= 1 for value in built["recall"].values())
    assert built["bytes"] > 60 * 32
    assert found["due"] is None


def test_progress_bars_on_a_terminal(filled, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("datasette_limbic.cli.index.sys.stderr", terminal)
    monkeypatch.setattr("datasette_limbic.cli.bars.sys.stderr", terminal)
    with pytest.raises(SystemExit) as ended:
        index_command.main([str(filled), "--kind", "approximate"])
    assert ended.value.code == 0
    for part in ("training", "codes", "recall"):
        assert part in terminal.getvalue()
    assert "100%" in terminal.getvalue()


def test_a_target_that_cannot_be_met(filled, monkeypatch):
    monkeypatch.setattr("datasette_limbic.retrieval.measuring.SHORTLISTED", (5,))
    monkeypatch.setattr("datasette_limbic.retrieval.measuring.RESCORED", (5,))
    result = run(filled, "--kind", "approximate", "--target-recall", "1")
    assert result.exit_code == 0, result.output
    assert "The target of 100.0% was not reached" in result.stderr
    assert "short of the 100.0% that were asked for" in result.stdout


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--target-recall", "98"], "the target recall is 98.0: use a share from 0.5 to 1"),
        (["--target-recall", ".2"], "the target recall is 0.2"),
        (["--target-recall", "nan"], "the target recall is nan"),
        (["--kind", "fast"], "'fast' is not one of"),
    ],
)
def test_bad_arguments(filled, given, said):
    result = run(filled, *given)
    assert result.exit_code != 0
    assert said in result.output


def test_no_vectors(path, conn, models):
    fill(conn, 3)
    result = run(path, "--kind", "approximate")
    assert result.exit_code == 1
    assert "there are 0 vectors of entities, which is too few for an index" in result.output
    result = run(path)
    assert result.exit_code == 0
    assert "there are no vectors yet: run 'datasette limbic sync'" in result.output


def test_no_memory(tmp_path):
    other = tmp_path / "other.db"
    other.write_bytes(b"")
    assert run(other).exit_code == 1
