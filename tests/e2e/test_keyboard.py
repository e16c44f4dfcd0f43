"""People without a mouse: all is reached by Tab, and where one is can be seen."""

from __future__ import annotations

import pytest
from browser_helpers import BROWSER, Visitor, focus
from browser_paths import PATHS

pytestmark = BROWSER

# What can have the focus, numbered in the order of the page.
_NUMBERED = """() => [...document.querySelectorAll(
    "main :is(a[href], button, summary, select, textarea, [tabindex='0'], input:not([type=hidden]))")]
  .filter(e => e.checkVisibility() && getComputedStyle(e).visibility === "visible")
  .map((e, i) => e.dataset.order = i).length"""  # noqa: E501
PAGES = (
    *("explain", "one import", "maintenance", "duplicates", "duplicates of one", "split", "health"),
)


@pytest.mark.parametrize("name", PAGES)
def test_all_is_reached_by_tab_in_order_and_seen(desktop: Visitor, name: str) -> None:
    """Every link, field and box that scrolls."""
    page = desktop.page
    desktop.go(PATHS[name])
    total = page.evaluate(_NUMBERED)
    assert total > 10
    seen = []
    for _ in range(total + 20):
        page.keyboard.press("Tab")
        focused = focus(page)
        if focused["ours"]:
            assert focused["shown"], focused
            assert focused["box"] > 0, focused
            seen.append(focused["order"])
        elif seen:
            break
    assert seen == [str(number) for number in range(total)]


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
