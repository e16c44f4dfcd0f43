"""The approximate index: its recall is what it says, and nothing is lost to it."""

from __future__ import annotations

import shutil
from contextlib import closing
from dataclasses import replace

import numpy
import pytest
from datasette.utils.sqlite import sqlite3
from embedding_helpers import BagModel, fill_and_sync, registered
from empty_memory import empty_memory
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from retrieval_helpers import (
    SETTINGS,
    Exhaustive,
    add,
    agrees,
    ask,
    brute,
    clustered,
    forget_what_is_held,
    memory,
    opened,
    remove,
    stock,
    uniform,
    with_index,
)

from datasette_limbic import connection, search, sync
from datasette_limbic.config import Settings
from datasette_limbic.errors import RetrieverFailed
from datasette_limbic.integrity.files import check_file
from datasette_limbic.retrieval import approximate, building, builds, changes, measuring
from datasette_limbic.retrieval.approximate import Approximate, due
from datasette_limbic.retrieval.questions import questions

pytestmark = [pytest.mark.slow, pytest.mark.once, pytest.mark.usefixtures("reports_once")]

AS_SET = replace(SETTINGS, retriever="approximate")


MADE = {"clustered": clustered, "uniform": uniform}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Memories of each kind of vectors, with an index: rare types, most of it archived."""
    folder = tmp_path_factory.mktemp("approximate")
    found = {}
    for name, rows in {
        "clustered": clustered(3000, 64),
        "uniform": uniform(3000, 64),
        "equal": numpy.repeat(uniform(1, 64), 500, axis=0),
        "three": uniform(3, 8),
    }.items():
        path = memory(
            folder / f"{name}.db",
            rows,
            types=("Common",) * 199 + ("Rare",),
            archived=[] if name != "clustered" else [n for n in range(1, 3001) if n % 20 != 19],
        )
        found[name] = path, with_index(path)
    return found


# recall -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["clustered", "uniform", "three", "equal"])
def test_recall_is_what_it_says(kind, files):
    """Measured again here: with the same questions, against every vector in float64."""
    path, build = files[kind]
    with opened(path, readonly=True) as conn:
        codes = approximate.read(conn, build)
        asked, itself = questions(conn, codes.ids, build.dimension, build.model)
        rows = {
            int(item): numpy.frombuffer(blob, "<f4").astype("f8")
            for item, blob in conn.execute("select id, embedding from embeddings")
        }
        ids = numpy.array(list(rows))
        matrix = numpy.stack(list(rows.values()))
        # those that the figure is of
        telling = numpy.random.default_rng(0).permutation(len(asked))[1::2]
        shares = []
        for i in telling:
            similar = matrix @ asked[i]
            similar[ids == itself[i]] = -2
            count = min(30, len(ids) - 1)
            cut = numpy.sort(similar)[-count] - 2e-6
            near = set(ids[similar >= cut].tolist())
            found = [
                c.id
                for c in ask(Approximate(), conn, asked[i], count + 1, None, True, AS_SET)
                if c.id != itself[i]
            ]
            shares.append(len(near & set(found[:count])) / count)
    assert build.recall == pytest.approx(float(numpy.mean(shares)), abs=0.004)
    assert build.figures["recall"]["30"] == build.recall
    assert build.figures["questions"] == len(telling)


@pytest.mark.parametrize("kind", ["clustered", "uniform", "three", "equal"])
def test_the_target_is_met_or_what_was_reached_is_said(kind, files):
    path, build = files[kind]
    assert build.state == "ready"
    assert build.vectors == build.measured_vectors == build.trained_on
    with opened(path, readonly=True) as conn:
        said = Approximate().note(conn, AS_SET)
    if build.recall < build.target_recall - 0.005:
        assert kind == "uniform"
        assert f"{build.recall:.1%}" in said
        assert "98.0%" in said
    else:
        assert said is None


def test_less_is_looked_at_for_less(files):
    path, build = files["uniform"]
    with opened(path, readonly=True) as conn:
        codes = approximate.read(conn, build)
        little, much = (measuring.measure(conn, codes, target) for target in (0.5, 1.0))
    assert little.shortlisted + 14 * little.rescored < much.shortlisted + 14 * much.rescored
    assert 0.5 <= little.recall < much.recall


def test_a_target_out_of_reach(files, monkeypatch):
    """The most that is tried is too little for vectors that nothing tells apart."""
    monkeypatch.setattr(measuring, "SHORTLISTED", (60, 100))
    monkeypatch.setattr(measuring, "RESCORED", (40,))
    path, build = files["uniform"]
    with opened(path, readonly=True) as conn:
        codes = approximate.read(conn, build)
        result = measuring.measure(conn, codes, 0.98)
        assert (result.shortlisted, result.rescored) == (100, 40)
        assert result.recall < 0.9
        said = due(conn, replace(build, recall=result.recall))
    assert f"{result.recall:.1%}" in said


@pytest.mark.parametrize(
    ("vectors", "trained_on", "said"),
    [(20_000, 9_000, True), (20_000, 11_000, False), (9_000, 20_000, True), (40, 10, False)],
)
def test_when_it_should_be_built_anew(vectors, trained_on, said, files):
    path, build = files["three"]
    with opened(path, readonly=True) as conn:
        found = due(conn, replace(build, vectors=vectors, trained_on=trained_on, recall=1.0))
    assert bool(found) == said
    if said:
        assert "datasette limbic index FILE" in found
        assert f"{trained_on:,}" in found


# filters ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["clustered", "uniform"])
@pytest.mark.parametrize("k", [10, 30, 300])
@pytest.mark.parametrize("asked", [{}, {"entity_type": "Rare"}, {"include_archived": True}])
def test_filters_still_fill_the_pool(asked, k, kind, files):
    path, _ = files[kind]
    with opened(path, readonly=True) as conn:
        retriever, shares = Approximate(), []
        for query in MADE[kind](8, 64):
            expected = brute(conn, query, k, **asked)
            found = ask(retriever, conn, query, k, settings=AS_SET, **asked)
            assert len(found) == len(expected) == min(k, len(expected))
            exact = {c.id: c.distance for c in brute(conn, query, 3000, include_archived=True)}
            assert all(abs(c.distance - exact[c.id]) < 1e-6 for c in found)
            shares.append(len({c.id for c in found} & {c.id for c in expected}) / len(expected))
    assert numpy.mean(shares) > 0.9


# what changes -----------------------------------------------------------------------------------

SPARE = uniform(200, 8, seed=11)
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("add"),
            st.lists(st.tuples(st.integers(1, 40), st.integers(0, 199)), min_size=1, max_size=6),
        ),
        st.tuples(st.just("remove"), st.lists(st.integers(1, 40), min_size=1, max_size=6)),
        st.tuples(st.sampled_from(["fold", "rebuild", "forget"]), st.none()),
    ),
    min_size=1,
    max_size=8,
)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    path = memory(tmp_path_factory.mktemp("small") / "small.db", uniform(20, 8))
    with_index(path)
    return path


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=STEPS)
def test_after_any_changes_it_is_exact_where_it_looks_at_all(steps, small, tmp_path, monkeypatch):
    monkeypatch.setattr(building, "FOLD_FROM", 1)
    monkeypatch.setattr(building, "_SEGMENTS", 3)
    monkeypatch.setattr(changes, "KEPT", 4)
    path = tmp_path / "m.db"
    shutil.copy(small, path)
    retriever = Exhaustive()
    with closing(connection.connect(path)) as conn:
        conn.execute("pragma synchronous = off")
        ask(retriever, conn, SPARE[0])
        for what, given in steps:
            if what == "add":
                add(conn, {item: SPARE[at] for item, at in given})
            elif what == "remove":
                remove(conn, given)
            elif what == "fold":
                building.keep_in_step(conn)
            elif what == "rebuild" and builds.serving(conn):
                building.build(conn)
            else:
                changes.forget(conn, "entities")
                conn.commit()
            if builds.serving(conn) is None:
                assert conn.execute("select count(*) from embeddings").fetchone()[0] < 2
                return
            for query in SPARE[:2]:
                agrees(ask(retriever, conn, query, 50), brute(conn, query, 50))
        assert not builds.serving(conn) or retriever.unusable(conn, AS_SET) is None
        found = building.keep_in_step(conn)
        if found is not None:
            codes = approximate.read(conn, found)
            stored = {row[0] for row in conn.execute("select cast(id as integer) from embeddings")}
            assert len(codes.ids) == len(set(codes.ids.tolist())) == found.vectors
            assert set(codes.ids.tolist()) == stored
            assert found.version == changes.version(conn, "entities").now


def test_segments_are_put_together(tmp_path, monkeypatch):
    monkeypatch.setattr(building, "FOLD_FROM", 1)
    monkeypatch.setattr(building, "_SEGMENTS", 4)
    path = memory(tmp_path / "m.db", uniform(50, 8))
    with_index(path)
    rows = uniform(40, 8, seed=3)
    retriever, counts = Exhaustive(), []
    with opened(path) as conn:
        for n in range(12):
            add(conn, {100 + n: rows[n], n + 1: rows[n + 12]})
            remove(conn, [40 + n])
            building.keep_in_step(conn)
            counts.append(conn.execute("select count(*) from _limbic_ann_segments").fetchone()[0])
            agrees(ask(retriever, conn, rows[n], 90), brute(conn, rows[n], 90))
        assert max(counts) > 2
        assert counts.count(1) >= 2
        assert max(counts) <= 4 + 1


def test_much_that_is_void_is_put_together(tmp_path, monkeypatch):
    monkeypatch.setattr(building, "FOLD_FROM", 1)
    path = memory(tmp_path / "m.db", uniform(1200, 8))
    with_index(path)
    with opened(path) as conn:
        for _ in range(2):
            add(conn, dict(enumerate(uniform(450, 8, seed=5), 1)))
            building.keep_in_step(conn)
        items = conn.execute("select sum(items) from _limbic_ann_segments").fetchone()[0]
        assert items == 1200
        query = uniform(1, 8, seed=9)[0]
        agrees(ask(Exhaustive(), conn, query, 1300), brute(conn, query, 1300))


def test_few_changes_wait(tmp_path):
    path = memory(tmp_path / "m.db", uniform(300, 8))
    build = with_index(path)
    rows = uniform(400, 8, seed=4)
    with opened(path) as conn:
        add(conn, dict(enumerate(rows[:199], 1001)))
        assert building.keep_in_step(conn) == build
        add(conn, {1200: rows[199]})
        folded = building.keep_in_step(conn)
        assert (folded.build, folded.vectors) == (build.build, 500)
        # two fifths more: measured again
        assert folded.measured_vectors == 500
        assert ask(Approximate(), conn, rows[7], 1, settings=AS_SET)[0].id == 1008


def test_measured_again_after_a_fifth_was_changed(tmp_path, monkeypatch):
    """Not only where there are more: other vectors may be told apart less well."""
    monkeypatch.setattr(building, "FOLD_FROM", 1)
    path = memory(tmp_path / "m.db", clustered(400, 16))
    build = with_index(path)
    assert (build.changed, build.measured_changed) == (0, 0)
    other = uniform(400, 16, seed=4)
    with opened(path) as conn:
        add(conn, dict(enumerate(other[:80], 1)))
        few = building.keep_in_step(conn)
        assert (few.changed, few.measured_changed, few.measured) == (80, 0, build.measured)
        add(conn, {81: other[80]})
        again = building.keep_in_step(conn)
        assert (again.changed, again.measured_changed, again.vectors) == (81, 81, 400)
        assert again.build == build.build


@pytest.mark.parametrize(
    ("changed", "trained_on", "said"),
    [(5_000, 900, False), (5_001, 900, True), (20_000, 20_000, False), (20_001, 20_000, True)],
)
def test_built_anew_where_as_many_changed_as_it_was_made_for(changed, trained_on, said, files):
    path, build = files["three"]
    of = replace(build, vectors=trained_on, trained_on=trained_on, changed=changed, recall=1.0)
    with opened(path, readonly=True) as conn:
        found = due(conn, of)
    assert bool(found) == said
    if said:
        assert f"{changed:,} vectors changed" in found
        assert "datasette limbic index FILE'" in found


def test_too_far_behind_it_does_not_serve(tmp_path, monkeypatch):
    """Each of these would be compared exactly by every search."""
    monkeypatch.setattr(approximate, "MOST_BEHIND", 3)
    path = memory(tmp_path / "m.db", uniform(40, 8))
    with_index(path)
    rows, retriever = uniform(10, 8, seed=4), Approximate()
    with opened(path) as conn:
        add(conn, dict(enumerate(rows[:3], 1)))
        assert retriever.unusable(conn, AS_SET) is None
        add(conn, {4: rows[3]})
        assert "out of step: run datasette limbic sync" in retriever.unusable(conn, AS_SET)


@pytest.mark.parametrize("after", [False, True], ids=["damaged", "replaced"])
def test_replaced_while_it_was_read(after, tmp_path, monkeypatch):
    """The new one is asked for; where there is no other it is an error."""
    path = memory(tmp_path / "m.db", uniform(300, 16))
    with_index(path)
    real, reads = approximate.read, []

    def read(conn, build):
        reads.append(build.build)
        if len(reads) == 1:
            with opened(path) as other:
                if after:
                    building.build(other, anew=True)
                else:
                    other.execute("delete from _limbic_ann_parts")
                    other.commit()
        return real(conn, build)

    with opened(path) as conn:
        monkeypatch.setattr(approximate, "read", read)
        if after:
            Approximate().prepare(conn, AS_SET)
            assert reads == [1, builds.serving(conn).build]
        else:
            with pytest.raises(RetrieverFailed, match="damaged"):
                Approximate().prepare(conn, AS_SET)
            assert reads == [1]


def test_no_builds_and_builds_that_cannot_be_read(tmp_path):
    path = memory(tmp_path / "m.db", uniform(20, 8))
    with_index(path)
    with opened(path) as conn:
        conn.set_progress_handler(lambda: 1, 1)
        with pytest.raises(sqlite3.OperationalError, match="interrupted"):
            builds.builds(conn)
        conn.set_progress_handler(None, 1)
        assert len(builds.builds(conn)) == 1
        conn.execute("drop table _limbic_ann_segments")
        conn.execute("drop table _limbic_ann_parts")
        conn.execute("drop table limbic_approximate")
        assert builds.builds(conn) == []


def test_ids_below_zero(tmp_path):
    rows = uniform(8, 8)
    path = memory(tmp_path / "m.db", rows)
    with opened(path) as conn:
        add(conn, {-5: rows[0] * -1, 0: rows[1] * -1, -(1 << 61): rows[2] * -1})
    build = with_index(path)
    assert build.vectors == 11
    with opened(path) as conn:
        for item, at in ((-5, 0), (0, 1), (-(1 << 61), 2)):
            assert ask(Approximate(), conn, -rows[at], 1, settings=AS_SET)[0].id == item
        # and those that it is measured with
        assert sum(len(ids) for ids, _, _ in measuring.unit_rows(conn, 8)) == 11


# damage -----------------------------------------------------------------------------------------

DAMAGE = {
    "codes cut off": "update _limbic_ann_segments set codes = substr(codes, 2)",
    "signs cut off": "update _limbic_ann_segments set signs = substr(signs, 9)",
    "ids are text": "update _limbic_ann_segments set ids = 'text'",
    "another number of items": "update _limbic_ann_segments set items = items + 1",
    "a part is missing": "delete from _limbic_ann_parts where name = 'axes'",
    "all parts are missing": "delete from _limbic_ann_parts",
    "a part is cut off": "update _limbic_ann_parts set value = substr(value, 1, 8)",
    "a part is not finite": (
        "update _limbic_ann_parts set value = cast(x'0000c07f' || substr(value, 5) as blob)"
        " where name = 'mean'"
    ),
    "another number of axes": "update limbic_approximate set axes = axes - 1",
}
WRONG = {
    "rows are missing": "delete from _limbic_ann_segments",
    "other codes": "update _limbic_ann_segments set codes = zeroblob(length(codes))",
    "other signs": "update _limbic_ann_segments set signs = zeroblob(length(signs))",
    "other ids": "update _limbic_ann_segments set ids = zeroblob(length(ids))",
    "no target": "update limbic_approximate set target_recall = 'much'",
}


@pytest.fixture(scope="module")
def indexed_once(tmp_path_factory):
    path = empty_memory(tmp_path_factory.mktemp("indexed") / "indexed.db")
    with registered(BagModel("bag")):
        with opened(path) as conn:
            fill_and_sync(conn, 60, 1)
        with_index(path)
    assert check_file(path).findings == []
    return path


@pytest.fixture
def indexed(indexed_once, models, tmp_path):
    """A memory that was synced and has an index."""
    return shutil.copy(indexed_once, tmp_path / "indexed.db")


def searched(path, name="approximate"):
    forget_what_is_held()
    with opened(path, readonly=True) as conn:
        return search.search(
            conn, "fact 0 of number 7", mode="semantic", settings=Settings(retriever=name)
        )


def names(answer):
    return [result["name"] for result in answer["results"]]


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_index(how, indexed):
    path = indexed
    before = searched(path)
    assert (before["retriever"], before["degraded"]) == ("approximate", None)
    stock(path, DAMAGE[how])
    with opened(path) as conn, pytest.raises(RetrieverFailed, match="datasette limbic index"):
        Approximate().prepare(conn, AS_SET)
    answer = searched(path)
    assert answer["retriever"] in ("memory", "vec0")
    assert names(answer) == names(searched(path, "vec0"))
    assert "damaged" in answer["degraded"]
    assert "datasette limbic index" in answer["degraded"]
    (found,) = check_file(path).findings
    assert found.name == "approximate.index"
    # an ordinary sync with much to take over does not stumble
    with opened(path) as conn:
        building.FOLD_FROM, few = 0, building.FOLD_FROM
        try:
            assert sync.sync(conn, reports=False).collections
        finally:
            building.FOLD_FROM = few
    assert searched(path)["degraded"] is None
    assert check_file(path).findings == []


@pytest.mark.parametrize("how", [*DAMAGE, *WRONG])
def test_damage_is_found_and_repaired(how, indexed):
    path = indexed
    before = searched(path)
    stock(path, {**DAMAGE, **WRONG}[how])
    (found,) = check_file(path).findings
    assert (found.name, found.repair.by) == ("approximate.index", "sync")
    assert found.examples
    with opened(path) as conn:
        summary = sync.sync(conn, repair=True)
    assert [one.name for one in summary.repaired] == ["approximate.index"]
    assert summary.left == []
    assert check_file(path).findings == []
    after = searched(path)
    assert (after["retriever"], after["degraded"]) == ("approximate", None)
    assert names(after) == names(before)


@pytest.mark.parametrize("table", ["_limbic_ann_parts", "_limbic_ann_segments"])
def test_damaged_pages(table, indexed):
    path = indexed
    with opened(path) as conn:
        page, size = [
            conn.execute(sql).fetchone()[0]
            for sql in (
                f"select rootpage from sqlite_master where name = '{table}'",
                "pragma page_size",
            )
        ]
    with open(path, "r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * 40)
    found = {one.name for one in check_file(path).findings}
    assert found == {"approximate.index"}
    assert searched(path)["degraded"]
    with opened(path) as conn:
        for left in sync.sync(conn, repair=True).left:
            # pages that nothing uses now
            assert left.repair.sql == ("vacuum;",)
            conn.execute("vacuum")
    assert check_file(path).findings == []
    assert (searched(path)["retriever"], searched(path)["degraded"]) == ("approximate", None)


@pytest.mark.parametrize(
    ("how", "name"),
    [
        ("update limbic_approximate set state = 'odd'", "values.limbic_approximate.state"),
        ("update limbic_approximate set measured = '{'", "json.limbic_approximate.measured"),
        ("update limbic_approximate set built_at = 'x'", "times.limbic_approximate"),
    ],
)
def test_a_value_that_nobody_expects(how, name, indexed):
    path = indexed
    stock(path, "pragma ignore_check_constraints = on", how)
    (found,) = check_file(path).findings
    assert found.name == name
    assert searched(path)["results"]
    if found.repair.by == "sync":
        with opened(path) as conn:
            assert sync.sync(conn, repair=True).left == []
        assert searched(path)["retriever"] == "approximate"
    else:
        stock(path, *found.repair.sql)
    assert check_file(path).findings == []


def test_what_waits_is_no_damage(indexed):
    path = indexed
    with opened(path) as conn:
        conn.execute("update entities set name = name || ' later' where id < 4")
        conn.execute("delete from entities where id = 5")
        conn.commit()
        assert "approximate.index" not in {f.name for f in check_file(path).findings}
        sync.sync(conn)
        assert check_file(path).findings == []
        # anything may have changed: the next sync builds it anew
        conn.execute("update limbic_indexes set version = version + 7, changes_from = version + 7")
        conn.commit()
        assert check_file(path).findings == []
        before = builds.serving(conn).build
        assert "out of step" in searched(path)["degraded"]
        assert "built anew" in " ".join(sync.sync(conn).retrieval)
        assert builds.serving(conn).build != before
        assert searched(path)["degraded"] is None


def test_a_locked_file_is_no_damage(indexed, monkeypatch):
    """That passes: nobody is told to build anew."""

    def locked(conn, build):
        raise sqlite3.OperationalError("database is locked")

    monkeypatch.setattr(approximate, "read", locked)
    with opened(indexed) as conn, pytest.raises(sqlite3.OperationalError, match="locked"):
        Approximate().prepare(conn, AS_SET)


def test_codes_are_compared_in_blocks(indexed, monkeypatch):
    """So many results take no more memory at once than few."""
    with opened(indexed, readonly=True) as conn:
        codes = approximate.read(conn, builds.serving(conn))
    query = numpy.random.default_rng(3).normal(size=codes.dimension).astype("f4")
    places = numpy.arange(len(codes.ids))[::-1]
    whole = codes.codes[places].astype("f4") @ (query @ codes.training.axes)
    for block in (1, 7, len(places) - 1, len(places), 10_000):
        monkeypatch.setattr(approximate, "_BLOCK", block)
        assert numpy.allclose(codes.along(query, places), whole, rtol=1e-4, atol=1e-4)
        assert codes.along(query, places[:0]).shape == (0,)
