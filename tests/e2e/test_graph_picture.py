"""The script of the pictures of the graph: keys and pointers after a drag, names on demand."""

from __future__ import annotations

from browser_helpers import BROWSER, Visitor

pytestmark = BROWSER

NEAR = "/demo/-/limbic/entity/4/graph?hops=2"
PICTURE = "svg.limbic-graph-picture"


def zoomed(person: Visitor) -> dict[str, float]:
    """The box of the picture, three steps closer."""
    person.go(NEAR)
    for _ in range(3):
        person.page.get_by_role("button", name="Zoom in").click()
    box: dict[str, float] = person.page.locator(PICTURE).bounding_box()
    return box


def test_a_key_counts_after_a_drag_that_ended_outside(desktop: Visitor) -> None:
    page, box = desktop.page, zoomed(desktop)
    x = box["x"] + box["width"] / 2
    page.mouse.move(x + 200, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(x + 100, box["y"] + 30, steps=4)
    page.mouse.move(x, box["y"] - 40, steps=4)
    page.mouse.up()
    node = page.locator("a.limbic-node:not(.limbic-node-focus)").first
    wanted = node.get_attribute("href").removeprefix("..")
    node.focus()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{wanted}")


def test_a_drag_whose_end_nobody_told_is_over(desktop: Visitor) -> None:
    page, box = desktop.page, zoomed(desktop)
    page.mouse.move(box["x"] + 300, box["y"] + 200)
    page.evaluate(
        """(path) => document.querySelector(path).dispatchEvent(new PointerEvent("pointerdown",
          { bubbles: true, pointerId: 1, pointerType: "mouse", buttons: 1 }))""",
        PICTURE,
    )
    before = page.get_attribute(PICTURE, "viewBox")
    page.mouse.move(box["x"] + 400, box["y"] + 260, steps=4)
    assert page.get_attribute(PICTURE, "viewBox") == before
    # with the button it moves
    page.mouse.down()
    page.mouse.move(box["x"] + 300, box["y"] + 200, steps=4)
    page.mouse.up()
    assert page.get_attribute(PICTURE, "viewBox") != before


def test_lines_are_named_where_one_points(desktop: Visitor) -> None:
    page = desktop.page
    desktop.go(NEAR)
    focus = page.get_attribute("a.limbic-node-focus", "data-id")
    waiting = page.locator(".limbic-edge[data-label]")
    assert waiting.count() > 40
    assert page.locator(".limbic-edge text").count() == 0
    page.locator("a.limbic-node-focus .limbic-dot").hover()
    shown = page.locator(".limbic-edge text:visible").all_text_contents()
    own = [
        edge.get_attribute("data-label")
        for edge in waiting.all()
        if focus in edge.get_attribute("data-ends").split()
    ]
    assert sorted(shown) == sorted(own)
    assert shown
