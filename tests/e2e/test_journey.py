"""The whole way of a person: search, entity, proposal of a split, approval, undo.

Below a prefix, as behind a proxy, in a memory whose name has spaces and dots.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from browser_helpers import BROWSER, Visitor
from view_helpers import rows

pytestmark = BROWSER

# What the memory says, but for the log of what was done.
KEPT = (
    "select name, entity_type, archived_at from entities order by id",
    "select id, entity_id, content, valid_to from observations order by id",
    "select from_entity, to_entity, relation_type, valid_to from relations order by id",
)


def said(path: Path) -> list[Any]:
    return [[tuple(row) for row in rows(path, sql)] for sql in KEPT]


class Mouse:
    """Someone who clicks."""

    def __init__(self, someone: Visitor) -> None:
        self.someone = someone

    def ask(self, field: Any, words: str) -> None:
        field.fill(words)
        self.someone.follow(field.page.locator("main form[role=search] [type=submit]").first)

    def take(self, target: Any) -> None:
        self.someone.follow(target)


class Keys(Mouse):
    """Someone who has no mouse: Tab, letters and Enter."""

    def ask(self, field: Any, words: str) -> None:
        self.someone.tab_to(field)
        field.page.keyboard.type(words)
        self.someone.press("Enter")

    def take(self, target: Any) -> None:
        self.someone.tab_to(target, most=250)
        self.someone.press("Enter")


WAYS = {
    "keys": (Keys, {"size": "desktop", "color_scheme": "dark"}),
    # on a phone, in Spanish, without scripts
    "touch": (Mouse, {"size": "phone", "java_script_enabled": False, "locale": "es-ES"}),
}


@pytest.mark.parametrize("way", WAYS)
def test_from_a_search_to_a_split_and_back(way: str, chromium: Any, edited: Any) -> None:
    manner, options = WAYS[way]
    someone = Visitor(chromium, edited.url, **options)
    page, hand, base = someone.page, manner(someone), edited.base
    before = said(edited.path)

    someone.go(base)
    assert page.locator("main").get_attribute("lang") == ("es" if way == "touch" else "en")
    hand.ask(page.get_by_role("searchbox").first, "Turia rollout")
    assert page.url.startswith(f"{edited.url}{base}/search?q=Turia+rollout")
    someone.check()
    hand.take(page.locator(".limbic-results .limbic-card h3 a").filter(has_text="Turia").first)
    assert page.locator("h1").inner_text() == "Turia rollout"
    someone.check()
    hand.take(page.locator(f"main a[href='/prefix{base}/split/4']").first)
    proposed = page.locator("form.limbic-editing fieldset input[name$='.name']")
    names = [each.input_value() for each in proposed.all() if each.input_value()]
    assert len(names) > 1
    someone.check()

    hand.take(page.locator("main button[name=show][value=diff]"))
    assert said(edited.path) == before, "nothing is done before a yes"
    someone.check()
    hand.take(page.locator("main form:has([name=approve]) button.limbic-yes"))
    assert page.locator("main [role=status]").count() >= 1
    made = {row[0] for row in rows(edited.path, "select name from entities")}
    assert set(names) <= made
    assert said(edited.path) != before
    someone.check()

    hand.take(page.locator("main form[action$='/actions/undo'] button"))
    hand.take(page.locator("main form:has([name=approve]) button.limbic-yes"))
    assert said(edited.path) == before
    someone.check()
    someone.done()
