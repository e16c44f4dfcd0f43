"""People who rate what a search found."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote, urlsplit

from browser_helpers import BROWSER, NOW, Visitor, cards, fetch
from odd_memory import SCRIPT

pytestmark = BROWSER


def rated(page: Any) -> list[str]:
    """Accessible names of the buttons that are pressed."""
    return page.locator(".limbic-rate button[aria-pressed=true]").evaluate_all(
        "all => all.map(e => e.getAttribute('aria-label'))"
    )


def test_results_are_rated(walker: Visitor) -> None:
    """Useful, then changed to not useful, then another result: all of one logged search."""
    someone = walker.sign_in()
    page = someone.page
    count = "/demo/-/limbic.json"
    before = fetch(walker.server, count)["signals"]
    asked = f"/demo/-/limbic/search?q=who+fixed+the+geocoder&limit=3&now={quote(NOW)}"
    someone.go(asked)
    first, second, _ = cards(page)
    name, other = page.locator(".limbic-card h3").all_inner_texts()[:2]
    assert rated(page) == []
    someone.follow(page.get_by_role("button", name=f"Useful: {name}", exact=True))
    address = urlsplit(page.url)
    assert address.fragment == f"entity-{first}"
    uid = dict(part.split("=", 1) for part in address.query.split("&"))["search_id"]
    assert rated(page) == [f"Useful: {name}"]
    assert cards(page)[:2] == [first, second]
    someone.check()
    someone.follow(page.get_by_role("button", name=f"Not useful: {name}", exact=True))
    assert rated(page) == [f"Not useful: {name}"]
    someone.follow(page.get_by_role("button", name=f"Useful: {other}", exact=True))
    assert urlsplit(page.url).fragment == f"entity-{second}"
    assert rated(page) == [f"Not useful: {name}", f"Useful: {other}"]
    assert f"search_id={uid}" in page.url
    words = f"Rated in this search: {name} not useful, {other} useful."
    assert page.locator("p[role=status]").all_inner_texts() == [words]
    # the same search with the rest shown, and rated from there
    someone.follow(page.get_by_role("link", name="Why not another?"))
    assert rated(page) == [f"Not useful: {name}", f"Useful: {other}"]
    someone.follow(page.get_by_role("button", name=f"Not useful: {name}", exact=True))
    assert page.get_by_role("link", name="Hide the rest").is_visible()
    assert f"search_id={uid}" in page.url
    someone.check()
    after = fetch(walker.server, count)["signals"]
    assert after["searches"]["count"] - before["searches"]["count"] == 1
    change = {key: after["events"][key] - before["events"][key] for key in after["events"]}
    assert change == {"opened": 0, "useful": 1, "not_useful": 1}
    someone.go(asked)
    assert rated(page) == []
    someone.go(f"/demo/-/limbic/entity/{second}")
    assert page.get_by_text(re.compile("rated useful [1-9]")).is_visible()


def test_hostile_names_are_rated_too(desktop: Visitor) -> None:
    page = desktop.sign_in().page
    asked = "/odd/-/limbic/search?include_archived=1&mode=text&q="
    for query in (quote(SCRIPT), "unbroken+word", quote('"><b>quoted')):
        desktop.go(asked + query)
        desktop.check()
        for width in desktop.sizes():
            boxes = page.locator(".limbic-rate button[name=rate]").evaluate_all(
                "all => all.map(e => e.getBoundingClientRect()).map(r => [r.width, r.height])"
            )
            assert len(boxes) == 2 * len(cards(page)) > 0, (query, width)
            assert min(min(box) for box in boxes) >= 24, (query, width)
        shown = cards(page)[-1]
        desktop.follow(page.locator(f"#entity-{shown} button[name=rate]").first)
        assert len(rated(page)) == 1
        pressed = page.locator(f"#entity-{shown} button[name=rate]").first.get_attribute(
            "aria-pressed"
        )
        assert pressed == "true"
        desktop.check()


def test_whoever_may_not_record_has_nothing_to_press(desktop: Visitor) -> None:
    desktop.go("/demo/-/limbic/search?q=geocoder")
    assert len(cards(desktop.page)) > 0
    assert desktop.page.locator("main form[method=post]").count() == 0
    assert desktop.page.locator(".limbic-rate").count() == 0
    assert desktop.context.cookies() == []


def test_a_rating_by_keyboard(desktop: Visitor) -> None:
    page = desktop.sign_in().page
    desktop.go("/demo/-/limbic/search?q=geocoder&limit=1")
    desktop.tab_to(page.get_by_role("button", name="Not useful: "))
    desktop.press("Enter")
    assert rated(page) == ["Not useful: geocoder"]
