"""``datasette limbic report``."""

from __future__ import annotations

import json
from contextlib import closing

import pytest
from cli_helpers import Terminal
from click.testing import CliRunner
from embedding_helpers import fill
from view_helpers import digest, rows

from datasette_limbic.cli import limbic, report
from datasette_limbic.connection import connect
from datasette_limbic.reports.consolidation import LISTS, consolidation_report

NOW = "2026-11-29 12:00:00"
PENDING = "select count(*) from limbic_report_pending"


def run(*args, code=0):
    result = CliRunner().invoke(limbic, ["report", *[str(a) for a in args]])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


def test_json_is_the_report(demo_db):
    before = digest(demo_db)
    found = json.loads(run(demo_db, "--now", NOW, "--json").stdout)
    with closing(connect(demo_db, readonly=True)) as conn:
        assert found == consolidation_report(conn, now=NOW)
    assert digest(demo_db) == before


def test_text_shows_counts_and_each_list(demo_db):
    text = run(demo_db, "--now", NOW).stdout
    found = json.loads(run(demo_db, "--now", NOW, "--json").stdout)
    summary = found["summary"]
    assert text.startswith(
        f"{summary['entities']} entities, {summary['observations']} observations (not archived)\n"
        f"{summary['contradictions']} contradictions?, {summary['flagged_observations']} flagged"
    )
    assert "stale (more than 90 days)" in text
    for title in ("Contradictions?", "Flagged", "Split", "Approaching", "Stale", "Large"):
        assert f"\n{title} " in text
    for name in LISTS:
        for row in found[name]:
            assert (row.get("name") or row["entity"])[:15] in text, name
    stale = found["stale_entities"][0]
    [line] = [each for each in text.splitlines() if each.startswith(f"  {stale['id']}  ")]
    assert f" {stale['standing']} " in line
    assert f" {round(stale['stale_for_days'])} " in line
    assert " never " in line


def test_empty_lists_say_so(empty_db):
    text = run(empty_db).stdout
    assert text.startswith("0 entities, 0 observations")
    for words in ("none found", "none is flagged", "no entity is stale", "no entity is over"):
        assert f"\n  {words}" in text


def test_one_list_page_by_page(demo_db):
    args = (demo_db, "--now", NOW, "--list", "stale_entities", "--size", 5)
    whole = json.loads(run(demo_db, "--now", NOW, "--json").stdout)["stale_entities"]
    text = run(*args, "--page", 2).stdout
    assert "Large" not in text
    assert f"page 2 of 4, {len(whole)} in all: --list stale_entities --page N" in text
    for row in whole[5:10]:
        assert row["name"][:20] in text
    assert whole[4]["name"] not in text
    assert "no more on page 9: the list has 4" in run(*args, "--page", 9).stdout


@pytest.mark.parametrize("days", ["-1", "soon", "nan", "inf"])
def test_stale_days_that_are_none(days, demo_db):
    result = run(demo_db, "--stale-days", days, code=1)
    assert result.stderr == f"Error: stale_days is '{days}': use a number from 0 to 1,000,000\n"


def test_stale_days(demo_db):
    assert "(more than 0.5 days)" in run(demo_db, "--stale-days", "0.5").stdout
    text = run(demo_db, "--stale-days", "9999", "--list", "stale_entities").stdout
    assert text.endswith("\n  no entity is stale\n")


@pytest.mark.parametrize("args", [["--list", "nothing"], ["--page", "0"], ["--size", "1001"]])
def test_usage_errors(args, demo_db):
    assert "Usage:" in run(demo_db, *args, code=2).stderr


def test_a_page_needs_a_list(demo_db):
    assert "page is 2: say of which list" in run(demo_db, "--page", 2, code=1).stderr


def test_no_file(tmp_path):
    assert "does not exist" in run(tmp_path / "none.db", code=1).stderr


def test_kept_and_keep(path, conn, models):
    fill(conn, 2, 1)
    conn.execute("insert into observations(entity_id, content) values (1, 'fact 0 of number 1')")
    conn.commit()
    text = run(path, "--kept").stdout
    assert "nothing has been compared yet: run 'datasette limbic sync'" in text
    assert "pairs: ? duplicates, ? worth a look" in text
    assert "not known: not looked at yet: run 'datasette limbic sync'" in text
    before = digest(path)
    text = run(path).stdout
    assert "pairs: 1 duplicates" in text
    assert "similarity was not computed for 3 of 3 observations" in text
    assert digest(path) == before
    text = run(path, "--keep", "--kept").stdout
    assert text.startswith("reports: 2 entities looked at, 1 new pair, ")
    assert "pairs: 1 duplicates" in text
    assert "(UTC), 0 entities changed since" in text
    assert rows(path, PENDING) == [(0,)]
    conn.execute("insert into observations(entity_id, content) values (2, 'fact 0 of number 2')")
    conn.commit()
    assert "(UTC), 1 entity changed since" in run(path, "--kept").stdout
    result = run(path, "--keep", "--json")
    assert json.loads(result.stdout)["summary"]["duplicates"] == 2  # the line of --keep is apart
    assert result.stderr.startswith("reports: 1 entity looked at, 1 new pair")


def test_warnings_of_the_settings(demo_db):
    with closing(connect(demo_db)) as conn:
        conn.execute("update limbic_settings set value = 'x' where key = 'split_threshold'")
        conn.commit()
    assert "warning: limbic_settings: split_threshold is 'x'" in run(demo_db).stdout


def test_progress_only_on_a_terminal(demo_db, monkeypatch):
    with closing(connect(demo_db)) as conn:
        conn.execute("update observations set content = content || '.' where entity_id = 1")
        conn.commit()
    assert run(demo_db).stderr == ""
    terminal = Terminal()
    monkeypatch.setattr(report.sys, "stderr", terminal)
    report.report_command.callback(
        database=str(demo_db),
        config=None,
        stale_days=None,
        only=None,
        page=1,
        size=5,
        now=None,
        keep=False,
        kept=False,
        as_json=True,
    )
    assert "reports" in terminal.getvalue()
    assert "100%" in terminal.getvalue()
