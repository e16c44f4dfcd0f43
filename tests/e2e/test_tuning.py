"""A person at a browser who tunes: looks, applies, sets by hand and goes back. No scripts."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser_helpers import BROWSER, Visitor, has_landmarks_and_headings, serving
from test_views_tuning import SMALL, signal_master  # noqa: F401
from view_helpers import rows

pytestmark = BROWSER
TUNING = "/memory/-/limbic/tuning"


@pytest.fixture
def tuned(signal_master: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(signal_master, tmp_path / "memory.db"))


@pytest.fixture
def served(tuned: Path, tmp_path: Path) -> Iterator[str]:
    """The URL of a Datasette on the memory, where everybody may edit."""
    with serving(tmp_path, tuned, config={"permissions": {"limbic-edit": True}}) as url:
        yield url


def test_apply_set_and_roll_back(chromium: Any, served: str, tuned: Path) -> None:
    someone = Visitor(chromium, served, "phone", java_script_enabled=False)
    page = someone.page
    someone.go(TUNING + SMALL)
    someone.check()
    for summary in ("The grid as a table", "Week by week", "Other ranges", "Set by hand"):
        page.get_by_text(summary, exact=True).click()
    someone.check()  # what was folded is as narrow
    has_landmarks_and_headings(page, "tuning")

    # the picture is told to who cannot see it, in words and as a table
    picture = page.get_by_role("img", name="NDCG@10 by parameters")
    assert "In force is beta_sal 0.5 with gamma 0.01." in picture.locator("desc").text_content()
    region = page.get_by_role("region", name="NDCG by beta_sal and gamma")
    assert region.get_by_role("columnheader").all_inner_texts() == ["0.01", "0.1"]
    assert region.locator("tbody td").count() == 4
    assert picture.locator("> rect").count() == 4
    # a cell is the deeper, the higher it is, and no sheet makes all of them alike
    depths = picture.locator("> rect").evaluate_all(
        "all => all.map(e => [+getComputedStyle(e).fillOpacity,"
        " +e.querySelector('title').textContent.match(/: ([0-9.]+)/)[1]])"
    )
    assert len({depth for depth, _ in depths}) > 1
    assert sorted(depths) == sorted(depths, key=lambda each: each[1])
    [fill] = set(
        picture.locator("> rect").evaluate_all("all => all.map(e => getComputedStyle(e).fill)")
    )
    assert fill not in ("none", "rgb(0, 0, 0)")
    # marks lie upon their cells
    for mark in ("in-force", "best"):
        box = picture.locator(f".limbic-mark-{mark}").bounding_box()
        assert box is not None
        middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        name = mark.replace("-", " ")
        cell = picture.locator("> rect").filter(has_text=name).bounding_box()
        assert cell is not None
        assert cell["x"] < middle[0] < cell["x"] + cell["width"]
        assert cell["y"] < middle[1] < cell["y"] + cell["height"]

    def status() -> str:
        return str(page.get_by_role("status").inner_text())

    someone.follow(page.get_by_role("button", name="Apply this"))
    assert status().startswith("Version 1 is in force, from the log")
    assert page.get_by_role("button", name="Apply this").count() == 0
    someone.check()
    page.get_by_text("Set by hand", exact=True).click()
    page.get_by_label("gamma").first.fill("0.5")
    someone.follow(page.get_by_role("button", name="Set", exact=True))
    assert status().startswith("Version 2 is in force, set by hand")
    someone.follow(page.get_by_role("button", name="Roll back to version 1"))
    assert status().startswith("Version 3 is in force, rolled back")
    someone.follow(page.get_by_role("button", name=re.compile("Back to this.*version 0")))
    someone.check()
    found = rows(tuned, "select beta_sal, gamma, source from limbic_parameters order by version")
    assert [row[2] for row in found] == ["tuned", "manual", "rollback", "rollback"]
    assert found[2][:2] == found[0][:2]
    assert found[3][:2] == (0.5, 0.01)
    someone.done()
