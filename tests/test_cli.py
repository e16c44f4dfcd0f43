"""The commands that are not import and sync: init, search, status, demo, decay."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

from datasette_limbic import connection, serving
from datasette_limbic.cli import COMMANDS, limbic

NOW = "2026-11-29 12:00:00"


def run(*args, code=0):
    result = CliRunner().invoke(limbic, [str(a) for a in args])
    assert result.exit_code == code, result.output
    return result.output


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_teaches_with_an_example(command):
    text = run(*([command] if command else []), "--help")
    assert "datasette limbic" in text or command == "decay"


def test_datasette_knows_the_group():
    result = subprocess.run(
        [sys.executable, "-m", "datasette", "limbic", "--help"], capture_output=True, text=True
    )
    assert result.returncode == 0
    assert all(command in result.stdout for command in COMMANDS)


def test_init_makes_a_memory_once(tmp_path):
    path = tmp_path / "memory.db"
    assert "m001_memory" in run("init", path)
    assert "already up to date" in run("init", path)


def test_search_prints_a_table_with_its_factors(demo_db):
    text = run("search", demo_db, "cola de eventos sin broker", "--now", NOW, "-n", "3")
    for word in ("Una cola en PostgreSQL", "importance", "recency", "co-occ", "hybrid_balanced"):
        assert word in text


def test_search_explains_and_says_when_nothing_fits(demo_db):
    text = run("search", demo_db, "quantum chromodynamics", "--explain", "--now", NOW)
    assert "No confident match" in text
    assert "Did not make it" in text


def test_search_as_json_is_the_api_answer(demo_db):
    from datasette_limbic import connection, search

    given = json.loads(
        run("search", demo_db, "Atlas", "--json", "--now", NOW, "--gamma", "0.05", "--explain")
    )
    conn = connection.connect(demo_db, readonly=True)
    assert given == search.search(conn, "Atlas", now=NOW, gamma=0.05, explain=True)
    conn.close()


def test_an_empty_query_lists(demo_db):
    assert "Atlas" in run("search", demo_db, "--now", NOW)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--limit", "0"], "limit is 0"),
        (["--now", "tomorrow-ish"], "tomorrow-ish"),
        (["--as-of", "soon"], "soon"),
    ],
)
def test_bad_arguments_end_in_one_sentence(demo_db, arguments, part):
    text = run("search", demo_db, "x", *arguments, code=1)
    assert part in text
    assert "Traceback" not in text


@pytest.mark.parametrize("command", ["search", "status", "decay", "sync"])
def test_files_that_are_no_memory_end_in_one_sentence(tmp_path, command):
    missing = run(command, tmp_path / "no.db", *(["x"] if command == "search" else []), code=1)
    assert "does not exist" in missing
    text = tmp_path / "text.db"
    text.write_text("hello " * 500)
    other = run(command, text, *(["x"] if command == "search" else []), code=1)
    assert "not a SQLite database" in other
    assert "Traceback" not in missing + other


def test_status_says_what_there_is(demo_db):
    text = run("status", demo_db)
    for part in ("65 entities (2 archived)", "403 observations", "in step", "limbic-multilingual"):
        assert part in text
    found = json.loads(run("status", demo_db, "--json"))
    assert found["counts"]["relations"] == 96
    assert found["recency"]["recency_half_life_days"] == 180


def test_status_says_what_use_has_left(demo_db):
    assert "searches recorded: none yet" in run("status", demo_db)
    conn = connection.connect(demo_db)
    for client in ("agent-a", "agent-a", None):
        answer = serving.search_semantic(conn, "geocoder", client=client, actor=client and "ana")
    serving.rate(conn, answer["search_id"], answer["results"][0]["id"], "useful")
    conn.close()
    text = run("status", demo_db)
    for part in (
        "searches recorded: 3, from 20",
        "by agent-a (actor ana): 2, last 20",
        "by an unnamed client (not signed in): 1, last 20",
        "opened from a search 0, rated useful 1, not useful 0; last access 20",
        "logs are kept for ever",
    ):
        assert part in text, part
    found = json.loads(run("status", demo_db, "--json"))["signals"]
    assert found["searches"]["count"] == 3
    assert "since_start" not in found  # of a server, not of the file


def test_status_of_a_memory_without_vectors_says_what_to_do(empty_db):
    from datasette_limbic import connection

    conn = connection.connect(empty_db)
    with conn:
        conn.execute("insert into entities(name) values ('Ana')")
    conn.close()
    assert "datasette limbic sync" in run("status", empty_db)


def test_demo_does_the_main_job_and_again(tmp_path):
    path = tmp_path / "demo.db"
    first = run("demo", path)
    for part in ("65 created", "403 added", "searchable", "importance"):
        assert part in first
    before = path.read_bytes()
    second = run("demo", path)
    assert "0 embedded" in second
    assert first.splitlines()[-1] == second.splitlines()[-1]
    # only the log of imports grows
    assert len(path.read_bytes()) - len(before) <= 4 * 4096


def test_decay_changes_nothing_and_accepts_the_old_flags(demo_db):
    before = demo_db.read_bytes()
    result = CliRunner().invoke(
        limbic, ["decay", str(demo_db), "--rate", "0.05", "--min-confidence", "0.2", "--dry-run"]
    )
    assert result.exit_code == 0
    assert "deprecated" in result.stderr
    counts = [int(line.split()[0]) for line in result.stdout.splitlines()]
    assert sum(counts) == 63  # all but the two archived
    assert demo_db.read_bytes() == before


def test_settings_of_datasettes_own_file_count(demo_db, tmp_path):
    config = tmp_path / "datasette.yaml"
    config.write_text(
        "plugins: {datasette-limbic: {gamma: 0.07, limit: 2}}\n"
        "databases: {other: {plugins: {datasette-limbic: {gamma: 0.09}}}}\n"
    )
    found = json.loads(run("search", demo_db, "Atlas", "--json", "-c", config))
    assert (found["parameters"]["gamma"], found["limit"]) == (0.07, 2)
    assert json.loads(run("status", demo_db, "--json", "-c", config))["parameters"]["gamma"] == 0.07
    other = demo_db.rename(tmp_path / "other.db")
    found = json.loads(run("search", other, "Atlas", "--json", "-c", config))
    assert (found["parameters"]["gamma"], found["limit"]) == (0.09, 10)


def test_a_passage_prefix_in_the_file_is_what_sync_embeds(demo_db, tmp_path):
    config = tmp_path / "metadata.yml"
    config.write_text("plugins: {datasette-limbic: {passage_prefix: 'passage: '}}")
    with_prefix = run("sync", demo_db, "--full", "-c", config)
    assert "65 embedded" in with_prefix
    assert "0 embedded" in run("sync", demo_db, "--full", "-c", config)


@pytest.mark.parametrize(
    ("content", "part"),
    [("plugins: {datasette-limbic: {colour: red}}", "colour"), ("{{{", "neither YAML nor JSON")],
)
def test_a_bad_file_of_settings_is_named(demo_db, tmp_path, content, part):
    config = tmp_path / "metadata.yml"
    config.write_text(content)
    assert part in run("search", demo_db, "x", "-c", config, code=1)


ODD = {
    "a word": "update entity_access set access_count = 'many' where entity_id = 3",
    "bytes": "update entity_access set access_count = x'ff00' where entity_id = 3",
    "nothing": "update entity_access set access_count = '' where entity_id = 3",
    "endless": "update entity_access set access_count = 9e999 where entity_id = 3",
    "negative": "update entity_access set access_count = -4 where entity_id = 3",
    "no time": "update entity_access set last_access = 'never' where entity_id = 3",
    "bytes as time": "update entity_access set last_access = x'ff' where entity_id = 3",
    "a pair": "update co_occurrences set co_count = 'often'",
    "a pair's time": "update co_occurrences set last_co = x'00'",
    "created": "update entities set created_at = x'ff' where id = 3",
    "activity": "update entities set last_activity_at = 'x' where id = 3",
    "confidence": "update entities set confidence = 'x' where id = 3",
}


@pytest.mark.parametrize("change", ODD.values(), ids=ODD)
def test_a_value_that_another_writer_stored_stops_no_search(change, demo_db):
    from datasette_limbic import connection

    conn = connection.connect(demo_db)
    conn.execute(change)
    conn.commit()
    conn.close()
    for arguments in (["--recency", "freshest"], ["--consolidation", "--explain"]):
        text = run("search", demo_db, "Atlas", "--now", NOW, *arguments)
        assert "Atlas" in text
        assert "Traceback" not in text
    run("status", demo_db)


def test_a_failing_sql_function_is_one_sentence_without_a_traceback(demo_db, capfd, monkeypatch):
    """Whatever makes one fail: SQLite's module must not print it on the side."""
    import click
    from datasette.utils.sqlite import sqlite3

    from datasette_limbic import connection
    from datasette_limbic.cli.common import reports_errors

    seen = []
    monkeypatch.setattr(sys, "unraisablehook", seen.append)

    @reports_errors
    def command(database):
        conn = connection.connect(database, readonly=True)
        try:
            conn.create_function("bad", 0, lambda: 1 / 0)
            conn.execute("select bad()").fetchone()
        finally:
            conn.close()

    with pytest.raises(click.ClickException) as caught:
        command(database=str(demo_db))
    assert f"a row of {demo_db} holds a value that ranking cannot use" in str(caught.value)
    assert capfd.readouterr() == ("", "")
    assert seen == []
    # the server's log goes on naming it
    conn = sqlite3.connect(":memory:")
    conn.create_function("bad", 0, lambda: 1 / 0)
    with pytest.raises(sqlite3.OperationalError):
        conn.execute("select bad()").fetchone()
    conn.close()
    assert seen or "ZeroDivisionError" in capfd.readouterr().err


def test_a_missing_part_of_a_memory_says_to_init(demo_db):
    from datasette_limbic import connection

    conn = connection.connect(demo_db)
    conn.execute("drop table co_occurrences")
    conn.commit()
    conn.close()
    for command in (["search", demo_db, "x"], ["status", demo_db]):
        text = run(*command, code=1)
        assert "no such table" in text
        assert "run 'datasette limbic init'" in text


def test_status_warns_of_validity_that_cannot_be_read(demo_db):
    from datasette_limbic import connection

    assert "valid_from" not in run("status", demo_db)
    conn = connection.connect(demo_db)
    conn.execute("update entities set valid_to = 1577836800 where id in (3, 4)")
    conn.commit()
    conn.close()
    assert "warning: 2 rows have a valid_from or valid_to that SQLite cannot read" in run(
        "status", demo_db
    )
