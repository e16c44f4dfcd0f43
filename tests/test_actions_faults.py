"""Whatever breaks while an action is done: the memory is as before or as after, never between."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from actions_helpers import (
    ARGUMENTS,
    Faulty,
    acted_fixture,  # noqa: F401
    acted_master_fixture,  # noqa: F401
    assert_settled,
    differing,
    dump,
    everything,
    faulty,
    opened,
    prepared,
)
from datasette.utils.sqlite import sqlite3
from killed_helpers import Killing, killing

from datasette_limbic.actions.acting import act
from datasette_limbic.actions.kinds import KINDS
from datasette_limbic.errors import Refused
from datasette_limbic.integrity import check

MORE_KILLED = 40
"""So often at most one is killed beyond those asked for, until something was committed."""
DISK = sqlite3.OperationalError("disk I/O error")
FAILURES = [
    pytest.param(DISK, False, id="before it"),
    pytest.param(DISK, True, id="after it", marks=pytest.mark.load),
    pytest.param(KeyboardInterrupt(), False, id="interrupted before it", marks=pytest.mark.load),
    pytest.param(KeyboardInterrupt(), True, id="interrupted after it", marks=pytest.mark.load),
    pytest.param(MemoryError(), True, id="no memory after it", marks=pytest.mark.load),
]


def test_each_action_has_a_case() -> None:
    assert {name for name, _ in ARGUMENTS.values()} == set(KINDS)


@contextmanager
def watched(path: Path) -> Iterator[Any]:
    """Another connection, which sees what was committed."""
    with opened(path, readonly=True) as conn:
        yield conn


def fails_everywhere(
    conn: Faulty, observer: Any, call: Any, error: BaseException, is_after: bool
) -> int:
    """Let ``call`` fail at each of its statements in turn; then let it go through.

    After each failure nothing may have been written, but for the last one of all, the commit,
    where it fails once it was carried out. Returns how many statements there were.
    """
    before = everything(observer)
    for number in itertools.count(1):
        conn.watch(number, error, is_after)
        try:
            call()
        except type(error):
            failed = True
        else:
            failed = False
        finally:
            steps, conn.steps = conn.steps or [], None
        if not failed:
            assert len(steps) < number
            return number - 1
        at = f"after statement {number}: {steps[number - 1]}"
        assert not conn.in_transaction, at
        if everything(observer) != before:
            assert is_after, at
            assert steps[number - 1] == "commit", at
            return number
    raise AssertionError


@pytest.mark.slow
@pytest.mark.parametrize(("error", "is_after"), FAILURES)
@pytest.mark.parametrize("case", ARGUMENTS)
def test_failing_at_every_statement(
    acted: Path, case: str, error: BaseException, is_after: bool, models: Any
) -> None:
    with faulty(acted) as conn, watched(acted) as observer:
        name, arguments = prepared(conn, case)
        before = dump(observer)
        assert fails_everywhere(conn, observer, lambda: act(conn, name, arguments), error, is_after)
        after = dump(observer)
        assert after != before
        change = observer.execute("select max(id) from limbic_changes").fetchone()[0]
        assert fails_everywhere(
            conn, observer, lambda: act(conn, "undo", {"change": change}), error, is_after
        )
        assert differing(dump(observer), before) == {}
        assert_settled(conn, models["bag"])


@pytest.mark.parametrize("case", ["delete", "split"])
def test_a_transaction_of_the_caller_s(acted: Path, case: str) -> None:
    """What the caller wrote before stays to be committed; of the action there is nothing."""
    with faulty(acted) as conn, watched(acted) as observer:
        before = dump(observer)
        conn.execute("begin immediate")
        conn.execute("insert into limbic_reviews(report) values ('theirs')")
        for number in itertools.count(1):
            conn.watch(number)
            try:
                answer = act(conn, *ARGUMENTS[case])
            except sqlite3.OperationalError:
                assert conn.in_transaction
            else:
                break
            finally:
                conn.steps = None
            assert list(differing(dump(conn), before)) == ["limbic_reviews"]
        assert number > 40
        act(conn, "undo", {"change": answer["change"]})
        assert differing(dump(observer), before) == {}
        conn.commit()
        assert list(differing(dump(observer), before)) == ["limbic_reviews"]
        assert_settled(conn)


def full_after(conn: Any, pages: int) -> None:
    """The disk has room for so many more pages."""
    there = conn.execute("pragma page_count").fetchone()[0]
    conn.execute(f"pragma max_page_count = {there + pages}").fetchone()


@pytest.mark.parametrize("case", ARGUMENTS)
def test_a_full_disk(acted: Path, case: str) -> None:
    with opened(acted) as conn, watched(acted) as observer:
        # pages are written before the commit, too
        conn.execute("pragma cache_size = 8")
        conn.execute("pragma cache_spill = 8")
        name, arguments = prepared(conn, case)
        conn.execute("vacuum")
        # the log of changes needs a page more for what is long
        arguments_long = {**arguments, "reason": "x" * 1000} if name == "archive" else arguments
        before = everything(observer)
        failed = 0
        for pages in itertools.count():
            full_after(conn, pages)
            try:
                act(conn, name, arguments_long, actor="a" * 20_000)
            except sqlite3.OperationalError:
                failed += 1
            else:
                break
            assert not conn.in_transaction
            assert everything(observer) == before
        assert failed
        conn.execute("pragma max_page_count = 1000000").fetchone()
        assert_settled(conn)


@pytest.mark.parametrize("case", ARGUMENTS)
def test_a_commit_that_others_keep_waiting(acted: Path, case: str) -> None:
    """A reader keeps a commit from being made where the journal is no WAL."""
    with opened(acted) as conn, opened(acted) as reader:
        name, arguments = prepared(conn, case)
        before = everything(reader)
        conn.execute("pragma busy_timeout = 1").fetchone()
        reader.execute("begin")
        reader.execute("select count(*) from entities").fetchone()
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            act(conn, name, arguments)
        assert not conn.in_transaction
        reader.rollback()
        assert everything(reader) == before
        act(conn, name, arguments)
        assert_settled(conn)


@pytest.mark.parametrize("case", ARGUMENTS)
def test_a_trigger_of_another_program_that_refuses(acted: Path, case: str) -> None:
    with opened(acted) as conn, watched(acted) as observer:
        name, arguments = prepared(conn, case)
        conn.execute(
            "create trigger theirs before insert on limbic_changes begin"
            " select raise(abort, 'not today'); end"
        )
        before = everything(observer)
        with pytest.raises(Refused, match=r"nothing was changed: a rule of this file.*not today"):
            act(conn, name, arguments)
        assert not conn.in_transaction
        assert everything(observer) == before


@pytest.fixture(name="killer", scope="module")
def killer_fixture() -> Iterator[Killing]:
    with killing() as found:
        yield found


def assert_whole(path: Path, before: dict[str, list[str]], which: str = "") -> None:
    """What a killed process left is as before or as after, as its log has it. ``which`` run it
    was stands in what is said."""
    with opened(path) as conn:
        assert conn.execute("pragma integrity_check").fetchone()[0] == "ok", which
        found = check(conn)
        assert found.ok, (which, [result.as_dict() for result in found.findings])
        assert conn.execute("select * from limbic_stale").fetchall() == [], which
        standing = conn.execute(
            "select id from limbic_changes where undone_by is null and action <> 'undo'"
            " order by id desc"
        ).fetchall()
        for (change,) in standing:
            act(conn, "undo", {"change": change})
        assert differing(dump(conn), before) == {}, which


def written(path: Path, case: str) -> range:
    """Which statements of an action are those of its transaction."""
    with faulty(path) as conn:
        name, arguments = prepared(conn, case)
        conn.watch(None)
        act(conn, name, arguments)
        steps = conn.steps or []
        return range(steps.index("begin immediate") + 1, len(steps))


def copied(master: Path, path: Path, journal: str) -> None:
    """The memory afresh, without what a killed process left beside it."""
    for old in path.parent.glob(f"{path.name}*"):
        old.unlink()
    shutil.copy(master, path)
    with opened(path) as conn:
        conn.execute(f"pragma journal_mode = {journal}").fetchone()


@pytest.mark.slow
@pytest.mark.parametrize("step", [41, pytest.param(17, marks=pytest.mark.load)])
@pytest.mark.parametrize("journal", ["delete", pytest.param("wal", marks=pytest.mark.load)])
@pytest.mark.parametrize("case", ARGUMENTS)
def test_killed_at_a_statement(
    acted: Path,
    acted_master: Path,
    models: Any,
    killer: Killing,
    case: str,
    journal: str,
    step: int,
) -> None:
    with opened(acted) as conn:
        before = dump(conn)
    statements = written(acted, case)
    beside = acted.with_name(f"{acted.name}-{'wal' if journal == 'wal' else 'journal'}")
    for number in {*statements[::-step]}:
        copied(acted_master, acted, journal)
        killer.start(acted, [case], number)
        assert killer.ended() == -signal.SIGKILL
        if case == "split" and number == statements[-1]:
            # with that small a cache, much of it is in the file before the commit
            assert beside.stat().st_size
        assert_whole(acted, before)


@pytest.mark.parametrize("times", [8, pytest.param(40, marks=pytest.mark.load)])
@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_killed_at_any_moment(
    acted: Path, acted_master: Path, models: Any, killer: Killing, journal: str, times: int
) -> None:
    """Again and again on one file, whose log of changes tells how far each of them came."""
    copied(acted_master, acted, journal)
    with opened(acted) as conn:
        before = dump(conn)
    seed = time.time()
    chance = random.Random(seed)
    done = 0
    # on a busy machine none of the first ones may have come as far as a commit
    for killed in range(times + MORE_KILLED):
        cases = chance.sample(list(ARGUMENTS), len(ARGUMENTS))
        process = killer.start(acted, [case for case in cases if case != "undo"])
        time.sleep(chance.uniform(0, 0.3 if killed < times else 2))
        os.kill(process, signal.SIGKILL)
        assert killer.ended() == -signal.SIGKILL, f"seed {seed!r}, number {killed}"
        assert_whole(acted, before, f"seed {seed!r}, number {killed}")
        with opened(acted) as conn:
            done = conn.execute("select count(*) from limbic_changes").fetchone()[0]
        if done and killed >= times - 1:
            break
    assert done, f"seed {seed!r}: nothing was committed"


def test_a_copy_is_what_it_was(acted: Path, acted_master: Path, tmp_path: Path) -> None:
    """The helper that says that nothing was written sees a single byte."""
    other = Path(shutil.copy(acted_master, tmp_path / "other.db"))
    with opened(acted) as one, opened(other) as two:
        assert everything(one) == everything(two)
        two.execute("update observations set content = content || ' ' where id = 3")
        assert everything(one) != everything(two)
        assert set(differing(dump(one), dump(two))) == {"observations", "entities", "_limbic_fts"}
