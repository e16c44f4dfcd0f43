"""What needs review, as ``datasette limbic status`` says it."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

from click.testing import CliRunner
from view_helpers import write

from datasette_limbic import connection
from datasette_limbic.cli import limbic
from datasette_limbic.reports import keeping
from datasette_limbic.reports.review import review


def run(*args: object) -> str:
    result = CliRunner().invoke(limbic, [str(each) for each in args])
    assert result.exit_code == 0, result.output
    return result.output


def kept(path: Path) -> None:
    with closing(connection.connect(path)) as conn:
        keeping.keep(conn)


def test_status_says_what_needs_review(demo_db: Path) -> None:
    kept(demo_db)
    found = json.loads(run("status", demo_db, "--json"))["review"]
    counts = found["counts"]
    text = run("status", demo_db)
    assert f"{counts['contradictions']} contradictions, {counts['stale_entities']} stale" in text
    assert "1 approaching its threshold" in text
    assert f"compared {found['kept']['computed_at']} (UTC), 0 entities changed since\n" in text
    assert "never marked as looked through; once a month is good practice" in text
    write(
        demo_db,
        ("insert into limbic_reviews(report) values ('consolidation')", []),
        ("insert into observations(entity_id, content) values (1, 'new')", []),
    )
    text = run("status", demo_db)
    assert "(UTC), 1 entity changed since: run 'datasette limbic sync'" in text
    assert "last looked through 20" in text
    assert "once a month" not in text


def test_an_empty_memory_needs_none(empty_db: Path) -> None:
    text = run("status", empty_db)
    assert "needs review: nothing that is known" in text
    assert "observations have not been compared yet: run 'datasette limbic sync'" in text


def test_now_moves_what_is_stale_and_what_is_due(demo_db: Path) -> None:
    kept(demo_db)
    write(
        demo_db,
        (
            "insert into limbic_reviews(report, reviewed_at)"
            " values ('consolidation', '2026-11-01 00:00:00')",
            [],
        ),
    )
    with closing(connection.connect(demo_db, readonly=True)) as conn:
        early, late = (review(conn, now=now) for now in ("2026-11-29", "2036-11-29"))
        before = review(conn, now="2025-06-01")
        unread = review(conn, reviews=False)
    assert (early["days_since_review"], early["review_due"], late["review_due"]) == (
        28,
        False,
        True,
    )
    assert early["counts"]["stale_entities"] > before["counts"]["stale_entities"]
    assert (unread["reviewed"], unread["review_due"]) == (None, None)


def test_what_was_never_compared_is_not_known(demo_db: Path) -> None:
    write(demo_db, ("delete from limbic_reports", []), ("delete from limbic_duplicates", []))
    found = json.loads(run("status", demo_db, "--json"))["review"]
    assert found["reason"] == "not looked at yet: run 'datasette limbic sync'"
    unknown = {name for name, count in found["counts"].items() if count is None}
    assert unknown == {"split_candidates", "approaching", "contradictions"}
    kept(demo_db)
    found = json.loads(run("status", demo_db, "--json"))["review"]
    assert found["reason"] is None
    assert None not in found["counts"].values()
