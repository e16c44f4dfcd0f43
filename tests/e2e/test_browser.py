"""A person at a browser: Datasette in a process of its own, Chromium against it."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

CHROMIUM = os.environ.get("CHROMIUM") or next(
    (p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None
)
sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")

pytestmark = [
    pytest.mark.browser,
    # one server and one browser: each worker would start its own
    pytest.mark.xdist_group("browser"),
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
    # Playwright's driver leaves its pipes to the garbage collector
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

WIDTHS = {"desktop": (1200, 900), "phone": (390, 844)}
# Width, and whether scripts run: our pages have none, so that one of each is walked through, and
# each page on the way is looked at in both widths (``Visitor.check``).
WAYS = [("desktop", True), ("phone", False)]
SCRIPT = "<script>alert('name')</script><img src=x onerror=alert(1)>"
ODD_NAMES = [
    SCRIPT,
    "n" * 10_000,
    "unbroken_" * 300,
    "a/b \"quoted\" 'name' & more",
    "word " * 2000,
    "🚀 👨‍👩‍👧 \u202eabc",
]
NOW = "2026-11-29 12:00:00"
SECRET = "what signs the cookies of this server"


@pytest.fixture(scope="module")
def odd_db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A memory of names and texts that are hard to lay out."""
    from datasette_limbic import connection, schema, times
    from datasette_limbic.sync import sync

    path = tmp_path_factory.mktemp("odd") / "odd.db"
    conn = connection.connect(path, create=True)
    schema.init(conn)
    for number, name in enumerate(ODD_NAMES, 1):
        conn.execute(
            "insert into entities(id, name, entity_type) values (?, ?, ?)",
            [number, name, name[:2000]],
        )
        conn.execute("insert into observations(entity_id, content) values (?, ?)", [number, name])
        conn.executemany(
            "insert into entity_access_log(entity_id, entity_name, query, accessed_at)"
            " values (?, ?, ?, ?)",
            [
                (number, name, query, moment)
                for query in (name, None)
                for moment in ("2026-01-01 00:00:00", times.now_sql(), "soon")
            ],
        )
        if number > 1:
            conn.execute(
                "insert into relations(from_entity, to_entity, relation_type) values (1, ?, ?)",
                [number, name],
            )
            conn.execute(
                "insert into co_occurrences values (1, ?, ?, '2026-01-01')", [number, 10**number]
            )
    conn.execute(
        "update entities set archived_at = '2026-02-02', archived_reason = ? where id = 3",
        ["because_" * 200],
    )
    conn.executemany(
        "insert into observations(entity_id, content, valid_to) values (4, ?, ?)",
        [(f"observation number {i}", "2025-01-01" if i % 3 == 0 else None) for i in range(250)],
    )
    odd_imports(conn)
    odd_searches(conn)
    conn.commit()
    sync(conn)
    conn.close()
    return path


def odd_searches(conn: Any) -> None:
    """Logged searches of clients whose names are hard to lay out."""
    conn.executemany(
        "insert into limbic_searches(query, mode, strategy, result_limit, now, parameters, client,"
        " actor) values (?, 'hybrid', 'auto', 10, '2026-01-01', '{}', ?, ?)",
        [(name, name, name) for name in ODD_NAMES] + [("x", None, None)] * 2,
    )


def odd_imports(conn: Any) -> None:
    """A log of imports with the same names, and one import with many rejects."""
    counts = {
        "lines": 120_000,
        "rejected": 11_000,
        "rejects": 11_250,
        "entities": {"lines": 60_000, "created": 50_000, "merged": 10_000},
        "observations": {"in_file": 90_000, "added": 80_000, "skipped": 10_000},
        "relations": {"lines": 49_000, "created": 48_750, "dangling": 250},
        "warnings": {
            "type_conflicts": [
                {"line": i, "name": name, "kept": name[:2000], "given": name}
                for i, name in enumerate(ODD_NAMES)
            ],
            "extra_keys": dict.fromkeys(ODD_NAMES, 3),
            "novel": [[name, name] for name in ODD_NAMES],
        },
    }
    insert = (
        "insert into limbic_imports(source, format, counts, started_at, finished_at)"
        " values (?, ?, ?, '2026-02-02 10:00:00', '2026-02-02 11:01:01')"
    )
    rejects = "insert into limbic_import_rejects(import_id, line, reason, raw) values (1, ?, ?, ?)"
    conn.execute(insert, ["odd.jsonl", "JSON Lines", json.dumps(counts)])
    for number, name in enumerate(ODD_NAMES, 1):
        conn.execute(insert, [name, name, json.dumps({name: {name: 1}})])
        conn.execute(rejects, [number, name, name])
    for line in range(100, 350):
        conn.execute(rejects, [line, f"no entity named 'Nobody {line}'", f"raw text {line}\nmore"])
    for _ in range(60):
        conn.execute(insert, ["again.jsonl", "JSON Lines", "{}"])


@pytest.fixture(scope="module")
def server(
    demo_master: Path, odd_db: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The URL of a Datasette on a sample memory, an odd one and an empty one."""
    from datasette_limbic import connection, schema

    folder = tmp_path_factory.mktemp("served")
    demo = shutil.copy(demo_master, folder / "demo.db")
    empty = folder / "empty.db"
    conn = connection.connect(empty, create=True)
    schema.init(conn)
    conn.close()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = (folder / "log.txt").open("w")
    # a slow machine under load shall not fail the SQL page on Datasette's limit of a second
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "datasette", "serve", demo, str(odd_db), str(empty)),
            *("-p", str(port), "--setting", "sql_time_limit_ms", "20000"),
            *("--root", "--secret", SECRET),
        ],
        stdout=log,
        stderr=subprocess.STDOUT,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(url + "/-/versions.json", timeout=5).close()
                break
            except (urllib.error.URLError, ConnectionError):
                assert process.poll() is None, (folder / "log.txt").read_text()
                time.sleep(0.1)
        yield url
    finally:
        process.terminate()
        process.wait(timeout=20)
        log.close()
    said = (folder / "log.txt").read_text()
    assert "Traceback" not in said, said


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=[
                "--no-sandbox",
                "--disable-gpu",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--no-first-run",
            ],
        )
        yield browser
        browser.close()


def signed_in(someone: Visitor) -> Visitor:
    """The same visitor as root, who may record."""
    from datasette.app import Datasette

    cookie = Datasette(secret=SECRET).sign({"a": {"id": "root"}}, "actor")
    someone.context.add_cookies([{"name": "ds_actor", "value": cookie, "url": someone.server}])
    return someone


class Visitor:
    """A page that notes what must not happen: dialogs, errors, requests to elsewhere."""

    def __init__(self, browser: Any, server: str, width: str, **options: Any) -> None:
        wide, high = WIDTHS[width]
        self.server = server
        self.width = width
        self.context = browser.new_context(viewport={"width": wide, "height": high}, **options)
        self.page = self.context.new_page()
        self.dialogs: list[str] = []
        self.errors: list[str] = []
        self.elsewhere: list[str] = []
        self.page.on("dialog", self._dialog)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on(
            "console",
            lambda m: self.errors.append(m.text) if m.type in ("error", "warning") else None,
        )
        self.page.on("request", self._request)

    def _dialog(self, dialog: Any) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def _request(self, request: Any) -> None:
        if not request.url.startswith((self.server + "/", "data:")):
            self.elsewhere.append(request.url)

    def go(self, path: str) -> Any:
        response = self.page.goto(self.server + path)
        assert response is not None
        return response

    def follow(self, link: Any) -> None:
        """Click what leads to another page, and be there: a click alone does not wait."""
        with self.page.expect_navigation():
            link.click()

    def widths(self) -> Iterator[str]:
        """The page at each width in turn, at one's own last."""
        for width in sorted(WIDTHS, key=lambda name: name == self.width):
            wide, high = WIDTHS[width]
            self.page.set_viewport_size({"width": wide, "height": high})
            assert self.page.evaluate("window.innerWidth") == wide
            yield width

    def check(self) -> None:
        """What holds for every page of ours, at each width."""
        for width in self.widths():
            self._check(width)

    def _check(self, width: str) -> None:
        page = self.page
        where = f"{page.url[:200]} ({width})"
        widths = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
        assert widths[0] <= widths[1], f"{where} scrolls sideways: {widths}"
        assert page.title().strip(), where
        assert page.locator("h1").count() == 1, where
        unnamed = page.evaluate(
            """() => [...document.querySelectorAll('.limbic input, .limbic select, .limbic button')]
            .filter(e => e.type !== 'hidden' && e.offsetParent !== null)
            .filter(e => e.closest('section.content'))
            .filter(e => !(e.labels && e.labels.length && e.labels[0].textContent.trim())
              && !e.getAttribute('aria-label') && !(e.type === 'submit' && e.value)
              && !(e.tagName === 'BUTTON' && e.textContent.trim()))
            .map(e => e.outerHTML)"""
        )
        assert unnamed == [], where

    def done(self) -> None:
        assert self.dialogs == []
        assert self.errors == []
        assert self.elsewhere == []
        self.context.close()


@pytest.fixture(params=WIDTHS)
def visitor(request: pytest.FixtureRequest, chromium: Any, server: str) -> Iterator[Visitor]:
    someone = Visitor(chromium, server, request.param)
    yield someone
    someone.done()


@pytest.fixture(params=WAYS, ids=lambda way: f"{way[0]}-{way[1]}")
def walker(request: pytest.FixtureRequest, chromium: Any, server: str) -> Iterator[Visitor]:
    width, scripts = request.param
    someone = Visitor(chromium, server, width, java_script_enabled=scripts)
    yield someone
    someone.done()


@pytest.fixture
def desktop(chromium: Any, server: str) -> Iterator[Visitor]:
    someone = Visitor(chromium, server, "desktop")
    yield someone
    someone.done()


def cards(page: Any) -> list[int]:
    """Ids of the results, from the top."""
    return [
        int(found.removeprefix("entity-"))
        for found in page.locator(".limbic-results .limbic-card").evaluate_all(
            "all => all.map(e => e.id)"
        )
    ]


def fetch(server: str, path: str) -> Any:
    with urllib.request.urlopen(server + path, timeout=30) as answer:
        return json.load(answer)


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
    assert rows.count() == found["candidates"] - len(found["results"])
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
    page.get_by_label("gamma").fill("0.5")
    someone.follow(page.get_by_role("button", name="Search"))
    assert page.locator(".limbic-card").count() == 2
    assert page.get_by_label("gamma").input_value() == "0.5"
    someone.follow(page.get_by_role("link", name="Why not another?"))
    assert page.locator("section table tbody tr").count() > 0
    someone.follow(page.locator(".limbic-card h3 a").first)
    assert "/entity/" in page.url


PATHS = {
    "overview": "/demo/-/limbic",
    "list": "/demo/-/limbic/search",
    "results": "/demo/-/limbic/search?q=geocoder",
    "explain": "/demo/-/limbic/search?q=geocoder&explain=1&limit=3",
    "no confident match": "/demo/-/limbic/search?q=quantum+chromodynamics",
    "filtered to nothing": "/demo/-/limbic/search?q=paella&type=Nope",
    "long filter": "/demo/-/limbic/search?q=paella&type=" + "T" * 3000,
    "long query": "/demo/-/limbic/search?q=" + "q" * 2048,
    "entity": "/demo/-/limbic/entity/4",
    "archived": "/demo/-/limbic/entity/10",
    "empty": "/empty/-/limbic",
    "empty search": "/empty/-/limbic/search?q=x",
    "odd overview": "/odd/-/limbic",
    "odd list": "/odd/-/limbic/search?include_archived=1&explain=1&limit=2",
    "odd results": "/odd/-/limbic/search?q=word+unbroken&include_archived=1",
    "paged": "/odd/-/limbic/entity/4?page=2",
    "tuning": "/demo/-/limbic/tuning",
    "tuning by nothing": "/empty/-/limbic/tuning",
    "odd tuning": "/odd/-/limbic/tuning?k=3&gamma_range=0.01,0.1",
    "imports": "/demo/-/limbic/imports",
    "one import": "/demo/-/limbic/imports/1",
    "no imports": "/empty/-/limbic/imports",
    "odd imports": "/odd/-/limbic/imports?page=2",
    "filtered imports": "/odd/-/limbic/imports?source=again.jsonl",
    "imports of no such name": "/odd/-/limbic/imports?source=" + "s" * 2048,
    "odd import": "/odd/-/limbic/imports/1",
    "rejects of no reason": "/odd/-/limbic/imports/1?reason=" + "r" * 2000,
    "import of an odd name": "/odd/-/limbic/imports/3",
    **{f"odd entity {i}": f"/odd/-/limbic/entity/{i}" for i in range(1, len(ODD_NAMES) + 1)},
}
# Pages of maintenance: of a sample, of a memory that is hard to lay out, and of an empty one.
MAINTENANCE = {
    "maintenance": "/demo/-/limbic/consolidation",
    "stale": "/demo/-/limbic/consolidation?list=stale_entities&stale_days=30&size=5&page=2",
    "duplicates": "/demo/-/limbic/duplicates",
    "contradictions": "/demo/-/limbic/duplicates?kind=contradiction",
    "duplicates of one": "/demo/-/limbic/duplicates/7?threshold=0.3&look=0.2",
    "split": "/demo/-/limbic/split/2",
    "health": "/demo/-/limbic/health",
    "orphans": "/demo/-/limbic/health?list=orphans",
    "odd maintenance": "/odd/-/limbic/consolidation?stale_days=0",
    "odd duplicates": "/odd/-/limbic/duplicates",
    "odd health": "/odd/-/limbic/health",
    "empty maintenance": "/empty/-/limbic/consolidation",
    "empty duplicates": "/empty/-/limbic/duplicates",
    "empty health": "/empty/-/limbic/health",
}
ODD_MAINTENANCE = {
    f"odd {page} {i}": f"/odd/-/limbic/{page}/{i}"
    for page in ("duplicates", "split")
    for i in range(1, len(ODD_NAMES) + 1)
}
PATHS |= MAINTENANCE | ODD_MAINTENANCE


def test_every_page_fits_and_is_clean(desktop: Visitor) -> None:
    for name, path in PATHS.items():
        assert desktop.go(path).status == 200, name
        desktop.check()
        has_landmarks_and_headings(desktop.page, name)
    desktop.go(PATHS["overview"])
    current = desktop.page.locator("[aria-current=page]")
    assert current.inner_text() == "Overview"


def has_landmarks_and_headings(page: Any, name: str) -> None:
    """What a screen reader goes by: one h1, no level skipped, named regions, table headers."""
    levels = page.evaluate(
        """() => [...document.querySelector('section.content').querySelectorAll('h1, h2, h3')]
        .map(e => +e.tagName[1])"""
    )
    assert levels[0] == 1, name
    assert all(b - a <= 1 for a, b in pairwise(levels)), (name, levels)
    assert page.get_by_role("navigation", name="Memory").count() == 1, name
    headers = page.locator(".limbic-table").evaluate_all(
        "all => all.map(e => e.querySelectorAll('thead th[scope=col]').length)"
    )
    assert all(headers), (name, headers)
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids)), name


def test_error_pages(desktop: Visitor) -> None:
    for path, status in {
        "/demo/-/limbic/search?q=x&limit=0": 400,
        "/demo/-/limbic/search?q=" + "x" * 3000: 400,
        "/demo/-/limbic/search?" + "u" * 2000 + "=1": 400,
        "/demo/-/limbic/entity/" + "9" * 300: 404,
        "/demo/-/limbic/imports/" + "9" * 300: 404,
        "/demo/-/limbic/imports?page=0": 400,
        "/demo/-/limbic/consolidation?stale_days=" + "9" * 300: 400,
        "/demo/-/limbic/duplicates?kind=" + "k" * 2000: 400,
        "/demo/-/limbic/duplicates/" + "9" * 300: 404,
        "/demo/-/limbic/split/" + "9" * 300: 404,
        "/demo/-/limbic/health?list=" + "l" * 2000: 400,
        "/" + "d" * 300 + "/-/limbic": 404,
    }.items():
        assert desktop.go(path).status == status, path[:100]
        desktop.check()
        for width in desktop.widths():
            assert desktop.page.get_by_role("alert").is_visible(), (path[:100], width)
    # Chromium itself logs each status of 400 and more
    desktop.errors = [e for e in desktop.errors if "Failed to load resource" not in e]


def test_scripts_in_names_and_queries_do_not_run(desktop: Visitor) -> None:
    for path in (
        "/odd/-/limbic",
        "/odd/-/limbic/search",
        "/odd/-/limbic/search?explain=1&limit=1&q=" + quote(SCRIPT),
        "/odd/-/limbic/search?type=" + quote(SCRIPT),
        "/odd/-/limbic/search?q=" + quote('"><script>alert(2)</script>'),
        "/odd/-/limbic/search?q=" + quote("' autofocus onfocus=alert(3) x='"),
        "/odd/-/limbic/entity/1",
        "/odd/-/limbic/entity/2",
        "/odd/-/limbic/imports?page=2",
        "/odd/-/limbic/imports?source=" + quote(SCRIPT),
        "/odd/-/limbic/imports/1",
        "/odd/-/limbic/imports/1?reason=" + quote(SCRIPT),
        "/odd/-/limbic/imports/2",
        "/odd/entities",
        "/odd/entities/1",
    ):
        desktop.go(path)
        desktop.page.wait_for_load_state("load")
        for width in desktop.widths():
            assert desktop.dialogs == [], (path, width)
    desktop.go("/odd/-/limbic/entity/1")
    assert desktop.page.locator("h1").inner_text() == SCRIPT
    assert desktop.dialogs == []


def test_long_lists_are_paged(desktop: Visitor) -> None:
    page = desktop.page
    desktop.go("/odd/-/limbic/entity/4")
    seen = []
    for _ in range(3):
        seen += page.locator("[id^=observation-]").evaluate_all("all => all.map(e => e.id)")
        if page.get_by_role("link", name="Next").count():
            desktop.follow(page.get_by_role("link", name="Next"))
    assert len(seen) == len(set(seen)) == 251
    assert page.get_by_text(re.compile("ended 2025-01-01")).count() > 0


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


def test_raw_texts_are_on_the_page_at_any_width(desktop: Visitor) -> None:
    """Nobody has to scroll sideways for them."""
    for path in ("/odd/-/limbic/imports/1", "/odd/-/limbic/imports/1?page=2"):
        desktop.go(path)
        cells = desktop.page.get_by_role("region", name="Line by line").locator(".limbic-raw")
        assert cells.count() > 50, path
        for name in desktop.widths():
            edges = cells.evaluate_all(
                "all => all.map(e => e.getBoundingClientRect()).map(r => [r.left, r.right])"
            )
            width = desktop.page.evaluate("document.documentElement.clientWidth")
            assert min(left for left, _ in edges) >= 0, (path, name)
            assert max(right for _, right in edges) <= width, (path, name)


def test_keyboard_on_an_import(desktop: Visitor) -> None:
    """Tables that scroll, reasons and raw texts are reached by Tab, and seen to be."""
    page = desktop.page
    desktop.go("/odd/-/limbic/imports/1")
    tags = set()
    for _ in range(40):
        page.keyboard.press("Tab")
        focused = page.evaluate(
            """() => { const e = document.activeElement, s = getComputedStyle(e);
            return {tag: e.tagName, ours: !!e.closest('section.content'),
              shown: s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) > 0}; }"""
        )
        if focused["ours"]:
            assert focused["shown"], focused
            tags.add(focused["tag"])
    assert tags == {"A", "DIV", "SUMMARY"}


def rated(page: Any) -> list[str]:
    """Accessible names of the buttons that are pressed."""
    return page.locator(".limbic-rate button[aria-pressed=true]").evaluate_all(
        "all => all.map(e => e.getAttribute('aria-label'))"
    )


def test_results_are_rated(walker: Visitor) -> None:
    """Useful, then changed to not useful, then another result: all of one logged search."""
    someone = signed_in(walker)
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
    assert page.get_by_role("status").all_inner_texts() == [words]
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
    page = signed_in(desktop).page
    asked = "/odd/-/limbic/search?include_archived=1&mode=text&q="
    for query in (quote(SCRIPT), "unbroken+word", quote('"><b>quoted')):
        desktop.go(asked + query)
        desktop.check()
        for width in desktop.widths():
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
    assert desktop.page.locator("section.content form").count() == 1
    assert desktop.context.cookies() == []


def test_a_rating_by_keyboard(desktop: Visitor) -> None:
    page = signed_in(desktop).page
    desktop.go("/demo/-/limbic/search?q=geocoder&limit=1")
    button = page.get_by_role("button", name="Not useful: ")
    for _ in range(40):
        page.keyboard.press("Tab")
        if button.evaluate("e => e === document.activeElement"):
            break
    outline = button.evaluate("e => getComputedStyle(e).outlineStyle")
    assert outline != "none"
    with page.expect_navigation():
        page.keyboard.press("Enter")
    assert rated(page) == ["Not useful: geocoder"]


def test_signals_of_an_entity(walker: Visitor) -> None:
    """The picture, what it says in words, the same as a table, and on to a partner."""
    someone = walker
    page = someone.page
    path = f"/demo/-/limbic/entity/4?now={quote(NOW)}"
    found = fetch(walker.server, path.replace("/4?", "/4.json?"))["signals"]
    someone.go(path)
    someone.check()
    picture = page.get_by_role("img", name=re.compile("Accesses per week .* weeks, from "))
    for width in someone.widths():
        box = picture.bounding_box()
        assert box["x"] >= 0, width
        assert box["x"] + box["width"] <= WIDTHS[width][0], width
        assert box["height"] > 100, width
        sizes = picture.locator("text").evaluate_all(
            "all => all.map(e => e.getBoundingClientRect().height)"
        )
        assert min(sizes) >= 10, width
    weeks = [week for week in found["weeks"] if week["accesses"]]
    assert picture.locator("g").count() == len(weeks) > 0
    table = page.get_by_role("table").filter(has_text="Week of")
    assert not table.is_visible()
    page.get_by_text("Week by week").click()
    table.wait_for()
    cells = table.locator("tbody tr").evaluate_all(
        "rows => rows.map(r => [...r.cells].map(c => c.innerText))"
    )
    assert cells == [
        [week["week"], *(str(week[k]) for k in ("accesses", "searched", "opened"))]
        for week in reversed(weeks)
    ]
    someone.check()
    partners = page.locator(".limbic-partners a")
    assert partners.all_inner_texts() == [p["name"] for p in found["co_occurrences"]]
    for width in someone.widths():
        wide = page.locator(".limbic-partners .limbic-full").evaluate_all(
            "all => all.map(e => e.getBoundingClientRect().width)"
        )
        assert wide == sorted(wide, reverse=True), width
    someone.follow(partners.first)
    assert page.url.endswith(f"/entity/{found['co_occurrences'][0]['id']}")


@pytest.mark.parametrize("scheme", ["dark", "light"])
def test_a_chart_in_the_colours_of_its_reader(scheme: str, chromium: Any, server: str) -> None:
    """Forced colours: text as plain as all other, and the legend shows what the bars show."""
    someone = Visitor(chromium, server, "desktop", forced_colors="active", color_scheme=scheme)
    page = someone.page
    someone.go("/odd/-/limbic/entity/1")

    def style(selector: str, name: str) -> str:
        found: str = page.locator(selector).first.evaluate(
            "(e, name) => getComputedStyle(e)[name]", name
        )
        return found

    ink, paper = style("body", "color"), style("body", "backgroundColor")
    assert ink != paper
    assert style(".limbic-chart text", "fill") == ink
    for kind, colour in (("searched", ink), ("opened", paper)):
        assert style(f".limbic-key.limbic-{kind}", "backgroundColor") == colour
        assert style(f".limbic-key.limbic-{kind}", "borderTopColor") == ink
        assert style(f".limbic-chart rect.limbic-{kind}", "fill") == colour
    assert style(".limbic-chart rect.limbic-opened", "stroke") == ink
    for kind, colour in (("now", ink), ("full", paper)):
        assert style(f".limbic-partners rect.limbic-{kind}", "fill") == colour
    someone.done()


def test_pages_of_someone_who_may_record_fit_and_are_clean(desktop: Visitor) -> None:
    signed_in(desktop)
    names = ("overview", "explain", "entity", "empty", "odd overview", "odd results", "long query")
    for name in names:
        assert desktop.go(PATHS[name]).status == 200, name
        desktop.check()
    desktop.go(PATHS["odd overview"])
    table = desktop.page.get_by_role("region", name="Who searched")
    assert table.get_by_role("row").count() > len(ODD_NAMES)


def sql_rows(page: Any) -> list[tuple[int, str]]:
    """Id and final score of each row on a page of Datasette's, as shown."""
    table = page.locator("table.rows-and-columns")
    names = [
        t.strip() for t in table.locator("thead th").evaluate_all("a => a.map(e => e.innerText)")
    ]
    which = [names.index("id"), names.index("final_score")]
    cells = table.locator("tbody tr").evaluate_all(
        "rows => rows.map(r => [...r.cells].map(c => c.innerText.trim()))"
    )
    return [(int(row[which[0]]), row[which[1]]) for row in cells]


ASKED = "q=who+fixed+the+geocoder&limit=6&now=2026-11-29+12%3A00%3A00"


def test_this_ranking_as_sql(desktop: Visitor, server: str) -> None:
    for extra in ("", "&strategy=limbic", "&type=Servicio", "&mode=text", "&fusion=document"):
        expected = fetch(server, f"/demo/-/limbic/search.json?{ASKED}{extra}")["results"]
        desktop.go(f"/demo/-/limbic/search?{ASKED}{extra}")
        desktop.follow(desktop.page.get_by_role("link", name="This ranking as SQL"))
        assert "/-/limbic" not in desktop.page.url, extra
        rows = sql_rows(desktop.page)
        assert [i for i, _ in rows] == [row["id"] for row in expected], extra
        for (_, score), row in zip(rows, expected, strict=True):
            assert float(score) == pytest.approx(row["final_score"], rel=1e-9), extra
        # the statement and its parameters can be changed and run again
        assert desktop.page.locator("input[name=gamma]").count() == 1, extra
        asked = desktop.page.locator("input[name=q]").input_value()
        assert asked == "who fixed the geocoder", extra


def test_vary_its_parameters(desktop: Visitor, server: str) -> None:
    expected = fetch(server, f"/demo/-/limbic/search.json?{ASKED}&strategy=limbic")["results"]
    desktop.go(f"/demo/-/limbic/search?{ASKED}&strategy=limbic")
    page = desktop.page
    desktop.follow(page.get_by_role("link", name="Vary its parameters"))
    assert urlsplit(page.url).path == "/demo/limbic_search"
    assert [i for i, _ in sql_rows(page)] == [row["id"] for row in expected]
    page.locator("input[name=gamma]").fill("5")
    desktop.follow(page.get_by_role("button", name="Run SQL"))
    page.wait_for_url("**gamma=5**")
    varied = fetch(server, f"/demo/-/limbic/search.json?{ASKED}&strategy=limbic&gamma=5")["results"]
    rows = sql_rows(page)
    assert [i for i, _ in rows] == [row["id"] for row in varied]
    for (_, score), row in zip(rows, varied, strict=True):
        assert float(score) == pytest.approx(row["final_score"], rel=1e-9)
    assert [r["final_score"] for r in varied] != [r["final_score"] for r in expected]


def test_keyboard(visitor: Visitor) -> None:
    """Everything can be reached by Tab, and where one is can be seen."""
    page = visitor.page
    visitor.go("/demo/-/limbic/search?q=geocoder&limit=2&explain=1")
    seen = []
    for _ in range(60):
        page.keyboard.press("Tab")
        focused = page.evaluate(
            """() => { const e = document.activeElement, s = getComputedStyle(e);
            return {tag: e.tagName, name: e.name || e.innerText || '',
              ours: !!e.closest('section.content'),
              shown: s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) > 0,
              box: e.getBoundingClientRect().width}; }"""
        )
        if focused["ours"]:
            seen.append(focused)
            assert focused["shown"], focused
            assert focused["box"] > 0, focused
    names = {f["name"] for f in seen}
    assert {"q", "limit", "mode", "strategy", "gamma", "as_of", "include_archived"} <= names
    assert {"Overview", "Search", "Hide the rest", "This ranking as SQL"} <= names
    page.get_by_role("searchbox", name="Search this memory").focus()
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.type("vans")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=vans**")
    assert page.locator(".limbic-card").count() == 2


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
    for width in someone.widths():
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
        "link", name=f"similar to {row['similar_to']}"
    )
    assert row["similar_content"][:60] in flag.get_attribute("title")
    for width in desktop.widths():
        assert flag.is_visible(), width
    flag.click()
    desktop.page.wait_for_url(f"**#observation-{row['similar_to']}")
    target = desktop.page.locator(":target")
    assert row["similar_content"] in target.inner_text()


def test_every_tab_is_on_the_page_and_leads_to_itself(desktop: Visitor) -> None:
    """At any width all of them are in sight, not cut off."""
    page = desktop.page
    desktop.go("/demo/-/limbic/search")
    nav = page.get_by_role("navigation", name="Memory")
    titles = nav.get_by_role("link").all_inner_texts()
    assert titles == [
        "Overview", "Search", "Review", "Maintenance", "Duplicates", "Health", "Changes", "Tuning",
        "Imports",
    ]  # fmt: skip
    for title in titles:
        desktop.follow(nav.get_by_role("link", name=title))
        assert nav.locator("[aria-current=page]").all_inner_texts() == [title]
        for size in desktop.widths():
            boxes = nav.get_by_role("link").evaluate_all(
                "all => all.map(e => e.getBoundingClientRect())"
                ".map(r => [r.left, r.right, r.height])"
            )
            width = page.evaluate("document.documentElement.clientWidth")
            assert all(
                left >= 0 and right <= width and high >= 24 for left, right, high in boxes
            ), (title, size)


def test_keyboard_on_maintenance(visitor: Visitor) -> None:
    """Every link, field and box that scrolls is reached by Tab, in order, and seen to be."""
    page = visitor.page
    for name in ("maintenance", "duplicates", "duplicates of one", "split", "health"):
        visitor.go(MAINTENANCE[name])
        total = page.evaluate(
            """() => [...document.querySelectorAll("section.content :is(a[href], button, summary,"
              + " [tabindex='0'], input:not([type=hidden]))")]
            .filter(e => e.checkVisibility()).map((e, i) => e.dataset.order = i).length"""
        )
        assert total > 10, name
        seen = []
        for _ in range(total + 20):
            page.keyboard.press("Tab")
            focused = page.evaluate(
                """() => { const e = document.activeElement, s = getComputedStyle(e);
                return {order: e.dataset.order, html: e.outerHTML.slice(0, 120),
                  ours: !!e.closest('section.content'),
                  shown: s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) > 0}; }"""
            )
            if focused["ours"]:
                assert focused["shown"], (name, focused)
                seen.append(focused["order"])
            elif seen:
                break
        assert seen == [str(number) for number in range(total)], name


def test_a_table_page_of_datasette_has_the_same_rows(desktop: Visitor) -> None:
    """From each list of the report to Datasette's own filters and back to an entity."""
    page = desktop.page
    for title in ("Contradictions?", "Split candidates", "Stale entities", "Large entities"):
        desktop.go(MAINTENANCE["maintenance"])
        section = page.locator("section").filter(has=page.get_by_role("heading", name=title))
        rows = section.last.locator("tbody tr").count()
        assert rows > 0
        desktop.follow(section.last.get_by_role("link", name="Facets, filters, CSV"))
        assert "/-/limbic" not in page.url
        assert page.locator("table.rows-and-columns tbody tr").count() == rows, title
