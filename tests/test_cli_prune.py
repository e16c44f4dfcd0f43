"""``datasette limbic prune``."""

from __future__ import annotations

import hashlib
import json
import time

import pytest
from click.testing import CliRunner

from datasette_limbic import connection, serving
from datasette_limbic.cli import limbic

CONFIG = "plugins:\n  datasette-limbic:\n    log_retention_days: {}\n"


def run(*args, code=0):
    result = CliRunner().invoke(limbic, ["prune", *[str(a) for a in args]])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result.output


@pytest.fixture
def used_db(demo_db):
    """The sample memory, of which the whole access log is old, and one search of now."""
    conn = connection.connect(demo_db)
    conn.execute("update entity_access_log set accessed_at = '2020-01-01 00:00:00'")
    conn.execute("update entity_access_log set accessed_at = 'once' where id = 1")
    conn.commit()
    serving.search_semantic(conn, "Atlas", 3, mode="text")
    conn.close()
    time.sleep(0.01)
    return demo_db


def rows(path):
    conn = connection.connect(path, readonly=True)
    found = [
        conn.execute(f"select count(*) from {table}").fetchone()[0]
        for table in ("limbic_searches", "entity_access_log", "entity_access")
    ]
    conn.close()
    return found


def test_a_dry_run_then_for_real(used_db):
    searches, log, accessed = rows(used_db)
    before = hashlib.sha256(used_db.read_bytes()).hexdigest()
    text = run(used_db, "--older-than", "90", "--dry-run")
    assert hashlib.sha256(used_db.read_bytes()).hexdigest() == before
    old = log - 1 - 3
    assert "Would delete what is older than 20" in text
    assert f"0 searches with 0 candidates, 0 ratings and openings, {old} rows of" in text
    text = run(used_db, "--older-than", "90")
    assert text.startswith("Deleted what is older")
    assert f" {old} rows of the access log. All counts stay as they are." in text
    assert "Kept, since the time cannot be read: 0 searches, 0 ratings, 1 row of" in text
    assert "'datasette limbic check' names them" in text
    assert rows(used_db) == [searches, 4, accessed]


def test_json(used_db):
    log = rows(used_db)[1]
    found = json.loads(run(used_db, "--older-than", "0", "--json"))
    assert found["searches"] == 1
    assert found["candidates"] > 3
    assert (found["ratings"], found["accesses"], found["unreadable_accesses"]) == (0, log - 1, 1)
    assert found["dry_run"] is False
    assert json.loads(run(used_db, "--older-than", "0", "--json", "--dry-run"))["dry_run"] is True


def test_the_days_come_from_the_configuration(used_db, tmp_path):
    config = tmp_path / "metadata.yml"
    config.write_text(CONFIG.format(30))
    log = rows(used_db)[1]
    assert json.loads(run(used_db, "-c", config, "--json", "--dry-run"))["accesses"] == log - 4
    # what is given counts more
    given = run(used_db, "-c", config, "--older-than", "9999", "--json")
    assert json.loads(given)["accesses"] == 0
    text = run(used_db, code=1)
    assert "Give --older-than DAYS, or --config with a file that sets log_retention_days" in text
    config.write_text("plugins: {}\n")
    assert "Give --older-than DAYS" in run(used_db, "-c", config, code=1)
    config.write_text(CONFIG.format("soon"))
    assert "log_retention_days is 'soon'" in run(used_db, "-c", config, code=1)


@pytest.mark.parametrize("days", ["-1", "nan", "1e9", "inf"])
def test_days_that_are_none(used_db, days):
    assert "older_than_days is" in run(used_db, f"--older-than={days}", code=1)
    assert rows(used_db)[0] == 1


def test_files_that_cannot_be_pruned(tmp_path, used_db, monkeypatch):
    assert "does not exist" in run(tmp_path / "no.db", "--older-than", "1", code=1)
    text = tmp_path / "text.db"
    text.write_text("hello " * 500)
    assert "not a SQLite database" in run(text, "--older-than", "1", code=1)
    other = tmp_path / "other.db"
    connection.connect(other, create=True).close()
    assert "holds no memory yet" in run(other, "--older-than", "1", code=1)
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_S", 0.05)
    holder = connection.connect(used_db)
    holder.execute("begin immediate")
    text = run(used_db, "--older-than", "1", code=1)
    assert f"{used_db} is locked by another program" in text
    holder.rollback()
    holder.close()
