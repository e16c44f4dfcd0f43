"""axe-core on each of our pages, light and dark, on a desk and in a hand.

With $LIMBIC_SCREENSHOTS, a picture of each is kept in that folder.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from browser_helpers import BROWSER, SIZES, Visitor
from npm_packages import installed
from view_helpers import ONE_POINT_ZERO

pytestmark = [*BROWSER, pytest.mark.slow]

AXE = "4.14.1"
SCHEMES = ("light", "dark")
# Below the overview of the sample, or of the memory that stands before the first slash.
PAGES = {
    "overview": "",
    "list": "/search",
    "search": "/search?q=who+fixed+the+geocoder&limit=4",
    "explain": "/search?q=geocoder&explain=1&limit=2",
    "entity": "/entity/4",
    "archived": "/entity/10",
    "graph": "/entity/4/graph",
    "map": "/graph",
    "review": "/review",
    "insight": "/review/1",
    "consolidation": "/consolidation",
    "duplicates": "/duplicates",
    "duplicates-of-one": "/duplicates/7?threshold=0.3&look=0.2",
    "split": "/split/4",
    "health": "/health",
    "changes": "/changes",
    "imports": "/imports",
    "import": "/imports/1",
    "tuning": "tuned/tuning?beta_sal_range=0.5,1.5&gamma_range=0.01,0.1",
    "empty": "empty",
    "empty-search": "empty/search?q=x",
    "error": "/search?q=x&limit=0",
}
COLOURS = ["color-contrast", "link-in-text-block"]
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
# Of Datasette's own page around ours: the older line does not name its language. Ours is named on
# <main>.
CORES = {"html-has-lang"}
_RUN = """async (rules) => {
  const found = await axe.run(document, { runOnly: rules, resultTypes: ["violations"], preload: false });
  const core = (node) => node.target.every((each) => {
    const element = document.querySelector(Array.isArray(each) ? each[0] : each);
    return element && !element.closest("main");
  });
  return found.violations.flatMap((rule) => rule.nodes.map((node) => ({
    rule: rule.id, core: core(node), html: node.html.slice(0, 200), why: node.failureSummary,
  })));
}"""  # noqa: E501


@pytest.fixture(scope="module")
def axe() -> str:
    return (installed("axe-core", AXE) / "axe.min.js").read_text("utf-8")


@pytest.fixture(scope="module")
def person(chromium: Any, edited: Any) -> Any:
    someone = Visitor(chromium, edited.url, "desktop")
    yield someone
    # Chromium itself logs each status of 400 and more
    someone.errors = [e for e in someone.errors if "Failed to load resource" not in e]
    someone.done()


@pytest.mark.parametrize("name", PAGES)
def test_no_violation(name: str, person: Visitor, edited: Any, axe: str) -> None:
    path = PAGES[name]
    below = path if path[:1] in ("", "/") else None
    memory, _, rest = path.partition("/")
    person.go(edited.base + path if below is not None else f"/{memory}/-/limbic/{rest}".rstrip("/"))
    person.page.evaluate(axe)
    for size in SIZES:
        wide, high = SIZES[size]
        person.page.set_viewport_size({"width": wide, "height": high})
        for scheme in SCHEMES:
            person.page.emulate_media(color_scheme=scheme)
            keep_picture(person.page, f"{name}-{size}-{scheme}")
            # colours do not change what stands where
            found = person.page.evaluate(_RUN, RULES if scheme == "light" else COLOURS)
            cores = [each for each in found if each["core"] and each["rule"] in CORES]
            ours = [each for each in found if each not in cores]
            assert ours == [], (name, size, scheme)


def test_axe_sees_what_is_wrong(person: Visitor, edited: Any, axe: str) -> None:
    """A page that is broken on purpose is not called good."""
    person.go(edited.base + "/health")
    person.page.evaluate(axe)
    person.page.evaluate(
        """() => { const main = document.querySelector("main");
        main.append(document.createElement("select"), document.createElement("h5"));
        main.querySelector("h5").textContent = "deep";
        main.querySelector("p").style.setProperty("color", "#99999930"); }"""
    )
    found = {each["rule"] for each in person.page.evaluate(_RUN, RULES) if not each["core"]}
    assert {"select-name", "heading-order", "color-contrast"} <= found


def keep_picture(page: Any, name: str) -> None:
    folder = os.environ.get("LIMBIC_SCREENSHOTS")
    if folder:
        line = "1.0" if ONE_POINT_ZERO else "0.65"
        page.screenshot(path=Path(folder) / line / f"{name}.png", full_page=True)
