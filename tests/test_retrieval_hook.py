"""Retrievers of other packages: they serve, they fail, and nothing is lost by that."""

from __future__ import annotations

import math
from contextlib import nullcontext
from urllib.parse import parse_qs

import numpy
import pytest
from datasette import hookimpl
from datasette.plugins import pm
from datasette.utils.sqlite import sqlite3
from embedding_helpers import fill_and_sync
from retrieval_helpers import asked_with, forget_what_is_held, opened, with_index
from view_helpers import base, get, get_json

from datasette_limbic import search
from datasette_limbic.config import Settings
from datasette_limbic.errors import BadParameter, RetrieverFailed
from datasette_limbic.retrieval import functions, plugins
from datasette_limbic.retrieval.model import Hit, Retriever
from datasette_limbic.retrieval.plugins import retriever, retrievers
from datasette_limbic.statement import nearest_vec0


class Theirs(Retriever):
    """Answers as it is told."""

    name = "theirs"

    def __init__(self, answer=(), fails_in=None, **attributes):
        self.answer, self.fails_in, self.asked = answer, fails_in, []
        for key, value in attributes.items():
            setattr(self, key, value)

    def _at(self, where):
        if self.fails_in == where:
            raise self.answer

    def unusable(self, conn, settings):
        self._at("unusable")

    def prepare(self, conn, settings):
        self._at("prepare")

    def meanwhile(self, conn, wanted, settings):
        self._at("begun")
        return nullcontext()

    def note(self, conn, settings):
        self._at("note")
        return "theirs is slow today" if self.fails_in == "says" else None

    def nearest(self, conn, wanted, settings):
        self.asked.append(wanted)
        self._at("nearest")
        return [] if isinstance(self.answer, Exception) else self.answer


class Left(nullcontext):
    """Fails when it is left."""

    def __exit__(self, *given):
        raise RuntimeError("no server")


@pytest.fixture
def register():
    """Register objects that have the hook, or one plugin for these retrievers."""
    names = []

    def add(*given, hook=None):
        class Plugin:
            __name__ = "retrievers of a test"  # 0.65 asks each plugin for it

            @hookimpl
            def limbic_retrievers(self):
                return list(given) if hook is None else hook()

        plugins._plugins()
        names.append(f"limbic-tests-{len(names)}")
        pm.register(Plugin(), names[-1])

    yield add
    for name in names:
        pm.unregister(name=name)


@pytest.fixture
def memory(models, conn, path):
    fill_and_sync(conn, 12, 1)
    return path


def served(path, name="theirs", query="number 7", mode="semantic", **arguments):
    settings = Settings(retriever=name)
    with opened(path, readonly=True, settings=settings) as conn:
        return search.search(conn, query, mode=mode, settings=settings, **arguments)


def ids(answer):
    return [result["id"] for result in answer["results"]]


def test_one_that_is_called(register, memory):
    theirs = Theirs([(3, 0.1), (9, 0.2)])
    register(theirs)
    answer = served(memory, type="Thing")
    assert (answer["retriever"], answer["degraded"]) == ("theirs", None)
    assert {r["id"]: r["distance"] for r in answer["results"]} == {3: 0.1, 9: 0.2}
    (wanted,) = theirs.asked
    assert (wanted.query, wanted.entity_type, wanted.include_archived) == (
        "number 7",
        "Thing",
        False,
    )
    assert wanted.k >= 30
    assert len(wanted.vector) == 32 * 4


def test_one_in_sql(register, memory):
    register(
        Theirs(sql="nearest(x, d) as (select id, 0.01 * id from entities where id in (4, 2, 11))")
    )
    answer = served(memory)
    assert (answer["retriever"], answer["degraded"]) == ("theirs", None)
    assert {r["id"]: r["distance"] for r in answer["results"]} == {2: 0.02, 4: 0.04, 11: 0.11}


def test_one_that_finds_texts(register, memory):
    class Texts(Theirs):
        finds_texts = True

        def texts(self, conn, wanted, settings):
            assert not wanted.vector
            return [Hit(2 * 5, -3.0), Hit(2 * 8, -1.0)]

    register(Texts([(5, 0.4)]))
    settings = Settings(retriever="theirs")
    with opened(memory, readonly=True, settings=settings) as conn:
        both = search.search(conn, "number 7", settings=settings)
        texts = search.search(conn, "number 7", mode="text", settings=settings)
    assert set(ids(both)) == {5, 8}
    assert set(ids(texts)) == {5, 8}
    assert texts["retriever"] == "theirs"


@pytest.mark.parametrize(("entity_type", "each"), [(None, 12), ("Person", 60)])
@pytest.mark.parametrize("mode", ["text", "hybrid"])
def test_of_a_type_more_texts_are_asked_for(register, memory, entity_type, each, mode):
    """Of other types they are left out afterwards: a retriever of texts knows of none."""
    asked = []

    class Texts(Theirs):
        finds_texts = True

        def texts(self, conn, wanted, settings):
            asked.append(wanted.k)
            return []

    register(Texts([(5, 0.4)]))
    settings = Settings(retriever="theirs")
    with opened(memory, readonly=True, settings=settings) as conn:
        search.search(conn, "number 7", mode=mode, type=entity_type, limit=4, settings=settings)
    assert asked == [each * 3 * 4]


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ([], []),
        ([(10**18, 0.1), (-5, 0.1), (0, 0.2)], []),
        ([(3, 0.1), (3, 0.5), (3, 0.0)], [3]),
        ([(n % 12 + 1, 0.0001 * n) for n in range(9000)], range(1, 13)),
        ([("4", "0.25")], [4]),
        ([(1, -0.0), (2, 2.0)], [1, 2]),
    ],
    ids=["nothing", "unknown", "twice", "too many", "text", "bounds"],
)
def test_what_it_answers(answer, found, register, memory):
    register(Theirs(answer))
    result = served(memory, limit=20)
    assert result["degraded"] is None
    assert sorted(ids(result)) == sorted(found)
    assert all(math.isfinite(r["final_score"]) for r in result["results"])


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ([(1, math.nan)], "answered nan for entity 1"),
        ([(1, math.inf)], "answered inf for entity 1"),
        ([(1, 2.5)], "answered 2.5 for entity 1"),
        ([(1, -0.5)], "answered -0.5 for entity 1"),
        ([(1,)], "not enough values"),
        ([("x", 0.1)], "invalid literal"),
        ([(None, 0.1)], "NoneType"),
        (None, "NoneType"),
        (5, "not iterable"),
    ],
    ids=str,
)
def test_what_it_cannot_mean(answer, said, register, memory):
    register(Theirs(answer))
    result = served(memory)
    assert result["retriever"] == "vec0"
    assert ids(result)[0] == 7
    assert "theirs" in result["degraded"]
    assert said in result["degraded"]
    assert result["degraded"].endswith("another retriever searched")


@pytest.mark.parametrize("where", ["unusable", "prepare", "begun", "nearest", "note"])
@pytest.mark.parametrize(
    "error",
    [RuntimeError("no server"), RetrieverFailed("no server"), KeyError(), MemoryError()],
    ids=lambda e: type(e).__name__,
)
def test_one_that_raises(error, where, register, memory):
    register(Theirs(error, fails_in=where))
    result = served(memory, mode="hybrid")
    assert result["retriever"] == "vec0"
    assert ids(result)[0] == 7
    assert (str(error) or type(error).__name__) in result["degraded"]


def test_what_fails_once_there_is_an_answer_is_logged(register, memory, caplog):
    theirs = Theirs([(3, 0.1)])
    theirs.meanwhile = lambda *_: Left()
    register(theirs)
    result = served(memory, mode="hybrid")
    assert (result["retriever"], result["degraded"]) == ("theirs", None)
    assert 3 in ids(result)
    assert "the retriever theirs failed" in caplog.text
    assert "no server" in caplog.text


@pytest.mark.parametrize("block", [None, 5, "begun"])
def test_what_is_no_block(block, register, memory):
    theirs = Theirs([(3, 0.1)])
    theirs.meanwhile = lambda *_: block
    register(theirs)
    result = served(memory, mode="hybrid")
    assert result["retriever"] == "vec0"
    assert "theirs failed" in result["degraded"]


@pytest.mark.parametrize("mode", ["hybrid", "semantic", "text"])
def test_it_may_begin_where_texts_are_read_first(mode, register, memory):
    begun = []
    theirs = Theirs([(3, 0.1)])
    theirs.meanwhile = lambda conn, wanted, settings: begun.append(wanted) or nullcontext()
    register(theirs)
    served(memory, mode=mode, type="Thing")
    if mode != "hybrid":
        assert begun == []
        return
    ((before,), (asked,)) = begun, theirs.asked
    assert (before.query, before.vector, before.entity_type) == (
        asked.query,
        asked.vector,
        asked.entity_type,
    )
    assert before.k <= asked.k


def test_one_that_cannot_serve_now(register, memory):
    theirs = Theirs([(3, 0.1)])
    theirs.unusable = lambda conn, settings: "its server is asleep"
    register(theirs)
    result = served(memory)
    assert result["degraded"] == "its server is asleep; another retriever searched"
    assert theirs.asked == []


@pytest.mark.parametrize(
    ("method", "value", "said"),
    [
        ("note", 5, "note() answered 5, which is no text"),
        ("note", b"slow", "note() answered b'slow'"),
        ("recall", "most", "recall() answered 'most', which is no number from 0 to 1"),
        ("recall", math.nan, "recall() answered nan"),
        ("recall", math.inf, "recall() answered inf"),
        ("recall", 1.01, "recall() answered 1.01"),
        ("recall", -0.5, "recall() answered -0.5"),
        ("recall", True, "recall() answered True"),
        ("unusable", 5, "unusable() answered 5, which is no text"),
        ("unusable", False, "unusable() answered False"),
    ],
)
def test_what_it_says_is_no_sentence_and_no_share(method, value, said, register, memory):
    register(Theirs([(3, 0.1)], **{method: lambda *_: value}))
    result = served(memory)
    assert (result["retriever"], result["recall"]) == ("vec0", None)
    assert ids(result)[0] == 7
    assert said in result["degraded"]
    assert result["degraded"].endswith("another retriever searched")


@pytest.mark.parametrize("value", [0, 1, 0.5, numpy.float32(0.5)])
def test_its_recall_is_told(value, register, memory):
    register(Theirs([(3, 0.1)], recall=lambda conn: value))
    result = served(memory)
    assert (result["retriever"], result["recall"]) == ("theirs", float(value))
    assert type(result["recall"]) is float


@pytest.mark.parametrize("how", ["called", "sql"])
def test_one_that_takes_too_long(how, register, memory):
    """Its time is over, and that of others too: no other retriever is tried."""
    endless = (
        "with recursive n(i) as (select 1 union all select i + 1 from n) select max(i), 1 from n"
    )

    class Slow(Theirs):
        def nearest(self, conn, wanted, settings):
            return conn.execute(endless).fetchall()

    register(Slow(sql=f"nearest(x, d) as ({endless})" if how == "sql" else None))
    settings = Settings(retriever="theirs", knn_time_limit_ms=30)
    with opened(memory, readonly=True, settings=settings) as conn:
        result = search.search(conn, "number 7", mode="semantic", settings=settings)
    assert result["retriever"] is None
    assert result["degraded"].startswith("vector search took over 30 ms, so only text was searched")
    assert result["results"]


@pytest.mark.parametrize("function", ["limbic_nearest", "limbic_hits"])
@pytest.mark.parametrize("name", ["theirs", "postgres"])
def test_sql_calls_no_server_that_the_setting_does_not_name(name, function, register, memory):
    """Whoever may write SQL writes the name."""
    called = []

    class Server(Theirs):
        finds_texts = True

        def unusable(self, conn, settings):
            called.append("unusable")

        def texts(self, conn, wanted, settings):
            return [Hit(10, -1.0)]

    register(Server([(3, 0.1)]))
    sql = f"select {function}('{name}', 'number 7', 3)"
    with opened(memory, readonly=True, settings=Settings()) as conn:
        with pytest.raises(sqlite3.OperationalError):
            conn.execute(sql).fetchone()
        said = str(functions.failure())
    assert said == f"SQL may use the retriever {name} where the setting retriever names it"
    assert called == []
    if name == "theirs":
        with opened(memory, readonly=True, settings=Settings(retriever=name)) as conn:
            assert "0.1" in conn.execute(sql).fetchone()[0] or function == "limbic_hits"
        assert called == ["unusable"]


def test_its_note_is_told(register, memory):
    register(Theirs([(3, 0.1)], fails_in="says"))
    result = served(memory)
    assert (result["retriever"], result["degraded"]) == ("theirs", "theirs is slow today")


@pytest.mark.parametrize(
    "sql",
    [
        "nonsense",
        "nearest(x, d) as (select nothing from entities)",
        "nearest(x, d) as (select id, :other from entities)",
        "nearest(x, d) as (select id from entities)",
        "nearest(x, d) as (select json_extract('{', '$'), 1)",
        "nearest(x, d) as (select id, limbic_nearest('nobody', 'x', 3) from entities)",
    ],
)
def test_sql_that_does_not_run(sql, register, memory):
    register(Theirs(sql=sql))
    result = served(memory)
    assert result["retriever"] == "vec0"
    assert ids(result)[0] == 7
    assert result["degraded"].endswith("another retriever searched")


def test_neither_sql_nor_a_method(register, memory):
    class Nothing(Retriever):
        name = "theirs"

    register(Nothing())
    assert "neither sql nor nearest()" in served(memory)["degraded"]


# names ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "",
        "auto",
        "Upper",
        "with space",
        "9lives",
        "x" * 41,
        "a'); drop table entities; --",
        None,
        5,
    ],
)
def test_names_that_are_none(name, register, memory, caplog):
    register(Theirs([(3, 0.1)], name=name), Theirs([(3, 0.1)]))
    assert name not in retrievers()
    assert repr(name) in caplog.text
    assert "theirs" in retrievers()
    if name != "auto":
        with pytest.raises(BadParameter, match="there is no retriever"):
            retriever(name)
    assert ids(served(memory)) == [3]


def test_the_first_of_a_name_counts(register, caplog):
    first, second = Theirs(), Theirs()
    register(first, Theirs(name="vec0"))
    register(second)
    assert retriever("theirs") is first
    assert type(retriever("vec0")).__module__.startswith("datasette_limbic")
    assert "a second retriever 'theirs' is left out" in caplog.text
    assert "a second retriever 'vec0' is left out" in caplog.text


def _raises():
    raise RuntimeError("cannot be imported")


@pytest.mark.parametrize("hook", [_raises, lambda: None, lambda: [None, 5, "x", Theirs], lambda: 7])
def test_a_hook_that_fails_takes_nothing_from_others(hook, register, memory):
    register(Theirs([(3, 0.1)]))
    register(hook=hook)
    register(Theirs([(4, 0.1)], name="more"))
    assert {"theirs", "more", "vec0", "memory", "approximate"} <= set(retrievers())
    assert ids(served(memory)) == [3]
    assert ids(served(memory, "more")) == [4]


# the link to the SQL page -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["vec0", "memory", "approximate", "theirs"])
async def test_the_sql_page_runs_the_same(name, register, demo_db, make_datasette):
    """The statement that ran, run by Datasette: the same entities in the same order."""
    register(Theirs([(3, 0.1), (9, 0.2)]))
    if name == "approximate":
        with_index(demo_db)
    forget_what_is_held()
    datasette = make_datasette(demo_db, config={"retriever": name})
    answer = await get_json(
        datasette, f"{base(demo_db)}/search.json?q=who+fixed+the+map&now=2026-11-29+12:00:00"
    )
    assert (answer["retriever"], answer["degraded"]) == (name, None)
    url = answer["sql_url"]
    assert ("limbic_nearest" in parse_qs(url.partition("?")[2])["sql"][0]) == (name != "vec0")
    path, _, query = url.partition("?")
    # 1.0 has the page under -/query, and goes there
    response = await get(datasette, f"{path}.json?{query}&_shape=array", follow_redirects=True)
    found = response.json()
    assert [row["id"] for row in found[: len(answer["results"])]] == ids(answer)
    for row, result in zip(found, answer["results"], strict=False):
        assert row["final_score"] == pytest.approx(result["final_score"], abs=1e-9)
        assert row["distance"] == pytest.approx(result["distance"], abs=1e-6)


def test_vec0s_own_sql_is_what_a_plugin_may_copy(register, memory):
    """Its text is a whole common table: under another name it finds the same."""
    register(Theirs(sql=nearest_vec0()))
    assert ids(served(memory)) == ids(served(memory, "vec0"))
    assert asked_with("vec0").sql == nearest_vec0()
