"""What the pages of the reports take in their addresses: anything else is a 400 that names it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from view_helpers import base, get, get_json, text_of

# page → what it takes, each with a value that is right
TAKEN: dict[str, dict[str, str]] = {
    "": {},
    "/imports": {"source": "memory.jsonl", "page": "1"},
    "/imports/1": {"reason": "x", "page": "1"},
    "/consolidation": {
        "stale_days": "30",
        "now": "2026-11-29",
        "size": "5",
        "list": "stale_entities",
        "page": "1",
    },
    "/duplicates": {"kind": "look", "page": "1"},
    "/duplicates/3": {
        "threshold": "0.9",
        "containment_threshold": "0.9",
        "look": "0.8",
        "page": "1",
    },
    "/split/3": {"insight": "1", "by_hand": "1"},
    "/health": {"list": "orphans", "page": "1", "size": "5", "now": "2026-11-29"},
}


@pytest.mark.parametrize("path", TAKEN)
async def test_unknown_arguments_are_named(path: str, demo_db: Path, make_datasette: Any) -> None:
    datasette = make_datasette(demo_db)
    url = base(demo_db) + path
    listed = ", ".join(TAKEN[path]) or "none"
    said = f"unknown argument stale_day: this page takes {listed}"
    # with a value, without one, and beside one that is right
    for query in ("stale_day=30", "stale_day=", "_nl=on&stale_day=30&page=1"):
        if "page" in query and "page" not in TAKEN[path]:
            continue
        assert (await get_json(datasette, f"{url}.json?{query}", 400))["error"] == said, query
        response = await get(datasette, f"{url}?{query}")
        assert response.status_code == 400
        assert "Unknown argument stale_day" in text_of(response.text)
    found = await get_json(datasette, f"{url}.json?b=1&a={'x' * 99}&{'y' * 99}=1", 400)
    assert found["error"].startswith(f"unknown argument a, b, {'y' * 40}: ")


@pytest.mark.parametrize("path", TAKEN)
async def test_all_that_is_taken_passes_and_so_does_what_is_datasettes_own(
    path: str, demo_db: Path, make_datasette: Any
) -> None:
    datasette = make_datasette(demo_db)
    query = "&".join(f"{name}={value}" for name, value in TAKEN[path].items())
    for suffix in ("", ".json"):
        response = await get(datasette, f"{base(demo_db)}{path}{suffix}?{query}&_trace=1&_x=1")
        assert response.status_code == 200, response.text[:300]


@pytest.mark.parametrize("path", ["/consolidation", "/health"])
@pytest.mark.parametrize(
    ("query", "bounds"),
    [
        ("size=100000000", "from 1 to 1000"),
        ("size=1001", "from 1 to 1000"),
        ("size=0", "from 1 to 1000"),
        ("size=x", "from 1 to 1000"),
        ("list=LIST&page=100000000", "from 1 to 10000000"),
        ("list=LIST&page=0", "from 1 to 10000000"),
    ],
)
async def test_numbers_out_of_range_name_the_range(
    query: str, bounds: str, path: str, demo_db: Path, make_datasette: Any
) -> None:
    query = query.replace("LIST", TAKEN[path]["list"])
    found = await get_json(make_datasette(demo_db), f"{base(demo_db)}{path}.json?{query}", 400)
    assert found["error"].endswith(f"use a whole number {bounds}")
