"""People without a mouse: all is reached by Tab, and where one is can be seen."""

from __future__ import annotations

from typing import Any

import pytest
from browser_helpers import BROWSER, Visitor, focus
from browser_paths import PATHS

pytestmark = BROWSER

# What can have the focus, numbered in the order of the page.
_NUMBERED = """() => [...document.querySelectorAll(
    "main :is(a[href], button:enabled, summary, select, textarea, [tabindex='0'], input:not([type=hidden]))")]
  .filter(e => e.checkVisibility() && getComputedStyle(e).visibility === "visible")
  .map((e, i) => e.dataset.order = i).length"""  # noqa: E501
# Of each page, what must be among what is reached: names of fields and buttons, words of links.
PAGES: dict[str, set[str]] = {
    "overview": {"q", "Overview", "Map", "Imports"},
    "list": {"q", "Options"},
    "results": {"q", "Options", "Why not another?", "This ranking as SQL"},
    "explain": {
        *("q", "limit", "mode", "strategy", "gamma", "as_of", "include_archived"),
        *("Overview", "Search", "Hide the rest", "This ranking as SQL"),
    },
    "entity": {"as_of", "row"},
    "near it": {"hops", "co_occurrence", "archived", "the entity"},
    "map": {"The picture as a table"},
    "one import": set(),
    "maintenance": {"compare", "proposal", "Facets, filters, CSV"},
    "duplicates": {"All pairs as a table"},
    "duplicates of one": {"threshold", "look", "the entity"},
    "split": {"entity"},
    "health": set(),
}
ON_A_PHONE = ("explain", "maintenance")
WAYS = [(name, "desktop") for name in PAGES] + [(name, "phone") for name in ON_A_PHONE]


@pytest.mark.parametrize(("name", "size"), WAYS)
def test_all_is_reached_by_tab_in_order_and_seen(
    chromium: Any, server: str, name: str, size: str
) -> None:
    """Every link, field and box that scrolls."""
    someone = Visitor(chromium, server, size)
    page = someone.page
    someone.go(PATHS[name])
    total = page.evaluate(_NUMBERED)
    assert total > 10
    seen, names = [], set()
    for _ in range(total + 30):
        page.keyboard.press("Tab")
        focused = focus(page)
        if focused["ours"]:
            assert focused["shown"], focused
            assert focused["box"] > 0, focused
            # a field of a date has several stops
            if focused["order"] not in seen[-1:]:
                seen.append(focused["order"])
            names.add(focused["name"].strip())
        elif seen:
            break
    assert seen == [str(number) for number in range(total)]
    assert PAGES[name] <= names, sorted(names)
    someone.done()


def test_keyboard_on_an_import(desktop: Visitor) -> None:
    """Tables that scroll, reasons and raw texts are among what is reached."""
    desktop.go("/odd/-/limbic/imports/1")
    tags = set()
    for _ in range(40):
        desktop.page.keyboard.press("Tab")
        focused = focus(desktop.page)
        if focused["ours"]:
            assert focused["shown"], focused
            tags.add(focused["tag"])
    assert tags == {"A", "DIV", "SUMMARY"}


def test_a_search_is_typed_over_the_last(desktop: Visitor) -> None:
    page = desktop.page
    desktop.go("/demo/-/limbic/search?q=geocoder&limit=2")
    desktop.tab_to(page.get_by_role("searchbox", name="Search this memory"))
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("vans")
    desktop.press("Enter")
    page.wait_for_url("**q=vans**")
    assert page.locator(".limbic-results .limbic-card").count() == 2
