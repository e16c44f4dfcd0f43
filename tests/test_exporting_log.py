"""The log of searches in exports: back the same, whatever age the file has."""

from __future__ import annotations

import io
import json
import sqlite3 as stock_sqlite3
from collections import Counter
from contextlib import closing

import pytest
from exporting_helpers import copied, full, mcp, restored
from importing_helpers import new_memory
from signal_log_helpers import made_old, old_memory, use

from datasette_limbic import connection, schema, search_log, serving
from datasette_limbic.config import Settings
from datasette_limbic.exporting import export_full
from datasette_limbic.importing import import_files
from datasette_limbic.integrity import check

LOG = ("limbic_searches", "limbic_search_candidates", "limbic_feedback")
USES = ("entity_access", "entity_access_log", "co_occurrences")


@pytest.fixture
def logged(demo_db):
    with closing(connection.connect(demo_db)) as conn:
        use(conn, 3)
        use(conn, 1, settings=Settings(baseline_share=1.0))
        serving.open_nodes(conn, ["Atlas"], client="test")  # of no search
        yield conn


def rows_of(conn, table):
    return conn.execute(f"select * from {table} order by 1, 2").fetchall()


def write(path, text):
    path.write_text(text, "utf-8", newline="\n")
    return path


def test_there_and_back(logged, tmp_path):
    text = full(logged)
    copy = copied(text, tmp_path)
    assert full(copy) == text
    for table in (*LOG, *USES):
        assert rows_of(logged, table)
        assert rows_of(copy, table) == rows_of(logged, table), table
    assert check(copy).findings == []
    copy.close()


def test_a_copy_goes_on_from_there(logged, tmp_path):
    """A search that was found here can be rated there, and new ones get ids of their own."""
    [uid] = logged.execute("select uid from limbic_searches where id = 2").fetchone()
    ratings = search_log.ratings(logged, uid)
    copy = copied(full(logged), tmp_path)
    assert search_log.ratings(copy, uid) == ratings != {}
    [entity] = ratings
    assert serving.rate(copy, uid, entity, "useful")["id"] == entity
    assert search_log.ratings(copy, uid) == {entity: "useful"}
    assert serving.search_semantic(copy, "tea", mode="text")["search_id"] != uid
    assert [row[0] for row in copy.execute("select id from limbic_searches")] == [1, 2, 3, 4, 5]
    copy.close()


def heads(text):
    return json.loads(text.split("\n", 1)[0])["tables"]


def without_settings(text):
    first, *rows = text.splitlines()
    head = json.loads(first)
    del head["tables"]["limbic_settings"]
    return [head, *(row for row in rows if '"table": "limbic_settings"' not in row)]


def test_a_file_from_before(tmp_path):
    """No row has a uid: the export is that of the old file, from the new one and the copy too."""
    path = old_memory(tmp_path / "old.db")
    with closing(connection.connect(path)) as old:
        text = full(old)
        assert "uid" not in heads(text)["limbic_searches"]["columns"]
        copy = copied(text, tmp_path)
        assert full(copy) == text
        assert rows_of(copy, "limbic_search_candidates") == rows_of(old, "limbic_search_candidates")
        assert [row[0] for row in copy.execute("select uid from limbic_searches")] == [None, None]
        copy.close()
        schema.init(old)
        # a later migration has settings of its own
        assert without_settings(full(old)) == without_settings(text)
        use(old, 1)
        assert "uid" in heads(full(old))["limbic_searches"]["columns"]
        again = copied(full(old), tmp_path, "again")
        assert full(again) == full(old)
        again.close()


def test_an_old_file_takes_a_new_export(logged, tmp_path):
    """Importing brings a file up to date first."""
    text = full(logged)
    path = tmp_path / "empty.db"
    new_memory(path).close()
    made_old(path)
    summary = import_files(path, [write(tmp_path / "full.ndjson", text)])
    assert (summary.rejects, summary.files[0].format) == (0, "restored export")
    with closing(connection.connect(path)) as conn:
        assert full(conn) == text


@pytest.mark.parametrize("kind", ["integer", "varchar(20)", "blob", "numeric"])
def test_a_uid_of_another_type(logged, tmp_path, kind):
    """Of a file whose column was there before ours."""
    path = old_memory(tmp_path / "old.db")
    with closing(stock_sqlite3.connect(path)) as conn:
        conn.execute(f"alter table limbic_searches add column uid {kind}")
        conn.execute("update limbic_searches set uid = '00' || id")
        conn.commit()
    with closing(connection.connect(path)) as old:
        schema.init(old)
        use(old, 1)
        text = full(old)
        copy = copied(text, tmp_path)
        assert full(copy) == text
        sql = "select typeof(uid), uid from limbic_searches order by id"
        assert copy.execute(sql).fetchall() == old.execute(sql).fetchall()
        assert check(copy).findings == []
        copy.close()


def changed(text, change):
    """The export with its rows of searches as ``change`` leaves them."""
    lines = text.splitlines()
    found = [at for at, line in enumerate(lines) if line.startswith('{"table": "limbic_searches"')]
    rows = [json.loads(lines[at]) for at in found]
    change([row["row"] for row in rows])
    for at, row in zip(found, rows, strict=True):
        lines[at] = json.dumps(row, ensure_ascii=False)
    return "\n".join(lines) + "\n"


def test_one_uid_twice_is_a_reject(logged, tmp_path):
    """With what hangs on that search; all other searches are here."""

    def twin(rows):
        rows[2]["uid"] = rows[1]["uid"]

    copy = new_memory(tmp_path / "copy.db")
    path = write(tmp_path / "full.ndjson", changed(full(logged), twin))
    file, result = restored(copy, path)
    assert (result.rows["limbic_searches"], result.missing) == (3, {})
    reasons = Counter(
        row[0] for row in copy.execute("select reason from limbic_import_rejects").fetchall()
    )
    hanging = {
        table: logged.execute(f"select count(*) from {table} where search_id = 3").fetchone()[0]
        for table in LOG[1:]
    }
    assert reasons == {
        "UNIQUE constraint failed: limbic_searches.uid": 1,
        "search_id 3 is no row of limbic_searches": sum(hanging.values()),
    }
    assert file.rejected == 1 + sum(hanging.values())
    for table, key in zip(LOG, ("id", "search_id", "search_id"), strict=True):
        sql = f"select * from {table} where {key} is not 3 order by 1, 2"
        assert copy.execute(sql).fetchall() == logged.execute(sql).fetchall()
        assert len(rows_of(copy, table)) == len(copy.execute(sql).fetchall())
    assert check(copy).findings == []
    copy.close()


def test_many_without_a_uid_are_no_twins(logged, tmp_path):
    def nameless(rows):
        for row in rows[:3]:
            row["uid"] = None

    text = changed(full(logged), nameless)
    copy = copied(text, tmp_path)
    assert full(copy) == text
    copy.close()


def test_merging_leaves_the_log_out_and_counts_it(logged, tmp_path):
    path = write(tmp_path / "full.ndjson", full(logged))
    with closing(new_memory(tmp_path / "other.db")) as conn:
        conn.execute("insert into entities(id, name) values (500, 'Here'), (501, 'Atlas')")
        conn.execute("insert into observations(entity_id, content) values (501, 'the geocoder')")
        conn.commit()
        [own] = use(conn, 1)
        before = {table: rows_of(conn, table) for table in LOG}
        file = import_files(conn, [path]).files[0]
        assert (file.format, file.rejects) == ("full export", 0)
        for table in LOG:
            number = logged.execute(f"select count(*) from {table}").fetchone()[0]
            assert file.notes.not_carried[f"rows of {table}"] == number > 0
        # the searches of this memory are its own, and still known by their ids
        assert {table: rows_of(conn, table) for table in LOG} == before
        assert search_log.search_row(conn, own)["query"]
        # uses count for the ranking: those come along
        assert file.access_counts.added > 0
        assert check(conn).findings == []
        assert not import_files(conn, [path]).files[0].changed


def test_the_log_is_no_part_of_what_servers_read(demo_db):
    with closing(connection.connect(demo_db)) as conn:
        before = mcp(conn, now="2026-11-29 12:00:00")[0]
        use(conn, 3)
        assert mcp(conn, now="2026-11-29 12:00:00")[0] == before


def test_exports_that_differ_by_one_search(logged):
    """An export grows by the rows of the log and of uses; all else is the same text."""
    before = full(logged).splitlines()
    use(logged, 1)
    out = io.StringIO()
    export_full(logged, out)
    new = set(out.getvalue().splitlines()) - set(before)
    tables = {json.loads(line).get("table") for line in new}
    assert tables == {None, *LOG, *USES}
