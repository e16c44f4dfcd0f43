"""The topics of large entities, as rows."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from split_helpers import add, texts

from datasette_limbic import connection, report_settings, schema
from datasette_limbic.reports import reading
from datasette_limbic.reports.topic_rows import topic_rows


@pytest.mark.parametrize("kind", ["Tool", b"Tool", 7])
def test_entity_types_of_any_storage(tmp_path: Path, kind: Any) -> None:
    """Any program may have put bytes or a number there; all of these have the usual threshold."""
    with closing(connection.connect(tmp_path / "memory.db", create=True)) as conn:
        schema.init(conn)
        number = add(conn, "Atlas", "Tool", texts(24))
        conn.execute("update entities set entity_type = ?", [kind])
        rows = topic_rows(conn, reading.read(conn, [number]), report_settings.read(conn))
        conn.rollback()
    assert [row.entity_id for row in rows] == [number]
    assert rows[0].split_score == pytest.approx(24 / 20 * rows[0].diversity)
    assert [topic["size"] for topic in json.loads(rows[0].topics)] == [8, 8, 8]
    assert all(topic["stands_apart"] for topic in json.loads(rows[0].topics))


def test_a_type_of_bytes_has_its_own_threshold(tmp_path: Path) -> None:
    with closing(connection.connect(tmp_path / "memory.db", create=True)) as conn:
        schema.init(conn)
        number = add(conn, "Atlas", "Receta", texts(21))
        conn.execute(
            "insert into limbic_settings(key, value) values ('split_threshold:Receta', 30)"
        )
        conn.execute("update entities set entity_type = x'526563657461'")
        settings = report_settings.read(conn)
        assert topic_rows(conn, reading.read(conn, [number]), settings) == []  # 24 is 80 % of 30
        conn.rollback()
