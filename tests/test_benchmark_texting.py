"""The benchmark of full text, on a memory of a few texts."""

from __future__ import annotations

from pathlib import Path

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
