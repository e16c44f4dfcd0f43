"""Which retriever serves: the one that is named, else the fastest that can; and what is said."""

from __future__ import annotations

from dataclasses import replace

import pytest
from datasette.utils.sqlite import sqlite3
from embedding_helpers import fill_and_sync
from retrieval_helpers import forget_what_is_held, memory, opened, uniform, with_index

from datasette_limbic import search
from datasette_limbic.config import Settings
from datasette_limbic.retrieval import choosing, in_memory
from datasette_limbic.retrieval.plugins import retriever
from datasette_limbic.sync import sync

SMALL = Settings()
ENDLESS = "with recursive n(i) as (select 1 union all select i + 1 from n) select max(i), 1 from n"


@pytest.fixture
def synced(models, conn, path):
    fill_and_sync(conn, 12, 1)
    forget_what_is_held()
    return path


def served(path, settings, query="number 7", **arguments):
    with opened(path, readonly=True, settings=settings) as conn:
        return search.search(conn, query, mode="semantic", settings=settings, **arguments)


def chosen(path, settings):
    reasons = []
    with opened(path, readonly=True) as conn:
        names = [found.name for found in choosing.choose(conn, settings, reasons)]
        assert choosing.serves(conn, settings, []) in names
    return names, reasons


@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("name", ["auto", "approximate", "memory", "vec0", "nobody"])
def test_who_serves(name, large, indexed, synced, monkeypatch):
    monkeypatch.setattr(in_memory, "FROM", 5 if large else 50)
    if indexed:
        with_index(synced)
    settings = Settings(retriever=name)
    served(synced, settings)  # the second search of a process has a matrix
    answer = served(synced, settings)
    there = {"approximate": indexed, "memory": large or name == "memory", "vec0": True}
    best = next(one for one in choosing.BY_SPEED if there[one])
    assert answer["retriever"] == (name if there.get(name) else best)
    assert answer["results"][0]["id"] == 7
    if name == "auto" or there.get(name):
        assert answer["degraded"] is None
    else:
        assert answer["degraded"].endswith("another retriever searched")
        assert ("no retriever 'nobody'" if name == "nobody" else "no approximate index") in (
            answer["degraded"]
        )


def test_the_first_search_of_a_process_loads_no_matrix(synced, monkeypatch):
    monkeypatch.setattr(in_memory, "FROM", 5)
    monkeypatch.setattr(retriever("memory"), "_asked", type(retriever("memory")._asked)())
    assert [served(synced, SMALL)["retriever"] for _ in range(3)] == ["vec0", "memory", "memory"]


def test_all_answer_the_same(synced):
    with_index(synced)
    answers = [served(synced, Settings(retriever=name), limit=12) for name in choosing.BY_SPEED]
    # of texts that are equal the distances may differ in the seventh digit
    first = {r["id"]: r["distance"] for r in answers[0]["results"]}
    for answer in answers[1:]:
        assert {r["id"]: r["distance"] for r in answer["results"]} == pytest.approx(first, abs=1e-6)


@pytest.mark.parametrize("name", ["auto", "memory", "approximate"])
def test_little_memory_is_no_error(name, synced, monkeypatch):
    monkeypatch.setattr(in_memory, "FROM", 5)
    with_index(synced)
    settings = Settings(retriever=name, vectors_in_memory_mb=0)
    for _ in range(2):
        answer = served(synced, settings)
        assert answer["retriever"] == "vec0"
        assert answer["results"][0]["id"] == 7
        assert (answer["degraded"] is None) == (name == "auto")
    assert name == "auto" or "vectors_in_memory_mb" in answer["degraded"]


def test_an_index_of_another_model(synced):
    with_index(synced)
    with opened(synced) as conn:
        conn.execute("update limbic_approximate set model = 'other'")
        conn.commit()
    answer = served(synced, Settings(retriever="approximate"))
    assert answer["retriever"] == "vec0"
    assert "of another model: run 'datasette limbic index FILE'" in answer["degraded"]


def test_an_index_of_another_dimension(synced):
    with_index(synced)
    with opened(synced) as conn:
        conn.execute("update limbic_approximate set dimension = 8")
        conn.commit()
    assert served(synced, SMALL)["retriever"] == "vec0"


OLD = (
    "drop table _limbic_vec_changes",
    "drop table limbic_pushes",
    "drop table _limbic_ann_segments",
    "drop table _limbic_ann_parts",
    "drop table limbic_approximate",
    "alter table limbic_indexes drop column version",
    "alter table limbic_indexes drop column changes_from",
    "delete from _sqlite_migrations where name = 'm006_retrieval'",
)


@pytest.mark.parametrize("name", ["auto", "memory", "approximate", "vec0"])
def test_a_file_that_was_not_brought_up_to_date(name, synced, monkeypatch):
    """Searched as before, by vec0, and never written."""
    monkeypatch.setattr(in_memory, "FROM", 5)
    before = served(synced, SMALL)["results"]
    with opened(synced) as conn:
        for statement in OLD:
            conn.execute(statement)
        conn.commit()
    content = synced.read_bytes()
    forget_what_is_held()
    for _ in range(2):
        answer = served(synced, Settings(retriever=name))
        assert answer["retriever"] == "vec0"
        assert [r["id"] for r in answer["results"]] == [r["id"] for r in before]
        assert (answer["degraded"] is None) == (name in ("auto", "vec0"))
    if name == "memory":
        assert "datasette limbic init" in answer["degraded"]
    assert synced.read_bytes() == content
    from datasette_limbic import migrations
    from datasette_limbic.sync import sync

    with opened(synced) as conn:
        assert migrations.init(conn) == ["m006_retrieval"]
        sync(conn, reports=False)
    assert served(synced, Settings(retriever="memory"))["retriever"] == "memory"


def test_texts_alone_need_no_vectors(synced):
    answer = served(synced, Settings(retriever="nobody"), query="entity 7", strategy="limbic")
    with opened(synced, readonly=True) as conn:
        text = search.search(conn, "entity 7", mode="text", settings=SMALL)
        listing = search.search(conn, "", settings=SMALL)
    assert answer["retriever"] is not None
    assert text["retriever"] is None
    assert listing["retriever"] is None
    assert text["degraded"] is None
    assert text["results"]


def test_vectors_that_no_sync_indexed(tmp_path, models):
    path = memory(tmp_path / "m.db", uniform(3, 32))
    with opened(path) as conn:
        conn.execute("update limbic_indexes set vectors = 0")
        conn.commit()
    for name in ("auto", "memory", "approximate"):
        answer = served(path, replace(SMALL, retriever=name))
        assert "no vectors yet" in answer["degraded"]
        assert answer["retriever"] is None


@pytest.mark.parametrize("name", ["memory", "approximate"])
def test_nothing_of_a_transaction_stays(name, synced):
    """Neither a vector, nor who is archived: for this connection and for others."""
    with_index(synced)
    settings = Settings(retriever=name)
    forget_what_is_held()

    def found(conn):
        return search.search(conn, "number 7", mode="semantic", settings=settings)

    with opened(synced, settings=settings) as conn:
        before = found(conn)
        assert (before["retriever"], before["results"][0]["id"]) == (name, 7)
        forget_what_is_held()
        for once in range(2):  # what is kept is read in the transaction, or was before
            conn.execute("begin")
            conn.execute("update entities set name = 'something else' where id = 7")
            conn.execute("update entities set archived_at = datetime('now') where id = 8")
            sync(conn, settings=settings, reports=False)
            within = found(conn)
            assert within["retriever"] == "vec0"
            assert "within a transaction" in within["degraded"]
            assert not {8} & {r["id"] for r in within["results"]}
            conn.rollback()
            with opened(synced, readonly=True, settings=settings) as other:
                for reader in (conn, other):
                    after = found(reader)
                    assert (after["retriever"], after["degraded"]) == (name, None), once
                    for key in ("id", "name", "distance", "final_score"):
                        assert [r[key] for r in after["results"]] == [
                            pytest.approx(r[key], abs=1e-6) if key[0] in "df" else r[key]
                            for r in before["results"]
                        ]


def slowly(conn):
    """A statement that never ends."""
    conn.execute(ENDLESS).fetchone()


@pytest.mark.parametrize(("name", "kept"), [("memory", "Matrix"), ("approximate", "Codes")])
def test_a_search_that_takes_too_long_says_so(name, kept, synced, monkeypatch):
    """No other retriever is tried: the time is over."""
    from datasette_limbic.retrieval import approximate

    with_index(synced)
    where = {"Matrix": in_memory.Matrix, "Codes": approximate.Codes}[kept]
    monkeypatch.setattr(where, "nearest", lambda self, conn, *_, **__: slowly(conn))
    answer = served(synced, Settings(retriever=name, knn_time_limit_ms=30))
    assert answer["degraded"].startswith("vector search took over 30 ms, so only text was searched")
    assert answer["retriever"] is None
    assert answer["results"]


def test_a_failure_of_somebodys_sql_is_not_that_of_a_search(synced, monkeypatch):
    """In the same thread, and nobody asked why it failed."""
    with opened(synced, readonly=True) as conn, pytest.raises(sqlite3.OperationalError):
        conn.execute("select limbic_nearest('nobody', 'number 7', 3)")
    monkeypatch.setattr(retriever("vec0"), "sql", f"nearest(x, d) as ({ENDLESS})", raising=False)
    answer = served(synced, Settings(retriever="vec0", knn_time_limit_ms=30))
    assert "nobody" not in answer["degraded"]
    assert answer["degraded"].startswith("vector search took over 30 ms")
