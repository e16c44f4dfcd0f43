"""``datasette limbic add``: what POST /observations does, from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from view_helpers import digest, rows, write

from datasette_limbic.cli import limbic


def run(*args: Any, code: int = 0) -> str:
    result = CliRunner().invoke(limbic, ["add", *[str(a) for a in args]])
    assert result.exit_code == code, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.output


def test_adds_and_says_what_it_is_alike_to(demo_db: Path) -> None:
    entity, first = rows(
        demo_db, "select e.name, o.content from observations o join entities e on e.id = entity_id"
        " where e.name = 'Atlas' order by o.id limit 1"
    )[0]  # fmt: skip
    said = run(demo_db, entity, first, first.upper(), "Nothing like it: " + "zebra")
    assert "There already" in said
    assert "(flagged)" in said
    assert "  says the same as id" in said
    assert said.endswith("2 observations added, 1 there already, 0 not added.\n")
    assert rows(demo_db, "select count(*) from observations where content = ?", first) == [(1,)]
    flag = "select similarity_flag from observations where content = ?"
    assert rows(demo_db, flag, first.upper()) == [(1,)]
    assert rows(demo_db, "select * from limbic_stale") == []


def test_json_and_details(demo_db: Path) -> None:
    number = rows(demo_db, "select id from entities where name = 'Atlas'")[0][0]
    said = run(
        demo_db, number, "New fact", "--id", "--kind", "note", "--confidence", 0.5,
        "--valid-from", "2026-01-01", "--valid-to", "2999-01-01", "--json",
    )  # fmt: skip
    answer = json.loads(said)
    assert answer["ok"] is True
    assert answer["results"][0]["addedObservations"] == ["New fact"]
    found = rows(
        demo_db,
        "select kind, confidence, valid_from, valid_to from observations where content = ?",
        "New fact",
    )
    assert found == [("note", 0.5, "2026-01-01 00:00:00", "2999-01-01 00:00:00")]


def test_where_nothing_is_added(demo_db: Path) -> None:
    before = digest(demo_db)
    said = run(demo_db, "atlas", "x", code=1)
    assert "Not added: this memory has no entity with the name 'atlas': perhaps 'Atlas'" in said
    answer = json.loads(run(demo_db, "atlas", "x", "--json", code=1))
    assert answer["ok"] is False
    assert answer["error"].startswith("nothing was added: ")
    assert digest(demo_db) == before


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["Atlas"], 2, "TEXT"),
        (["x1", "text", "--id"], 1, "is no id"),
        (["Atlas", *map(str, range(501))], 1, "501 observations"),
        (["Atlas", "text", "--confidence", "nan"], 1, "confidence is nan"),
    ],
)
def test_what_is_refused(args: list[str], code: int, words: str, demo_db: Path) -> None:
    before = digest(demo_db)
    assert words in run(demo_db, *args, code=code)
    assert digest(demo_db) == before


def test_files_that_are_none(tmp_path: Path) -> None:
    assert "does not exist" in run(tmp_path / "none.db", "Atlas", "x", code=1)


def test_a_file_without_vectors_says_so(empty_db: Path) -> None:
    write(empty_db, ("insert into entities(name) values ('Atlas')", []))
    said = run(empty_db, "Atlas", "fact")
    assert "Compared by words alone: there are no vectors of observations yet" in said
    assert "Not searched by meaning yet: there are no vectors of entities yet" in said


def test_the_settings_of_the_server_count(demo_db: Path, tmp_path: Path) -> None:
    config = tmp_path / "metadata.yml"
    config.write_text("plugins:\n  datasette-limbic:\n    model: no-such-model\n")
    said = run(demo_db, "Atlas", "fact", "--config", config)
    assert "Compared by words alone: llm knows no embedding model 'no-such-model'" in said
