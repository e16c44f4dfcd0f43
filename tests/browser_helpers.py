"""What the tests with a real browser share: a server, a visitor, and what holds for every page."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from server_helpers import LISTENS, STARTS_WITHIN_S
from view_helpers import ONE_POINT_ZERO

CHROMIUM = os.environ.get("CHROMIUM") or next(
    (p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None
)
BROWSER = [
    pytest.mark.browser,
    pytest.mark.skipif(
        CHROMIUM is None and not os.environ.get("LIMBIC_MUST"), reason="Chromium is not installed"
    ),
    # Playwright's driver leaves its pipes to the garbage collector
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
"""The marks of a module with a browser."""

SIZES = {"desktop": (1200, 900), "phone": (390, 844)}
# Width, and whether scripts run: each of our pages is used both ways.
WAYS = [("desktop", True), ("phone", False)]
NOW = "2026-11-29 12:00:00"
SECRET = "what signs the cookies of these servers"
PLUGINS = Path(__file__).parent / "e2e" / "plugins"
MOST_BYTES = 150_000
"""Of a page with all that it loads, but for what Datasette itself brings to every page of its:
in 1.0 a sheet and three scripts of 113 kB together."""
MOST_SHIFT = 0.01
"""Of the Cumulative Layout Shift; up to 0.1 is called good."""


@contextmanager
def serving(
    folder: Path, *paths: Path | str, prefix: str = "/", config: Any = None
) -> Iterator[str]:
    """A Datasette on these files; gives its URL with the prefix, without a slash at the end.

    Our pages have a strict Content-Security-Policy there.
    """
    command = [
        *(sys.executable, "-m", "datasette", "serve", *map(str, paths)),
        *("--port", "0", "--plugins-dir", str(PLUGINS), "--root", "--secret", SECRET),
        # a slow machine under load shall not fail the SQL page on Datasette's limit of a second
        *("--setting", "sql_time_limit_ms", "20000", "--setting", "base_url", prefix),
    ]
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config))
        command += ["--config" if ONE_POINT_ZERO else "--metadata", str(folder / "config.json")]
    log = folder / "server.log"
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)
    try:
        yield f"http://127.0.0.1:{_listening(process, log)}{prefix}".rstrip("/")
    finally:
        process.terminate()
        process.wait(timeout=20)
    said = log.read_text()
    assert "Traceback" not in said, said[said.index("Traceback") :][:4000]


def _listening(process: subprocess.Popen[bytes], log: Path) -> int:
    """The port, once the server says it."""
    ends = time.monotonic() + STARTS_WITHIN_S
    while not (found := LISTENS.search(log.read_text())):
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < ends, log.read_text()
        time.sleep(0.05)
    return int(found[1])


@cache
def core_scripts(server: str) -> tuple[str, ...]:
    """Hashes of the scripts that Datasette itself writes into its pages, which our policy stops."""
    with urllib.request.urlopen(server + "/", timeout=30) as answer:
        html = answer.read().decode()
    inline = re.findall(r"<script>(.*?)</script>", html, flags=re.S)
    assert inline
    return tuple(
        base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in inline
    )


# What a page weighed and how much of it moved while it loaded.
_LOADED = """async () => {
  let shift = 0;
  const add = (list) => { for (const entry of list) if (!entry.hadRecentInput) shift += entry.value; };
  const observer = new PerformanceObserver((list) => add(list.getEntries()));
  observer.observe({ type: "layout-shift", buffered: true });
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))));
  add(observer.takeRecords());
  const entries = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")];
  return { shift, sizes: entries.map((e) => [e.name, e.encodedBodySize]) };
}"""  # noqa: E501
# Fields and buttons of ours that have no name.
_UNNAMED = """() => [...document.querySelectorAll('main :is(input, select, button, textarea)')]
  .filter(e => e.type !== 'hidden' && e.offsetParent !== null)
  .filter(e => !(e.labels && e.labels.length && e.labels[0].textContent.trim())
    && !e.getAttribute('aria-label') && !(e.type === 'submit' && e.value)
    && !(e.tagName === 'BUTTON' && e.textContent.trim()))
  .map(e => e.outerHTML)"""

# What is drawn and has got no colour from a sheet.
_UNPAINTED = """() => [...document.querySelectorAll('main svg :is(rect, circle, path, line, text)')]
  .filter(e => { const s = getComputedStyle(e);
    return s.fill === 'rgb(0, 0, 0)' && s.stroke === 'none' && e.getBoundingClientRect().width; })
  .map(e => e.outerHTML.slice(0, 200))"""


class Visitor:
    """A page that notes what must not happen: dialogs, errors, requests to elsewhere."""

    def __init__(self, browser: Any, server: str, size: str, **options: Any) -> None:
        wide, high = SIZES[size]
        self.server = server
        self.size = size
        self.scripts = options.get("java_script_enabled", True)
        self.context = browser.new_context(viewport={"width": wide, "height": high}, **options)
        self.page = self.context.new_page()
        self.dialogs: list[str] = []
        self.errors: list[str] = []
        self.elsewhere: list[str] = []
        self.page.on("dialog", self._dialog)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._console)
        self.page.on("request", self._request)

    def _dialog(self, dialog: Any) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def _console(self, message: Any) -> None:
        # the policy stops Datasette's own inline scripts, named by their hashes; none of ours
        known = any(each in message.text for each in core_scripts(self.server))
        if message.type in ("error", "warning") and not known:
            self.errors.append(message.text)

    def _request(self, request: Any) -> None:
        if not request.url.startswith((self.server + "/", "data:")):
            self.elsewhere.append(request.url)

    def sign_in(self) -> Visitor:
        """From now on root, who may record."""
        from datasette.app import Datasette

        cookie = Datasette(secret=SECRET).sign({"a": {"id": "root"}}, "actor")
        self.context.add_cookies([{"name": "ds_actor", "value": cookie, "url": self.server}])
        return self

    def go(self, path: str) -> Any:
        response = self.page.goto(self.server + path)
        assert response is not None
        return response

    def follow(self, link: Any) -> None:
        """Click what leads to another page, and be there: a click alone does not wait."""
        with self.page.expect_navigation():
            link.click()

    def press(self, key: str) -> None:
        """A key that leads to another page."""
        with self.page.expect_navigation():
            self.page.keyboard.press(key)

    def tab_to(self, target: Any, most: int = 80) -> None:
        """Press Tab until there; where one is can be seen all the way."""
        for _ in range(most):
            self.page.keyboard.press("Tab")
            focused = focus(self.page)
            assert focused["shown"] or not focused["ours"], focused
            if target.evaluate("e => e === document.activeElement"):
                return
        raise AssertionError(f"{target} was not reached within {most} steps")

    def sizes(self) -> Iterator[str]:
        """The page at each size in turn, at one's own last."""
        for size in sorted(SIZES, key=lambda name: name == self.size):
            wide, high = SIZES[size]
            self.page.set_viewport_size({"width": wide, "height": high})
            assert self.page.evaluate("window.innerWidth") == wide
            yield size

    def check(self) -> None:
        """What holds for every page of ours: what it loaded, and how it looks at each size."""
        page = self.page
        where = page.url[:200]
        if self.scripts:
            self._loaded(where)
        assert page.title().strip(), where
        assert page.locator("h1").count() == 1, where
        assert page.evaluate(_UNNAMED) == [], where
        assert page.evaluate(_UNPAINTED) == [], where
        for size in self.sizes():
            wide, window = page.evaluate(
                "[document.documentElement.scrollWidth, window.innerWidth]"
            )
            assert wide <= window, f"{where} scrolls sideways as on a {size}: {wide} px"

    def _loaded(self, where: str) -> None:
        found = self.page.evaluate(_LOADED)
        assert found["shift"] <= MOST_SHIFT, (where, found["shift"])
        sizes = {
            name: size
            for name, size in found["sizes"]
            if not (ONE_POINT_ZERO and name.startswith(self.server + "/-/static/"))
        }
        assert sum(sizes.values()) < MOST_BYTES, (where, sizes)

    def done(self) -> None:
        assert self.dialogs == []
        assert self.errors == []
        assert self.elsewhere == []
        self.context.close()


def focus(page: Any) -> dict[str, Any]:
    """What has the focus: whether it is ours, and whether that can be seen."""
    found: dict[str, Any] = page.evaluate(
        """() => { const e = document.activeElement, s = getComputedStyle(e);
        // a node of a picture is ringed by a circle of its own, thicker than any other
        const ringed = () => [...e.querySelectorAll('circle')].map(c => getComputedStyle(c))
          .some(c => c.stroke !== 'none' && parseFloat(c.strokeWidth) >= 3);
        return {tag: e.tagName, name: e.name || e.innerText || '', order: e.dataset.order,
          ours: !!e.closest('main'), box: e.getBoundingClientRect().width,
          shown: e.matches('svg a') ? ringed()
            : s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) > 0,
          html: e.outerHTML.slice(0, 120)}; }"""
    )
    return found


def has_landmarks_and_headings(page: Any, name: str) -> None:
    """What a screen reader goes by: one h1, no level skipped, named regions, table headers."""
    levels = page.evaluate(
        "() => [...document.querySelectorAll('main :is(h1, h2, h3)')].map(e => +e.tagName[1])"
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


def cards(page: Any) -> list[int]:
    """Ids of the results of a search, from the top."""
    return [
        int(found.removeprefix("entity-"))
        for found in page.locator(".limbic-results .limbic-card").evaluate_all(
            "all => all.map(e => e.id)"
        )
    ]


def fetch(server: str, path: str) -> Any:
    """The JSON of a page."""
    with urllib.request.urlopen(server + path, timeout=30) as answer:
        return json.load(answer)
