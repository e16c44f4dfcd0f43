"""Light, dark, the colours that a reader chose, and paper."""

from __future__ import annotations

import re
from typing import Any

import pytest
from browser_helpers import BROWSER, Visitor

pytestmark = BROWSER

_STYLE = "(e, name) => getComputedStyle(e)[name]"


def style(page: Any, selector: str, name: str) -> str:
    found: str = page.locator(selector).first.evaluate(_STYLE, name)
    return found


def brightness(colour: str) -> float:
    """0 to 255 of ``rgb(…)``."""
    parts = [float(part) for part in re.findall(r"[\d.]+", colour)]
    return sum(parts[:3]) / 3


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_a_chart_in_the_colours_of_its_reader(scheme: str, chromium: Any, server: str) -> None:
    """Forced colours: text as plain as all other, and the legend shows what the bars show."""
    someone = Visitor(chromium, server, "desktop", forced_colors="active", color_scheme=scheme)
    page = someone.page
    someone.go("/odd/-/limbic/entity/4")
    ink, paper = style(page, "body", "color"), style(page, "body", "backgroundColor")
    assert ink != paper
    assert style(page, ".limbic-timeline text", "fill") == ink
    assert style(page, ".limbic-timeline .limbic-lane", "fill") == ink
    for kind, colour in (("observations", ink), ("ended_observations", paper)):
        assert style(page, f".limbic-key.limbic-in-{kind}", "backgroundColor") == colour
        assert style(page, f".limbic-key.limbic-in-{kind}", "borderTopColor") == ink
        bar = f".limbic-timeline rect.limbic-in-{kind}"
        assert style(page, bar, "fill") == colour
        assert style(page, bar, "fillOpacity") == "1"
        assert style(page, bar, "stroke") == ink
    for kind, colour in (("now", ink), ("full", paper)):
        assert style(page, f".limbic-partners rect.limbic-{kind}", "fill") == colour
    someone.go("/odd/-/limbic")
    assert style(page, ".limbic-chart text", "fill") == ink
    for kind, colour in (("searched", ink), ("opened", paper)):
        assert style(page, f".limbic-key.limbic-{kind}", "backgroundColor") == colour
        assert style(page, f".limbic-chart rect.limbic-{kind}", "fill") == colour
    assert style(page, ".limbic-chart rect.limbic-opened", "stroke") == ink
    someone.done()


def test_dark_is_dark_from_top_to_bottom(desktop: Visitor) -> None:
    """Datasette's header, footer and fields too; and light is light on the same page."""
    page = desktop.page
    grounds = ("body", ".not-footer > header", "body > footer", "main input[type=search]")
    for scheme, wanted in (("dark", True), ("light", False)):
        page.emulate_media(color_scheme=scheme)
        desktop.go("/demo/-/limbic/search?q=geocoder")
        for selector in (*grounds, ".limbic-card", ".limbic-nav, .nav-menu-inner"):
            ground = brightness(style(page, selector, "backgroundColor"))
            bar = selector not in ("body", "main input[type=search]", ".limbic-card")
            # the bars at the top and the bottom are dark either way, as in all of Datasette
            assert (ground < 110) is (wanted or bar), (scheme, selector, ground)
        assert (brightness(style(page, "body", "color")) > 180) is wanted
    page.emulate_media(color_scheme="dark")
    desktop.go("/demo")
    assert brightness(style(page, "body", "backgroundColor")) > 200, "only our pages are changed"


def test_on_paper_it_is_light_and_nothing_is_cut_off(desktop: Visitor) -> None:
    page = desktop.page
    page.emulate_media(color_scheme="dark", media="print")
    desktop.go("/demo/-/limbic/search?q=geocoder")
    assert brightness(style(page, "body", "color")) < 60
    assert brightness(style(page, ".limbic-card", "backgroundColor")) > 240
    for hidden in (".limbic-tabs", "main form", ".not-footer > header"):
        assert not page.locator(hidden).first.is_visible(), hidden
    assert page.locator(".limbic-card h3").first.is_visible()
    desktop.go("/odd/-/limbic/consolidation?stale_days=0")
    cut = page.locator(".limbic-wide").evaluate_all(
        "all => all.filter(e => getComputedStyle(e).overflowX !== 'visible').length"
    )
    assert cut == 0
