"""Our ways to pages of Datasette itself: SQL, canned queries, tables."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import pytest
from browser_helpers import BROWSER, Visitor, fetch
from browser_paths import MAINTENANCE

pytestmark = BROWSER


ASKED = "q=who+fixed+the+geocoder&limit=6&now=2026-11-29+12%3A00%3A00"


def sql_rows(page: Any) -> list[tuple[int, str]]:
    """Id and final score of each row on a page of Datasette's, as shown."""
    table = page.locator("table.rows-and-columns")
    names = [
        t.strip() for t in table.locator("thead th").evaluate_all("a => a.map(e => e.innerText)")
    ]
    which = [names.index("id"), names.index("final_score")]
    cells = table.locator("tbody tr").evaluate_all(
        "rows => rows.map(r => [...r.cells].map(c => c.innerText.trim()))"
    )
    return [(int(row[which[0]]), row[which[1]]) for row in cells]


def test_this_ranking_as_sql(desktop: Visitor, server: str) -> None:
    # each statement of its own: found by both ways or by text alone, filtered, fused otherwise
    for extra in ("&fusion=document", "&strategy=limbic&type=Servicio", "&mode=text"):
        expected = fetch(server, f"/demo/-/limbic/search.json?{ASKED}{extra}")["results"]
        desktop.go(f"/demo/-/limbic/search?{ASKED}{extra}")
        desktop.follow(desktop.page.get_by_role("link", name="This ranking as SQL"))
        assert "/-/limbic" not in desktop.page.url, extra
        rows = sql_rows(desktop.page)
        assert [i for i, _ in rows] == [row["id"] for row in expected], extra
        for (_, score), row in zip(rows, expected, strict=True):
            assert float(score) == pytest.approx(row["final_score"], rel=1e-9), extra
        # the statement and its parameters can be changed and run again
        assert desktop.page.locator("input[name=gamma]").count() == 1, extra
        asked = desktop.page.locator("input[name=q]").input_value()
        assert asked == "who fixed the geocoder", extra


def test_vary_its_parameters(desktop: Visitor, server: str) -> None:
    expected = fetch(server, f"/demo/-/limbic/search.json?{ASKED}&strategy=limbic")["results"]
    desktop.go(f"/demo/-/limbic/search?{ASKED}&strategy=limbic")
    page = desktop.page
    desktop.follow(page.get_by_role("link", name="Vary its parameters"))
    assert urlsplit(page.url).path == "/demo/limbic_search"
    assert [i for i, _ in sql_rows(page)] == [row["id"] for row in expected]
    page.locator("input[name=gamma]").fill("5")
    desktop.follow(page.get_by_role("button", name="Run SQL"))
    page.wait_for_url("**gamma=5**")
    varied = fetch(server, f"/demo/-/limbic/search.json?{ASKED}&strategy=limbic&gamma=5")["results"]
    rows = sql_rows(page)
    assert [i for i, _ in rows] == [row["id"] for row in varied]
    for (_, score), row in zip(rows, varied, strict=True):
        assert float(score) == pytest.approx(row["final_score"], rel=1e-9)
    assert [r["final_score"] for r in varied] != [r["final_score"] for r in expected]


def test_a_table_page_of_datasette_has_the_same_rows(desktop: Visitor) -> None:
    """From each list of the report to Datasette's own filters and back to an entity."""
    page = desktop.page
    for title in ("Contradictions?", "Split candidates", "Stale entities", "Large entities"):
        desktop.go(MAINTENANCE["maintenance"])
        section = page.locator("section").filter(has=page.get_by_role("heading", name=title))
        rows = section.last.locator("tbody tr").count()
        assert rows > 0
        desktop.follow(section.last.get_by_role("link", name="Facets, filters, CSV"))
        assert "/-/limbic" not in page.url
        assert page.locator("table.rows-and-columns tbody tr").count() == rows, title
