"""Sync: vectors and text index in line with the rows, whatever happened to them."""

from __future__ import annotations

import hashlib
import math
import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import llm
import pytest
from click.testing import CliRunner
from datasette.utils.sqlite import sqlite3
from embedding_helpers import (
    fill,
    fill_and_sync,
    values,
)
from llm.cli import cli as llm_cli
from sqlite_utils import Database

from datasette_limbic import connection, embedding, repairing, schema, vectors
from datasette_limbic.errors import (
    IndexedElsewhere,
    NotAMemory,
    UnknownModel,
    VectorsUnavailable,
)
from datasette_limbic.sync import sync


def in_step(conn):
    """Every hash is that of the current text, every vector indexed, nothing left over."""
    for name, source in (("entities", "entity_snapshots"), ("observations", "observations")):
        texts = dict(conn.execute(f"select id, content from {source}"))
        hashes = dict(
            conn.execute(
                "select cast(id as integer), content_hash from embeddings where collection_id ="
                " (select id from collections where name = ?)",
                [name],
            )
        )
        assert hashes == {i: hashlib.md5(t.encode()).digest() for i, t in texts.items()}
        assert vectors.differences(conn, name) == ([], [])
    assert conn.execute("select count(*) from limbic_stale").fetchone() == (0,)
    assert all(s["in_step"] for s in vectors.index_state(conn).values())
    return True


def vector(conn, collection, item):
    return values(
        conn.execute(
            "select embedding from embeddings where id = ? and collection_id ="
            " (select id from collections where name = ?)",
            [str(item), collection],
        ).fetchone()[0]
    )


def counts(summary):
    return {c.collection: (c.embedded, c.verified, c.pruned) for c in summary.collections}


def test_first_and_second_sync(conn, models):
    fill(conn, 3)
    seen = []
    summary = sync(conn, model="bag", progress=lambda *args: seen.append(args))
    assert counts(summary) == {"entities": (3, 0, 0), "observations": (6, 0, 0)}
    assert in_step(conn)
    assert seen == [(3, 3, "entities"), (6, 6, "observations"), (3, 3, "reports")]
    assert summary.changed
    assert summary.reports is not None
    assert (summary.reports.entities, summary.reports.observations) == (3, 6)
    again = sync(conn)
    assert counts(again) == {"entities": (0, 0, 0), "observations": (0, 0, 0)}
    assert not again.changed
    assert again.reports is not None
    assert again.reports.entities == 0
    assert again.as_dict()["collections"][0]["model"] == "bag"
    assert "3 of 3 searchable (bag, 32 dimensions)" in again.text()


def test_rows_are_written_as_llm_writes_them(conn, models, tmp_path):
    fill_and_sync(conn, 3)
    other = Database(str(tmp_path / "llm.db"))
    collection = llm.Collection("entities", other, model_id="bag")
    collection.embed_multi(
        [(str(i), t) for i, t in conn.execute("select id, content from entity_snapshots")]
    )
    sql = (
        "select collection_id, id, embedding, content, content_blob, content_hash, metadata,"
        " typeof(updated) from embeddings where collection_id = 1 order by id"
    )
    assert conn.execute(sql).fetchall() == other.execute(sql).fetchall()
    assert conn.execute("select id, name, model from collections where id = 1").fetchone() == (
        1,
        "entities",
        "bag",
    )
    other.close()


def test_llm_similar_works_on_the_file(path, conn, models):
    fill_and_sync(conn, 3)
    text = conn.execute("select content from entity_snapshots where id = 2").fetchone()[0]
    result = CliRunner().invoke(
        llm_cli,
        ["similar", "entities", "-d", str(path), "-c", text, "-n", "1", "-p"],
        catch_exceptions=False,
    )
    assert result.exit_code == 0
    assert result.output.startswith("2 ")


def test_empty_store(conn, models):
    summary = sync(conn)
    assert counts(summary) == {"entities": (0, 0, 0), "observations": (0, 0, 0)}
    assert conn.execute("select count(*) from collections").fetchone() == (0,)
    assert vectors.table_dimension(conn, "entities") is None
    assert in_step(conn)


def test_the_packaged_model_is_the_default(conn):
    fill(conn, 1, each=1)
    conn.execute("insert into observations(entity_id, content) values (1, '')")
    conn.execute("insert into observations(entity_id, content) values (1, 'a' || char(0) || 'b')")
    conn.commit()
    summary = sync(conn)
    assert [(c.model, c.dimension) for c in summary.collections] == [
        ("limbic-multilingual", 512)
    ] * 2
    assert in_step(conn)


def test_a_changed_text_is_embedded_again_and_nothing_else(conn, models):
    fill_and_sync(conn, 5)
    models["bag"].seen.clear()
    conn.execute("update observations set content = 'all new' where id = 3")
    conn.commit()
    assert not vectors.index_state(conn)["entities"]["in_step"]
    assert counts(sync(conn)) == {"entities": (1, 0, 0), "observations": (1, 0, 0)}
    assert models["bag"].seen[-1] == "all new"
    assert in_step(conn)


def test_a_renamed_neighbour_renews_the_snapshot(conn, models):
    fill(conn, 3)
    conn.execute("insert into relations(from_entity, to_entity, relation_type) values (1, 2, 'r')")
    conn.commit()
    sync(conn, model="bag")
    before = vector(conn, "entities", 1)
    conn.execute("update entities set name = 'another name' where id = 2")
    conn.commit()
    assert counts(sync(conn))["entities"] == (2, 0, 0)
    assert vector(conn, "entities", 1) != before
    assert in_step(conn)


def test_a_mark_without_a_change_costs_no_embedding(conn, models):
    fill_and_sync(conn, 2)
    conn.execute("update entities set archived_at = '2024-01-01' where id = 1")
    conn.execute("update entities set entity_type = 'Thing' where id = 2")
    conn.commit()
    models["bag"].seen.clear()
    assert counts(sync(conn))["entities"] == (0, 2, 0)
    assert models["bag"].seen == []
    rows = conn.execute("select entity_id, archived from _limbic_vec_entities order by 1")
    assert rows.fetchall() == [(1, 1), (2, 0)]


def test_deleted_rows_are_pruned(conn, models):
    fill_and_sync(conn, 4)
    conn.execute("delete from entities where id = 2")  # takes its 2 observations along
    conn.commit()
    assert counts(sync(conn)) == {"entities": (0, 0, 1), "observations": (0, 0, 2)}
    assert in_step(conn)
    conn.execute("delete from entities")
    conn.commit()
    assert counts(sync(conn)) == {"entities": (0, 0, 3), "observations": (0, 0, 6)}
    assert in_step(conn)
    assert vectors.table_dimension(conn, "entities") is None


def test_keys_that_are_no_id_are_pruned(conn, models):
    fill_and_sync(conn, 2)
    conn.execute(
        "insert into embeddings(collection_id, id, embedding) values (1, 'abc', x'00'),"
        " (1, '01', x'00'), (1, '77', x'00')"
    )
    conn.commit()
    # '01' marks entity 1, which is found to be right
    assert counts(sync(conn))["entities"] == (0, 1, 3)
    assert in_step(conn)


def test_writers_without_triggers_are_found(conn, path, models):
    fill_and_sync(conn, 3)
    schema.drop_triggers(conn)
    conn.execute("insert into entities(id, name) values (10, 'past the triggers')")
    conn.execute("delete from entities where id = 1")
    conn.execute("update observations set content = 'silently' where id = 4")
    schema.create_triggers(conn)
    conn.commit()
    summary = sync(conn)
    assert counts(summary)["entities"] == (1, 0, 1)
    # the text that was changed in silence is found by reading them all
    full = sync(conn, full=True)
    assert counts(full) == {"entities": (1, 2, 0), "observations": (1, 3, 0)}
    assert in_step(conn)


@pytest.mark.parametrize(
    "text", ["42", "1e5", "null", "NULL", "", " ", "a\0b", "ñandú 🎉", "x" * 10_000, "0x41"]
)
def test_odd_texts(conn, models, text):
    fill(conn, 1)
    conn.execute("insert into observations(entity_id, content) values (1, ?)", [text])
    conn.execute("insert into observations(entity_id, content) values (1, ?)", [text])
    conn.commit()
    sync(conn, model="bag")
    assert not sync(conn).changed
    assert vector(conn, "observations", 3) == vector(conn, "observations", 4)
    assert in_step(conn)


def test_numbers_and_bytes_as_content(conn, models):
    fill(conn, 1)
    conn.execute("insert into observations(entity_id, content) values (1, 42)")
    conn.execute("insert into observations(entity_id, content) values (1, x'ff00fe')")
    conn.commit()
    summary = sync(conn, model="bag")
    assert counts(summary)["observations"][0] == 4
    assert "42" in models["bag"].seen
    assert not sync(conn).changed


def test_vectors_that_cannot_be_indexed_are_reported(conn, models):
    fill(conn, 2)
    for text in ("ZEROVEC", "NANVEC"):
        conn.execute("insert into observations(entity_id, content) values (1, ?)", [text])
    conn.commit()
    summary = sync(conn, model="bag")
    assert summary.collections[1].rejected == [
        {"id": 5, "reason": "zero vector"},
        {"id": 6, "reason": "not finite"},
    ]
    # the entity's snapshot holds both words
    assert [r["id"] for r in summary.collections[0].rejected] == [1]
    assert "not indexed: 5 (zero vector)" in summary.text()
    assert all(s["in_step"] for s in vectors.index_state(conn).values())
    assert not sync(conn).changed


# llm's own traps ----------------------------------------------------------------------------


def llm_embeds(path, collection="entities", model_id="bag"):
    with closing(sqlite3.connect(str(path))) as conn:
        source = "entity_snapshots" if collection == "entities" else "observations"
        rows = [(str(i), t) for i, t in conn.execute(f"select id, content from {source}")]
    db = Database(str(path))
    llm.Collection(collection, db, model_id=model_id).embed_multi(rows)
    db.close()


def test_trap_new_text_equals_anothers_old_text(path, conn, models):
    fill(conn, 1, each=0)
    conn.execute("insert into observations(id, entity_id, content) values (1, 1, 'alpha beta')")
    conn.execute("insert into observations(id, entity_id, content) values (2, 1, 'gamma delta')")
    conn.commit()
    sync(conn, model="bag")
    alpha, gamma = vector(conn, "observations", 1), vector(conn, "observations", 2)
    conn.execute("update observations set content = 'gamma delta' where id = 1")
    conn.execute("update observations set content = 'alpha beta' where id = 2")
    conn.commit()
    llm_embeds(path, "observations")
    # the trap: llm leaves both vectors as they were
    assert vector(conn, "observations", 1) == alpha
    sync(conn)
    assert vector(conn, "observations", 1) == gamma
    assert vector(conn, "observations", 2) == alpha
    assert in_step(conn)


def test_trap_llm_never_deletes(path, conn, models):
    fill(conn, 3)
    llm_embeds(path)
    conn.execute("delete from entities where id = 2")
    conn.commit()
    llm_embeds(path)
    assert conn.execute("select count(*) from embeddings").fetchone() == (3,)
    sync(conn)
    assert in_step(conn)


def test_what_llm_embedded_is_only_indexed(path, conn, models):
    fill(conn, 4)
    llm_embeds(path)
    llm_embeds(path, "observations")
    models["bag"].seen.clear()
    summary = sync(conn)
    assert counts(summary) == {"entities": (0, 4, 0), "observations": (0, 8, 0)}
    assert models["bag"].seen == []
    assert in_step(conn)


def test_llm_embeds_again_after_a_change(path, conn, models):
    fill_and_sync(conn, 2)
    conn.execute("update entities set name = 'new name' where id = 1")
    conn.commit()
    llm_embeds(path)
    assert counts(sync(conn))["entities"] == (0, 1, 0)
    indexed = conn.execute(
        "select embedding from _limbic_vec_entities where entity_id = 1"
    ).fetchone()[0]
    assert values(indexed) == pytest.approx(
        values(embedding.unit_blob(vector(conn, "entities", 1)))
    )
    assert in_step(conn)


def test_the_documented_lines_verbatim(path, conn, tmp_path):
    """In processes of their own, with llm's plugins found through the entry point."""
    fill(conn, 2)
    env = {**os.environ, "LLM_USER_PATH": str(tmp_path / "llm"), "no_proxy": "*"}
    command = [sys.executable, "-m", "llm", "embed-multi"]
    for collection, sql in (
        ("entities", "select id, content from entity_snapshots"),
        ("observations", "select id, content from observations"),
    ):
        subprocess.run(
            [*command, collection, "-d", str(path), "--sql", sql, "-m", "limbic-multilingual"],
            check=True,
            capture_output=True,
            env=env,
        )
    summary = sync(conn)
    assert counts(summary) == {"entities": (0, 2, 0), "observations": (0, 4, 0)}
    assert in_step(conn)


def test_prefixes_as_llms_prepend(path, conn, models):
    fill(conn, 2)
    settings = SimpleNamespace(model=None, query_prefix="q: ", passage_prefix="passage: ")
    sync(conn, model="bag", settings=settings)
    assert all(text.startswith("passage: ") for text in models["bag"].seen)
    result = CliRunner().invoke(
        llm_cli,
        [
            *("embed-multi", "entities", "-d", str(path), "-m", "bag"),
            *("--prepend", "passage: ", "--sql", "select id, content from entity_snapshots"),
        ],
    )
    assert result.exit_code == 0
    assert not sync(conn, settings=settings).changed
    # another prefix is another text, which only full looks for
    assert not sync(conn).changed
    assert counts(sync(conn, full=True))["entities"] == (2, 0, 0)
    assert in_step(conn)


# models -------------------------------------------------------------------------------------


def test_another_model_is_refused(conn, models):
    fill_and_sync(conn, 2)
    before = conn.total_changes
    with pytest.raises(IndexedElsewhere, match=r"'bag'.*'bag2'.*--reembed"):
        sync(conn, model="bag2")
    assert conn.total_changes == before
    # the alias of the same model is the same model
    assert not sync(conn, model="bag-alias").changed


def test_reembed_changes_the_model(conn, models):
    fill_and_sync(conn, 3)
    summary = sync(conn, model="bag16", reembed=True)
    assert counts(summary) == {"entities": (3, 0, 0), "observations": (6, 0, 0)}
    assert [(c.model, c.dimension) for c in summary.collections] == [("bag16", 16)] * 2
    assert vectors.table_dimension(conn, "entities") == 16
    assert in_step(conn)
    assert not sync(conn).changed


def test_reembed_with_a_broken_model_discards_nothing(conn, models):
    fill_and_sync(conn, 2)
    with pytest.raises(VectorsUnavailable, match="no model at /elsewhere"):
        sync(conn, model="broken", reembed=True)
    assert in_step(conn)


def test_a_reembed_that_stopped_goes_on_without_the_option(conn, models):
    fill(conn, 30, each=0)
    sync(conn, model="bag")

    def before(items):
        if len(models["bag16"].seen) > 15:
            raise OSError("network gone")

    models["bag16"].before = before
    with pytest.raises(VectorsUnavailable, match="network gone"):
        sync(conn, model="bag16", reembed=True, batch_size=5)
    models["bag16"].before = None
    summary = sync(conn)
    assert (summary.collections[0].model, summary.collections[0].dimension) == ("bag16", 16)
    assert 0 < summary.collections[0].embedded < 30
    assert in_step(conn)


def test_an_upsert_by_another_program_is_synced(path, conn, models):
    """sqlite-utils and Datasette's write API change rows by upsert and by replace."""
    fill_and_sync(conn, 2)
    conn.execute(
        "insert into entities(id, name) values (1, 'upserted')"
        " on conflict(id) do update set name = excluded.name"
    )
    conn.execute("update or fail observations set content = 'again' where id = 1")
    conn.execute(
        "insert or replace into observations(id, entity_id, content) values (2, 1, 'other')"
    )
    conn.commit()
    sync(conn)
    assert in_step(conn)


def test_unknown_model(conn, models):
    fill(conn, 1)
    with pytest.raises(UnknownModel, match="'nope'"):
        sync(conn, model="nope")
    assert conn.execute("select count(*) from collections").fetchone() == (0,)


def test_a_stored_path_of_another_machine(conn, models):
    fill_and_sync(conn, 2)
    conn.execute("update collections set model = '/home/ana/model'")
    conn.execute("update observations set content = 'changed' where id = 1")
    conn.commit()
    with pytest.raises(UnknownModel, match="/home/ana/model"):
        sync(conn)
    settings = SimpleNamespace(model="bag")
    sync(conn, settings=settings)
    assert {r[0] for r in conn.execute("select model from collections")} == {"/home/ana/model"}
    assert in_step(conn)


def test_the_setting_must_be_of_the_same_dimension(conn, models):
    fill_and_sync(conn, 2)
    conn.execute("update observations set content = 'changed' where id = 1")
    conn.commit()
    with pytest.raises(IndexedElsewhere, match=r"32 dimensions.*16 dimensions"):
        sync(conn, settings=SimpleNamespace(model="bag16"))


def test_a_model_that_changed_under_the_index(path, conn, models):
    fill_and_sync(conn, 3)
    conn.execute("delete from embeddings")
    conn.execute("delete from collections")
    conn.commit()
    llm_embeds(path, "entities", "bag16")
    llm_embeds(path, "observations", "bag16")
    summary = sync(conn)
    assert all(c.rebuilt for c in summary.collections)
    assert vectors.table_dimension(conn, "entities") == 16
    assert in_step(conn)


def test_no_memory():
    with closing(sqlite3.connect(":memory:")) as bare, pytest.raises(NotAMemory):
        sync(bare)


# time ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("column", ["valid_to", "valid_from"])
def test_validity_that_passed_since_the_last_sync(conn, models, column):
    fill(conn, 2)
    soon = conn.execute("select strftime('%Y-%m-%dT%H:%M:%SZ', 'now', '+1 hour')").fetchone()[0]
    conn.execute(f"update observations set {column} = ? where id = 1", [soon])
    conn.commit()
    sync(conn, model="bag")
    assert not sync(conn).changed
    # an hour goes by: as if both had been written two hours ago
    schema.drop_triggers(conn)
    conn.execute(f"update observations set {column} = datetime('now', '-1 hour') where id = 1")
    conn.execute("update limbic_indexes set synced_at = datetime('now', '-2 hours')")
    schema.create_triggers(conn)
    conn.commit()
    assert counts(sync(conn))["entities"] == (1, 0, 0)
    assert in_step(conn)
    assert not sync(conn).changed


def test_a_relation_that_ended(conn, models):
    fill(conn, 2)
    conn.execute("insert into relations(from_entity, to_entity, relation_type) values (1, 2, 'r')")
    conn.commit()
    sync(conn, model="bag")
    schema.drop_triggers(conn)
    conn.execute("update relations set valid_to = datetime('now', '-1 hour')")
    conn.execute("update limbic_indexes set synced_at = datetime('now', '-2 hours')")
    schema.create_triggers(conn)
    conn.commit()
    assert counts(sync(conn))["entities"] == (1, 0, 0)
    assert in_step(conn)


# killed, locked, changed meanwhile ----------------------------------------------------------


def test_killed_half_way_it_goes_on(path, conn, models):
    fill(conn, 200, each=0)
    script = (
        "import sys; sys.path.insert(0, sys.argv[2]);"
        "from embedding_helpers import BagModel, registered;"
        "from datasette_limbic.connection import connect; from datasette_limbic.sync import sync;"
        "ctx = registered(BagModel('bag', delay=0.05)); ctx.__enter__();"
        "sync(connect(sys.argv[1]), model='bag', batch_size=5,"
        " progress=lambda *a: print(*a, flush=True))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(path), str(Path(__file__).parent)],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        for line in process.stdout:
            if int(line.split()[0]) >= 50:
                break
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    done = conn.execute("select count(*) from embeddings").fetchone()[0]
    assert 50 <= done < 200
    assert conn.execute("pragma integrity_check").fetchone() == ("ok",)
    assert counts(sync(conn))["entities"] == (200 - done, 0, 0)
    assert in_step(conn)


def test_a_failing_model_keeps_what_was_done(conn, models):
    fill(conn, 30, each=0)

    def before(items):
        if len(models["bag"].seen) > 20:
            raise OSError("network gone")

    models["bag"].before = before
    with pytest.raises(VectorsUnavailable, match="network gone"):
        sync(conn, model="bag", batch_size=10)
    assert conn.execute("select count(*) from embeddings").fetchone() == (20,)
    assert not conn.in_transaction
    models["bag"].before = None
    assert counts(sync(conn))["entities"] == (10, 0, 0)
    assert in_step(conn)


def test_a_text_that_changes_while_it_is_embedded(path, conn, models):
    fill(conn, 3, each=0)
    changed = []

    def before(items):
        if not changed:
            changed.append(1)
            with closing(sqlite3.connect(str(path))) as other:
                other.execute("update entities set name = 'meanwhile' where id = 2")
                other.execute("delete from entities where id = 3")
                other.commit()

    models["bag"].before = before
    summary = sync(conn, model="bag")
    assert summary.collections[0].embedded == 2
    assert in_step(conn)


def test_a_text_that_never_rests_stays_marked(path, conn, models):
    fill(conn, 1, each=0)

    def before(items):
        with closing(sqlite3.connect(str(path))) as other:
            other.execute("update entities set name = name || '!' where id = 1")
            other.commit()

    models["bag"].before = before
    summary = sync(conn, model="bag")
    assert summary.collections[0].pending == 1
    assert "1 changed meanwhile" in summary.text()
    models["bag"].before = None
    sync(conn)
    assert in_step(conn)


def test_locked_database(path, conn, models, monkeypatch):
    fill(conn, 2)
    conn.execute("pragma busy_timeout = 50")
    with closing(sqlite3.connect(str(path))) as other:
        other.execute("begin immediate")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            sync(conn, model="bag")
        other.rollback()
    assert not conn.in_transaction
    sync(conn, model="bag")
    assert in_step(conn)


# text index ---------------------------------------------------------------------------------


def indexed(conn, table="_limbic_fts"):
    return {r[0] for r in conn.execute(f"select rowid from {table}")}


def test_text_index_is_repaired(conn, models):
    fill(conn, 2, each=1)
    conn.execute("insert into observations(id, entity_id, content) values (9, 1, '用户身份')")
    conn.commit()
    whole, trigram = indexed(conn), indexed(conn, "_limbic_trigram")
    assert (whole, trigram) == ({2, 4, 3, 5, 19}, {2, 4, 19})
    sync(conn, model="bag")
    conn.execute("delete from _limbic_fts where rowid in (2, 3, 19)")
    conn.execute("insert into _limbic_fts(rowid, content) values (100, 'x'), (101, 'x'), (-3, 'x')")
    conn.execute("delete from _limbic_trigram where rowid in (2, 19)")
    conn.execute("insert into _limbic_trigram(rowid, content) values (200, 'xyz')")
    conn.commit()
    summary = sync(conn)
    assert (summary.text_added, summary.text_removed) == (5, 4)
    assert "text index: 5 added, 4 removed" in summary.text()
    assert indexed(conn) == whole
    assert indexed(conn, "_limbic_trigram") == trigram
    assert not sync(conn).changed
    found = conn.execute("select rowid from _limbic_fts where _limbic_fts match 'fact'").fetchall()
    assert found == [(3,), (5,)]


def test_full_repairs_the_wording_too(conn, models):
    fill(conn, 2, each=1)
    conn.execute("update _limbic_fts set content = 'wrong' where rowid = 3")
    conn.execute("update _limbic_trigram set content = 'wrong' where rowid = 4")
    conn.execute("insert into observations(id, entity_id, content) values (9, 1, '用户身份')")
    conn.execute("delete from _limbic_trigram where rowid = 19")
    conn.commit()
    assert sync(conn, model="bag").text_added == 0
    summary = sync(conn, full=True)
    assert (summary.text_added, summary.text_removed) == (3, 0)
    assert (
        conn.execute("select rowid from _limbic_fts where _limbic_fts match 'wrong'").fetchone()
        is None
    )
    for table in ("_limbic_fts", "_limbic_trigram"):
        conn.execute(f"insert into {table}({table}) values ('integrity-check')")


def test_negative_ids(conn, models):
    conn.execute("insert into entities(id, name) values (-5, 'below')")
    conn.execute("insert into observations(id, entity_id, content) values (-7, -5, 'zero')")
    conn.commit()
    sync(conn, model="bag")
    assert indexed(conn) == {-10, -13}
    assert not sync(conn).changed
    assert in_step(conn)


# repair -------------------------------------------------------------------------------------


def test_repair_of_a_sound_memory_changes_nothing(conn, models):
    fill_and_sync(conn, 3)
    summary = sync(conn, repair=True)
    assert (summary.repaired, summary.left, summary.changed) == ([], [], True)  # all verified
    assert counts(summary) == {"entities": (0, 3, 0), "observations": (0, 6, 0)}
    assert in_step(conn)


def test_repair_where_the_text_index_is_gone(conn, models):
    fill_and_sync(conn, 3)
    conn.execute("drop table _limbic_fts")
    conn.execute("drop table _limbic_trigram")
    conn.execute("drop table _limbic_fts_vocab")
    conn.commit()
    summary = sync(conn, repair=True)
    assert [one.name for one in summary.repaired] == ["schema.tables"]
    assert len(indexed(conn)) == 9
    assert in_step(conn)


def test_repair_of_a_memory_whose_marks_are_gone(conn, models):
    fill_and_sync(conn, 3)
    conn.execute("drop table limbic_stale")
    conn.commit()
    with pytest.raises(NotAMemory):
        sync(conn)
    assert sync(conn, repair=True).left == []
    assert in_step(conn)


def test_repair_waits_for_no_lock_and_leaves_none(path, conn, models):
    fill_and_sync(conn, 2)
    conn.execute("insert into _limbic_guard values ('x')")
    conn.commit()
    conn.execute("pragma busy_timeout = 50")
    with closing(sqlite3.connect(str(path))) as other:
        other.execute("begin immediate")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            sync(conn, repair=True)
        other.rollback()
    assert not conn.in_transaction
    assert [one.name for one in sync(conn, repair=True).repaired] == ["marks.guard"]


def test_repair_of_no_memory():
    with closing(sqlite3.connect(":memory:")) as bare, pytest.raises(NotAMemory):
        sync(bare, repair=True)


def test_many_texts_are_indexed_anew_at_once(conn, models, monkeypatch):
    fill_and_sync(conn, 5)
    monkeypatch.setattr(repairing, "_ROW_BY_ROW", 3)
    conn.execute("delete from _limbic_fts")
    conn.commit()
    assert [one.name for one in sync(conn, repair=True).repaired] == ["text.words"]
    assert len(indexed(conn)) == 15
    assert in_step(conn)


# no sqlite-vec ------------------------------------------------------------------------------


def test_without_sqlite_vec_it_still_embeds(path, conn, models, monkeypatch):
    fill_and_sync(conn, 2)
    conn.execute("update observations set content = 'changed' where id = 1")
    conn.execute("delete from entities where id = 2")
    conn.execute("delete from _limbic_fts where rowid = 2")
    conn.commit()
    with monkeypatch.context() as patch, closing(_bare(path, patch)) as bare:
        summary = sync(bare)
        assert counts(summary) == {"entities": (1, 0, 1), "observations": (1, 0, 2)}
        assert summary.text_added == 1
        assert "no vector search: " in summary.text()
        assert not sync(bare).changed
    # with sqlite-vec again, the index is built anew
    assert not vectors.index_state(conn)["entities"]["in_step"]
    summary = sync(conn)
    assert [c.rebuilt for c in summary.collections] == [True, True]
    assert in_step(conn)


def test_without_sqlite_vec_a_sync_that_dies_is_told_by_the_next(path, conn, models, monkeypatch):
    """Marks went on its way, and the vector index was not written."""
    fill_and_sync(conn, 40, 0)
    before = conn.execute("select version from limbic_indexes where collection = 'entities'")
    before = before.fetchone()[0]
    conn.execute("update entities set name = 'other ' || id")
    conn.commit()

    def fail(items):
        if len(models["bag"].seen) > 60:
            raise OSError("network gone")

    models["bag"].before = fail
    with (
        monkeypatch.context() as patch,
        closing(_bare(path, patch)) as bare,
        pytest.raises(VectorsUnavailable, match="network gone"),
    ):
        sync(bare, batch_size=10)
    models["bag"].before = None
    assert conn.execute("select count(*) from limbic_stale").fetchone()[0] < 40
    row = conn.execute(
        "select vectors, version, changes_from from limbic_indexes where collection = 'entities'"
    ).fetchone()
    assert row[0] == 0
    assert row[1] == row[2] > before
    sync(conn)
    assert in_step(conn)
    stored = dict(conn.execute("select cast(id as integer), embedding from embeddings"))
    for item, blob in conn.execute("select entity_id, embedding from _limbic_vec_entities"):
        told, length = values(stored[item]), math.hypot(*values(stored[item]))
        assert values(blob) == pytest.approx([value / length for value in told], abs=1e-6)


def _bare(path, patch):
    patch.setattr(connection, "load_vec", lambda conn: "none")
    return connection.connect(path)


# speed --------------------------------------------------------------------------------------


def test_nothing_changed_is_quick(conn, models):
    """By what it reads, rather than by a clock: no snapshot, no content, no hash."""
    fill(conn, 50)
    sync(conn, model="bag")
    statements = []
    conn.set_trace_callback(statements.append)
    started = time.monotonic()
    sync(conn)
    seconds = time.monotonic() - started
    conn.set_trace_callback(None)
    assert seconds < 1
    assert not [s for s in statements if "entity_snapshots" in s or "content_hash" in s]


def test_a_file_of_before_the_versions(path, conn, models):
    """It is brought up to date, whether or not reports are asked for."""
    fill(conn, 3)
    sync(conn, model="bag", reports=False)
    for text in (
        "drop table _limbic_vec_changes",
        "drop table limbic_approximate",
        "alter table limbic_indexes drop column version",
        "delete from _sqlite_migrations where name = 'm006_retrieval'",
    ):
        conn.execute(text)
    conn.commit()
    conn.execute("insert into entities(name) values ('Ana')")
    conn.commit()
    summary = sync(conn, model="bag", reports=False)
    assert [c.embedded for c in summary.collections] == [1, 0]
    assert conn.execute("select min(version) from limbic_indexes").fetchone()[0] > 0
