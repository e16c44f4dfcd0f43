"""The script of the search page: keys, and sliders that rank again."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

from browser_helpers import BROWSER, Visitor

pytestmark = BROWSER

ASKED = "/demo/-/limbic/search?q=geocoder+outage&limit=30"
DELAY = 400


def test_a_slider_lets_go_of_who_opens_something_else(desktop: Visitor) -> None:
    page = desktop.page
    desktop.go(ASKED)
    page.route("**/entity/*", lambda route: (page.wait_for_timeout(2 * DELAY), route.continue_()))
    slider = page.get_by_role("slider", name="Salience")
    slider.focus()
    page.keyboard.press("ArrowRight")
    page.locator(".limbic-card h3 a").first.click()
    page.wait_for_url("**/entity/*")
    page.wait_for_timeout(2 * DELAY)
    assert "/entity/" in page.url
    page.unroute("**/entity/*")
    desktop.go(ASKED)
    slider.focus()
    page.keyboard.press("ArrowRight")
    page.get_by_role("searchbox", name="Search this memory").fill("vans")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=vans**")
    page.wait_for_timeout(2 * DELAY)
    assert parse_qs(urlsplit(page.url).query)["q"] == ["vans"]


def test_a_slider_of_a_listing_chooses_no_strategy(desktop: Visitor) -> None:
    page = desktop.page
    desktop.go("/demo/-/limbic/search?_lang=es")
    page.get_by_role("slider").first.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_url("**beta_sal=**")
    assert parse_qs(urlsplit(page.url).query).keys() == {"beta_sal", "_lang"}
    assert page.locator("main").get_attribute("lang") == "es"


def test_the_arrows_begin_at_what_is_in_view(desktop: Visitor) -> None:
    page = desktop.page
    desktop.go(ASKED)
    page.keyboard.press("ArrowDown")
    first = page.locator(".limbic-card h3 a").first
    assert first.evaluate("e => e === document.activeElement")
    desktop.go(ASKED)
    page.evaluate("scrollTo({ top: 1500, behavior: 'instant' })")
    page.keyboard.press("ArrowDown")
    assert abs(page.evaluate("scrollY") - 1500) < 400
    place = page.evaluate(
        "() => [...document.querySelectorAll('.limbic-card h3 a')].indexOf(document.activeElement)"
    )
    assert place > 1
    tops = page.locator(".limbic-card").evaluate_all(
        "all => all.map(e => e.getBoundingClientRect().top)"
    )
    assert tops[place - 1] < 0 <= tops[place]
