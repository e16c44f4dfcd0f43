"""People who read: from page to page, with scripts and without."""

from __future__ import annotations

import re
from urllib.parse import quote

from browser_helpers import BROWSER, NOW, SIZES, Visitor, cards, fetch

pytestmark = BROWSER
LOSERS = 20
"""Most of those below the last place that a page of results lists."""
# Heads of the columns of an entity over time, and what they are in its JSON.
NAMES = {
    "Observations": "observations",
    "Ended since": "ended_observations",
    "Relations begun": "relations_begun",
    "Relations ended": "relations_ended",
    "Accesses": "accesses",
}


def walk(someone: Visitor) -> None:
    """Overview → query → results → explain → entity → another → the row → back."""
    page = someone.page
    someone.go("/demo/-/limbic")
    someone.check()
    page.get_by_role("searchbox", name="Search this memory").fill("when may we deploy?")
    someone.follow(page.get_by_role("button", name="Search"))
    page.wait_for_url("**/search?q=*")
    someone.check()
    found = fetch(someone.server, "/demo/-/limbic/search.json?q=when+may+we+deploy%3F")
    assert cards(page) == [row["id"] for row in found["results"]]
    assert page.locator("mark").count() > 0
    someone.follow(page.get_by_role("link", name="Why not another?"))
    page.wait_for_url("**explain=1*")
    someone.check()
    rows = page.locator("section table tbody tr")
    left = found["candidates"] - len(found["results"])
    assert left > LOSERS
    assert rows.count() == LOSERS
    assert page.get_by_text(f"The first {LOSERS} are listed").is_visible()
    someone.follow(page.get_by_role("link", name="Hide the rest"))
    first = page.locator(".limbic-card h3 a").first
    name = first.inner_text()
    someone.follow(first)
    page.wait_for_url("**/entity/*")
    someone.check()
    assert page.locator("h1").inner_text() == name
    someone.follow(page.locator(".limbic-relations a").first)
    page.wait_for_url("**/entity/*")
    someone.check()
    someone.follow(page.get_by_role("link", name="row", exact=True))
    page.wait_for_url("**/demo/entities/*")
    someone.follow(page.locator("table a[href*='/-/limbic/entity/']").first)
    page.wait_for_url("**/-/limbic/entity/*")
    someone.follow(page.get_by_role("link", name="Overview", exact=True))
    page.wait_for_url("**/-/limbic")
    page.go_back()
    someone.check()


def test_a_walk(walker: Visitor) -> None:
    walk(walker)


def test_a_walk_through_the_options(walker: Visitor) -> None:
    someone = walker
    page = someone.page
    someone.go("/demo/-/limbic")
    page.get_by_role("searchbox", name="Search this memory").fill("paella")
    someone.follow(page.get_by_role("button", name="Search"))
    assert page.locator(".limbic-card").count() > 0
    page.get_by_text("Options", exact=True).click()
    page.get_by_label("Results").fill("2")
    someone.follow(page.get_by_role("button", name="Search"))
    assert page.locator(".limbic-card").count() == 2
    page.get_by_label("gamma").fill("0.05")
    someone.follow(page.get_by_role("button", name="Rank again"))
    assert "gamma=0.05" in page.url
    assert page.get_by_label("gamma").input_value() == "0.05"
    assert page.locator(".limbic-card").count() == 2
    someone.check()
    someone.follow(page.get_by_role("link", name="Why not another?"))
    assert page.locator("section table tbody tr").count() > 0
    someone.follow(page.locator(".limbic-card h3 a").first)
    assert "/entity/" in page.url


def test_a_walk_through_the_imports(walker: Visitor) -> None:
    """Overview → log → file → its reason → next page → a raw text → the row."""
    someone = walker
    page = someone.page
    someone.go("/odd/-/limbic")
    someone.follow(page.get_by_role("link", name="Imports", exact=True))
    assert page.get_by_role("row").count() == 51
    someone.follow(page.get_by_role("link", name="Next"))
    assert page.get_by_role("row").count() == 18
    page.get_by_label("Name of an imported file").fill("odd.jsonl")
    someone.follow(page.get_by_role("button", name="Filter"))
    assert page.get_by_role("row").count() == 2
    assert page.get_by_text("21,250 left out").is_visible()
    someone.follow(page.get_by_role("rowheader", name="odd.jsonl").get_by_role("link"))
    assert page.locator("h1").inner_text() == "odd.jsonl"
    assert page.get_by_text("11,250 were rejected and 256 of them are here").is_visible()
    someone.follow(page.get_by_role("link", name="no entity named …"))
    rows = page.get_by_role("region", name="Line by line").locator("tbody tr")
    assert rows.count() == 100
    someone.follow(page.get_by_role("link", name="Next"))
    assert rows.count() == 100
    assert "no entity named 'Nobody 200'" in rows.first.inner_text()
    rest = rows.first.locator("pre")
    assert not rest.is_visible()
    rows.first.locator("summary").click()
    assert rest.inner_text() == "raw text 200\nmore"
    someone.follow(rows.first.get_by_role("link"))
    page.wait_for_url("**/odd/limbic_import_rejects/*")
    assert page.get_by_text("Nobody 200").first.is_visible()


def test_signals_of_an_entity(walker: Visitor) -> None:
    """The picture over time, what it says in words, the same as a table, and on to a partner."""
    someone = walker
    page = someone.page
    path = f"/demo/-/limbic/entity/4?now={quote(NOW)}"
    found = fetch(walker.server, path.replace("/4?", "/4.json?"))
    someone.go(path)
    someone.check()
    picture = page.get_by_role("img", name=re.compile("Over time From .* observations"))
    for width in someone.sizes():
        box = picture.bounding_box()
        assert box["x"] >= 0, width
        assert box["x"] + box["width"] <= SIZES[width][0], width
        assert box["height"] > 100, width
        sizes = picture.locator("text").evaluate_all(
            "all => all.map(e => e.getBoundingClientRect().height)"
        )
        assert min(sizes) >= 10, width
    bins = [
        counts
        for each in found["timeline"]["bins"]
        if any(counts := [each[name] for name in NAMES.values()])
    ]
    assert picture.locator("g").count() == len(bins) > 0
    table = page.get_by_role("table").filter(has_text="When")
    assert not table.is_visible()
    page.get_by_text("The same as a table").click()
    table.wait_for()
    heads = table.locator("thead th").all_inner_texts()[1:]
    cells = table.locator("tbody tr").evaluate_all(
        "rows => rows.map(r => [...r.cells].slice(1).map(c => +c.innerText))"
    )
    # a column of nothing is left out
    kept = [i for i, name in enumerate(NAMES) if name in heads]
    assert heads == [list(NAMES)[i] for i in kept]
    assert cells == [[row[i] for i in kept] for row in reversed(bins)]
    assert sum(map(sum, bins)) == sum(map(sum, cells))
    someone.check()
    weeks = found["signals"]["weeks"]
    searched, opened = (sum(week[k] for week in weeks) for k in ("searched", "opened"))
    said = f"{searched} found by a search, {opened} opened by name."
    assert page.get_by_text(said).is_visible()
    partners = page.locator(".limbic-partners a")
    assert partners.all_inner_texts() == [p["name"] for p in found["signals"]["co_occurrences"]]
    for width in someone.sizes():
        wide = page.locator(".limbic-partners .limbic-full").evaluate_all(
            "all => all.map(e => e.getBoundingClientRect().width)"
        )
        assert wide == sorted(wide, reverse=True), width
    someone.follow(partners.first)
    assert page.url.endswith(f"/entity/{found['signals']['co_occurrences'][0]['id']}")


def test_a_walk_of_maintenance(walker: Visitor) -> None:
    """Overview → what needs review → the two texts → the entity → its duplicates → a split."""
    someone = walker
    page = someone.page
    counts = fetch(walker.server, "/demo/-/limbic.json")["review"]["counts"]
    someone.go("/demo/-/limbic")
    review = page.get_by_role("region", name="What needs review")
    shown = review.locator("dd a").all_inner_texts()
    assert [int(each) for each in shown] == [
        counts[name]
        for name in (
            *("contradictions", "flagged_observations", "split_candidates", "approaching"),
            *("stale_entities", "large_entities", "orphans"),
        )
    ]
    someone.follow(review.locator("dd a").first)
    assert page.url.endswith("/demo/-/limbic/consolidation#contradictions")
    someone.check()
    rows = page.get_by_role("region", name="Contradictions?").get_by_role("row")
    assert rows.count() == counts["contradictions"] + 1
    name = rows.nth(1).get_by_role("rowheader").get_by_role("link").first.inner_text()
    someone.follow(rows.nth(1).get_by_role("link", name="compare"))
    assert page.locator("h1").inner_text() == f"Duplicates of {name}"
    someone.check()
    said = page.get_by_role("region", name="Contradictions?").locator(".limbic-side")
    for width in someone.sizes():
        boxes = said.evaluate_all(
            "all => all.map(e => e.getBoundingClientRect()).map(r => [r.x, r.y])"
        )
        # beside each other where there is room, else one below the other
        assert (boxes[0][1] == boxes[1][1]) is (width == "desktop"), width
    assert page.get_by_role("region", name="Contradictions?").locator("mark").count() > 0
    someone.follow(page.get_by_role("link", name="the entity", exact=True))
    assert page.locator("h1").inner_text() == name
    someone.follow(page.locator(".limbic-facts a[href*='/duplicates/']"))
    assert page.locator("h1").inner_text() == f"Duplicates of {name}"
    page.get_by_label("Cosine, duplicate from").fill("0.3")
    page.get_by_label("Cosine, worth a look from").fill("0.3")
    someone.follow(page.get_by_role("button", name="Compare"))
    assert page.get_by_label("Cosine, duplicate from").input_value() == "0.3"
    someone.check()
    someone.follow(page.get_by_role("navigation", name="Memory").get_by_text("Maintenance"))
    split = page.get_by_role("region", name="Split candidates").get_by_role("row").nth(1)
    name = split.get_by_role("rowheader").get_by_role("link").inner_text()
    someone.follow(split.get_by_role("link", name="proposal"))
    assert page.locator("h1").inner_text() == f"Split of {name}"
    assert page.get_by_text("Nothing has been changed.").is_visible()
    assert page.locator(".limbic-part").count() > 1
    someone.check()
    someone.follow(page.get_by_role("link", name="entity", exact=True))
    assert page.get_by_text(re.compile(r"^large: \d+ observations, threshold \d+$")).is_visible()
    someone.follow(page.get_by_role("link", name="How it could be split"))
    assert page.locator("h1").inner_text() == f"Split of {name}"
    someone.follow(page.get_by_role("navigation", name="Memory").get_by_text("Health"))
    page.get_by_text("Looked for and not found").click()
    assert page.locator("details[open] li").first.is_visible()
    someone.check()


def test_a_flag_leads_to_what_it_is_like(desktop: Visitor, server: str) -> None:
    found = fetch(server, "/demo/-/limbic/consolidation.json?list=flagged_observations")
    row = found["flagged_observations"][0]
    desktop.go(f"/demo/-/limbic/entity/{row['entity_id']}")
    flag = desktop.page.locator(f"#observation-{row['id']}").get_by_role(
        "link", name=f"duplicate of #{row['similar_to']}"
    )
    assert row["similar_content"][:60] in flag.get_attribute("title")
    for width in desktop.sizes():
        assert flag.is_visible(), width
    flag.click()
    desktop.page.wait_for_url(f"**#observation-{row['similar_to']}")
    target = desktop.page.locator(":target")
    assert row["similar_content"] in target.inner_text()
