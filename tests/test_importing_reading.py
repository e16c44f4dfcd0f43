"""Recognising files, and streaming their records."""

from __future__ import annotations

import gzip
import io
import json
import sqlite3
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from importing_helpers import DIALECTS, new_memory

from datasette_limbic.errors import UnknownFormat
from datasette_limbic.importing import reading
from datasette_limbic.importing.document import read_document
from datasette_limbic.importing.reading import DOCUMENT, JSON_LINES, read_lines, sniff
from datasette_limbic.importing.records import Counted, Record

ROW = {"type": "entity", "name": "A", "observations": []}
LINE = json.dumps(ROW)


def lines(data: str | bytes) -> tuple[list[Record], Counted]:
    counted = Counted()
    raw = data.encode() if isinstance(data, str) else data
    return list(read_lines(io.BytesIO(raw), counted)), counted


def document(data: str | bytes) -> tuple[list[Record], Counted]:
    counted = Counted()
    raw = data.encode() if isinstance(data, str) else data
    return list(read_document(io.BytesIO(raw), counted)), counted


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (LINE, JSON_LINES),
        (f"\ufeff{LINE}\n{LINE}", JSON_LINES),
        (f"\n\r\n  {LINE}", JSON_LINES),
        ('{"type":"entity","name":"cut o\n' + LINE, JSON_LINES),
        ("null\n42\n" + LINE, JSON_LINES),
        (LINE + LINE, JSON_LINES),
        (f"[{LINE}]", DOCUMENT),
        (f"[\n  {LINE}\n]", DOCUMENT),
        ('{"entities":[],"relations":[]}', DOCUMENT),
        ('{\n "version": 1,\n "entities": []\n}', DOCUMENT),
        ('{"entities": [\n' + LINE + "\n]}", DOCUMENT),
        ('{"entities":[' + ",".join([LINE] * 3000) + "]}", DOCUMENT),
        (LINE[:-1] + ',"x":"' + "y" * 100_000 + '"}', JSON_LINES),
        ('{"type":"access","query":null,"accessedAt":"2025-01-01","entities":["A"]}', JSON_LINES),
    ],
)
def test_shape_is_told_by_content(tmp_path: Path, content: str, expected: str) -> None:
    path = tmp_path / "memory.anything"
    path.write_text(content, encoding="utf-8")
    assert sniff(path).format == expected


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", ["is empty", "JSON Lines"]),
        (b" \n\n", ["is blank"]),
        (b"\xef\xbb\xbf", ["is blank"]),
        (bytes(range(256)), ["binary"]),
        (LINE.encode("utf-16"), ["UTF-16", "iconv -f UTF-16 -t UTF-8"]),
        (LINE.encode("utf-16-le"), ["UTF-16LE", "iconv"]),
        (LINE.encode("utf-16-be"), ["UTF-16BE", "iconv"]),
        (LINE.encode("utf-32"), ["UTF-32", "iconv"]),
        (gzip.compress(LINE.encode(), mtime=0), ["gzip", "gunzip"]),
        (b"PK\x03\x04rest", ["ZIP"]),
        (b"name,price\ntea,3\n", ["no JSON", "name,price"]),
        (b"42", ["no JSON"]),
        (b'{"engrama_export": 2, "version": "1.0"}\n', ["Engrama", "format 2", "update"]),
        (b'{"limbic_export": 2, "tables": {}}\n', ["full export", "version 2", "pip install -U"]),
    ],
)
def test_what_is_no_memory_is_named(tmp_path: Path, content: bytes, words: list[str]) -> None:
    path = tmp_path / "memory.json"
    path.write_bytes(content)
    with pytest.raises(UnknownFormat) as raised:
        sniff(path)
    for word in [*words, str(path)]:
        assert word in str(raised.value)


def test_directory_missing_file_and_databases(tmp_path: Path) -> None:
    with pytest.raises(UnknownFormat, match="is a directory"):
        sniff(tmp_path)
    with pytest.raises(UnknownFormat, match="does not exist"):
        sniff(tmp_path / "nowhere.jsonl")
    other = tmp_path / "other.db"
    conn = sqlite3.connect(other)
    conn.execute("create table prices(id)")
    conn.commit()
    with pytest.raises(UnknownFormat, match=r"without a memory in it.*prices"):
        sniff(other)
    for table in ("entities", "observations", "relations"):
        conn.execute(f"create table {table}(id)")
    conn.commit()
    conn.close()
    with pytest.raises(UnknownFormat, match=r"another program.*no column name"):
        sniff(other)
    new_memory(tmp_path / "ours.db").close()
    with pytest.raises(UnknownFormat, match=r"datasette limbic export"):
        sniff(tmp_path / "ours.db")


def test_lines_end_at_newline_alone() -> None:
    text = "a\u2028b\u2029c\u0085d\x0be\x1cf"
    row = json.dumps({"name": text}, ensure_ascii=False).replace("\\u000b", "\x0b")
    records, counted = lines(row + "\r\n" + row)
    assert [record.value for record in records] == [{"name": text}] * 2
    assert [record.line for record in records] == [1, 2]
    assert (counted.lines, counted.blank, counted.glued) == (2, 0, 0)


def test_glued_blank_and_cut_lines() -> None:
    records, counted = lines(f"{LINE}{LINE} {LINE}\n\n{LINE},\n  \r\n{LINE}{LINE[:20]}")
    assert [(r.line, r.error is None) for r in records] == [
        (1, True),
        (1, True),
        (1, True),
        (3, True),
        (5, True),
        (5, False),
    ]
    assert (counted.lines, counted.blank, counted.glued) == (5, 2, 3)
    assert records[-1].raw == LINE[:20]


def test_bad_bytes_numbers_and_depth_reject_their_line_only() -> None:
    deep = "[" * 100_000
    data = b"\n".join(
        [b'{"name": "\xff"}', b'{"n": ' + b"9" * 6000 + b"}", deep.encode(), LINE.encode()]
    )
    records, counted = lines(data)
    assert [record.error is None for record in records] == [False, False, False, True]
    assert "UTF-8" in str(records[0].error)
    assert counted.lines == 4


def test_a_line_too_long_is_rejected_and_the_next_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_RECORD", 1000)
    long = '{"name": "' + "x" * 5_000_000 + '"}'
    tracemalloc.start()
    records, counted = lines(f"{long}\n{LINE}\n{long}")
    tracemalloc.stop()
    assert [record.error is None for record in records] == [False, True, False]
    assert "at most 1,000 are read" in str(records[0].error)
    assert counted.lines == 3
    exactly = "{" + " " * 997 + "}"
    assert [r.error for r in lines(f"{exactly}\n")[0]] == [None]


def test_200_mb_of_one_line_needs_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "memory.jsonl"
    with path.open("wb") as file:
        file.write(b'{"type":"entity","name":"')
        for _ in range(200):
            file.write(b"x" * (1 << 20))
        file.write(b'"}\n' + LINE.encode())
    source = sniff(path)
    tracemalloc.start()
    records = list(source.records())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "bytes long" in str(records[0].error)
    assert records[1].value == ROW
    assert peak < 3 * reading.MAX_RECORD


def test_document_sections_lines_and_wrapper_keys() -> None:
    records, counted = document((DIALECTS / "object_pretty.json").read_bytes())
    assert [r.section for r in records] == ["entities"] * 2 + ["relations"] * 3 + ["document"]
    assert [r.line for r in records][:2] == [4, 12]
    assert records[-1].wrapper
    assert records[-1].value == {"version": 2}
    assert counted.lines == 5


@pytest.mark.parametrize(
    ("text", "good", "bad"),
    [
        (f"[{LINE},{LINE}]", 2, 0),
        (f"[{LINE} {LINE}\n,]", 2, 0),
        (f"[{LINE},\n{LINE[:20]}", 1, 1),
        (f"[{LINE},", 1, 1),
        (f'[{LINE},\n{{"name": broken}},\n{LINE}]', 2, 1),
        (f'{{"entities": [{LINE}', 1, 1),
        (f'{{"entities": [{LINE}], "relations"', 1, 1),
        (f'{{"type": "entity",\n{LINE}\n{LINE}', 2, 1),
        (f"{LINE}\n{LINE}", 2, 0),
        ("{\n}", 1, 0),
        ("[1, null, []]", 3, 0),
        ("]]]\n" + LINE, 1, 1),
        ("[" * 5000, 0, 1),
    ],
)
def test_broken_documents_give_what_can_be_read(text: str, good: int, bad: int) -> None:
    records, counted = document(text)
    assert [record.error is None for record in records].count(True) == good, records
    assert [record.error is None for record in records].count(False) == bad, records
    assert counted.lines == good + bad


def test_document_is_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"name": f"n{i}", "observations": ["é\u2028" * (i % 50)], "n": i} for i in range(300)]
    for chunk in (1, 7, 64, 1000):
        monkeypatch.setattr("datasette_limbic.importing.document._CHUNK", chunk)
        for text in (json.dumps(rows), json.dumps(rows, ensure_ascii=False, indent=1), "[12, 345]"):
            records, _ = document(text)
            assert [record.value for record in records] == json.loads(text)


def test_bad_bytes_in_a_document_reject_their_element() -> None:
    records, _ = document(b'[{"name": "\xff\xfe"},\n{"name": "ok"}]')
    assert [record.error for record in records] == ["not UTF-8", None]


def test_a_huge_document_is_never_held_whole(tmp_path: Path) -> None:
    path = tmp_path / "memory.json"
    row = json.dumps({"type": "entity", "name": "A", "observations": ["x" * 1000]})
    path.write_text("[" + ",".join([row] * 20_000) + "]")
    tracemalloc.start()
    count = sum(1 for _ in sniff(path).records())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 20_000
    assert peak < 5_000_000


def test_progress_counts_every_byte(tmp_path: Path) -> None:
    for text in ("\n".join([LINE] * 5000), "[" + ",".join([LINE] * 5000) + "]"):
        path = tmp_path / "memory.json"
        path.write_text(text)
        seen: list[int] = []
        assert len(list(sniff(path).records(seen.append))) == 5000
        assert sum(seen) == path.stat().st_size


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(st.binary(max_size=200), st.text('{}[]",: \nabné1\\', max_size=80)))
def test_no_input_stops_the_readers(data: bytes | str) -> None:
    for read in (lines, document):
        records, counted = read(data)
        assert counted.lines - counted.blank + counted.glued == sum(
            not record.wrapper for record in records
        )
