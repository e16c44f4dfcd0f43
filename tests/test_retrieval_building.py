"""Building the approximate index: killed, locked out, out of room, and with others at work."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest
from datasette.utils.sqlite import sqlite3
from embedding_helpers import fill_and_sync
from retrieval_helpers import (
    Exhaustive,
    add,
    agrees,
    ask,
    brute,
    embed,
    memory,
    opened,
    remove,
    uniform,
    with_index,
)

from datasette_limbic import connection, search, sync, sync_job
from datasette_limbic.config import Settings
from datasette_limbic.errors import BadParameter, VectorsUnavailable
from datasette_limbic.retrieval import approximate, building, builds, changes

pytestmark = [pytest.mark.slow, pytest.mark.once, pytest.mark.usefixtures("reports_once")]

ROWS = uniform(500, 16)
NEW = uniform(60, 16, seed=8)


@pytest.fixture(scope="module")
def master(tmp_path_factory):
    return memory(tmp_path_factory.mktemp("building") / "master.db", ROWS, archived=[3, 4])


@pytest.fixture
def path(master, tmp_path, monkeypatch):
    monkeypatch.setattr(building, "_BATCH", 100)
    return shutil.copy(master, tmp_path / "memory.db")


def outcome(conn):
    """What a build is, but for when it was made and how long that took."""
    build = builds.serving(conn)
    codes = approximate.read(conn, build)
    told = {
        key: value
        for key, value in vars(build).items()
        if key not in ("build", "seconds", "started_at", "built_at")
    }
    parts = dict(
        conn.execute("select name, value from _limbic_ann_parts where build = ?", [build.build])
    )
    return (
        told,
        parts,
        codes.ids.tolist(),
        codes.signs.rows(slice(None)).tobytes(),
        codes.codes.tobytes(),
    )


def exact(conn, *queries, k=600):
    retriever = Exhaustive()
    for query in queries or (ROWS[7], NEW[0]):
        agrees(ask(retriever, conn, query, k), brute(conn, query, k))


@pytest.fixture(scope="module")
def unkilled(master, tmp_path_factory):
    path = shutil.copy(master, tmp_path_factory.mktemp("unkilled") / "m.db")
    with opened(path) as conn, pytest.MonkeyPatch.context() as patch:
        patch.setattr(building, "_BATCH", 100)  # of other batches the last digits are others
        building.build(conn)
        return outcome(conn)


# interrupted ------------------------------------------------------------------------------------

KILLED = """
import os, signal, sys
from datasette_limbic import connection
from datasette_limbic.retrieval import building
building._BATCH = 100
said = []
def progress(done, total, what):
    said.append((what, done))
    if (what, done) == (sys.argv[2], int(sys.argv[3])):
        os.kill(os.getpid(), signal.SIGKILL)
conn = connection.connect(sys.argv[1])
if sys.argv[2] == "commit":
    real = building.builds.discard
    def discard(*args, **kwargs):
        real(*args, **kwargs)
        conn.execute("pragma cache_spill = 1")
        os.kill(os.getpid(), signal.SIGKILL)
    building.builds.discard = discard
building.build(conn, progress=progress)
"""
MOMENTS = [
    ("training", 0, None),
    ("training", 1, 0),
    ("codes", 100, 100),
    ("codes", 300, 300),
    ("codes", 500, 500),
    ("recall", 500, 500),
    ("commit", 0, 500),
]


@pytest.mark.parametrize(("what", "done", "kept"), MOMENTS)
def test_killed_it_goes_on_and_ends_the_same(what, done, kept, path, unkilled):
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(path), what, str(done)], check=False, timeout=60
    )
    assert killed.returncode == -signal.SIGKILL
    said = []
    with opened(path) as conn:
        begun = builds.unfinished(conn)
        assert (begun and begun.vectors) == kept
        assert builds.serving(conn) is None
        build = building.build(conn, progress=lambda *step: said.append(step))
        assert outcome(conn) == unkilled
        assert len(builds.builds(conn)) == 1
        if kept is not None:
            assert build.build == begun.build
            # nothing was done twice
            assert ("training" in {step[2] for step in said}) is False
            assert min([n for n, _, w in said if w == "codes"], default=kept) >= kept
        exact(conn)


def test_what_was_begun_is_thrown_away_where_it_does_not_fit(path):
    def begin():
        with pytest.raises(KeyboardInterrupt), opened(path) as conn:
            building.build(conn, progress=_stop_at("codes", 200))
        with opened(path) as conn:
            return builds.unfinished(conn).started_at, builds.unfinished(conn)

    with opened(path) as conn:
        for damage, arguments in (
            (None, {"anew": True}),
            (None, {"target_recall": 0.9}),
            ("update limbic_approximate set dimension = 8", {}),
            ("update limbic_approximate set model = 'other'", {}),
            ("update limbic_approximate set version = 12345", {}),
            # what changed since it was begun is not known any more
            (
                "update limbic_indexes set version = version + 5, changes_from = version + 5"
                " where collection = 'entities'",
                {},
            ),
            ("delete from _limbic_ann_parts", {}),
            ("update _limbic_ann_segments set codes = x'00'", {}),
        ):
            begin()
            if damage:
                conn.execute(damage)
                conn.commit()  # the next one begins on another connection
            steps = []
            build = building.build(
                conn, progress=lambda d, t, w, steps=steps: steps.append(w), **arguments
            )
            assert "training" in steps, damage
            # what is known not to fit is not filled first
            assert steps[0] == "training" or "_segments" in damage
            assert (build.state, build.vectors) == ("ready", 500)
            exact(conn, ROWS[1])


def _stop_at(what, done, act=None):
    reached = []

    def progress(now, total, name):
        if (name, now) == (what, done) and not reached:
            reached.append(1)
            if act is None:
                raise KeyboardInterrupt
            act()

    return progress


# others at work ---------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [("training", 0), ("training", 1), ("codes", 200), ("recall", 500)])
@pytest.mark.parametrize("synced", [True, False])
def test_what_is_written_meanwhile_is_not_lost(synced, at, path):
    def write():
        with opened(path) as other:
            if synced:
                add(other, {3: NEW[0], 450: NEW[1], 1000: NEW[2]})
                remove(other, [50, 480])
            else:
                other.execute("insert into entities(id, name) values (1000, 'new')")
                embed(other, {3: NEW[0], 450: NEW[1], 1000: NEW[2]})
                other.commit()

    with opened(path) as conn:
        build = building.build(conn, progress=_stop_at(*at, write))
        assert build.state == "ready"
        assert changes.since(conn, "entities", build.version) is not None
        exact(conn, NEW[0], NEW[1], NEW[2], ROWS[49], ROWS[479])
        building.FOLD_FROM, few = 0, building.FOLD_FROM
        try:
            building.keep_in_step(conn)
        finally:
            building.FOLD_FROM = few
        exact(conn, NEW[0], NEW[1], NEW[2], ROWS[49], ROWS[479])


def test_the_old_one_serves_until_the_new_one_is_ready(path):
    before = with_index(path)
    seen = []

    def look(*step):
        with opened(path, readonly=True) as reader:
            seen.append(builds.serving(reader).build)
            exact(reader, ROWS[5], k=20)

    with opened(path) as conn:
        after = building.build(conn, target_recall=0.9, progress=look)
        assert set(seen) == {before.build}
        assert builds.serving(conn) == after != before
        assert [b.build for b in builds.builds(conn)] == [after.build]
        for table in ("_limbic_ann_parts", "_limbic_ann_segments"):
            assert conn.execute(f"select distinct build from {table}").fetchall() == [
                (after.build,)
            ]


def test_two_programs_at_once(path):
    """One of them does it, the other says so; nothing of it is there twice."""

    def other():
        with opened(path) as conn:
            building.build(conn)

    with opened(path) as conn:
        with pytest.raises(VectorsUnavailable, match="another program is building"):
            building.build(conn, progress=_stop_at("codes", 200, other))
        build = builds.serving(conn)
        assert build.vectors == 500
        assert conn.execute("select sum(items) from _limbic_ann_segments").fetchone() == (500,)
        exact(conn)


def test_one_that_was_dropped_meanwhile(path):
    def drop():
        with opened(path) as other:
            building.drop(other)

    with opened(path) as conn:
        with pytest.raises(VectorsUnavailable):
            building.build(conn, progress=_stop_at("recall", 500, drop))
        assert builds.builds(conn) == []
        assert conn.execute("select count(*) from _limbic_ann_segments").fetchone() == (0,)


def test_a_locked_database(path, unkilled):
    """It waits, then says so; the next run goes on."""

    def lock():
        locker.execute("begin immediate")

    with closing(sqlite3.connect(path)) as locker, opened(path) as conn:
        conn.execute("pragma busy_timeout = 50").fetchone()
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            building.build(conn, progress=_stop_at("codes", 200, lock))
        # nobody waits for a build: readers and the lock's holder go on
        assert locker.execute("select count(*) from limbic_approximate").fetchone() == (1,)
        locker.rollback()
        building.build(conn)
        assert outcome(conn) == unkilled


def test_a_writer_gets_in_between(path):
    """Another writer never waits longer than for one batch."""
    written, stop = [], threading.Event()

    def write():
        with closing(connection.connect(path)) as other:
            while not stop.is_set():
                other.execute("update entities set updated_at = datetime('now') where id = 1")
                other.commit()
                written.append(1)

    thread = threading.Thread(target=write)
    counts = []
    with opened(path) as conn:
        thread.start()
        try:
            building.build(conn, progress=lambda *step: counts.append(len(written)))
        finally:
            stop.set()
            thread.join(20)
        assert counts[-1] > counts[0]
        exact(conn)


@pytest.mark.parametrize("pages", [0, 1, 3])
def test_a_full_disk(pages, path, unkilled):
    with opened(path) as conn:
        conn.execute("vacuum")
        there = conn.execute("pragma page_count").fetchone()[0]
        conn.execute(f"pragma max_page_count = {there + pages}").fetchone()
        with pytest.raises(sqlite3.OperationalError, match="full"):
            building.build(conn)
        assert builds.serving(conn) is None
        assert conn.execute("pragma integrity_check").fetchone() == ("ok",)
        conn.execute("pragma max_page_count = 100000").fetchone()
        building.build(conn)
        assert outcome(conn) == unkilled


# what cannot be built ---------------------------------------------------------------------------


@pytest.mark.parametrize("target", [0, 0.49, 1.01, 98, -1, float("nan"), float("inf")])
def test_targets_out_of_range(target, path):
    with opened(path) as conn:
        with pytest.raises(BadParameter, match=r"use a share from 0\.5 to 1"):
            building.build(conn, target_recall=target)
        assert builds.builds(conn) == []


@pytest.mark.parametrize("count", [0, 1])
def test_too_few_vectors(count, tmp_path):
    path = memory(tmp_path / "m.db", ROWS[:count])
    with opened(path) as conn:
        with pytest.raises(VectorsUnavailable, match=f"there are {count} vectors .* sync"):
            building.build(conn)
        assert builds.builds(conn) == []


def test_vectors_of_no_use(tmp_path):
    path = memory(tmp_path / "m.db", [b"\0" * 16] * 5)
    with opened(path) as conn, pytest.raises(VectorsUnavailable, match="no vector"):
        building.build(conn)


@pytest.mark.parametrize("count", [2, 3])
def test_very_few_vectors(count, tmp_path):
    path = memory(tmp_path / "m.db", ROWS[:count])
    build = with_index(path)
    assert (build.vectors, build.recall) == (count, 1.0)
    with opened(path) as conn:
        exact(conn, ROWS[0], NEW[0])
        remove(conn, range(2, count + 1))
        assert building.keep_in_step(conn) is None
        assert builds.builds(conn) == []


def test_dropped(path):
    with_index(path)
    with opened(path) as conn:
        building.drop(conn)
        assert builds.builds(conn) == []
        assert building.keep_in_step(conn) is None


# with the sync ----------------------------------------------------------------------------------


@pytest.fixture
def synced(models, conn, tmp_path, path: Path):
    file = tmp_path / "synced.db"
    from empty_memory import empty_memory

    empty_memory(file)
    with opened(file) as found:
        fill_and_sync(found, 30, 1)
        building.build(found, target_recall=0.9)
    return file


def served(path, name="approximate"):
    settings = Settings(retriever=name)
    with opened(path, readonly=True) as conn:
        return search.search(conn, "number 7", mode="semantic", settings=settings)


def test_another_model(synced):
    """The index of the model before it is built anew by the sync itself, with the same target."""
    with opened(synced) as conn:
        before = builds.serving(conn)
        said = sync.sync(conn, model="bag16", reembed=True, reports=False).retrieval
        after = builds.serving(conn)
        assert (before.model, before.dimension) == ("bag", 32)
        assert (after.model, after.dimension, after.vectors) == ("bag16", 16, 30)
        assert after.target_recall == 0.9
        assert "the approximate index was built anew: 30 vectors" in said
    answer = served(synced)
    assert (answer["retriever"], answer["degraded"]) == ("approximate", None)
    found = [r["id"] for r in answer["results"]]
    assert found == [r["id"] for r in served(synced, "vec0")["results"]]


def test_a_sync_that_was_killed_while_it_built(synced, monkeypatch):
    with opened(synced) as conn:
        conn.execute("update limbic_indexes set version = version + 7, changes_from = version + 7")
        conn.commit()

        def stop(done, total, what):
            if what == "codes" and done:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            sync.sync(conn, reports=False, progress=stop)
        begun = builds.unfinished(conn)
        assert begun.vectors == 30
    # out of step until then: exact
    assert served(synced)["retriever"] == "vec0"
    with opened(synced) as conn:
        steps = []
        sync.sync(conn, reports=False, progress=lambda d, t, w: steps.append(w))
        assert "training" not in steps
        assert builds.serving(conn).build == begun.build
    assert served(synced)["retriever"] == "approximate"


def test_a_sync_while_another_program_builds(synced, monkeypatch):
    """The sync does its own work, and says who is at it."""
    with opened(synced) as conn:
        conn.execute("update limbic_indexes set version = version + 7, changes_from = version + 7")
        conn.commit()

        def elsewhere(done, total, what):
            if what == "recall" and not done_once:
                done_once.append(1)
                with opened(synced) as other:
                    building.build(other, target_recall=0.9)

        done_once: list[int] = []
        said = sync.sync(conn, reports=False, progress=elsewhere).retrieval
        assert any("another program is building" in line for line in said)
    assert served(synced)["degraded"] is None


def test_all_that_was_embedded_goes(synced):
    with opened(synced) as conn:
        conn.execute("delete from entities")
        conn.commit()
        said = sync.sync(conn, reports=False).retrieval
        assert said == ["the approximate index is gone: there are too few vectors left"]
        assert builds.builds(conn) == []


@pytest.mark.parametrize("damaged", [False, True])
def test_a_large_sync_takes_changes_in_on_its_way(damaged, synced, models, monkeypatch, caplog):
    """Searches in the middle of it have few to compare exactly."""
    monkeypatch.setattr(building, "MOST_CHANGED", 5)
    monkeypatch.setattr(sync_job, "CHECKED_AT_ONCE", 10)
    behind = []

    def before(items):
        with opened(synced, readonly=True) as reader:
            build = builds.serving(reader)
            behind.append(changes.count_since(reader, "entities", build.version, 1000))

    with opened(synced) as conn:
        built = builds.serving(conn)
        if damaged:
            conn.execute("delete from _limbic_ann_parts")
        conn.execute("update entities set name = name || ' anew'")
        conn.commit()
        models["bag"].before = before
        sync.sync(conn, reports=False)
        serving = builds.serving(conn)
    entities = behind[:3]
    assert entities == ([0, 10, 20] if damaged else [0, 0, 0])
    assert serving.build == built.build
    assert ("damaged" in caplog.text) == damaged
