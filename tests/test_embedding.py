"""Query-time embedding."""

from __future__ import annotations

import math
import threading
from contextlib import closing
from types import SimpleNamespace

import pytest
from datasette.utils.sqlite import sqlite3
from embedding_helpers import (
    blob,
    embedded_with,
    store,
    values,
)

from datasette_limbic import embedding
from datasette_limbic.errors import UnknownModel, VectorsUnavailable


def test_collection_info_without_the_tables():
    with closing(sqlite3.connect(":memory:")) as bare:
        assert embedding.collection_info(bare, "entities") is None


def test_collection_info(conn):
    assert embedding.collection_info(conn, "entities") is None
    conn.execute("insert into collections(name, model) values ('entities', '/srv/model')")
    assert embedding.collection_info(conn, "entities") == embedding.CollectionInfo(
        "/srv/model", 0, 0
    )
    store(conn, "entities", {1: blob(1, 2, 3), 2: blob(1, 2, 3)})
    assert embedding.collection_info(conn, "entities") == embedding.CollectionInfo(
        "/srv/model", 3, 2
    )


def test_dimension_is_that_of_most_vectors(conn):
    rows = {0: blob(1, 2), 1: b""} | {i: blob(1, 2, 3) for i in range(2, 40)}
    store(conn, "observations", rows)
    assert embedding.collection_info(conn, "observations") == embedding.CollectionInfo("bag", 3, 40)


def test_get_model(models):
    assert embedding.get_model("bag") is models["bag"]
    assert embedding.get_model("bag-alias") is models["bag"]
    packaged = embedding.get_model("limbic")
    assert packaged is embedding.get_model("limbic-multilingual")
    assert packaged.model_id == embedding.DEFAULT_MODEL


def test_unknown_model_is_named_with_what_to_install(models):
    with pytest.raises(UnknownModel, match=r"'/home/ana/minilm'.*llm install") as caught:
        embedding.get_model("/home/ana/minilm")
    assert isinstance(caught.value, LookupError)


@pytest.mark.parametrize(("model_id", "local"), [("limbic", True), ("bag", True), ("keyed", False)])
def test_is_local(models, model_id, local):
    assert embedding.is_local(model_id) is local


def test_query_vectors_have_length_1(models):
    vector = values(embedding.embed_query("bag", "three word query"))
    assert len(vector) == 32
    assert math.hypot(*vector) == pytest.approx(1, abs=1e-6)


def test_query_vectors_are_remembered_with_their_prefix(models):
    first = embedding.embed_query("bag", "cats")
    assert embedding.embed_query("bag", "cats") is first
    assert embedding.embed_query("bag", "cats", prefix="query: ") != first
    embedding.embed_query("bag2", "cats")
    assert models["bag"].seen == ["cats", "query: cats"]
    assert models["bag2"].seen == ["cats"]


def test_the_last_512_are_remembered(models):
    for n in range(embedding.CACHE_SIZE):
        embedding.embed_query("bag", f"q{n}")
    embedding.embed_query("bag", "q0")  # now the newest
    embedding.embed_query("bag", "one more")  # q1 goes
    count = len(models["bag"].seen)
    embedding.embed_query("bag", "q0")
    assert len(models["bag"].seen) == count
    embedding.embed_query("bag", "q1")
    assert len(models["bag"].seen) == count + 1


@pytest.mark.parametrize(
    ("model_id", "text", "message"),
    [
        ("broken", "x", "no model at /elsewhere"),
        ("bag", "ZEROVEC", "no usable vector for 'ZEROVEC'"),
        ("bag", "NANVEC", "no usable vector"),
    ],
)
def test_a_failing_model_says_so(models, model_id, text, message):
    with pytest.raises(VectorsUnavailable, match=message):
        embedding.embed_query(model_id, text)


def test_one_call_of_a_model_at_a_time(models):
    running, most = [], []

    def before(items):
        running.append(1)
        most.append(len(running))
        threading.Event().wait(0.01)
        running.pop()

    models["bag"].before = before
    threads = [
        threading.Thread(target=embedding.embed_query, args=("bag", f"t{n}")) for n in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(most) == 1
    assert len(most) == 6


def test_unit_blob():
    assert values(embedding.unit_blob([3, 4])) == pytest.approx((0.6, 0.8))
    assert values(embedding.unit_blob([1e300, 0])) == (1.0, 0.0)
    for bad in ([0, 0], [math.nan, 1], [math.inf, 1], []):
        assert embedding.unit_blob(bad) is None


# the SQL function ---------------------------------------------------------------------------


def test_sql_null_in_null_out(conn, models):
    embed = embedding.sql_embedder(conn)
    assert embed(None) is None
    assert embed("no collection yet") is None
    assert embed("x", "other") is None


def test_sql_on_a_database_without_embeddings():
    with closing(sqlite3.connect(":memory:")) as bare:
        assert embedding.sql_embedder(bare)("x") is None


def test_sql_uses_the_packaged_model_at_once(conn):
    embedded_with(conn, "limbic-multilingual")
    found = embedding.sql_embedder(conn)("where is Ana")
    assert found == embedding.embed_query("limbic-multilingual", "where is Ana")


def test_sql_never_loads_another_model(conn, models):
    embedded_with(conn, "bag")
    embed = embedding.sql_embedder(conn)
    with pytest.raises(VectorsUnavailable, match="open this database's search page once"):
        embed("cats")
    assert models["bag"].seen == []
    cats = embedding.embed_query("bag", "cats")
    assert embed("cats") == cats
    assert embed("dogs") == embedding.embed_query("bag", "dogs")
    assert embed("cats", None) == cats


def test_sql_inside_a_statement(conn, models):
    embedded_with(conn, "bag", "observations")
    expected = embedding.embed_query("bag", "cats")
    assert conn.execute("select limbic_embed('cats', 'observations')").fetchone()[0] == expected
    assert conn.execute("select limbic_embed('cats')").fetchone()[0] is None
    assert conn.execute("select limbic_embed(null, 'observations')").fetchone()[0] is None


def test_sql_follows_the_file(conn, path, models):
    embedded_with(conn, "bag")
    bag, bag16 = embedding.embed_query("bag", "x"), embedding.embed_query("bag16", "x")
    embed = embedding.sql_embedder(conn)
    assert embed("x") == bag
    with closing(sqlite3.connect(str(path))) as other:
        other.execute("update collections set model = 'bag16'")
        other.commit()
    assert embed("x") == bag16
    conn.execute("update collections set model = 'bag'")
    assert embed("x") == bag


def test_sql_obeys_the_settings(conn, models):
    embedded_with(conn, "/another/machine")
    settings = SimpleNamespace(
        model="bag", query_prefix="query: ", passage_prefix="", allow_remote_models=False
    )
    embed = embedding.sql_embedder(conn, settings=settings)
    expected = embedding.embed_query("bag", "cats", prefix="query: ")
    assert embed("cats") == expected
    assert models["bag"].seen == ["query: cats"]


def test_sql_does_not_spend_money_unless_allowed(conn, models, monkeypatch):
    monkeypatch.setenv("BAG_KEY", "k")
    embedded_with(conn, "keyed")
    embedding.embed_query("keyed", "seen before")
    embed = embedding.sql_embedder(conn)
    assert embed("seen before") is not None
    with pytest.raises(VectorsUnavailable, match="allow_remote_models"):
        embed("new")
    allowed = SimpleNamespace(model=None, query_prefix="", allow_remote_models=True)
    assert embedding.sql_embedder(conn, settings=allowed)("new") is not None


@pytest.mark.parametrize(("value", "text"), [(42, "42"), (1.5, "1.5"), (b"caf\xc3\xa9", "café")])
def test_sql_takes_other_types_as_text(conn, models, value, text):
    embedded_with(conn, "bag")
    expected = embedding.embed_query("bag", text)
    assert embedding.sql_embedder(conn)(value) == expected
