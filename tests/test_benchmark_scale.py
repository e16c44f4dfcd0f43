"""What compares ways to find vectors: recall, the ladder of efforts, turns, tables; numpy alone."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy
import pytest

from benchmarks import (
    peers,
    peers_sqlite,
    peers_stores,
    scale,
    scale_apart,
    scale_measuring,
    scale_targets,
)
from benchmarks.peers import Asked, Numpy, Peer


class Partial(Numpy):
    """Answers as many of the nearest as its effort says, then the farthest."""

    efforts = ("right",)
    ladder = ((10,), (20,), (30,))
    opened: list[int]

    def open(self, effort):
        super().open(effort)
        self.right = effort[0]
        self.opened = [*getattr(self, "opened", []), self.right]

    def search(self, asked, k):
        everything = super().search(asked, len(self.ids))
        return everything[: self.right] + everything[self.right - k :] * (k > self.right)


@pytest.fixture(scope="module")
def rows():
    rng = numpy.random.default_rng(1)
    found = rng.standard_normal((200, 16)).astype("f4")
    return found / numpy.linalg.norm(found, axis=1, keepdims=True)


IDS = numpy.arange(200)[::-1] * 3 + 7
"""Neither in order nor places."""


def asked_for(rows) -> list[Asked]:
    return [Asked(f"query {i}", rows[i]) for i in range(8)]


def built(cls: type[Peer], folder: Path, rows) -> Peer:
    peer = cls(folder, folder / "none.db")
    peer.build(rows, IDS)
    return peer


def test_numpy_finds_the_nearest_and_has_all_of_them(tmp_path, rows):
    peer = built(Numpy, tmp_path, rows)
    peer.open(())
    (asked, *_) = asked_for(rows)
    found = peer.search(asked, 5)
    right = sorted(
        (float(1 - row @ asked.vector), int(i)) for i, row in zip(IDS, rows, strict=True)
    )
    assert [i for i, _ in found] == [i for _, i in right[:5]]
    assert [d for _, d in found] == pytest.approx([d for d, _ in right[:5]], abs=1e-6)
    assert found[0][0] == IDS[0]
    assert scale_measuring.Exact(rows, IDS, asked_for(rows)).recall(peer, asked_for(rows)) == {
        10: 1,
        30: 1,
    }
    assert peer.nbytes() > rows.nbytes
    peer.close()


def test_the_least_effort_that_does_is_taken_and_else_the_most(tmp_path, rows, monkeypatch):
    peer = built(Partial, tmp_path, rows)
    asked = asked_for(rows)
    exact = scale_measuring.Exact(rows, IDS, asked)
    opened = scale_measuring.Opened(peer)
    monkeypatch.setattr(scale_measuring, "RECALL", 0.6)
    scale_measuring.tuned(opened, asked, exact)
    assert (opened.effort, peer.opened) == ((20,), [10, 20])
    assert opened.recall == {10: 1, 30: pytest.approx(20 / 30)}
    assert peer.says(opened.effort) == "right 20"
    monkeypatch.setattr(scale_measuring, "RECALL", 1.1)
    scale_measuring.tuned(opened, asked, exact)
    assert opened.effort == (30,)


def test_recall_takes_any_of_equal_vectors_and_no_item_twice(tmp_path, rows):
    same = numpy.repeat(rows[:1], 200, axis=0)
    asked = [Asked("all alike", same[0])]
    exact = scale_measuring.Exact(same, IDS, asked)

    class Twice(Numpy):
        def search(self, asked, k):
            return [(int(IDS[7]), 0.0)] * k

    for cls, share in ((Numpy, 1), (Twice, 1 / 30)):
        peer = built(cls, tmp_path, same)
        peer.open(())
        assert exact.recall(peer, asked)[30] == pytest.approx(share)

    class Invented(Numpy):
        def search(self, asked, k):
            return [(5, 0.0)]

    with pytest.raises(RuntimeError, match="ids that no row has"):
        exact.recall(Invented(tmp_path, tmp_path), asked)


def test_ways_take_turns_and_slow_ones_are_asked_less(rows):
    order = []

    def way(name):
        return lambda asked: order.append((name, asked.text)) or name

    asked = asked_for(rows)
    times = scale_measuring.in_turn(
        {"a": way("a"), "few": scale_measuring.few(way("few"), 2)}, asked
    )
    for i, query in enumerate(asked):
        turn = order[6 + 2 * i : 8 + 2 * i] if i < 2 else [order[8 + i]]
        assert {text for _, text in turn} == {query.text}
    assert len(order) == 6 + 8 + 2
    assert numpy.isfinite(times["a"]).all()
    assert numpy.isfinite(times["few"]).tolist() == [True, True] + [False] * 6


def test_targets_are_of_what_was_measured_alone(rows):
    times = {
        "numpy": [10.0, 10, 30],
        "memory": [11.0, 11, 1],
        "search, memory": [16.0, 16, 16],
        "pgvector": [math.nan, 4, math.nan],
        "approximate": [4.0, 4, 4],
    }
    found = scale_measuring.Measured(
        117_659, {}, {name: numpy.array(some) for name, some in times.items()}
    )
    told = {row["what"]: (row["value"], row["met"]) for row in scale_targets.targets(found)}
    assert told == {
        "exact retrieval / numpy": (pytest.approx(1.1), True),
        "exact search / numpy": (pytest.approx(1.6), False),
        "approximate retrieval / pgvector": (pytest.approx(1.0), True),
    }
    approximate = scale_measuring.Opened(
        peers_sqlite.InMemory(Path("none"), Path("none")),
        recall={10: 0.99, 30: 0.979},
        build_s=601,
        taken=scale_apart.Taken(10**9, 2 * 10**9, 5),
    )
    found = scale_measuring.Measured(10**6, {"approximate": approximate}, found.times, short=0.97)
    told = {row["what"]: (row["value"], row["met"]) for row in scale_targets.targets(found)}
    assert told["build, seconds"] == (601, False)
    assert told["private memory, MB, with the model"] == (2000, False)
    assert told["recall@30, built for .98"] == (0.97, False)
    assert told["recall@30 of what is measured here"] == (0.979, False)


def test_a_peer_that_is_not_installed_is_left_out():
    class Absent(Numpy):
        modules = ("numpy", "no_such_package_here")

    assert Absent.missing() == "not installed: no_such_package_here"
    assert Numpy.missing() is None
    assert len(scale.ALL) == sum(len(some.PEERS) for some in (peers, peers_stores, peers_sqlite))


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="memory is told by Linux alone")
def test_private_memory_is_told():
    before = scale_apart.private(["self"])
    held = numpy.ones(4_000_000)
    assert scale_apart.private(["self"]) - before > held.nbytes * 0.9
