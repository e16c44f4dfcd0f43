"""``datasette limbic split``."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from split_helpers import add, placed, texts
from view_helpers import digest

from datasette_limbic import connection
from datasette_limbic.cli import limbic


def run(*args: Any, code: int = 0) -> str:
    result = CliRunner().invoke(limbic, ["split", *[str(arg) for arg in args]])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result.output


@pytest.fixture
def split_db(path: Path) -> Path:
    with closing(connection.connect(path)) as conn:
        add(conn, "Proyecto Atlas", "Proyecto", texts(30))
        add(conn, "Near", "Tool", texts(18))
        add(conn, "Small\nbut odd", "Tool", ["one\nline"])
        add(conn, "2", "Tool", [])
        add(conn, "77", "Tool", [])
    return path


def test_the_list(split_db: Path) -> None:
    before = digest(split_db)
    lines = run(split_db).splitlines()
    assert [line.split()[0] for line in lines[2:4]] == ["1", "2"]
    assert "Proyecto Atlas" in lines[2]
    assert "30 of 25" in lines[2]
    assert "approaching" in lines[3]
    assert lines[-1].startswith("1 to be split, 1 approaching.")
    body = json.loads(run(split_db, "--json"))
    assert [row["name"] for row in body["candidates"]] == ["Proyecto Atlas", "Near"]
    assert digest(split_db) == before


def test_nothing_to_list(empty_db: Path) -> None:
    assert run(empty_db).startswith("No entity is worth splitting")


def test_one_entity(split_db: Path) -> None:
    before = digest(split_db)
    text = run(split_db, "Proyecto Atlas")
    body = json.loads(run(split_db, "1", "--json"))
    assert placed(body) == list(range(1, 31))
    assert text.startswith("Proyecto Atlas (Proyecto)\n" + body["reason"])
    assert body["summary"] in text
    assert "Topics of words alone: no observation has a vector" in text
    for child in body["children"]:
        assert f"New: {child['name']} (Proyecto), firmness {child['firmness']:.2f}" in text
        assert f"Proyecto Atlas → contiene → {child['name']}" in text
    for number in range(1, 31):
        assert text.count(f" #{number} ") == 1
    assert text.rstrip().endswith("a split is made only once a person approves it.")
    assert digest(split_db) == before


def test_what_needs_no_split(split_db: Path) -> None:
    text = run(split_db, "Small\nbut odd")
    assert text.startswith("Small but odd (Tool)\n1 observation is too few")
    assert "Nothing is proposed" in text
    assert "Relations" not in text


def test_digits_are_an_id_before_they_are_a_name(split_db: Path) -> None:
    assert run(split_db, "2").startswith("Near (Tool)")
    assert run(split_db, "77").startswith("77 (Tool)")


def test_an_unknown_name(split_db: Path) -> None:
    text = run(split_db, "proyecto átlas", code=1)
    assert "did you mean 'Proyecto Atlas'?" in text
    assert "no entity with the name '9999'" in run(split_db, "9999", code=1)


def test_no_file(tmp_path: Path) -> None:
    assert "does not exist" in run(tmp_path / "none.db", code=1)
