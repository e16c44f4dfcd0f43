"""Restoring a full export: bad lines, cut-off files, newer versions."""

from __future__ import annotations

import json
import sqlite3 as stock_sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from datasette.utils.sqlite import sqlite3
from exporting_helpers import copied, fill, full, restored
from importing_helpers import dump, new_memory, one

from datasette_limbic import schema
from datasette_limbic.errors import UnknownFormat
from datasette_limbic.exporting import RESTORED, restorer
from datasette_limbic.importing.rejects import Rejects
from datasette_limbic.importing.restoring import is_empty, log_restore, read_envelope, restore
from datasette_limbic.importing.summary import FileSummary, ImportSummary

# minutes in all: CI runs these on both lines, and leaves them out on further Pythons
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    conn = new_memory(tmp_path_factory.mktemp("first") / "first.db")
    fill(conn)
    found = full(conn, vectors=True)
    conn.close()
    return found


@pytest.fixture
def target(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    conn = new_memory(tmp_path / "target.db")
    yield conn
    conn.close()


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "in.ndjson"
    path.write_bytes(text.encode("utf-8") if isinstance(text, str) else text)
    return path


def row(table: str, **columns: Any) -> str:
    return json.dumps({"table": table, "row": columns})


def head(**tables: dict[str, Any]) -> str:
    return json.dumps({"limbic_export": 1, "tables": tables})


def lines(*those: str) -> str:
    return "\n".join([head(), *those]) + "\n"


# whether it may be restored --------------------------------------------------------------------


def test_is_empty(target: sqlite3.Connection) -> None:
    assert is_empty(target)
    target.execute("update limbic_settings set value = '1'")
    assert is_empty(target)
    log_restore(target, "x", "2026-01-01")
    assert is_empty(target)
    target.execute("insert into limbic_imports values (4, 'a', 'f', '{}', 'x', 'x')")
    target.execute("insert into limbic_import_rejects values (1, 4, 1, 'r', null)")
    assert is_empty(target, [4])
    assert is_empty(target, iter([3, 4]))
    assert not is_empty(target, [3])
    assert not is_empty(target)


ROWS = {
    "entities": "insert into entities(name) values ('a')",
    "limbic_reviews": "insert into limbic_reviews(report) values ('x')",
    "embeddings": "insert into embeddings(id) values ('1')",
    "_limbic_sources": "insert into _limbic_sources values (1, 'a', 'b', 'c', 1)",
}


@pytest.mark.parametrize("table", ROWS)
def test_is_not_empty(target: sqlite3.Connection, table: str) -> None:
    target.execute(ROWS[table])
    assert not is_empty(target)


def test_read_envelope(text: str) -> None:
    envelope = read_envelope(text.split("\n")[0])
    assert envelope is not None
    assert envelope.tables["entities"].rows == 3
    assert envelope.tables["entities"].columns["confidence"] == "REAL"
    assert envelope.line() == text.split("\n")[0] + "\n"
    assert read_envelope("\ufeff" + head()) is not None
    for other in ("", "{", "[]", "null", '{"type":"entity"}', "[" * 100_000):
        assert read_envelope(other) is None


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"limbic_export": 2, "tables": {}}', "version 2, and version 1 .* upgrade"),
        ('{"limbic_export": 20, "other": {}}', "version 20, .* pip install -U datasette-limbic"),
        ('{"limbic_export": "1", "tables": {}}', "'1', which is no version"),
        ('{"limbic_export": true, "tables": {}}', "True, which is no version"),
        ('{"limbic_export": 0, "tables": {}}', "0, which is no version"),
        ('{"limbic_export": 1}', "damaged"),
        ('{"limbic_export": 1, "tables": {"entities": {"rows": 1}}}', "damaged"),
        ('{"limbic_export": 1, "tables": {"entities": {"rows": "x", "columns": {}}}}', "damaged"),
        (
            '{"limbic_export": 1, "tables": {"entities": {"rows": 1, "columns": {"a": 1}}}}',
            "damaged",
        ),
    ],
)
def test_an_envelope_that_cannot_be_read(
    target: sqlite3.Connection, tmp_path: Path, line: str, message: str
) -> None:
    with pytest.raises(UnknownFormat, match=message):
        read_envelope(line)
    with pytest.raises(UnknownFormat, match=message):
        restored(target, written(tmp_path, line + "\n"))
    assert is_empty(target)


def test_no_full_export(target: sqlite3.Connection, tmp_path: Path) -> None:
    with pytest.raises(UnknownFormat, match=r"in\.ndjson is no full export"):
        restored(target, written(tmp_path, '{"type":"entity","name":"a"}\n'))


def test_an_id_that_the_file_may_hold_is_a_mistake(
    target: sqlite3.Connection, tmp_path: Path
) -> None:
    with Rejects(target, None) as rejects, pytest.raises(ValueError, match="log_restore"):
        restore(target, written(tmp_path, lines()), FileSummary("x"), 1, rejects)


# what is counted -------------------------------------------------------------------------------


def test_counts(target: sqlite3.Connection, tmp_path: Path, text: str) -> None:
    file, result = restored(target, written(tmp_path, text.replace("\n", "\r\n\n")))
    assert (file.entities.lines, file.entities.created) == (3, 3)
    assert (file.observations.in_file, file.observations.added) == (4, 4)
    assert (file.relations.lines, file.relations.created) == (2, 2)
    assert result.rows["limbic_changes"] == 2
    assert result.rows["embeddings"] == 1
    assert result.missing == {}
    assert file.blank == file.lines // 2
    assert file.lines - file.blank == 9 + result.lines
    assert full(target, vectors=True) == text


def test_progress_adds_up_to_the_size(
    target: sqlite3.Connection, tmp_path: Path, text: str
) -> None:
    path = written(tmp_path, text)
    seen: list[int] = []
    target.execute("begin")
    with Rejects(target, None) as rejects:
        number = log_restore(target, "x", "2026-01-01")
        restore(target, path, FileSummary("x"), number, rejects, seen.append)
    assert sum(seen) == path.stat().st_size


def test_indexes_are_whole_afterwards(
    target: sqlite3.Connection, tmp_path: Path, text: str
) -> None:
    restored(target, written(tmp_path, text))
    target.execute("insert into _limbic_fts(_limbic_fts) values ('integrity-check')")
    assert one(target, "select count(*) from _limbic_fts") == 3 + 4
    assert one(target, "select count(*) from _limbic_fts where _limbic_fts match 'coffee'") == 1
    triggers = target.execute("select name from sqlite_master where type = 'trigger'")
    assert {name for (name,) in triggers} == set(schema.trigger_names())


# lines that cannot be used ---------------------------------------------------------------------

BAD = [
    ("broken", "not JSON: Expecting value"),
    ('{"table": "entities", "row": {"id": 7', "not JSON"),
    ('{"table": "entities", "row": {"id": 7, "name": NaN}}', "NaN is no number"),
    ("42", "no table or no row"),
    ("null", "no table or no row"),
    ('["table", "row"]', "no table or no row"),
    ('{"table": "entities"}', "no table or no row"),
    ('{"table": "entities", "row": [1, 2]}', "no table or no row"),
    ('{"table": ["entities"], "row": {"id": 1}}', "the table ['entities'] is unknown"),
    (row("entities", id=7, name="x") * 2, "more than one value on the line"),
    (row("nothing", id=7), "the table 'nothing' is unknown"),
    (row("sqlite_master", name="x"), "the table 'sqlite_master' is unknown"),
    (row("limbic_stale", item_id=1), "the table 'limbic_stale' is unknown"),
    (row("entities", id=7, name="x", colour=1), "entities has no column 'colour'"),
    (row("entities", **{"id": 7, "name": "x", 'a"; drop': 1}), "has no column"),
    (row("entities"), "a row of entities without columns"),
    (row("entities", name="x"), "a row of entities without its id"),
    (row("entities", id=None, name="x"), "id is None, no whole number under 2^62"),
    (row("entities", id="7", name="x"), "id is '7', no whole number"),
    (row("entities", id=2**62, name="x"), "no whole number under 2^62"),
    (row("entities", id=10**30, name="x"), "no whole number under 2^62"),
    (row("entities", id=7, name="x", confidence=10**30), "too large"),
    (row("entities", id=7), "NOT NULL constraint failed: entities.name"),
    (row("entities", id=7, name="here"), "UNIQUE constraint failed: entities.name"),
    (row("entities", id=1, name="x"), "UNIQUE constraint failed: entities.id"),
    (row("entities", id=7, name="\ud800"), "surrogates not allowed"),
    (row("entities", id=7, name={"a": 1}), "a list or an object where"),
    (row("entities", id=7, name=[1]), "a list or an object where"),
    (row("entities", id=7, name={"$base64": True, "encoded": "?"}), "base64 that cannot be read"),
    (row("entities", id=7, name={"$base64": True, "encoded": 1}), "base64 that cannot be read"),
    (row("entities", id=7, name={"$real": "NaN"}), "a list or an object where"),
    (row("observations", id=7, entity_id=99, content="x"), "entity_id 99 is no row of entities"),
    (row("observations", id=7, entity_id=1, content="x", similarity_flag=3), "CHECK constraint"),
    (row("limbic_changes", id=1, action="a", summary="", before="", after="", undoes=9),
     "undoes 9 is no row of limbic_changes"),
    (row("sqlite_sequence", name="entities", seq=-1), "not the last id of entities"),
    (row("sqlite_sequence", name="other", seq=1), "not the last id of entities"),
    ("[" * 100_000, "cannot be read"),
    ('{"table": "entities", "row": {"id": ' + "9" * 5000 + "}}", "cannot be read"),
]  # fmt: skip


@pytest.mark.parametrize(("bad", "reason"), BAD, ids=range(len(BAD)))
def test_a_bad_line_is_a_reject_and_the_rest_comes_in(
    target: sqlite3.Connection, tmp_path: Path, bad: str, reason: str
) -> None:
    rejects = tmp_path / "rejects.jsonl"
    source = lines(
        row("entities", id=1, name="here", confidence=1),
        bad,
        row("entities", id=2, name="there", confidence=1),
        row("observations", id=1, entity_id=2, content="x"),
    )
    file, _ = restored(target, written(tmp_path, source), rejects)
    (reject,) = [json.loads(line) for line in rejects.read_text("utf-8").split("\n") if line]
    assert reason in reject["reason"]
    assert (reject["line"], reject["raw"]) == (3, bad)
    assert (file.rejected, file.entities.created, file.observations.added) == (1, 2, 1)
    assert [x["line"] for x in file.first_rejects] == [3]
    assert one(target, "select count(*) from limbic_import_rejects where import_id = -1") == 1
    assert [name for (name,) in target.execute("select name from entities")] == ["here", "there"]


def test_bytes_that_are_no_text(target: sqlite3.Connection, tmp_path: Path) -> None:
    source = lines(row("entities", id=1, name="a")).encode() + b'{"table": "\xff"}\n'
    file, _ = restored(target, written(tmp_path, source))
    assert file.first_rejects[0]["reason"] == "not UTF-8: byte 12 of the line"
    assert file.entities.created == 1


def test_a_line_without_end(
    target: sqlite3.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restorer, "MAX_LINE", 1000)
    source = lines("x" * 5000, row("entities", id=1, name="a"), "y" * 3_000_000)
    file, _ = restored(target, written(tmp_path, source))
    assert [x["line"] for x in file.first_rejects] == [2, 4]
    assert "longer than 1,000 bytes" in file.first_rejects[0]["reason"]
    assert (file.entities.created, file.lines) == (1, 4)


def test_every_second_line_is_bad(target: sqlite3.Connection, tmp_path: Path) -> None:
    """Within one batch: what SQLite refuses stops neither what stands before nor after it."""
    good = [row("entities", id=n, name=f"e{n}") for n in range(1, 3001)]
    bad = [row("entities", id=n + 10_000, name=f"e{n}") for n in range(1, 3001)]
    pairs = [line for pair in zip(good, bad, strict=True) for line in pair]
    file, _ = restored(target, written(tmp_path, lines(*pairs)))
    assert (file.entities.created, file.rejected) == (3000, 3000)
    assert one(target, "select max(id) from entities") == 3000
    found = target.execute("select line from limbic_import_rejects order by id").fetchall()
    assert [line for (line,) in found] == list(range(3, 6002, 2))


@pytest.mark.parametrize("foreign_keys", ["on", "off"])
def test_what_points_nowhere_goes_with_what_points_at_it(
    target: sqlite3.Connection, tmp_path: Path, foreign_keys: str
) -> None:
    target.execute(f"pragma foreign_keys = {foreign_keys}")
    search = {"query": "q", "mode": "m", "strategy": "s", "result_limit": 1, "now": "n"}
    change = {"action": "a", "summary": "", "before": "", "after": ""}
    source = lines(
        row("limbic_searches", id=1, parameters="{}", parameters_version=8, **search),
        row("limbic_search_candidates", search_id=1, entity_id=1, entity_name="a",
            baseline_rank=1, treatment_rank=1),
        row("limbic_searches", id=2, parameters="{}", parameters_version=None, **search),
        row("limbic_search_candidates", search_id=2, entity_id=1, entity_name="a",
            baseline_rank=1, treatment_rank=1),
        row("limbic_changes", id=1, undone_by=2, **change),
        row("limbic_changes", id=2, undone_by=3, **change),
        row("limbic_changes", id=3, undoes=99, **change),
        row("limbic_changes", id=4, undone_by=5, **change),
        row("limbic_changes", id=5, undoes=4, **change),
        row("limbic_feedback", id=1, search_id=1, entity_name="a", event="useful"),
        row("co_occurrences", entity_a_id=1, entity_b_id=2, co_count=1, last_co="x"),
    )  # fmt: skip
    file, result = restored(target, written(tmp_path, source))
    assert [(x["line"], x["reason"]) for x in file.first_rejects] == [
        (2, "parameters_version 8 is no row of limbic_parameters"),
        (3, "search_id 1 is no row of limbic_searches"),
        (6, "undone_by 2 is no row of limbic_changes"),
        (7, "undone_by 3 is no row of limbic_changes"),
        (8, "undoes 99 is no row of limbic_changes"),
        (11, "search_id 1 is no row of limbic_searches"),
        (12, file.first_rejects[-1]["reason"]),
    ]
    assert result.rows == {
        "limbic_searches": 1, "limbic_search_candidates": 1, "limbic_changes": 2,
    }  # fmt: skip
    assert target.execute("pragma foreign_key_check").fetchall() == []


def test_any_order_of_lines_will_do(target: sqlite3.Connection, tmp_path: Path, text: str) -> None:
    first, *rest = text.rstrip("\n").split("\n")
    file, result = restored(target, written(tmp_path, "\n".join([first, *reversed(rest)])))
    assert (file.rejected, result.missing) == (0, {})
    assert full(target, vectors=True) == text


def test_rejects_of_the_file_and_of_the_restore(
    target: sqlite3.Connection, tmp_path: Path, text: str
) -> None:
    """The ids of rows in the file are theirs, however much was left out before them."""
    first, rest = text.split("\n", 1)
    bad = "\n".join(["bad"] * 1200)
    file, _ = restored(target, written(tmp_path, f"{first}\n{bad}\n{rest}"))
    assert file.rejected == 1200
    rows = target.execute("select id, import_id from limbic_import_rejects order by id").fetchall()
    assert rows[:3] == [(1, 1), (3, 2), (4, -1)]
    assert len(rows) == 1202
    assert full(target, vectors=True) == text


# cut off, newer, older -------------------------------------------------------------------------


@pytest.mark.parametrize("kept", [1, 2, 10, 14, 30])
def test_a_file_that_was_cut_off(
    target: sqlite3.Connection, tmp_path: Path, text: str, kept: int
) -> None:
    those = text.split("\n")
    part = "\n".join([*those[:kept], those[kept][:20]])
    file, result = restored(target, written(tmp_path, part))
    assert file.rejected == 1  # the line that was cut
    envelope = read_envelope(those[0])
    assert envelope is not None
    promised = sum(table.rows for table in envelope.tables.values())
    assert sum(result.missing.values()) == promised - kept  # the cut line is not missing
    assert result.missing["embeddings"] == 1
    assert target.execute("pragma foreign_key_check").fetchall() == []


DAMAGE: dict[str, Callable[[str], str]] = {
    "broken": lambda line: "broken",
    "cut": lambda line: line[: len(line) // 2],
    "begun": lambda line: line[:5],
    "table": lambda line: line.replace('"table": "', '"table": "x'),
    "row": lambda line: line.replace('"row": ', '"row": 1, "was": '),
    "value": lambda line: line.replace('"row": {"', '"row": {"odd": 1, "'),
    "bytes": lambda line: line[:-1] + "\udcff}",
    "end": lambda line: line + "}",
}


@pytest.mark.parametrize("at", range(1, 51, 5))
@pytest.mark.parametrize("how", [*DAMAGE, "deleted"])
def test_a_damaged_line_counts_once(
    target: sqlite3.Connection, tmp_path: Path, text: str, how: str, at: int
) -> None:
    those = text.splitlines()
    assert len(those) == 51
    table = json.loads(those[at])["table"]
    if how == "deleted":
        del those[at]
    else:
        those[at] = DAMAGE[how](those[at])
    path = written(tmp_path, "\n".join(those).encode("utf-8", "surrogateescape") + b"\n")
    file, result = restored(target, path)
    assert result.missing == ({table: 1} if how == "deleted" else {})
    came = file.entities.created + file.observations.added + file.relations.created
    came += sum(result.rows.values())
    assert came + file.rejected + (how == "deleted") == 50


def test_damaged_and_missing_lines_are_told_apart(
    target: sqlite3.Connection, tmp_path: Path, text: str
) -> None:
    those = text.splitlines()
    relations = [i for i, line in enumerate(those) if '"table": "relations"' in line]
    those[relations[0]] = "broken"
    del those[relations[1]]
    del those[-1]
    file, result = restored(target, written(tmp_path, "\n".join(those)))
    assert result.missing == {"relations": 1, "sqlite_sequence": 1}
    file.missing = result.missing
    said = ImportSummary([file]).text()
    assert (
        "MISSING: 2 rows that the first line promises are not in the file: it was cut off or "
        "edited (1 relations, 1 sqlite_sequence)" in said
    )
    file.missing = {"entities": 1}
    said = ImportSummary([file]).text()
    assert "1 row that the first line promises is not in the file" in said


def with_vectors(folder: Path) -> str:
    conn = new_memory(folder / "vectors.db")
    conn.executescript(
        "insert into entities(id, name) values (1, 'a'), (2, 'b');"
        "insert into observations(id, entity_id, content) values (7, 1, 'x'), (8, 2, 'y');"
        "insert into collections values (1, 'entities', 'm'), (2, 'observations', 'm'),"
        " (3, 'mine', 'm');"
    )
    for collection, item in ((1, "1"), (1, "2"), (1, "99"), (2, "7"), (2, "8"), (3, "2")):
        conn.execute("insert into embeddings(collection_id, id) values (?, ?)", [collection, item])
    conn.commit()
    text = full(conn, vectors=True)
    conn.close()
    return text


def items(conn: sqlite3.Connection) -> list[tuple[int, str]]:
    return list(conn.execute("select collection_id, id from embeddings order by 1, 2"))


@pytest.mark.parametrize("how", ["broken", "cut", "begun", "value", "deleted"])
@pytest.mark.parametrize("foreign_keys", ["on", "off"])
@pytest.mark.parametrize(
    ("begin", "gone"),
    [
        ('{"table": "entities", "row": {"id": 2', [(1, "2"), (1, "99"), (2, "8")]),
        ('{"table": "observations", "row": {"id": 7', [(1, "99"), (2, "7")]),
        ('{"table": "limbic_settings"', []),
    ],
)
def test_vectors_of_what_was_left_out_are_left_out(
    target: sqlite3.Connection,
    tmp_path: Path,
    how: str,
    foreign_keys: str,
    begin: str,
    gone: list[tuple[int, str]],
) -> None:
    target.execute(f"pragma foreign_keys = {foreign_keys}")
    those = with_vectors(tmp_path).splitlines()
    at = next(i for i, line in enumerate(those) if line.startswith(begin))
    if how == "deleted":
        del those[at]
    else:
        those[at] = DAMAGE[how](those[at])
    if not gone and how in ("broken", "begun"):
        gone = [(1, "99")]  # the line may have been an entity's
    file, _ = restored(target, written(tmp_path, "\n".join(those)))
    before = [(1, "1"), (1, "2"), (1, "99"), (2, "7"), (2, "8"), (3, "2")]
    assert items(target) == [item for item in before if item not in gone]
    reasons = [x["reason"] for x in file.first_rejects if "vector" in x["reason"]]
    what = {1: "entity", 2: "observation"}
    assert reasons == [f"the vector of {what[c]} {i!r}, which is not here" for c, i in gone]
    assert all(x["line"] > 1 for x in file.first_rejects)


def test_vectors_that_wait_for_a_sync_come_back(target: sqlite3.Connection, tmp_path: Path) -> None:
    text = with_vectors(tmp_path)
    file, _ = restored(target, written(tmp_path, text))
    assert file.rejected == 0
    assert full(target, vectors=True) == text


def test_a_bad_line_is_not_missing(target: sqlite3.Connection, tmp_path: Path, text: str) -> None:
    bad = text.replace('"entity_id": 7, "content"', '"entity_id": 77, "content"')
    assert bad != text
    file, result = restored(target, written(tmp_path, bad))
    assert (file.rejected, result.missing) == (1, {})


def test_columns_that_are_missing_here_are_added(
    target: sqlite3.Connection, tmp_path: Path
) -> None:
    kinds = {"a": "INTEGER", "b": "varchar(9)", 'c"': "x); drop table entities", "NAME": "TEXT"}
    source = "\n".join(
        [
            head(entities={"rows": 1, "columns": kinds}, unknown={"rows": 0, "columns": {}}),
            row("entities", **{"id": 1, "name": "x", "a": "5", "b": 6, 'c"': "7"}),
            row("entities", **{"id": 2, "NAME": "y"}),
        ]
    )
    file, _ = restored(target, written(tmp_path, source))
    assert file.first_rejects == []
    assert one(target, 'select a, b, "c""" from entities') == (5, "6", 7)
    assert one(target, "select name from entities where id = 2") == "y"
    info = {row[1]: row[2:5] for row in target.execute("pragma table_info(entities)")}
    assert info["a"] == ("INTEGER", 0, None)
    assert info['c"'] == ("NUMERIC", 0, None)
    assert "NAME" not in info


def test_columns_that_a_row_lacks_have_their_default(
    target: sqlite3.Connection, tmp_path: Path
) -> None:
    restored(target, written(tmp_path, lines(row("entities", id=1, name="x"))))
    assert one(target, "select entity_type, confidence from entities") == ("Generic", 1.0)


def test_settings_of_the_file_win(target: sqlite3.Connection, tmp_path: Path) -> None:
    columns = {"key": "TEXT", "value": "TEXT"}
    source = "\n".join(
        [
            head(limbic_settings={"rows": 1, "columns": columns}),
            row("limbic_settings", key="stale_days", value="7"),
        ]
    )
    restored(target, written(tmp_path, source))
    found = target.execute("select key, value from limbic_settings").fetchall()
    assert found == [("stale_days", "7")]


def test_settings_stay_where_the_file_has_none(target: sqlite3.Connection, tmp_path: Path) -> None:
    before = target.execute("select * from limbic_settings").fetchall()
    restored(target, written(tmp_path, lines()))
    assert target.execute("select * from limbic_settings").fetchall() == before


def test_into_tables_that_were_adopted(tmp_path: Path, text: str) -> None:
    conn = stock_sqlite3.connect(tmp_path / "adopted.db")
    conn.executescript("create table entities(name text, id integer primary key, mine text);")
    conn.close()
    memory = new_memory(tmp_path / "adopted.db")
    file, result = restored(memory, written(tmp_path, text))
    assert (file.rejected, result.missing) == (0, {})
    assert one(memory, "select id from entities where name = 'Böhm'") == 7
    assert result.rows["sqlite_sequence"] == 1
    memory.close()


def test_undone_as_a_whole(
    target: sqlite3.Connection, tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = dump(target)
    monkeypatch.setattr(schema, "fill_indexes", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        restored(target, written(tmp_path, text))
    assert dump(target) == before
    monkeypatch.undo()
    restored(target, written(tmp_path, text))
    assert full(target, vectors=True) == text


def test_a_copy_of_a_copy(tmp_path: Path, text: str) -> None:
    first = copied(text, tmp_path, "a")
    second = copied(full(first, vectors=True), tmp_path, "b")
    assert full(second, vectors=True) == text
    found = second.execute("select id from limbic_imports where format = ?", [RESTORED]).fetchall()
    assert found == [(-1,)]
    first.close()
    second.close()


@pytest.mark.slow
def test_large_files_take_little_memory(tmp_path: Path) -> None:
    source = tmp_path / "big.ndjson"
    with source.open("w") as out:
        print(head(), file=out)
        print(row("entities", id=1, name="big"), file=out)
        for number in range(1, 300_001):
            print(
                row("observations", id=number, entity_id=1, content=f"about {number} " * 9),
                file=out,
            )
    code = (
        "import resource, sys; sys.path.insert(0, 'tests')\n"
        "from pathlib import Path\n"
        "from exporting_helpers import new_memory, restored\n"
        f"conn = new_memory(Path({str(tmp_path / 'big.db')!r}))\n"
        "conn.execute('pragma mmap_size=0')\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        f"file, _ = restored(conn, Path({str(source)!r}))\n"
        "assert file.observations.added == 300_000\n"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, timeout=300, cwd=Path(__file__).parents[1],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 200
