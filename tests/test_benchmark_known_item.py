"""The benchmark of known items, on memories of a few texts."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from empty_memory import empty_memory

from benchmarks import known_item
from datasette_limbic import connection


def filled(path: Path, *contents: str) -> Path:
    empty_memory(path)
    with closing(connection.connect(path)) as conn, conn:
        for number, content in enumerate(contents, 1):
            conn.execute("insert into entities(id, name) values (?, ?)", [number, f"no {number}"])
            conn.execute(
                "insert into observations(entity_id, content) values (?, ?)", [number, content]
            )
    return path


def test_words_of_one_text_find_it(tmp_path: Path) -> None:
    texts = [
        " ".join(f"{word}{letter}" for word in ("ant", "bee", "cow", "dog", "elk"))
        for letter in "abcdefgh"
    ]
    path = filled(tmp_path / "memory.db", "too few words", *texts)
    with closing(connection.connect(path, readonly=True)) as conn:
        asked = known_item.known(conn, 30)
        assert known_item.known(conn, 30) == asked
    assert len(asked) == 30
    for item in asked:
        words = item.query.split()
        assert 3 <= len(words) <= 5
        assert set(words) <= set(texts[item.entity - 2].split())
    [row] = known_item.run(path, 30)  # without vectors
    assert (row["mode"], row["queries"]) == ("text", 30)
    assert row["among 10"] == row["first"] == row["mean reciprocal rank"] == 1
    assert row["p50 ms"] > 0


def test_what_is_said_by_many_is_not_always_found(tmp_path: Path) -> None:
    path = filled(tmp_path / "memory.db", *["ant bee cow dog elk"] * 40)
    [row] = known_item.run(path, 40)
    assert 0 < row["among 10"] < 0.6
    assert row["first"] < row["mean reciprocal rank"] < row["among 10"]


@pytest.mark.parametrize("contents", [(), ("one two",)])
def test_nothing_to_ask_for(tmp_path: Path, contents: tuple[str, ...], capsys) -> None:
    path = filled(tmp_path / "memory.db", *contents)
    with pytest.raises(SystemExit):
        known_item.main([str(path)])
    assert "has 5 words" in capsys.readouterr().err


def test_the_command_prints_a_table(tmp_path: Path, capsys) -> None:
    path = filled(tmp_path / "memory.db", "ant bee cow dog elk")
    known_item.main([str(path), "--queries", "3"])
    assert "| text   |         3 |" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        known_item.main([str(path), "--queries", "0"])
