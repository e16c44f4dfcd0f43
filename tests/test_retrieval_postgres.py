"""The retriever ``postgres`` against a real server with pgvector: push, search, failures."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from conftest import NOW
from datasette.cli import cli
from datasette.utils.sqlite import sqlite3
from postgres_helpers import PostgresServer, programs, with_fdw
from view_helpers import base, get, get_json

from datasette_limbic import connection, embedding, sql_functions, text
from datasette_limbic.config import Settings
from datasette_limbic.errors import BadParameter, RetrieverFailed
from datasette_limbic.llm_store import transaction as local_transaction
from datasette_limbic.retrieval import changes, functions
from datasette_limbic.retrieval.model import Wanted
from datasette_limbic.retrieval.postgres import (
    Postgres,
    dsn,
    pending,
    schema,
    searching,
    source,
)
from datasette_limbic.retrieval.postgres import connection as links
from datasette_limbic.retrieval.postgres import push as pushing
from datasette_limbic.retrieval.postgres.push import PushSummary, push
from datasette_limbic.search import search
from datasette_limbic.sync import sync

pytestmark = [pytest.mark.slow, pytest.mark.once]

SECRET = "secret-word"
RETRIEVER = Postgres()
_numbers = count()

QUERIES = [
    "who works on billing",
    "invoice invoice",
    "POL-358 Atlas",
    "la reunión de facturación",
    "the of and",
    "nothingofthekindanywhere",
    "Atl",
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    programs()
    one = PostgresServer(tmp_path_factory.mktemp("pg"))
    one.start()
    yield one
    links.close_all()
    one.stop()


@pytest.fixture
def short_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "PAUSE_S", 0.2)


@pytest.fixture(autouse=True)
def _no_servers_known(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """What a test did to a server is no other's concern, and no search logs psycopg's own."""
    yield
    links.close_all()
    links._known.clear()
    said = [one for one in caplog.get_records("call") if one.name.startswith("psycopg")]
    assert [one.getMessage() for one in said if "ipeline" in one.getMessage()] == []


def settings_for(server: PostgresServer, **more: Any) -> Settings:
    """Settings with a schema of their own."""
    given = {"postgres_schema": f"Memory_{next(_numbers)}", "postgres_partitions": 2, **more}
    return Settings(retriever="postgres", postgres_dsn=server.dsn, **given)


@pytest.fixture
def memory(server: PostgresServer, demo_db: Path) -> Iterator[tuple[Any, Settings]]:
    """The sample memory, pushed."""
    settings = settings_for(server)
    with closing(connection.connect(demo_db, settings=settings)) as conn:
        done = push(conn, settings)
        assert done.problem is None
        assert done.whole
        yield conn, settings


def wanted(query: str, k: int = 10, **more: Any) -> Wanted:
    return Wanted(query, k, embedding.embed_query("limbic-multilingual", query), **more)


def nearest(conn: Any, settings: Settings, query: str, k: int = 10, **more: Any) -> list[Any]:
    return list(RETRIEVER.nearest(conn, wanted(query, k, **more), settings))


def exact(conn: Any, query: str, k: int, where: str = "archived = 0") -> list[tuple[int, float]]:
    """What vec0 finds."""
    return [
        (item, distance)
        for item, distance in conn.execute(
            "select entity_id, distance * distance / 2 from _limbic_vec_entities"
            f" where embedding match ? and k = ? and {where} order by distance",
            [wanted(query).vector, k],
        )
    ]


def by_fts(conn: Any, query: str, k: int) -> list[tuple[int, float]]:
    """What the file's own full-text index finds."""
    return [
        tuple(row)
        for row in conn.execute(
            "select rowid, bm25(_limbic_fts, 4.0, 1.0) as score from _limbic_fts"
            " where _limbic_fts match ? order by score, rowid limit ?",
            [text.fts_query(query), k],
        )
    ]


@contextmanager
def psql(server: PostgresServer, settings: Settings | None = None) -> Iterator[Any]:
    """A connection of the superuser, in the schema of the memory."""
    import psycopg

    with psycopg.connect(server.dsn, autocommit=True) as conn:
        if settings is not None:
            conn.execute(f'set search_path = "{settings.postgres_schema}", public')
        yield conn


def rows_of(server: PostgresServer, settings: Settings) -> tuple[set[int], set[int]]:
    """Keys of both tables on the server."""
    with psql(server, settings) as conn:
        return (
            {row[0] for row in conn.execute("select id from entities")},
            {row[0] for row in conn.execute("select doc from texts")},
        )


def in_step(conn: Any, server: PostgresServer, settings: Settings) -> bool:
    """Whether the server has exactly the rows that the file has, and the same."""
    entities, texts = rows_of(server, settings)
    fresh = {
        name: source.after(conn, name, source.LEAST, 10**6, 512)
        for name in ("entities", "observations")
    }
    with psql(server, settings) as pg:
        digests = dict(pg.execute("select doc, digest from texts").fetchall())
        digests_e = dict(pg.execute("select id, digest from entities").fetchall())
    both = fresh["entities"].texts | fresh["observations"].texts
    return (
        entities == set(fresh["entities"].entities)
        and texts == set(both)
        and digests == {doc: one.digest for doc, one in both.items()}
        and digests_e == {i: one.digest for i, one in fresh["entities"].entities.items()}
    )


# -- the same answers --------------------------------------------------------------------------


def test_same_answers_as_the_file_gives(memory: tuple[Any, Settings]) -> None:
    conn, settings = memory
    conn.execute("update entities set archived_at = datetime('now') where id in (3, 33)")
    conn.commit()
    sync(conn, settings=settings)
    kind = conn.execute("select entity_type from entities where id = 5").fetchone()[0]
    for query in QUERIES:
        for k in (1, 10, 60):
            found = nearest(conn, settings, query, k)
            there = exact(conn, query, k)
            assert [item for item, _ in found] == [item for item, _ in there]
            assert [d for _, d in found] == pytest.approx([d for _, d in there], abs=1e-5)
        assert {3, 33} <= {c.id for c in nearest(conn, settings, query, 65, include_archived=True)}
        of_type = nearest(conn, settings, query, 10, entity_type=kind)
        there = exact(conn, query, 10, f"archived = 0 and entity_type = '{kind}'")
        assert [item for item, _ in of_type] == [item for item, _ in there]
    assert nearest(conn, settings, "x", 10, entity_type="no\0such 'type'") == []


def test_same_texts_as_the_file_finds(memory: tuple[Any, Settings]) -> None:
    conn, settings = memory
    for query in QUERIES[:4]:
        found = RETRIEVER.texts(conn, Wanted(query, 20), settings)
        there = by_fts(conn, query, 20)
        assert there
        assert [hit.doc for hit in found] == [doc for doc, _ in there]
        assert [hit.score for hit in found] == pytest.approx([s for _, s in there], rel=1e-9)
    # a part of a word, which no text holds as a word
    assert RETRIEVER.texts(conn, Wanted("Atla", 5), settings)
    assert RETRIEVER.texts(conn, Wanted("nothingofthekind", 5), settings) == []


HOSTILE = [
    "'; drop table texts; -- \\ '' <-> & | ! ( ) :*",
    "x" * 10_000,
    " ".join(["again"] * 20_000),
    " ".join(f"w{i}" for i in range(30_000)),
    "long " + "y" * 3_000 + " word",
    " ".join(f"q{i}z" for i in range(60_000)) + " endofall",
    "\u202eright to left עברית \u0000 NUL \ufffd",
    "naïve Ærøskøbing ß 🤖 ½ ﬁ",
    "用户身份验证 はカタカナ ภาษาไทย 한국어를",
    "",
]
ASKED = [
    "drop table texts",
    "again",
    # beyond the words, and beyond the places, that a tsvector holds
    "endofall",
    "w29998-w29999",
    "w29999 w5",
    "y" * 3_000,
    "עברית",
    "naive Ærøskøbing 🤖",
    "用户",
    "身份验证",
    "한국",
    "x" * 500,
]


def test_hostile_texts_and_queries(memory: tuple[Any, Settings], server: PostgresServer) -> None:
    conn, settings = memory
    conn.execute("insert into entities(name, entity_type) values ('odd one', ?)", ["T\0'y\\pe"])
    odd = conn.execute("select max(id) from entities").fetchone()[0]
    conn.executemany(
        "insert into observations(entity_id, content) values (?, ?)", [(odd, t) for t in HOSTILE]
    )
    # the server itself must know phrases: else shorter texts with both words fill what it sends
    phrase = "gamma-delta at last, " + "among many other words of a long text " * 5
    conn.executemany(
        "insert into observations(entity_id, content) values (?, ?)",
        [(odd, phrase)] + [(odd, f"delta gamma {i}") for i in range(20)],
    )
    conn.commit()
    done = sync(conn, settings=settings, reports=False).pushed
    assert done is not None
    assert done.problem is None
    assert in_step(conn, server, settings)
    (hit,) = RETRIEVER.texts(conn, Wanted("gamma-delta", 1), settings)
    kept = conn.execute("select content from observations where id = ?", [hit.doc >> 1])
    assert kept.fetchone()[0] == phrase
    first = conn.execute("select min(id) from observations where entity_id = ?", [odd]).fetchone()[
        0
    ]
    for query in ASKED[:8]:
        found = RETRIEVER.texts(conn, Wanted(query, 20), settings)
        assert [hit.doc for hit in found] == [doc for doc, _ in by_fts(conn, query, 20)]
        assert found
    assert RETRIEVER.texts(conn, Wanted("endofall-w5", 5), settings) == []
    cjk = (first + 8) * 2 + 1
    for query in ASKED[8:11]:
        assert cjk in {hit.doc for hit in RETRIEVER.texts(conn, Wanted(query, 20), settings)}
    assert [c.id for c in nearest(conn, settings, "odd", entity_type="T\0'y\\pe")] == [odd]


# -- what the server does not have yet ---------------------------------------------------------


def test_what_is_not_pushed_yet_is_found_here(
    memory: tuple[Any, Settings], server: PostgresServer
) -> None:
    conn, settings = memory
    plain = replace(settings, retriever="auto")
    conn.execute("insert into entities(name) values ('Zymurgy guild')")
    new = conn.execute("select max(id) from entities").fetchone()[0]
    conn.execute("insert into observations(entity_id, content) values (?, 'brews zymurgy')", [new])
    conn.execute("update entities set name = 'Renamed quokka' where id = 3")
    conn.execute("delete from entities where id = 33")
    conn.execute("update entities set archived_at = datetime('now') where id = 5")
    conn.commit()
    said = conn.execute("select max(id) from observations").fetchone()[0]

    def all_right(pushed: bool) -> None:
        hits = RETRIEVER.texts(conn, Wanted("zymurgy quokka", 9), settings)
        assert {hit.doc for hit in hits} == {new * 2, said * 2 + 1, 6}
        assert [hit.doc for hit in hits] == [doc for doc, _ in by_fts(conn, "zymurgy quokka", 9)]
        found = {c.id for c in nearest(conn, settings, "zymurgy guild", 70)}
        assert found.isdisjoint({5, 33})
        assert (new in rows_of(server, settings)[0]) is pushed

    # marked, not embedded: the text alone can be found
    all_right(pushed=False)
    assert new not in {c.id for c in nearest(conn, settings, "zymurgy guild")}
    # embedded here, by a sync that does not know of the server
    assert sync(conn, settings=plain, reports=False).pushed is None
    all_right(pushed=False)
    assert nearest(conn, settings, "zymurgy guild")[0].id == new
    assert RETRIEVER.note(conn, settings) is None
    done = sync(conn, settings=settings, reports=False).pushed
    assert done is not None
    assert done.problem is None
    assert not done.whole
    all_right(pushed=True)
    assert nearest(conn, settings, "zymurgy guild")[0].id == new
    assert in_step(conn, server, settings)
    assert pending.pending(conn, "entities", changes.version(conn, "entities").now).ids == set()


def test_a_note_where_too_much_waits(
    memory: tuple[Any, Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    conn, settings = memory
    monkeypatch.setattr(pending, "MOST", 3)
    monkeypatch.setattr("datasette_limbic.retrieval.postgres.searching.MOST", 3)
    conn.executemany("insert into entities(name) values (?)", [(f"pending {i}",) for i in range(7)])
    conn.commit()
    note = RETRIEVER.note(conn, settings)
    assert note is not None
    assert "more than 3 entities are not" in note
    assert "newest 3 of them: run datasette limbic sync" in note
    # the newest ones are those looked through
    ids = pending.pending(conn, "entities", changes.version(conn, "entities").now).ids
    last = conn.execute("select max(id) from entities").fetchone()[0]
    assert ids == {last, last - 1, last - 2}


# -- pushing -----------------------------------------------------------------------------------


def test_a_push_that_breaks_off_goes_on(
    server: PostgresServer, demo_db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_for(server)
    monkeypatch.setattr(pushing, "BATCH", 50)
    with closing(connection.connect(demo_db, settings=settings)) as conn:

        def crash(done: int, total: int, label: str) -> None:
            if label.startswith("observations") and done >= 200:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            push(conn, settings, crash)
        assert RETRIEVER.unusable(conn, settings) is None
        with pytest.raises(RetrieverFailed, match="not all on the PostgreSQL server yet"):
            nearest(conn, settings, "x")
        before = len(rows_of(server, settings)[1])
        assert 200 <= before < 468
        # what is written meanwhile comes too
        conn.execute("update entities set name = 'Other name' where id = 3")
        conn.execute("delete from observations where id = 2")
        conn.commit()
        steps: list[tuple[str, int]] = []
        done = sync(
            conn,
            settings=settings,
            reports=False,
            progress=lambda done, total, label: steps.append((label, done)),
        ).pushed
        # what was compared is not compared again
        assert next(at for label, at in steps if label == "observations to the server") > 200
        assert done is not None
        assert done.problem is None
        assert in_step(conn, server, settings)
        total = sum(map(len, rows_of(server, settings)))
        assert done.written < total - before
        assert push(conn, settings) == PushSummary(seconds=pytest.approx(0, abs=5))


def test_a_server_that_dies_during_a_push(
    server: PostgresServer, demo_db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_for(server)
    monkeypatch.setattr(pushing, "BATCH", 100)
    with closing(connection.connect(demo_db, settings=settings)) as conn:
        calls = count()
        done = push(conn, settings, lambda *_: server.kill() if next(calls) == 2 else None)
        assert done.problem is not None
        assert "goes on from where it stopped" in done.problem
        again = push(conn, settings)
        assert again.problem is not None
        assert "cannot be reached" in again.problem
        server.start()
        rest = push(conn, settings)
        assert rest.problem is None
        assert rest.written < 500
        assert in_step(conn, server, settings)


def test_a_server_without_its_data_or_with_older_data(
    memory: tuple[Any, Settings], server: PostgresServer
) -> None:
    conn, settings = memory
    with psql(server) as pg:
        pg.execute(f'drop schema "{settings.postgres_schema}" cascade')
    with pytest.raises(RetrieverFailed, match="nothing of this memory yet"):
        nearest(conn, settings, "x")
    assert push(conn, settings).whole
    assert in_step(conn, server, settings)
    older = changes.version(conn, "entities").now
    conn.execute("update entities set name = 'Newer' where id = 4")
    conn.commit()
    sync(conn, settings=settings, reports=False)
    with psql(server, settings) as pg:
        # restored from a backup of before: the version is known here
        pg.execute("update limbic_state set version = %s where collection = 'entities'", [older])
        pg.execute("delete from entities where id = 4")
    # what it lacks is searched here meanwhile
    assert 4 in {c.id for c in nearest(conn, settings, "Newer", 65)}
    done = push(conn, settings)
    assert (done.whole, done.written) == (False, 1)
    with psql(server, settings) as pg:
        pg.execute("update limbic_state set version = 12345 where collection = 'entities'")
        pg.execute("delete from entities where id = 4")
        pg.execute(
            "insert into entities select 99999, archived, 1, entity_type, embedding"
            " from entities limit 1"
        )
    with pytest.raises(RetrieverFailed, match="another state of the entities"):
        nearest(conn, settings, "x")
    # restored from before what the file's log still holds, or another copy's: somebody must say
    refused = push(conn, settings)
    assert (refused.written, refused.deleted) == (0, 0)
    _begin_anew(server, settings, refused)
    done = push(conn, settings)
    assert (done.whole, done.written, done.deleted) == (True, 1, 1)
    assert in_step(conn, server, settings)
    # indexed anew since the push: what the server has is this file's own still
    with local_transaction(conn):
        changes.start_anew(conn, "entities")
    assert "another state of the entities" in _failure(conn, settings)
    done = push(conn, settings)
    assert (done.problem, done.whole, done.written) == (None, True, 0)


def _begin_anew(server: PostgresServer, settings: Settings, refused: PushSummary) -> None:
    """Do what a push that was refused says."""
    assert refused.problem is not None
    assert "another copy of this file" in refused.problem
    assert "postgres_schema" in refused.problem
    with psql(server) as pg:
        pg.execute(refused.problem.split("run ")[1].split(" there")[0])


@pytest.mark.parametrize("case", ["staging", "restored", "breaks off"])
def test_a_copy_is_not_taken_for_the_file(
    memory: tuple[Any, Settings], server: PostgresServer, tmp_path: Path, case: str
) -> None:
    conn, settings = memory
    plain = replace(settings, retriever="vec0")

    def write(file: Any, name: str) -> None:
        file.execute("insert into entities(name) values (?)", [name])
        file.commit()

    if case == "restored":
        write(conn, "Zanzibar Quokka")
        sync(conn, settings=settings, reports=False)
    with closing(sqlite3.connect(tmp_path / "copy.db")) as empty:
        conn.backup(empty)
    with closing(connection.connect(tmp_path / "copy.db", settings=settings)) as copy:
        # ``left`` lags behind what ``pushed`` has on the server
        left, pushed = (copy, conn) if case == "restored" else (conn, copy)
        if case == "restored":
            conn.execute("delete from entities where name = 'Zanzibar Quokka'")
            conn.commit()
        else:
            write(conn, "Zanzibar Quokka")
            sync(conn, settings=plain, reports=False)
            write(copy, "Something about lamps")
        done = sync(pushed, settings=settings, reports=False).pushed
        assert done is not None
        assert done.problem is None
        if case == "breaks off":
            with psql(server, settings) as pg:
                pg.execute("update limbic_state set ready = false, target = version, pushed_to = 5")
        found = search(left, "Zanzibar Quokka", settings=settings)
        assert found["results"][0]["name"] == "Zanzibar Quokka"
        assert found["retriever"] != "postgres"
        expected = "not all on" if case == "breaks off" else "another state of the entities"
        assert expected in found["degraded"]
        refused = push(left, settings)
        assert (refused.written, refused.deleted) == (0, 0)
        if case != "breaks off":
            assert in_step(pushed, server, settings)
        # a copy with a schema of its own
        own = settings_for(server)
        assert push(left, own).problem is None
        assert [c.id for c in nearest(left, own, "Zanzibar Quokka", 1)] == [
            found["results"][0]["id"]
        ]
        # or it is the one that counts
        _begin_anew(server, settings, refused)
        assert push(left, settings).problem is None
        assert in_step(left, server, settings)
        if case == "restored":
            # what it was restored from is known here: this one is only ahead of it
            found_there = nearest(pushed, settings, "Zanzibar Quokka", 5)
            assert [c.id for c in found_there] == [
                item for item, _ in exact(pushed, "Zanzibar Quokka", 5)
            ]
        else:
            assert "another state of the entities" in _failure(pushed, settings)


def test_two_memories_do_not_mix(
    memory: tuple[Any, Settings], empty_db: Path, server: PostgresServer
) -> None:
    conn, settings = memory
    with closing(connection.connect(empty_db, settings=settings)) as other:
        assert "no vectors yet" in (push(other, settings).problem or "")
        other.execute("insert into entities(name) values ('alone')")
        other.commit()
        summary = sync(other, settings=settings, reports=False)
        assert summary.pushed is not None
        assert "holds another memory" in (summary.pushed.problem or "")
        assert "not in step" in summary.text()
        assert in_step(conn, server, settings)
        # nor is it searched there
        other.execute("update limbic_pushes set pushed_at = 'once'")
        with pytest.raises(RetrieverFailed, match="holds another memory"):
            nearest(other, settings, "alone")
        own = settings_for(server)
        assert push(other, own).problem is None
        assert [c.id for c in nearest(other, own, "alone")] == [1]


def test_tables_of_other_programs_stay(server: PostgresServer, demo_db: Path) -> None:
    with psql(server) as pg:
        pg.execute("create table public.entities as select 1 as id")
        pg.execute("create table public.texts as select 1 as doc")
        settings = settings_for(server)
        with closing(connection.connect(demo_db, settings=settings)) as conn:
            assert push(conn, settings).problem is None
            assert in_step(conn, server, settings)
            taken = replace(settings, postgres_schema="public")
            assert "a table 'entities' of another program" in (push(conn, taken).problem or "")
            pg.execute(f'drop table "{settings.postgres_schema}".entities')
            assert "nothing of this memory" in _failure(conn, settings)
            assert push(conn, settings).whole
            assert in_step(conn, server, settings)
        for table in ("entities", "texts"):
            assert pg.execute(f"select * from public.{table}").fetchall() == [(1,)]
            pg.execute(f"drop table public.{table}")


def test_another_model_or_version(memory: tuple[Any, Settings], server: PostgresServer) -> None:
    conn, settings = memory
    conn.execute("update limbic_indexes set model = 'other' where collection = 'entities'")
    conn.commit()
    with pytest.raises(RetrieverFailed, match="vectors of the model 'limbic-multilingual'"):
        nearest(conn, settings, "x")
    assert push(conn, settings).whole
    assert in_step(conn, server, settings)
    with psql(server, settings) as pg:
        pg.execute("update limbic_memory set format = 7")
    for problem in (push(conn, settings).problem, _failure(conn, settings)):
        assert "of version 7, and this package writes version 1" in (problem or "")


def test_tables_are_partitioned_and_indexed(
    server: PostgresServer, demo_db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_for(server, postgres_partitions=3)
    with closing(connection.connect(demo_db, settings=settings)) as conn:
        push(conn, settings)
        vector = "[" + ",".join(["0.04"] * 512) + "]"
        with psql(server, settings) as pg:
            parts = dict(
                pg.execute("select tableoid::regclass::text, count(*) from entities group by 1")
            )
            assert len(parts) == 3
            assert sum(parts.values()) == 65
            pg.execute("set enable_seqscan = off")
            plan = str(
                pg.execute(
                    "explain select id from entities where not archived"
                    " order by embedding <=> %s limit 5",
                    [vector],
                ).fetchall()
            )
            assert [f"entities_{i}_near" in plan for i in range(3)] == [True] * 3
            plan = str(
                pg.execute("explain select doc from texts where words @@ 'atlas'").fetchall()
            )
            assert [f"texts_{i}_words" in plan for i in range(3)] == [True] * 3
        plain = settings_for(server, postgres_partitions=0)
        assert push(conn, plain).problem is None
        right = nearest(conn, settings, "billing")
        assert nearest(conn, plain, "billing") == right
        # an older pgvector: no halfvec, and an index that stops where it has looked far enough
        monkeypatch.setattr(schema, "HALF_FROM", (99,))
        old = settings_for(server)
        assert push(conn, old).problem is None
        with psql(server, old) as pg:
            kind = "select format_type(atttypid, atttypmod) from pg_attribute where attname"
            kind += " = 'embedding' and attrelid = 'entities'::regclass"
            assert pg.execute(kind).fetchone()[0] == "vector(512)"
        assert nearest(conn, old, "billing") == right
        monkeypatch.setattr(schema, "MAX_DIMENSION", {"vector": 300})
        assert "512 dimensions are more than" in (push(conn, settings_for(server)).problem or "")


def test_how_far_an_index_looks_is_set(
    memory: tuple[Any, Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    conn, settings = memory
    seen: list[tuple[str, str]] = []
    ask = Postgres._ask

    def spying(self: Postgres, conn: Any, settings: Settings, sql: str, *rest: Any) -> Any:
        names = "current_setting('hnsw.ef_search'), current_setting('hnsw.iterative_scan')"
        states, found = ask(self, conn, settings, sql.replace("select id", f"select id, {names}"),
                            *rest)  # fmt: skip
        seen.extend({row[1:] for row in found})
        return states, found

    monkeypatch.setattr(Postgres, "_ask", spying)
    right = nearest(conn, settings, "billing", 10)
    assert seen.pop() == ("84", "relaxed_order")  # 4 · (10 + 10 + 1)
    given = {
        "postgres_ef_search": (77, "77"),
        "postgres_partitions": (0, "210"),
    }
    for name, (value, expected) in given.items():
        assert nearest(conn, replace(settings, **{name: value}), "billing", 10) == right
        assert seen.pop()[0] == expected
    nearest(conn, replace(settings, postgres_partitions=0), "billing", 500)
    assert seen.pop()[0] == "1000"
    assert not seen


def test_an_index_as_yugabytedb_has_it(
    server: PostgresServer, demo_db: Path, memory: tuple[Any, Settings]
) -> None:
    """Its access method is called otherwise, takes no halfvec, and has settings of its own."""
    import psycopg

    conn, settings = memory
    right = nearest(conn, settings, "billing")
    with psql(server) as pg:
        pg.execute("create database yuga")
    dsn_ = server.dsn.replace("dbname=postgres", "dbname=yuga")
    with psycopg.connect(dsn_, autocommit=True) as pg:
        pg.execute("create extension vector")
        pg.execute("create access method ybhnsw type index handler hnswhandler")
        pg.execute(
            "create operator class vector_cosine_ops for type vector using ybhnsw as"
            " operator 1 <=> (vector, vector) for order by float_ops,"
            " function 1 vector_negative_inner_product(vector, vector),"
            " function 2 vector_norm(vector)"
        )
        there = replace(settings, postgres_dsn=dsn_, postgres_partitions=0)
        assert push(conn, there).problem is None
        made = pg.execute(
            "select indexdef from pg_indexes where indexname = 'entities_near'"
        ).fetchone()
        assert made is not None
        assert "USING ybhnsw (embedding vector_cosine_ops)" in made[0]
    assert nearest(conn, there, "billing") == right
    lent = links.Lent(None, (0, 8), "public", frozenset({"ybhnsw.ef_search"}), True)  # type: ignore[arg-type]
    assert searching._index_settings(lent, 10, there) == {"ybhnsw.ef_search": "100"}
    bare = replace(lent, settings=frozenset())
    assert searching._index_settings(bare, 10, there) == {}


# -- a server that fails -----------------------------------------------------------------------


def _failure(conn: Any, settings: Settings, query: str = "who works") -> str:
    with pytest.raises(RetrieverFailed) as failed:
        nearest(conn, settings, query)
    assert SECRET not in str(failed.value)
    return str(failed.value)


def test_a_server_that_is_gone_is_left_alone_and_comes_back(
    memory: tuple[Any, Settings], server: PostgresServer, short_pause: None
) -> None:
    conn, settings = memory
    before = nearest(conn, settings, "billing")
    server.stop()
    assert "cannot be reached" in _failure(conn, settings)
    paused = RETRIEVER.unusable(conn, settings)
    assert paused is not None
    assert "cannot be reached" in paused
    started = time.perf_counter()
    _failure(conn, settings)
    assert time.perf_counter() - started < 0.05
    server.start()
    time.sleep(0.25)
    assert RETRIEVER.unusable(conn, settings) is None
    assert nearest(conn, settings, "billing") == before
    # a restart between two searches is no failure at all
    server.stop("fast")
    server.start()
    assert nearest(conn, settings, "billing") == before


def test_a_server_that_dies_in_the_middle_of_a_query(
    memory: tuple[Any, Settings],
    server: PostgresServer,
    short_pause: None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    import psycopg

    conn, settings = memory
    nearest(conn, settings, "billing")
    patient = replace(settings, postgres_timeout_ms=20_000)
    with suppress(psycopg.OperationalError), psql(server, settings) as pg:
        pg.execute("begin")
        pg.execute("lock table entities in access exclusive mode")
        timer = threading.Timer(0.3, server.kill)
        timer.start()
        assert "cannot be reached, or broke off" in _failure(conn, patient)
        timer.join()
    # psycopg logs what it cannot raise
    assert [record.name for record in caplog.records if record.name.startswith("psycopg")] == []
    server.start()
    time.sleep(0.25)
    assert nearest(conn, settings, "billing")


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """A process that hangs; for some seconds at most, so that who waits for it fails at last."""
    timer = threading.Timer(5, os.kill, (pid, signal.SIGCONT))
    os.kill(pid, signal.SIGSTOP)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        os.kill(pid, signal.SIGCONT)


def test_a_slow_server_and_a_hung_one_are_given_up(
    memory: tuple[Any, Settings],
    server: PostgresServer,
    short_pause: None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    conn, settings = memory
    hasty = replace(settings, postgres_timeout_ms=300)
    nearest(conn, hasty, "billing")

    def given_up() -> None:
        started = time.perf_counter()
        assert "did not answer within 300 ms" in _failure(conn, hasty)
        assert 0.2 < time.perf_counter() - started < 1
        time.sleep(0.25)

    caplog.clear()
    with psql(server, settings) as pg:
        pg.execute("begin")
        pg.execute("lock table entities in access exclusive mode")
        given_up()
        pg.execute("rollback")
    nearest(conn, hasty, "billing")
    (lent,) = links.server(hasty.postgres_dsn)._idle
    backend = lent.conn.info.backend_pid
    with stopped(backend):
        given_up()
    assert nearest(conn, hasty, "billing")
    # nobody answers at the door
    pid = server.pid()
    assert pid is not None
    links.server(hasty.postgres_dsn).close()
    with stopped(pid):
        given_up()
        started = time.perf_counter()
        _failure(conn, hasty)
        assert time.perf_counter() - started < 0.29
    time.sleep(0.25)
    assert nearest(conn, hasty, "billing")
    assert [record.name for record in caplog.records if record.name.startswith("psycopg")] == []


def test_a_server_that_hangs_while_it_builds_is_given_up(
    server: PostgresServer, demo_db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_for(server)
    monkeypatch.setattr(schema, "BUILD_S", 1.0)
    monkeypatch.setattr(schema, "BUILD_ROW_S", 0.0)
    with closing(connection.connect(demo_db, settings=settings)) as conn, psql(server) as pg:
        locked: list[str] = []

        def lock(done: int, total: int, label: str) -> None:
            if label == "indexes on the server" and not locked:
                locked.append(label)
                pg.execute("begin")
                pg.execute(
                    f'lock table "{settings.postgres_schema}".entities_0 in row exclusive mode'
                )

        started = time.perf_counter()
        problem = push(conn, settings, lock).problem
        assert time.perf_counter() - started < 6
        assert locked
        assert "goes on from where it stopped" in (problem or "")
        assert "not all on the PostgreSQL server yet" in _failure(conn, settings)
        pg.execute("rollback")
        done = push(conn, settings)
        assert (done.problem, done.written) == (None, 0)
        assert in_step(conn, server, settings)


def test_one_search_tries_a_server_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    tries: list[float] = []

    def refuses(dsn: str, timeout_s: float, **options: Any) -> Any:
        tries.append(time.monotonic())
        time.sleep(0.05)
        raise OSError("nobody there")

    monkeypatch.setattr(links, "open_connection", refuses)
    one = links.Server("host=nowhere")
    with pytest.raises(RetrieverFailed, match="nobody there"):
        one.run(lambda lent: None, 1.0)
    for expected in (0, 1, 0):  # in the pause, after it, in the next one
        tries.clear()
        if expected:
            one._again_at = 0.0
        together = threading.Barrier(8)
        failed: list[str] = []

        def search_there(barrier: threading.Barrier = together, said: list[str] = failed) -> None:
            barrier.wait()
            with pytest.raises(RetrieverFailed) as caught:
                one.run(lambda lent: None, 1.0)
            said.append(str(caught.value))

        threads = [threading.Thread(target=search_there) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(tries) == expected
        assert len(failed) == 8
        assert one.paused() is not None


def test_the_log_hears_of_a_failure_once_in_a_pause(
    memory: tuple[Any, Settings], caplog: pytest.LogCaptureFixture
) -> None:
    conn, settings = memory
    lost = replace(settings, postgres_dsn="host=127.0.0.1 port=1 user=x")
    function = functions.sql_nearest(conn, lost, lambda text: wanted(text).vector)
    sql_functions.register(conn, settings=lost, nearest=function)
    ask = "select limbic_nearest('postgres', 'billing', 3)"

    def asked() -> list[tuple[str, str]]:
        caplog.clear()
        for _ in range(4):
            # as if each was the first to notice
            links.server(lost.postgres_dsn)._problem = None
            with pytest.raises(sqlite3.OperationalError), functions.serving(RETRIEVER):
                conn.execute(ask)
            assert "cannot be reached" in str(functions.failure())
        assert [record.exc_info for record in caplog.records if record.exc_info] == []
        return [(record.name, record.levelname) for record in caplog.records]

    assert asked() == [("datasette_limbic", "WARNING")]
    assert "limbic_nearest(): the PostgreSQL server refuses" not in caplog.text[1000:]
    assert asked() == []
    links.server(lost.postgres_dsn)._quiet_until = 0.0
    assert len(asked()) == 1
    # another retriever's failure is one line as well
    caplog.clear()
    with pytest.raises(sqlite3.OperationalError):
        conn.execute("select limbic_nearest('nobody', 'billing', 3)")
    ((name, level, line),) = caplog.record_tuples
    assert (name, level) == ("datasette_limbic", logging.WARNING)
    assert "nobody" in line
    assert "\n" not in caplog.text.strip()


def test_many_threads_and_a_restart(
    memory: tuple[Any, Settings], server: PostgresServer, demo_db: Path, short_pause: None
) -> None:
    conn, settings = memory
    right = nearest(conn, settings, "billing")
    outcomes: list[str] = []
    until = time.monotonic() + 2.5

    def searching() -> None:
        with closing(connection.connect(demo_db, settings=settings)) as own:
            while time.monotonic() < until:
                try:
                    found = nearest(own, settings, "billing")
                    outcomes.append("right" if found == right else "wrong")
                except RetrieverFailed:
                    outcomes.append("failed")
                    time.sleep(0.02)
                except BaseException as error:
                    outcomes.append(repr(error))
                    raise

    threads = [threading.Thread(target=searching) for _ in range(6)]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    server.stop()
    time.sleep(0.2)
    server.start()
    for thread in threads:
        thread.join()
    assert set(outcomes) == {"right", "failed"}
    assert "failed" not in outcomes[-20:]
    assert len(links.server(settings.postgres_dsn)._idle) <= links.IDLE


# -- settings, rights, secrets -----------------------------------------------------------------


def test_what_stands_in_the_way_is_said_in_a_sentence(
    memory: tuple[Any, Settings], server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    conn, settings = memory
    with psql(server, settings) as pg:
        pg.execute("create role reader login")
        pg.execute("create role stranger login")
        pg.execute(f'grant usage on schema "{settings.postgres_schema}" to reader')
        pg.execute("create role owner login")
        pg.execute("create database bare")
    here = f"127.0.0.1:{server.port}"
    closed = f"postgresql://postgres:{SECRET}@127.0.0.1:1/postgres"
    cases: list[tuple[str, str, Callable[[Settings], str | None]]] = [
        (
            f"postgresql://postgres:{SECRET}@{here}/nowhere",
            'database "nowhere" does not exist',
            lambda s: _failure(conn, s),
        ),
        (closed, "cannot be reached", lambda s: _failure(conn, s)),
        (closed, "cannot be reached", lambda s: push(conn, s).problem),
        (
            f"postgresql://nobody:{SECRET}@{here}/postgres",
            "cannot be reached",
            lambda s: _failure(conn, s),
        ),
        (
            f"postgresql://reader:{SECRET}@{here}/postgres",
            "lacks a right",
            lambda s: _failure(conn, s),
        ),
        (
            f"postgresql://reader:{SECRET}@{here}/postgres",
            "lacks a right",
            lambda s: push(conn, s).problem,
        ),
        (
            f"postgresql://owner:{SECRET}@{here}/bare",
            "CREATE EXTENSION vector there",
            lambda s: push(conn, s).problem,
        ),
        (
            f"postgresql://postgres:{SECRET}@{here}/bare",
            "nothing of this memory",
            lambda s: _failure(conn, s),
        ),
        (
            f"postgresql://postgres:{SECRET}@[{here}/x",
            "cannot be read",
            lambda s: push(conn, s).problem,
        ),
        (f"postgresql//{SECRET}", "cannot be read", lambda s: RETRIEVER.unusable(conn, s)),
        (f"host=/tmp {SECRET}", "cannot be read", lambda s: RETRIEVER.unusable(conn, s)),
        (
            f"postgresql://u:a@{SECRET}/{SECRET}@{here}/x",
            "cannot be reached",
            lambda s: push(conn, s).problem,
        ),
        ("", "postgres_dsn is empty", lambda s: RETRIEVER.unusable(conn, s)),
    ]
    for given, said, ask in cases:
        found = ask(replace(settings, postgres_dsn=given))
        assert found is not None
        assert said in found, (given, found)
        assert SECRET not in found
    new_schema = replace(
        settings, postgres_dsn=f"postgresql://owner@{here}/postgres", postgres_schema="own"
    )
    assert 'CREATE SCHEMA "own" AUTHORIZATION "owner"' in (push(conn, new_schema).problem or "")
    monkeypatch.setattr(dsn, "find_spec", lambda name: None)
    assert "pip install 'datasette-limbic[postgres]'" in (RETRIEVER.unusable(conn, settings) or "")
    assert "pip install 'datasette-limbic[postgres]'" in (push(conn, settings).problem or "")


@pytest.mark.parametrize(
    "given",
    [
        "postgresql://u:tail9/{}@127.0.0.1/db",
        "postgresql://u:p%40q@{}@127.0.0.1:1/db",
        "postgresql://u:a:{}@127.0.0.1:1/db",
        "postgresql://u:x?q={}@127.0.0.1:1/db",
        "postgresql://u:a@{}." + "z" * 70 + "@127.0.0.1:1/db",
        "host=127.0.0.1 port=1 user=x password={}",
        "host=127.0.0.1 port=1 user=x password=it {}",
    ],
)
def test_no_piece_of_a_password_is_logged(
    memory: tuple[Any, Settings],
    demo_db: Path,
    given: str,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    conn, settings = memory
    caplog.set_level(logging.DEBUG)
    bad = replace(settings, postgres_dsn=given.format(SECRET), postgres_timeout_ms=5000)
    with closing(connection.connect(demo_db, settings=bad)) as own:
        found = search(own, "billing", settings=bad)
    assert "another retriever searched" in found["degraded"]
    problem = push(conn, bad).problem
    assert problem is not None
    chained = ""
    if RETRIEVER.unusable(conn, bad) != problem:
        links._known.clear()
        with pytest.raises(RetrieverFailed) as failed:
            nearest(conn, bad, "billing")
        # as a log would have it, with what it was raised from
        chained = "".join(traceback.format_exception(failed.value))
        assert "RetrieverFailed" in chained
    said = capfd.readouterr()
    for text_ in (found["degraded"], problem, chained, caplog.text, said.out, said.err):
        assert SECRET not in text_


def test_searching_needs_no_more_than_to_read(
    memory: tuple[Any, Settings], server: PostgresServer
) -> None:
    conn, settings = memory
    with psql(server, settings) as pg:
        name = settings.postgres_schema
        pg.execute("create role only_reads login")
        pg.execute(f'grant usage on schema "{name}" to only_reads')
        pg.execute(f'grant select on all tables in schema "{name}" to only_reads')
    less = replace(
        settings, postgres_dsn=settings.postgres_dsn.replace("user=postgres", "user=only_reads")
    )
    assert nearest(conn, less, "billing") == nearest(conn, settings, "billing")
    assert RETRIEVER.texts(conn, Wanted("billing", 5), less)
    conn.execute("update entities set name = 'Billed' where id = 4")
    conn.commit()
    assert "lacks a right" in (
        (sync(conn, settings=less, reports=False).pushed or PushSummary()).problem or ""
    )


def test_the_dsn_is_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(postgres_dsn=f"postgresql://u:{SECRET}@h/d")
    assert SECRET not in repr(settings)
    assert dsn.dsn_of(settings) == settings.postgres_dsn
    with pytest.raises(BadParameter) as refused:
        Settings.from_mapping({"postgres_dsn": [SECRET]})
    assert SECRET not in str(refused.value)
    monkeypatch.setenv(dsn.VARIABLE, f"host=h password='{SECRET} with \\' quote'")
    assert SECRET in dsn.dsn_of(Settings())
    for given, password in (
        (settings.postgres_dsn, SECRET),
        (dsn.dsn_of(Settings()), f"{SECRET} with ' quote"),
    ):
        said = dsn.sentence(RuntimeError(f"FATAL: {given} {password} not known"), given)
        assert said == "FATAL: … … not known"


def test_psycopg_is_loaded_only_where_a_server_is_asked() -> None:
    code = (
        "import sys, datasette_limbic.plugin, datasette_limbic.retrieval.builtin as b;"
        "from datasette_limbic.config import Settings;"
        "print(b.RETRIEVERS[-1].unusable(None, Settings()));"
        "print(sorted({'psycopg', 'psycopg_binary'} & set(sys.modules)))"
    )
    environment = {k: v for k, v in os.environ.items() if k != dsn.VARIABLE}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[0].startswith("postgres_dsn is empty")
    assert done.stdout.splitlines()[1] == "[]"


@pytest.mark.parametrize("name", ["", "pg_x", "é" * 32, "a\nb", "a.b", "50%", 7])
def test_schema_names_that_are_none(name: Any) -> None:
    with pytest.raises(BadParameter, match="postgres_schema is"):
        Settings.from_mapping({"postgres_schema": name})


# -- the whole search --------------------------------------------------------------------------


def test_the_whole_search_ranks_the_same_and_survives(
    memory: tuple[Any, Settings], server: PostgresServer, short_pause: None
) -> None:
    conn, settings = memory
    here = replace(settings, retriever="vec0")
    asked = [{"query": query} for query in QUERIES]
    asked += [{"query": "billing", "mode": "text"}, {"query": "billing", "mode": "semantic"}]
    asked += [{"query": "billing", "type": "Person"}, {"query": "billing", "include_archived": "1"}]

    def answers(by: Settings) -> list[Any]:
        return [search(conn, settings=by, now=NOW, **arguments) for arguments in asked]

    def same(found: list[Any], there: list[Any]) -> bool:
        return all(
            [r["id"] for r in one["results"]] == [r["id"] for r in other["results"]]
            and [r["final_score"] for r in one["results"]]
            == pytest.approx([r["final_score"] for r in other["results"]], abs=1e-5)
            for one, other in zip(found, there, strict=True)
        )

    locally = answers(here)
    remote = answers(settings)
    assert {one["retriever"] for one in remote} == {"postgres"}
    assert [one["degraded"] for one in remote] == [one["degraded"] for one in locally]
    assert same(remote, locally)
    server.stop()
    lost = answers(settings)
    assert same(lost, locally)
    for one in lost:
        assert "PostgreSQL server refuses, cannot be reached, or broke off" in one["degraded"]
        assert one["degraded"].count("PostgreSQL") == 1
    server.start()
    time.sleep(0.25)
    back = answers(settings)
    assert same(back, locally)
    assert {one["degraded"] for one in back} == {None}


async def test_datasette_with_the_dsn_in_the_environment(
    memory: tuple[Any, Settings],
    demo_db: Path,
    server: PostgresServer,
    make_datasette: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, settings = memory
    monkeypatch.setenv("MEMORY_DSN", server.tcp)
    config = {
        "retriever": "postgres",
        "postgres_dsn": {"$env": "MEMORY_DSN"},
        "postgres_schema": settings.postgres_schema,
    }
    datasette = make_datasette(demo_db, config=config)
    body = await get_json(datasette, f"{base(demo_db)}/search.json?q=billing")
    assert (body["retriever"], body["degraded"]) == ("postgres", None)
    # the statement that the SQL page shows runs there too
    url = body["sql_url"].replace("?sql=", ".json?_shape=array&sql=")
    page = await get(datasette, url, follow_redirects=True)
    assert [row["id"] for row in page.json()] == [row["id"] for row in body["results"]]
    seen = [f"{base(demo_db)}/search?q=billing", f"{base(demo_db)}/status.json", "/-/plugins.json"]
    for url in [*seen, base(demo_db)]:
        assert SECRET not in (await get(datasette, url)).text


def test_the_command_pushes_and_says_so(
    demo_db: Path, server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_for(server)
    config = tmp_path / "datasette.json"
    own = {
        "retriever": "postgres",
        "postgres_schema": settings.postgres_schema,
        "postgres_dsn": {"$env": "MEMORY_DSN"},
    }
    config.write_text(json.dumps({"plugins": {"datasette-limbic": own}}))
    arguments = ["limbic", "sync", str(demo_db), "-c", str(config)]
    monkeypatch.setenv("MEMORY_DSN", server.tcp)
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 0, done.output
    assert "server: 533 rows written" in done.output
    monkeypatch.delenv("MEMORY_DSN")
    monkeypatch.setenv(dsn.VARIABLE, server.tcp)
    assert "server: in step" in CliRunner().invoke(cli, arguments).output
    monkeypatch.setenv(dsn.VARIABLE, f"postgresql://u:{SECRET}@127.0.0.1:1/x")
    lost = CliRunner().invoke(cli, [*arguments, "--json"])
    assert lost.exit_code == 1
    assert "cannot be reached" in json.loads(lost.output)["pushed"]["problem"]
    assert SECRET not in lost.output


# -- more than one server ----------------------------------------------------------------------


def test_partitions_on_another_server(
    demo_db: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Half of the partitions stand on a second server, by postgres_fdw."""
    programs()
    folder = tmp_path_factory.mktemp("fdw")
    options, environment = with_fdw(folder)
    first = PostgresServer(tmp_path_factory.mktemp("pg1"), options, environment)
    second = PostgresServer(tmp_path_factory.mktemp("pg2"))
    settings = settings_for(first, postgres_schema="limbic", postgres_partitions=2)
    with closing(connection.connect(demo_db, settings=settings)) as conn:
        try:
            first.start()
            second.start()
            assert push(conn, settings).problem is None
            before = [nearest(conn, settings, query, 30) for query in QUERIES]
            texts = [RETRIEVER.texts(conn, Wanted(query, 30), settings) for query in QUERIES]
            _move_second_partitions(first, second)
            assert [nearest(conn, settings, query, 30) for query in QUERIES] == before
            assert [
                RETRIEVER.texts(conn, Wanted(query, 30), settings) for query in QUERIES
            ] == texts
            with psql(second, settings) as pg:
                there = pg.execute("select count(*) from entities_1").fetchone()[0]
                assert 10 < there < 55
            with psql(first, settings) as pg:
                vector = "[" + ",".join(["0.04"] * 512) + "]"
                plan = str(
                    pg.execute(
                        "explain verbose select id from entities where not archived"
                        " order by embedding <=> %s limit 5",
                        [vector],
                    ).fetchall()
                )
                # the other server sorts, by its own index
                assert "Remote SQL" in plan
                assert "ORDER BY" in plan
            # a push writes through to both
            conn.execute("update entities set name = name || ' again'")
            conn.execute("delete from observations where id % 3 = 0")
            conn.commit()
            done = sync(conn, settings=settings, reports=False).pushed
            assert done is not None
            assert done.problem is None
            assert in_step(conn, first, settings)
            # one of the two is lost: the search is told so, and goes on without
            second.stop()
            assert "PostgreSQL server" in _failure(conn, settings)
        finally:
            links.close_all()
            first.stop()
            second.stop()


def _move_second_partitions(first: PostgresServer, second: PostgresServer) -> None:
    """What ``docs/postgres.md`` says, with postgres_fdw in place of Citus."""
    columns = {
        "entities": "id bigint not null, archived boolean not null, digest bigint not null,"
        " entity_type text not null, embedding halfvec(512) not null",
        "texts": "doc bigint not null, digest bigint not null, length integer not null,"
        " words tsvector not null",
    }
    indexes = {"entities": "hnsw (embedding halfvec_cosine_ops)", "texts": "gin (words)"}
    keys = {"entities": "id", "texts": "doc"}
    with psql(second) as pg:
        pg.execute("create extension vector")
        pg.execute("create schema limbic")
        for table, listed in columns.items():
            pg.execute(f"create table limbic.{table}_1 ({listed}, primary key ({keys[table]}))")
            pg.execute(f"create index on limbic.{table}_1 using {indexes[table]}")
    with psql(first) as pg:
        pg.execute("create extension postgres_fdw")
        pg.execute(
            "create server other foreign data wrapper postgres_fdw options (host '127.0.0.1',"
            f" port '{second.port}', dbname 'postgres', extensions 'vector', batch_size '500')"
        )
        pg.execute("create user mapping for current_user server other options (user 'postgres')")
        pg.execute("set search_path = limbic, public")
        for table, listed in columns.items():
            pg.execute(f"alter table {table} detach partition {table}_1")
            pg.execute(f"alter table {table}_1 rename to {table}_moved")
            pg.execute(
                f"create foreign table {table}_1 ({listed}) server other"
                f" options (schema_name 'limbic', table_name '{table}_1')"
            )
            pg.execute(f"insert into {table}_1 select * from {table}_moved")
            pg.execute(
                f"alter table {table} attach partition {table}_1"
                " for values with (modulus 2, remainder 1)"
            )
            pg.execute(f"drop table {table}_moved")
