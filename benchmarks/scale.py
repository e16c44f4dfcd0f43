"""Search among real short texts, 117,659 and a million, beside other ways to find vectors.

    python -m benchmarks.scale FOLDER --size 117659 --peers numpy,approximate,chromadb

The memories are those of ``benchmarks.wordnet``, built in FOLDER where they are not there, and so
are the queries, whose texts no memory holds. All are asked the same queries on the same rows in
one process, in turn, query by query, in an order drawn anew: what disturbs, disturbs all.
Building, and the memory that each takes, are measured in a process of its own for each. A peer
searches with the least effort that finds .98 of the nearest 30 on these very queries; ``limbic``'s
own index is set by what it measures itself, on the memory's texts.

A bound that is given for 100,000 is held against WordNet's 117,659, all of it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import numpy
from tabulate import tabulate

from datasette_limbic import connection, schema
from datasette_limbic.retrieval import in_memory

from . import (
    apart,
    corpus,
    peers,
    peers_sqlite,
    peers_stores,
    scale_apart,
    scale_targets,
    scale_ways,
    synsets,
    wordnet,
)
from .peers import Asked, Peer
from .progress import say
from .scale_measuring import DEPTHS, Exact, Measured, Opened, few, in_turn, tuned
from .scale_targets import RECALL
from .stopping import stoppable
from .wordnet import FOLDER

ALL: dict[str, type[Peer]] = {
    peer.name: peer for peer in (*peers.PEERS, *peers_stores.PEERS, *peers_sqlite.PEERS)
}
LARGE_PEERS = ("numpy", "vec0", "approximate")
"""At sizes where others take hours to build."""
_SAMPLE = 20
"""Queries after which memory is told."""
_EMBEDDING = min(4, os.cpu_count() or 1)
"""Processes that embed, each with a model of its own."""


def run(
    folder: Path, size: int, names: Sequence[str], limit: int = 10, most: int | None = None
) -> Measured:
    """Measure the memory of ``size`` entities; ``most`` queries, or all that there are."""
    memory, *smaller = [wordnet.build(folder, one, processes=_EMBEDDING) for one in _sizes(size)]
    asked = _asked(folder, size)
    if most is not None:
        asked = asked[:: max(1, len(asked) // most)][:most]
    with _scratch(folder / f"peers-{size}") as scratch, ExitStack() as stack:
        ids, rows = _rows(memory, scratch)
        exact = Exact(rows, ids, asked)
        opened: dict[str, Opened] = {}
        found = Measured(size, opened, {}, limit)
        for name in sorted(names, key=lambda n: n == "approximate"):
            cls = ALL[name]
            try:
                opened[name] = _open(cls, scratch, memory, asked, exact)
                if name == "approximate" and opened[name].recall[max(DEPTHS)] < RECALL:
                    found.short = opened[name].recall[max(DEPTHS)]
                    opened[name].peer.close()
                    opened[name] = _open(
                        peers_sqlite.ApproximateMore, scratch, memory, asked, exact
                    )
            except LeftOut as reason:
                print(f"\n{name} is left out: {reason}")
                opened.pop(name, None)
                continue
            stack.callback(opened[name].peer.close)
        del rows, exact
        ways = {
            name: few(scale_ways.retrieving(o.peer, limit), o.peer.at_most(size))
            for name, o in opened.items()
        }
        ways |= scale_ways.searching(stack, memory, opened, limit)
        for small in smaller if "approximate" in opened else ():
            say(f"building the index of {small}")
            apart.call(scale_apart.build, peers_sqlite.Approximate, scratch, small, small.parent)
            ways |= scale_ways.of_small(stack, small, limit)
        found.times = in_turn(ways, asked)
    return found


def _sizes(size: int) -> list[int]:
    """Of the memories that are needed to measure one: beside a larger one stands WordNet's."""
    return [size, corpus.WORDNET] if size > corpus.WORDNET else [size]


class LeftOut(Exception):
    """Why a peer is not measured, in a sentence."""


def _open(
    cls: type[Peer], scratch: Path, memory: Path, asked: Sequence[Asked], exact: Exact
) -> Opened:
    """Build, measure apart, open and tune. Raises LeftOut."""
    missing = cls.missing()
    if missing:
        raise LeftOut(missing)
    own = scratch / cls.name
    own.mkdir(exist_ok=True)
    peer = cls(own, memory)
    opened = Opened(peer)
    try:
        with ExitStack() as failed:
            failed.callback(peer.close)  # stops also what a process that was killed had started
            if not (isinstance(peer, peers_sqlite.Vec0) and len(exact.ids) > peers_sqlite.LARGE):
                say(f"{cls.name}: building")
                opened.build_s = _apart(scale_apart.build, cls, own, memory, scratch)
            peer.ready(asked)
            say(f"{cls.name}: looking for the least effort")
            tuned(opened, asked, exact)
            peer.close()
            say(f"{cls.name}: memory")
            sample = asked[: min(_SAMPLE, peer.at_most(len(exact.ids)) or _SAMPLE)]
            # while nobody else has it open
            opened.taken = _apart(scale_apart.memory, cls, own, memory, opened.effort, list(sample))
            peer.open(opened.effort)
            failed.pop_all()
    except LeftOut:
        raise
    except Exception as error:  # foreign code: one peer's failure must not end the run
        raise LeftOut(f"{type(error).__name__}: {error}") from error
    return opened


def _apart(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call it in a process of its own. Raises LeftOut where that ends."""
    try:
        return apart.call(function, *arguments)
    except apart.Failed as error:
        raise LeftOut(str(error)) from error


def _asked(folder: Path, size: int) -> list[Asked]:
    """The queries: they take minutes to find, and stay in the folder."""
    path = folder / ("queries.npy" if size >= corpus.WORDNET else "queries-small.npy")
    if not path.exists():
        say("looking for queries")
        wordnet.write_queries(wordnet.queries(folder, size), path)
    texts = json.loads(path.with_suffix(".json").read_text("utf-8"))
    return [Asked(text, row) for text, row in zip(texts, numpy.load(path), strict=True)]


def _rows(memory: Path, scratch: Path) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Ids and unit vectors of a memory, also in files that other processes map."""
    with closing(connection.connect(memory)) as conn:
        schema.init(conn)
        matrix = in_memory.read(conn)
    numpy.save(scratch / "ids.npy", matrix.ids)
    numpy.save(scratch / "rows.npy", matrix.rows)
    return matrix.ids, matrix.rows


@contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    """A folder that is empty, and goes again."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        # a process of a peer's that was killed may still be ending, and writing
        shutil.rmtree(folder, ignore_errors=True)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scale",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path, nargs="?", default=FOLDER)
    parser.add_argument(
        "--size", type=int, action="append", help=f"entities, may be repeated: {corpus.WORDNET:,}"
    )
    parser.add_argument(
        "--peers",
        help=f"of {','.join(ALL)}: all, from {peers_sqlite.LARGE:,} on {','.join(LARGE_PEERS)}",
    )
    parser.add_argument("--limit", type=int, default=10, help="results of a search (%(default)s)")
    parser.add_argument("--queries", type=int, help="ask so many alone")
    parser.add_argument(
        "--absent", action="store_true", help="say which packages the peers lack, and end"
    )
    parser.add_argument("--only-requests", action="store_true", help="the JSON requests alone")
    asked = parser.parse_args(arguments)
    sizes = [] if asked.only_requests else asked.size or [corpus.WORDNET]
    for size in sizes:
        if not 100 <= size <= corpus.LARGEST:
            parser.error(f"--size {size:,} is not between 100 and {corpus.LARGEST:,}")
    unknown = [name for name in (asked.peers or "numpy").split(",") if name not in ALL]
    if unknown:
        parser.error(f"--peers {unknown[0]!r}: use some of {','.join(ALL)}")
    if asked.limit < 1 or (asked.queries is not None and asked.queries < 5):
        parser.error("--limit begins at 1, and --queries at 5")
    names = {size: _names(asked.peers, size) for size in sizes}
    with stoppable(asked.folder):
        _require(asked.folder, sizes)
        if asked.absent:
            print(*_absent({name for some in names.values() for name in some}))
            return
        from datasette.utils.sqlite import sqlite3

        print(f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}")
        for size in sizes:
            found = run(asked.folder, size, names[size], asked.limit, asked.queries)
            for title, rows in scale_targets.tables(found).items():
                _print(title, rows)
        say("JSON requests")
        _print("JSON requests, sample memory", scale_apart.requests())


def _names(chosen: str | None, size: int) -> tuple[str, ...]:
    if chosen:
        return tuple(chosen.split(","))
    return LARGE_PEERS if size > peers_sqlite.LARGE else tuple(ALL)


def _require(folder: Path, sizes: Sequence[int]) -> None:
    """Raise FileNotFoundError where a memory has to be built, and WordNet is not installed."""
    wanted = [folder / f"wordnet-{one}.db" for size in sizes for one in _sizes(size)]
    if not all(path.exists() for path in wanted):
        synsets.require()


def _absent(names: Iterable[str]) -> list[str]:
    """Modules that these peers need, and that are not installed."""
    return sorted({module for name in names for module in ALL[name].absent()})


def _print(title: str, rows: list[dict[str, Any]]) -> None:
    print(f"\n## {title}\n\n{tabulate(rows, headers='keys', floatfmt='.2f', tablefmt='github')}")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
