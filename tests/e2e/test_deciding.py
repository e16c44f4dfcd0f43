"""A person at a browser who decides, one after another: by keys, and without scripts."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from browser_helpers import BROWSER, Visitor, serving
from review_helpers import ids, queued_master_fixture  # noqa: F401
from view_helpers import rows

pytestmark = BROWSER
REVIEW = "/memory/-/limbic/review"


@pytest.fixture
def queued(queued_master: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(queued_master, tmp_path / "memory.db"))


@pytest.fixture
def served(queued: Path, tmp_path: Path) -> Iterator[str]:
    """The URL of a Datasette on the memory, where everybody may edit."""
    with serving(tmp_path, queued, config={"permissions": {"limbic-edit": True}}) as url:
        yield url


def status(path: Path, number: int) -> str:
    return str(rows(path, "select status from limbic_insights where id = ?", number)[0][0])


def at(someone: Visitor) -> tuple[str, dict[str, list[str]]]:
    """Which finding the page is about, or the queue; and its arguments."""
    found = urlsplit(someone.page.url)
    return found.path.removeprefix(REVIEW).strip("/"), parse_qs(found.query)


def test_by_keys_and_without_scripts(
    chromium: Any,
    served: str,
    queued: Path,
) -> None:
    number = ids(queued)
    first, second, third = (number[k] for k in ("contradiction", "duplicate", "name_clash"))
    someone = Visitor(chromium, served, "desktop")
    page = someone.page
    someone.go(REVIEW)
    someone.check()
    someone.press("j")
    assert at(someone) == (str(first), {})
    someone.check()

    # there and back; at the ends nothing happens
    page.keyboard.press("k")
    someone.press("j")
    assert at(someone)[0] == str(second)
    someone.press("k")
    someone.press("s")
    someone.press("k")
    assert at(someone)[0] == str(first)

    # help
    keys = page.locator("details.limbic-keys")
    page.keyboard.press("?")
    assert keys.get_attribute("open") is not None
    page.keyboard.press("?")
    assert keys.get_attribute("open") is None

    # what must not decide: modifiers, a key that is held, other keys, typing
    for combination in ("Control+a", "Alt+a", "Meta+d", "Shift+A", "x", "Enter"):
        page.keyboard.press(combination)
    page.evaluate(
        "document.body.dispatchEvent(new KeyboardEvent('keydown',"
        " {key: 'a', repeat: true, bubbles: true}))"
    )
    page.get_by_label("Ends at").fill("")
    page.get_by_label("Ends at").press("d")
    assert page.get_by_label("Ends at").input_value() == "d"
    page.get_by_label("Ends at").fill("")
    page.get_by_text("Add a note to a dismissal").click()
    page.get_by_label("Note").press_sequentially("jad?")
    page.get_by_label("Note").fill("")
    page.wait_for_timeout(200)
    assert at(someone) == (str(first), {})
    assert status(queued, first) == "pending"

    # another choice is shown first, then done; the focus is on what was done
    page.get_by_label("End the later one").check()
    someone.press("a")
    assert at(someone) == (str(first), {"observation": ["4"]})
    assert status(queued, first) == "pending"
    someone.press("a")
    assert at(someone) == (str(second), {"done": ["1"]})
    assert status(queued, first) == "approved"
    said = page.get_by_role("status").first
    assert "Done." in said.inner_text()
    assert said.evaluate("element => element === document.activeElement")
    someone.check()

    # a no, taken back by its key
    someone.press("d")
    assert at(someone) == (str(third), {"judged": [str(second)]})
    assert status(queued, second) == "dismissed"
    someone.press("u")
    assert at(someone) == (str(second), {"judged": [str(second)]})
    assert status(queued, second) == "pending"

    # a yes leads to where it is undone
    someone.press("a")
    someone.press("u")
    assert page.url.endswith("/memory/-/limbic/changes/2")
    someone.go(f"{REVIEW}/{second}")
    # what is judged has no buttons, so that keys press none
    page.keyboard.press("a")
    page.keyboard.press("d")
    page.wait_for_timeout(100)
    assert at(someone)[0] == str(second)

    # keys can be switched off, and stay so
    someone.go(f"{REVIEW}/{third}")
    page.keyboard.press("?")
    page.get_by_label("Use these keys in this browser").uncheck()
    for _ in range(2):
        page.keyboard.press("d")
        page.wait_for_timeout(100)
        assert at(someone)[0] == str(third)
        someone.go(f"{REVIEW}/{third}")
    assert status(queued, third) == "pending"
    # every kind fits at each width
    for each in number.values():
        someone.go(f"{REVIEW}/{each}")
        someone.check()
    someone.done()

    # and all of it without scripts
    someone = Visitor(chromium, served, "phone", java_script_enabled=False)
    page = someone.page
    someone.go(f"{REVIEW}/{third}")
    page.get_by_label("Keep this one (10)").check()
    someone.follow(page.get_by_role("button", name="Show what this choice would change"))
    assert at(someone) == (str(third), {"keep": ["10"]})
    someone.follow(page.get_by_role("button", name="Approve: merge"))
    assert at(someone) == (str(number["bridge"]), {"done": ["3"]})
    assert rows(queued, "select archived_at is not null from entities where id = 11") == [(1,)]
    someone.follow(page.get_by_role("button", name="Dismiss: leave it archived"))
    someone.follow(page.get_by_role("button", name="Undo: open it again"))
    assert at(someone)[0] == str(number["bridge"])
    someone.follow(page.get_by_role("link", name="Queue"))
    someone.follow(page.get_by_role("button", name="Look again"))
    assert "Looked again:" in page.get_by_role("status").first.inner_text()
    someone.done()
