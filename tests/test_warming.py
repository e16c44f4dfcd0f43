"""The model is loaded before SQL that embeds runs under Datasette's time limit."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from datasette_limbic import embedding, warming
from datasette_limbic.errors import RetrieverFailed
from datasette_limbic.retrieval import builtin
from datasette_limbic.retrieval.model import Retriever


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


class Prepared(Retriever):
    """Counts how often it was prepared, and may fail at that."""

    name = "prepared"
    sql = "nearest as materialized (select 1 as x, 0.1 as d)"

    def __init__(self, error=None):
        self.files, self.error = [], error

    def prepare(self, conn, settings):
        self.files.append(Path(conn.execute("pragma database_list").fetchone()[2]).stem)
        if self.error:
            raise self.error


@pytest.fixture
def prepared(monkeypatch):
    """Register a retriever that counts."""
    monkeypatch.setattr(warming, "_load", lambda model: None)

    def add(found):
        real = builtin.RETRIEVERS
        monkeypatch.setattr(builtin, "RETRIEVERS", [*real, found])
        return found

    return add


async def test_only_what_the_path_names_is_prepared(demo_db, make_datasette, prepared, tmp_path):
    found = prepared(Prepared())
    other = shutil.copy(demo_db, tmp_path / "an other.db")
    datasette = make_datasette(demo_db, other, config={"retriever": "prepared"})
    await datasette.invoke_startup()
    for path, files in (
        ("/-/versions?limbic_nearest", []),
        ("/?limbic_embed", []),
        ("/nothing/limbic_search", []),
        (f"/{demo_db.stem}/limbic_search.json?q=Atlas&_shape=array", [demo_db.stem]),
        (f"/{demo_db.stem}?_=limbic_nearest", [demo_db.stem]),
        (f"/{demo_db.stem}.json?_=limbic_nearest", [demo_db.stem]),
        ("/an~20other?_=limbic_embed", ["an other"]),
    ):
        found.files.clear()
        response = await datasette.client.get(path)
        assert response.status_code < 500, path
        assert found.files == files, path


@pytest.mark.parametrize(
    "error", [RuntimeError("no server"), KeyError(), RetrieverFailed("asleep")], ids=repr
)
async def test_a_retriever_that_fails_is_left_to_the_search(
    error, demo_db, make_datasette, prepared, caplog
):
    found = prepared(Prepared(error))
    datasette = make_datasette(demo_db, config={"retriever": "prepared"})
    await datasette.invoke_startup()
    response = await datasette.client.get(
        f"/{demo_db.stem}/limbic_search.json?q=Atlas&_shape=array"
    )
    assert response.status_code == 200
    assert response.json()
    assert found.files == [demo_db.stem]
    assert (str(error) or type(error).__name__) in caplog.text


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
