"""The benchmark of full text, on a memory of a few texts."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

import pytest
from empty_memory import empty_memory

from benchmarks import texting
from datasette_limbic import connection, text


def test_each_query_is_measured_in_each_kind_of_search(tmp_path: Path) -> None:
    path = empty_memory(tmp_path / "memory.db")
    conn = connection.connect(path)
    with conn:
        conn.executemany(
            "insert into entities(name, entity_type) values (?, ?)",
            ((f"the word{i} of word{i // 2}", "Large" if i % 3 else "Small") for i in range(150)),
        )
    queries = texting.queries(conn)
    assert queries["its most common word"].startswith("word")
    assert len(queries["64 most common words"].split()) == 64
    assert len(text.fts_terms(queries["64 phrases of them"])) == 64
    assert max(map(len, queries.values())) <= texting.LONGEST
    assert texting.types(conn) == ("Large", "Large")
    conn.close()

    rows = texting.run(path, names=["ordinary", "chains of 8"])
    assert [row["query"] for row in rows] == ["ordinary", "chains of 8"]
    for row in rows:
        times = [value for title, value in row.items() if title not in ("query", "<= 60")]
        assert len(times) == 4
        assert min(times) > 0
        assert row["<= 60"] == (max(times) <= texting.TARGET_MS)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ([], "this memory has no entities"),
        (["the of", "用户身份"], "no text of this memory holds an ASCII word"),
    ],
)
def test_what_a_memory_lacks_is_said_in_a_sentence(
    names: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = empty_memory(tmp_path / "memory.db")
    with closing(connection.connect(path)) as conn, conn:
        conn.executemany(
            "insert into entities(name, entity_type) values (?, '中')", ((name,) for name in names)
        )
    monkeypatch.setattr(sys, "argv", ["texting", str(path)])
    with pytest.raises(SystemExit, match=said) as stopped:
        texting.main()
    assert "\n" not in str(stopped.value)


def test_a_few_words_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = empty_memory(tmp_path / "memory.db")
    with closing(connection.connect(path)) as conn, conn:
        conn.execute("insert into entities(name, entity_type) values ('maps', 'Project')")
        monkeypatch.setattr(texting, "RUNS", 1)
        monkeypatch.setattr(texting, "QUERIES", {})
        queries = texting.queries(conn)
    assert queries["its most common word"] == "maps"
    assert "64 phrases of them" not in queries
    assert [row["query"] for row in texting.run(path)] == list(queries)
