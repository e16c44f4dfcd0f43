"""The pictures of README and docs, taken anew by ``make screenshots``.

They show the packaged sample memory alone, as root sees it on Datasette 1.0, at one moment of its
clock. Needs Chromium (``CHROMIUM`` names it where it is not found) and the packages of the group
``screenshots``. Look at each picture before you commit it.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

IMAGES = Path(__file__).resolve().parent / "images"
NOW = "2026-11-29 12:00:00"
EXACT, COLORS = 128, 255
"""Colours of a picture: so many of the most frequent as they are, and in all."""
MOST_BYTES = 120_000
STARTS_WITHIN_S = 60
SIGNS_IN = re.compile(r"http://127\.0\.0\.1:\d+/-/auth-token\?token=\w+")
LISTENS = re.compile(r"Uvicorn running on (http://127\.0\.0\.1:\d+)")
# What pages count from now on (recency, weeks of activity) is counted from this moment.
CLOCK = f"from datasette_limbic import times\ntimes.now_sql = lambda: {NOW!r}\n"

DESKTOP = (1100, 780)
PHONE = (390, 780)


@dataclass(frozen=True)
class Shot:
    """One picture: of a whole window, or of the first element that ``only`` selects."""

    name: str
    entity: str | None
    """Whose id takes the place of ``{id}`` in the path."""
    path: str
    size: tuple[int, int] = DESKTOP
    dark: bool = False
    only: str | None = None
    top: str | None = None
    """The element that the window is scrolled to."""
    language: str = "en"


SEARCH = f"/search?q=double+invoices&now={NOW.replace(' ', '+')}"
SHOTS = (
    # first: the overview shows a map that was drawn before
    Shot("map-dark", None, "/graph", (1100, 940), dark=True),
    Shot("overview", None, "", (1100, 860)),
    Shot("attention", None, "", (1100, 980), top="#limbic-types"),
    Shot("search", None, SEARCH, (1100, 860)),
    Shot("steps", None, SEARCH, (1100, 1400), only=".limbic-card"),
    Shot("sliders", None, f"{SEARCH}&gamma=0.1", (1100, 620)),
    Shot("losers", None, f"{SEARCH}&limit=3&explain=1", (1100, 560), top="#limbic-losers"),
    Shot("entity", "Pau Soler", "/entity/{id}"),
    Shot("neighbours", "Elena Marqués", "/entity/{id}/graph", (1100, 860)),
    Shot("split", "Turia rollout", "/split/{id}"),
    Shot("phone", None, SEARCH, PHONE),
    Shot("spanish", None, "", PHONE, language="es"),
)


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(Path(folder)) as (server, signs_in),
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        for shot in SHOTS:
            size = take(browser, server, signs_in, shot)
            print(f"{shot.name:12} {size / 1000:6.1f} kB", flush=True)
        browser.close()
    for left in {each.stem for each in IMAGES.glob("*.png")} - {shot.name for shot in SHOTS}:
        print(f"no longer taken, delete it: docs/images/{left}.png")


def chromium() -> str:
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        sys.exit("Chromium is not found: install it, or name it in the variable CHROMIUM")
    return found


@contextmanager
def serving(folder: Path) -> Iterator[tuple[str, str]]:
    """The sample memory in Datasette: its address, and the one that makes a browser root's."""
    (folder / "plugins").mkdir()
    (folder / "plugins" / "clock.py").write_text(CLOCK)
    datasette = [sys.executable, "-m", "datasette"]
    memory = folder / "demo.db"
    subprocess.run([*datasette, "limbic", "demo", str(memory)], check=True, capture_output=True)
    with closing(sqlite3.connect(memory)) as conn, conn:
        # else the overview says when this was run
        conn.execute("update limbic_reports set computed_at = ?", [NOW])
    log = folder / "server.log"
    options = ["--root", "--port", "0", "--plugins-dir", str(folder / "plugins")]
    with log.open("wb") as file:
        process = subprocess.Popen(
            [*datasette, "serve", str(memory), *options], stdout=file, stderr=subprocess.STDOUT
        )
    try:
        yield started(process, log)
    finally:
        process.terminate()
        process.wait(timeout=20)


def started(process: subprocess.Popen[bytes], log: Path) -> tuple[str, str]:
    """What the server says once it listens."""
    ends = time.monotonic() + STARTS_WITHIN_S
    while True:
        said = log.read_text()
        if (listens := LISTENS.search(said)) and (signs_in := SIGNS_IN.search(said)):
            # with port 0 it names that one in the address to sign in at
            return listens[1], re.sub(r"http://[^/]+", listens[1], signs_in[0])
        if process.poll() is not None or time.monotonic() > ends:
            sys.exit(f"Datasette did not start:\n{said}")
        time.sleep(0.1)


def take(browser: Any, server: str, signs_in: str, shot: Shot) -> int:
    """Write one picture; its size in bytes."""
    width, height = shot.size
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if shot.dark else "light",
        reduced_motion="reduce",
        locale=shot.language,
        storage_state=signed_in(browser, signs_in),
    )
    page = context.new_page()
    base = f"{server}/demo/-/limbic"
    path = shot.path
    if shot.entity is not None:
        rows = page.request.get(
            f"{server}/demo/entities.json", params={"_shape": "array", "name__exact": shot.entity}
        )
        path = path.replace("{id}", str(rows.json()[0]["id"]))
    answer = page.goto(base + path)
    if answer is None or answer.status != 200:
        sys.exit(f"{path} answered {answer and answer.status}")
    page.wait_for_load_state("networkidle")
    if shot.top is not None:
        page.evaluate("where => document.querySelector(where).scrollIntoView()", shot.top)
    seen = page.locator(shot.only).first if shot.only else page
    written = compressed(seen.screenshot())
    context.close()
    if len(written) > MOST_BYTES:
        sys.exit(f"{shot.name} has {len(written):,} bytes: show less of the page")
    (IMAGES / f"{shot.name}.png").write_bytes(written)
    return len(written)


_SIGNED_IN: dict[str, Any] = {}


def signed_in(browser: Any, signs_in: str) -> Any:
    """The cookies of root; the address to sign in at works once."""
    if signs_in not in _SIGNED_IN:
        context = browser.new_context()
        context.new_page().goto(signs_in)
        _SIGNED_IN[signs_in] = context.storage_state()
        context.close()
    return _SIGNED_IN[signs_in]


def compressed(png: bytes) -> bytes:
    """With a palette: flat areas keep their colours, and so do small marks that text explains."""
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    counted = sorted(picture.getcolors(picture.width * picture.height) or [], reverse=True)
    colors = [value for _count, color in counted[:EXACT] for value in color]
    rest = picture.quantize(COLORS - EXACT, Image.Quantize.MAXCOVERAGE).getpalette() or []
    palette = Image.new("P", (1, 1))
    palette.putpalette([*colors, *rest][: 3 * COLORS])
    few = picture.quantize(palette=palette, dither=Image.Dither.NONE)
    written = io.BytesIO()
    few.save(written, "PNG", optimize=True)
    return written.getvalue()


if __name__ == "__main__":
    main()
