"""The model is loaded before SQL that embeds runs under Datasette's time limit."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from datasette_limbic import embedding, warming


@pytest.mark.parametrize(
    ("path", "query", "expected"),
    [
        ("/demo/limbic_search", b"q=a", True),
        ("/demo/limbic_search.json", b"", True),
        ("/demo", b"sql=select+limbic_embed(%3Aq)", True),
        ("/demo", b"sql=select+1", False),
        ("/demo/entities", b"", False),
        ("/demo/-/limbic/search", b"q=a", False),
    ],
)
def test_which_requests_wait_for_the_model(path, query, expected):
    assert warming.embeds({"path": path, "query_string": query}) is expected


async def test_the_model_is_loaded_once_and_off_the_loop(demo_db, make_datasette, monkeypatch):
    loaded = []
    monkeypatch.setattr(warming, "_load", loaded.append)
    monkeypatch.setattr(warming, "_warmed", set())
    datasette = make_datasette(demo_db)
    await datasette.invoke_startup()
    for _ in range(2):
        await datasette.client.get(f"/{demo_db.stem}/limbic_search?q=Atlas")
    await datasette.client.get(f"/{demo_db.stem}/entities")
    assert loaded == ["limbic-multilingual"]


def test_a_model_that_fails_is_left_to_the_search(monkeypatch, caplog):
    def fail(*_args, **_kwargs):
        raise RuntimeError("no such file")

    monkeypatch.setattr(embedding, "embed_query", fail)
    warming._load("limbic-multilingual")
    assert "no such file" in caplog.text


def test_the_first_request_of_a_process_finds_rows(demo_db):
    """In a process of its own: nothing is loaded before."""
    done = subprocess.run(
        [sys.executable, "-m", "datasette", str(demo_db), "--get",
         f"/{demo_db.stem}/limbic_search.json?q=cola+de+eventos&_shape=array"],
        capture_output=True,
        text=True,
    )  # fmt: skip
    rows = json.loads(done.stdout)
    assert rows[0]["name"] == "Una cola en PostgreSQL", done.stderr
