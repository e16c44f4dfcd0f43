"""One server and one browser for all modules here."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from browser_helpers import CHROMIUM, SIZES, WAYS, Visitor, serving
from datasette.utils import tilde_encode
from empty_memory import empty_memory
from insights_helpers import reflected
from npm_packages import lacking
from odd_memory import odd_memory
from test_views_tuning import SIGNAL, memory


@pytest.fixture(scope="package")
def server(demo_master: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a Datasette on a sample memory, an odd one and an empty one."""
    folder = tmp_path_factory.mktemp("served")
    demo = shutil.copy(demo_master, folder / "demo.db")
    odd, empty = odd_memory(folder / "odd.db"), empty_memory(folder / "empty.db")
    with serving(folder, demo, odd, empty) as url:
        yield url


@dataclass(frozen=True)
class Edited:
    """A Datasette below a prefix, where everybody may edit."""

    url: str
    path: Path
    """The file of the sample, whose name has spaces and dots; its findings wait for decisions."""
    base: str
    """Path of its overview."""
    tuned: str
    """Path of the overview of a memory with a log to tune by."""


@pytest.fixture(scope="package")
def edited(demo_master: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edited]:
    """Whoever changes something there undoes it."""
    folder = tmp_path_factory.mktemp("edited")
    path = Path(shutil.copy(demo_master, folder / "my memory 1.5.db"))
    reflected(path)
    tuned, empty = memory(folder / "tuned.db", SIGNAL, 4), empty_memory(folder / "empty.db")
    config = {"permissions": {"limbic-edit": True, "limbic-record": True}}
    with serving(folder, path, tuned, empty, prefix="/prefix/", config=config) as url:
        yield Edited(url, path, f"/{tilde_encode(path.stem)}/-/limbic", "/tuned/-/limbic")


@pytest.fixture(scope="package")
def chromium() -> Iterator[Any]:
    try:
        from playwright import sync_api
    except ImportError:
        lacking("Playwright is not installed")
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


@pytest.fixture
def desktop(chromium: Any, server: str) -> Iterator[Visitor]:
    someone = Visitor(chromium, server, "desktop")
    yield someone
    someone.done()


@pytest.fixture(params=SIZES)
def visitor(request: pytest.FixtureRequest, chromium: Any, server: str) -> Iterator[Visitor]:
    someone = Visitor(chromium, server, request.param)
    yield someone
    someone.done()


@pytest.fixture(params=WAYS, ids=lambda way: f"{way[0]}-{way[1]}")
def walker(request: pytest.FixtureRequest, chromium: Any, server: str) -> Iterator[Visitor]:
    size, scripts = request.param
    someone = Visitor(chromium, server, size, java_script_enabled=scripts)
    yield someone
    someone.done()
