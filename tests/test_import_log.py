"""The log of imports: figures of any version, kinds of reasons, pages of rejects."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from datasette.utils.sqlite import sqlite3
from hypothesis import given
from hypothesis import strategies as st

from datasette_limbic import connection
from datasette_limbic.errors import NotAMemory, UnknownImport
from datasette_limbic.import_log import (
    import_detail,
    import_list,
    left_out,
    sources,
)
from datasette_limbic.import_rejects import MAX_KIND, reason_kind

COUNTS = {
    "file": "a.jsonl",
    "lines": 20,
    "rejected": 2,
    "rejects": 3,
    "entities": {"lines": 9, "created": 7, "merged": 2},
    "observations": {"in_file": 5, "added": 4, "already_there": 0, "skipped": 1},
    "relations": {"lines": 9, "created": 8, "merged": 0, "reopened": 0, "dangling": 1},
    "warnings": {"type_conflicts": [{"line": 1}], "type_conflict_count": 1, "extra_keys": {"a": 9}},
    "first_rejects": [{"line": 2}],
}


@pytest.fixture
def conn(empty_db: Path) -> Any:
    conn = connection.connect(empty_db)
    # as Datasette opens it: bytes that are no UTF-8 are no error
    conn.text_factory = lambda value: str(value, "utf-8", "replace")
    yield conn
    conn.close()


def log(
    conn: sqlite3.Connection, counts: Any = COUNTS, source: Any = "a.jsonl", **more: Any
) -> int:
    row = {"format": "JSON Lines", "started": "2026-01-01", "finished": "2026-01-01", **more}
    stored = json.dumps(counts) if isinstance(counts, dict) else counts
    return conn.execute(  # type: ignore[no-any-return]
        "insert into limbic_imports(source, format, counts, started_at, finished_at)"
        " values (?, ?, ?, ?, ?)",
        [source, row["format"], stored, row["started"], row["finished"]],
    ).lastrowid


def reject(
    conn: sqlite3.Connection, import_id: int, line: Any, reason: Any, raw: Any = "x"
) -> None:
    conn.execute(
        "insert into limbic_import_rejects(import_id, line, reason, raw) values (?, ?, ?, ?)",
        [import_id, line, reason, raw],
    )


# -- the list ---------------------------------------------------------------------------------


def test_figures_are_the_numbers_of_both_levels_and_lists_are_left_aside(conn: Any) -> None:
    log(conn)
    (row,) = import_list(conn)["imports"]
    assert row["figures"] == {
        "lines": 20,
        "rejected": 2,
        "rejects": 3,
        "entities": COUNTS["entities"],
        "observations": COUNTS["observations"],
        "relations": COUNTS["relations"],
        "warnings": {"type_conflict_count": 1},
    }
    assert row["left_out"] == 4
    assert "counts" not in row


def test_newest_first_paged_and_counted(conn: Any) -> None:
    for i in range(120):
        log(conn, {"lines": i}, "even" if i % 2 == 0 else "odd")
    seen = []
    for page, size in ((1, 50), (2, 50), (3, 20), (4, 0)):
        found = import_list(conn, page=page)
        assert (found["page"], found["pages"], found["count"]) == (page, 3, 120)
        assert len(found["imports"]) == size
        seen += [row["id"] for row in found["imports"]]
    assert seen == list(range(120, 0, -1))
    odd = import_list(conn, source="odd", page=2)
    assert (odd["count"], odd["count_all"], odd["pages"]) == (60, 120, 2)
    assert {row["source"] for row in odd["imports"]} == {"odd"}
    assert odd["totals"] == {"lines": sum(range(1, 120, 2))}
    none = import_list(conn, source="neither")
    assert (none["imports"], none["count"], none["count_all"], none["totals"]) == ([], 0, 120, {})
    assert sources(conn) == ["even", "odd"]


def test_totals_are_of_every_figure_that_any_version_wrote(conn: Any) -> None:
    log(conn)
    log(conn, {"lines": 5, "entities": {"created": 3}, "insights": {"imported": 4}, "depth": 0.5})
    log(conn, {"entities": {"created": 1e308}})
    log(conn, "no JSON")
    totals = import_list(conn)["totals"]
    assert totals["lines"] == 25
    assert totals["entities"] == {"lines": 9, "created": 10, "merged": 2}
    assert totals["insights"] == {"imported": 4}
    assert totals["depth"] == 0.5


ODD_COUNTS: dict[str, tuple[Any, dict[str, Any], Any]] = {
    "empty": ("{}", {}, {}),
    "no text": ("", {}, None),
    "no JSON": ("nope", {}, None),
    "cut off": ('{"lines": 1', {}, None),
    "a list": ("[1, 2]", {}, None),
    "a number": ("5", {}, None),
    "null": ("null", {}, None),
    "bytes that are no text": (b"\x00\xff\xfe", {}, None),
    "JSON in bytes": (b'{"lines": 3}', {"lines": 3}, {"lines": 3}),
    "a number in the column": (7, {}, None),
    "deep": ("[" * 100_000, {}, None),
    "deep object": ('{"a":' * 50 + "1" + "}" * 50, {}, ...),
    "booleans and texts": ('{"a": true, "b": "7", "c": null}', {}, ...),
    "infinity": ('{"a": 1e999, "b": {"c": -1e999, "d": 2}}', {"b": {"d": 2}}, ...),
    "a huge number": ('{"a": ' + "9" * 30 + "}", {"a": int(float("9" * 30))}, ...),
    "negative": ('{"a": -3}', {"a": -3}, {"a": -3}),
    "a group that is a number": ('{"entities": 5}', {"entities": 5}, ...),
    "half a surrogate": (
        '{"lines": 1, "file": "\\ud800"}',
        {"lines": 1},
        {"lines": 1, "file": "�"},
    ),
    "a number of 5,000 digits": ('{"a": ' + "9" * 5000 + "}", {}, ...),
}


@pytest.mark.parametrize("case", ODD_COUNTS.values(), ids=ODD_COUNTS)
def test_counts_of_any_program_are_read_as_far_as_they_go(case: Any, conn: Any) -> None:
    stored, figures, counts = case
    number = log(conn, stored)
    log(conn)
    found = import_list(conn)
    assert found["imports"][1]["figures"] == figures
    assert found["totals"]["entities"]["created"] == 7
    detail = import_detail(conn, number)
    assert detail["import"]["figures"] == figures
    if counts is not ...:
        assert detail["import"]["counts"] == counts
    json.dumps(detail, allow_nan=True, ensure_ascii=False).encode()


TIMES = [
    ("2026-01-01 10:00:00", "2026-01-01 10:00:03.5", 3.5),
    ("2026-01-01T10:00:00Z", 1767261660, 60.0),
    ("2026-01-01 10:00:00", "2026-01-01 10:00:00", 0.0),
    ("2026-01-01 10:00:03", "2026-01-01 10:00:00", None),
    ("soon", "2026-01-01", None),
    (b"\xff", "2026-01-01", None),
]


@pytest.mark.parametrize(("started", "finished", "seconds"), TIMES)
def test_seconds(started: Any, finished: Any, seconds: Any, conn: Any) -> None:
    log(conn, started=started, finished=finished)
    assert import_list(conn)["imports"][0]["seconds"] == seconds


@pytest.mark.parametrize(
    ("figures", "kept", "expected"),
    [
        ({}, 0, 0),
        ({}, 4, 4),
        ({"rejects": 7}, 0, 7),
        ({"rejects": 7}, 5, 7),
        ({"rejected": 2, "relations": {"dangling": 3}, "access": {"dangling": 1}}, 0, 6),
        ({"rejects": 6, "relations": {"dangling": 3}}, 0, 6),
        ({"rejects": 6, "observations": {"skipped": 2}, "news": {"skipped": 1}}, 0, 9),
        ({"rejects": {"a": 1}, "relations": 3}, 0, 0),
    ],
)
def test_left_out(figures: dict[str, Any], kept: int, expected: int) -> None:
    assert left_out(figures, kept) == expected


# -- kinds of reasons -------------------------------------------------------------------------

KINDS = {
    "no entity named 'Ana'": "no entity named …",
    'no entity named "D\'Arcy"': "no entity named …",
    r"no entity named 'both \' and \"'": "no entity named …",
    "no entity named 'a'; no entity named 'b'": "no entity named …",
    "no entity named 'atlas' (there is 'Atlas')": "no entity named … (there is …)",
    "no entity named 'cut off": "no entity named …",
    "not JSON: Expecting value (character 1)": "not JSON: Expecting value (character …)",
    "not UTF-8: byte 12 of the line": "not UTF-8: byte … of the line",
    "the line is 70,000,000 bytes long": "the line is … bytes long",
    'unknown record type "note"': "unknown record type …",
    "no object but a number (-4.5)": "no object but a number (…)",
    "neither entity nor relation: keys text, at": "neither entity nor relation: keys …",
    "access without a readable time: {'a': 1}": "access without a readable time: …",
    "it's what don't fit": "it's what don't fit",
    "entity\n without\ta name": "entity without a name",
    "": "no reason given",
    " \n": "no reason given",
}


@pytest.mark.parametrize(("reason", "kind"), KINDS.items())
def test_reason_kind(reason: str, kind: str) -> None:
    assert reason_kind(reason) == kind
    assert reason_kind(kind) == kind


@given(st.text(alphabet="ab '\"\\;:1,.-…\n", max_size=60))
def test_reason_kind_takes_any_text(reason: str) -> None:
    assert 0 < len(reason_kind(reason)) <= MAX_KIND


@pytest.mark.parametrize("piece", ["'", "\\'", "'\\", "1,", "; ", "\"'", "x'", "keys "])
def test_reason_kind_is_quick_whatever_the_text(piece: str) -> None:
    import time

    start = time.perf_counter()
    for _ in range(10):
        reason_kind(piece * 2000 + "\\")
    assert time.perf_counter() - start < 2


# -- one import -------------------------------------------------------------------------------


def test_reasons_are_grouped_and_rejects_come_by_line(conn: Any) -> None:
    number, other = log(conn), log(conn)
    reject(conn, other, 1, "of another import")
    for line in range(12, 0, -1):
        reject(conn, number, line, f"no entity named 'N{line}'", f"raw {line}")
    reject(conn, number, 5, "entity without a name")
    found = import_detail(conn, number)
    assert found["reasons"] == [
        {
            "reason": "no entity named …",
            "count": 12,
            "first_line": 1,
            "example": "no entity named 'N1'",
        },
        {
            "reason": "entity without a name",
            "count": 1,
            "first_line": 5,
            "example": "entity without a name",
        },
    ]
    assert [r["line"] for r in found["rejects"]] == [*range(1, 6), *range(5, 13)]
    assert found["rejects"][0]["raw"] == "raw 1"
    assert (found["count"], found["import"]["rejects_kept"]) == (13, 13)


@pytest.mark.parametrize(
    ("reason", "count"),
    [
        (None, 251),
        ("no entity named …", 250),
        ("no entity named 'somebody else'", 250),
        ("entity without a name", 1),
        ("of no reject", 0),
        ("%", 0),
    ],
)
def test_rejects_of_a_reason_are_paged(reason: str | None, count: int, conn: Any) -> None:
    number = log(conn)
    for line in range(250):
        reject(conn, number, line, f"no entity named 'N{line}'")
    reject(conn, number, 300, "entity without a name")
    seen: list[int] = []
    for page in range(1, 5):
        found = import_detail(conn, number, page=page, reason=reason)
        assert (found["count"], found["pages"]) == (count, max(1, -(-count // 100)))
        assert found["reason_count"] == len(found["reasons"]) == 2
        assert len(found["rejects"]) <= 100
        seen += [r["id"] for r in found["rejects"]]
    assert len(seen) == len(set(seen)) == count


def test_a_reason_of_bytes_is_found_by_its_own_kind(conn: Any) -> None:
    number = log(conn)
    reject(conn, number, b"\xff", b"\xff no text", b"\x00\xff")
    (one,) = import_detail(conn, number)["reasons"]
    assert import_detail(conn, number, reason=one["reason"])["count"] == 1


def test_kinds_are_limited_and_the_most_frequent_come_first(conn: Any) -> None:
    number = log(conn)
    for i in range(300):
        reject(conn, number, i, f"kind{i}x")
    for line in range(3):
        reject(conn, number, line, "kind299x")
    found = import_detail(conn, number)
    assert (len(found["reasons"]), found["reason_count"]) == (200, 300)
    assert [one["count"] for one in found["reasons"][:2]] == [4, 1]


def test_unknown_import_and_no_memory(conn: Any, tmp_path: Path) -> None:
    with pytest.raises(UnknownImport, match="no import 1"):
        import_detail(conn, 1)
    other = sqlite3.connect(tmp_path / "other.db")
    for function in (import_list, lambda c: import_detail(c, 1)):
        with pytest.raises(NotAMemory):
            function(other)
    other.close()
