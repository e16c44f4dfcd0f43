"""``datasette limbic sync``."""

from __future__ import annotations

import json
from contextlib import closing

import pytest
from cli_helpers import Terminal
from click.testing import CliRunner
from datasette.utils.sqlite import sqlite3
from embedding_helpers import (
    fill,
)

from datasette_limbic import connection, vectors
from datasette_limbic.cli.sync import sync_command


def run(*args):
    return CliRunner().invoke(sync_command, [str(a) for a in args])


def test_sync(path, conn, models):
    fill(conn, 3)
    result = run(path, "-m", "bag")
    assert result.exit_code == 0, result.output
    assert "entities: 3 embedded" in result.stdout
    assert "observations: 6 embedded" in result.stdout
    assert "text index: in step" in result.stdout
    assert all(s["in_step"] for s in vectors.index_state(conn).values())


def test_json(path, conn, models):
    fill(conn, 2)
    found = json.loads(run(path, "-m", "bag", "--json").stdout)
    assert found["changed"] is True
    assert [c["embedded"] for c in found["collections"]] == [2, 4]
    again = json.loads(run(path, "--json").stdout)
    assert again["changed"] is False
    assert again["collections"][0]["model"] == "bag"


def test_full_batch_size_and_reembed(path, conn, models):
    fill(conn, 3)
    assert run(path, "-m", "bag", "--batch-size", "2").exit_code == 0
    assert "0 embedded, 3 already right" in run(path, "--full").stdout
    result = run(path, "--reembed", "-m", "bag16")
    assert "entities: 3 embedded" in result.stdout
    assert "16 dimensions" in result.stdout


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["-m", "bag2"], "was embedded with 'bag', not with 'bag2'"),
        (["-m", "nope"], "llm knows no embedding model 'nope'"),
        (["-m", "broken", "--reembed"], "no model at /elsewhere"),
    ],
)
def test_errors_are_one_sentence(path, conn, models, args, message):
    fill(conn, 1)
    run(path, "-m", "bag")
    result = run(path, *args)
    assert result.exit_code == 1
    assert message in result.output
    assert "Traceback" not in result.output


def test_missing_file(tmp_path):
    result = run(tmp_path / "none.db")
    assert result.exit_code == 1
    assert "does not exist" in result.output


def test_not_a_memory(tmp_path):
    with closing(sqlite3.connect(str(tmp_path / "other.db"))) as other:
        other.execute("create table t(x)")
    result = run(tmp_path / "other.db")
    assert result.exit_code == 1
    assert "limbic init" in result.output


def test_locked(path, conn, models, monkeypatch):
    fill(conn, 1)
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_S", 0.1)
    conn.execute("begin immediate")
    result = run(path, "-m", "bag")
    conn.rollback()
    assert result.exit_code == 1
    assert "locked" in result.output


def test_progress_bar_on_a_terminal(path, conn, models, monkeypatch):
    fill(conn, 3)

    from datasette_limbic.cli import bars as module

    terminal = Terminal()
    bars = module.Bars()
    monkeypatch.setattr(module.sys, "stderr", terminal)
    with bars:
        for done in (1, 3):
            bars.show(done, 3, "entities")
        bars.show(2, 2, "observations")
    assert "entities" in terminal.getvalue()
    assert "observations" in terminal.getvalue()
    assert "100%" in terminal.getvalue()


def test_help_teaches():
    text = run("--help").output
    for line in ("llm embed-multi entities -d memory.db", "llm similar", "--reembed"):
        assert line in text


def test_repair(path, conn, models):
    fill(conn, 2)
    run(path, "-m", "bag")
    conn.execute("insert into _limbic_guard values ('my script')")
    conn.execute("update entities set confidence = 3 where id = 1")
    conn.commit()
    result = run(path, "--repair")
    assert result.exit_code == 0, result.output
    assert "repaired: guards left behind" in result.stdout
    assert "0 embedded, 2 already right" in result.stdout
    assert "needs a person, who may run:" in result.stdout
    assert "update entities set confidence = 1.0 where" in result.stdout
    found = json.loads(run(path, "--repair", "--json").stdout)
    assert found["repaired"] == []
    assert [one["name"] for one in found["left"]] == ["values.entities.confidence"]


@pytest.mark.parametrize(
    "statement",
    [
        "drop table _limbic_vec_entities_chunks",
        "delete from _limbic_vec_entities_chunks",
        "delete from _limbic_fts_docsize",
    ],
)
def test_what_a_sync_stumbles_over_is_repaired_by_name(statement, demo_db):
    with closing(sqlite3.connect(demo_db)) as conn:
        conn.execute(statement)
        conn.commit()
    result = run(demo_db, "--full")
    assert result.exit_code == 1
    assert "Traceback" not in result.output
    assert f"'datasette limbic check {demo_db}' says what repairs it" in result.output
    result = run(demo_db, "--repair")
    assert result.exit_code == 0, result.output
    assert "repaired: " in result.output
    assert run(demo_db, "--full").exit_code == 0
