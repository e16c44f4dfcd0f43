"""Every page, looked at once: it fits, is light, stays still, and is safe."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

import pytest
from browser_helpers import BROWSER, Visitor, has_landmarks_and_headings
from browser_paths import PATHS
from odd_memory import ODD_NAMES, SCRIPT

pytestmark = BROWSER


def test_every_page_fits_and_is_clean(desktop: Visitor) -> None:
    for name, path in PATHS.items():
        assert desktop.go(path).status == 200, name
        desktop.check()
        has_landmarks_and_headings(desktop.page, name)
    desktop.go(PATHS["overview"])
    current = desktop.page.locator("[aria-current=page]")
    assert current.inner_text() == "Overview"


def test_what_must_not_happen_is_noticed(chromium: Any, server: str) -> None:
    """The policy is in force, and a visitor sees what goes against it, outside, or about."""
    someone = Visitor(chromium, server, "desktop")
    page = someone.page
    policy = someone.go("/demo/-/limbic").headers["content-security-policy"]
    assert "default-src 'none'" in policy
    someone.check()
    assert someone.errors == []
    page.evaluate(
        """() => { const at = document.querySelector("main");
        at.insertAdjacentHTML("afterbegin", '<p style="color: red" onclick="alert(1)">x</p>');
        const own = document.createElement("script"); own.textContent = "alert(2)"; at.append(own);
        }"""
    )
    page.wait_for_timeout(100)
    assert len(someone.errors) == 3, someone.errors
    someone.go("/demo/-/limbic")
    page.evaluate(
        """() => { const first = document.querySelector("main").firstElementChild;
        return new Promise((done) => setTimeout(() => { first.style.setProperty(
          "margin-top", "300px"); setTimeout(done, 50); }, 50)); }"""
    )
    with pytest.raises(AssertionError):
        someone.check()
    someone.go("/demo")
    page.evaluate("fetch('http://127.0.0.1:9/', {mode: 'no-cors'}).catch(() => 0)")
    assert someone.elsewhere == ["http://127.0.0.1:9/"]
    someone.context.close()


def test_error_pages(desktop: Visitor) -> None:
    for path, status in {
        "/demo/-/limbic/search?q=x&limit=0": 400,
        "/demo/-/limbic/search?q=" + "x" * 3000: 400,
        "/demo/-/limbic/search?" + "u" * 2000 + "=1": 400,
        "/demo/-/limbic/entity/" + "9" * 300: 404,
        "/demo/-/limbic/imports/" + "9" * 300: 404,
        "/demo/-/limbic/imports?page=0": 400,
        "/demo/-/limbic/consolidation?stale_days=" + "9" * 300: 400,
        "/demo/-/limbic/duplicates?kind=" + "k" * 2000: 400,
        "/demo/-/limbic/duplicates/" + "9" * 300: 404,
        "/demo/-/limbic/split/" + "9" * 300: 404,
        "/demo/-/limbic/health?list=" + "l" * 2000: 400,
        "/" + "d" * 300 + "/-/limbic": 404,
    }.items():
        assert desktop.go(path).status == status, path[:100]
        desktop.check()
        for width in desktop.sizes():
            assert desktop.page.get_by_role("alert").is_visible(), (path[:100], width)
    # Chromium itself logs each status of 400 and more
    desktop.errors = [e for e in desktop.errors if "Failed to load resource" not in e]


def test_scripts_in_names_and_queries_do_not_run(desktop: Visitor) -> None:
    # on all other pages too: each visitor fails on a dialog
    for path in (
        "/odd/-/limbic/search?explain=1&limit=1&q=" + quote(SCRIPT),
        "/odd/-/limbic/search?type=" + quote(SCRIPT),
        "/odd/-/limbic/search?q=" + quote('"><script>alert(2)</script>'),
        "/odd/-/limbic/search?q=" + quote("' autofocus onfocus=alert(3) x='"),
        "/odd/-/limbic/imports?source=" + quote(SCRIPT),
        "/odd/-/limbic/imports/1?reason=" + quote(SCRIPT),
        "/odd/entities",
        "/odd/entities/1",
    ):
        desktop.go(path)
        desktop.page.wait_for_load_state("load")
        for width in desktop.sizes():
            assert desktop.dialogs == [], (path, width)
    desktop.go("/odd/-/limbic/entity/1")
    assert desktop.page.locator("h1").inner_text() == SCRIPT
    assert desktop.dialogs == []


def test_long_lists_are_paged(desktop: Visitor) -> None:
    page = desktop.page
    desktop.go("/odd/-/limbic/entity/4")
    seen: list[str] = []
    while True:
        seen += page.locator("[id^=observation-]").evaluate_all("all => all.map(e => e.id)")
        following = page.get_by_role("link", name="Next")
        if not following.count():
            break
        desktop.follow(following)
    assert len(seen) == len(set(seen)) == 251
    assert page.get_by_text(re.compile("ended 2025-01-01")).count() > 0


def test_raw_texts_are_on_the_page_at_any_width(desktop: Visitor) -> None:
    """Nobody has to scroll sideways for them."""
    for path in ("/odd/-/limbic/imports/1", "/odd/-/limbic/imports/1?page=2"):
        desktop.go(path)
        cells = desktop.page.get_by_role("region", name="Line by line").locator(".limbic-raw")
        assert cells.count() > 50, path
        for name in desktop.sizes():
            edges = cells.evaluate_all(
                "all => all.map(e => e.getBoundingClientRect()).map(r => [r.left, r.right])"
            )
            width = desktop.page.evaluate("document.documentElement.clientWidth")
            assert min(left for left, _ in edges) >= 0, (path, name)
            assert max(right for _, right in edges) <= width, (path, name)


def test_pages_of_someone_who_may_record_fit_and_are_clean(desktop: Visitor) -> None:
    desktop.sign_in()
    names = ("overview", "explain", "entity", "empty", "odd overview", "odd results", "long query")
    for name in names:
        assert desktop.go(PATHS[name]).status == 200, name
        desktop.check()
    desktop.go(PATHS["odd overview"])
    table = desktop.page.get_by_role("region", name="Who searched")
    assert table.get_by_role("row").count() > len(ODD_NAMES)


def test_every_tab_is_on_the_page_and_leads_to_itself(desktop: Visitor) -> None:
    """At any width all of them are in sight, not cut off."""
    page = desktop.page
    desktop.go("/demo/-/limbic/search")
    nav = page.get_by_role("navigation", name="Memory")
    titles = nav.get_by_role("link").all_inner_texts()
    assert titles == [
        "Overview", "Search", "Map", "Review", "Maintenance", "Duplicates", "Health", "Changes",
        "Tuning", "Imports",
    ]  # fmt: skip
    for title in titles:
        desktop.follow(nav.get_by_role("link", name=title))
        assert nav.locator("[aria-current=page]").all_inner_texts() == [title]
        for size in desktop.sizes():
            boxes = nav.get_by_role("link").evaluate_all(
                "all => all.map(e => e.getBoundingClientRect())"
                ".map(r => [r.left, r.right, r.height, r.top])"
            )
            width = page.evaluate("document.documentElement.clientWidth")
            assert all(
                left >= 0 and right <= width and high >= 24 for left, right, high, _ in boxes
            ), (title, size)
            lines = len({top for *_, top in boxes})
            assert lines <= {"desktop": 1, "phone": 2}[size], (title, size)
