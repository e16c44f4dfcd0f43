"""Run every benchmark and print the results as markdown tables: ``python -m benchmarks``."""

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any

from tabulate import tabulate

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import (
    acting,
    duplicates,
    importing,
    pages,
    quality,
    recording,
    searching,
    starting,
    topics,
    tuning,
    tuning_chance,
    tuning_speed,
    writing,
)

PARTS = (
    "search", "recording", "writing", "importing", "start", "acting", "duplicates", "quality",
    "topics", "pages", "tuning",
)  # fmt: skip

SOME_RUNS = 10
"""Of each case of tuning, where it is one part of many: all of them take half an hour."""


def _print(title: str, rows: list[dict[str, Any]], floatfmt: str = ".2f") -> None:
    print(f"\n## {title}\n\n{tabulate(rows, headers='keys', floatfmt=floatfmt, tablefmt='github')}")
    sys.stdout.flush()


def _quality() -> None:
    if not quality.EVAL.exists():
        print(f"\n## Retrieval quality\n\nSkipped: the file {quality.EVAL.name} is absent.")
        return
    _print("Retrieval quality", quality.run(), ".3f")


def _topics(quick: bool, folder: Path) -> None:
    try:
        tables = topics.run(folder, quick=quick)
    except FileNotFoundError as error:
        print(f"\n## Topics\n\nSkipped: {error}.")
        return
    for title, rows in tables.items():
        _print(title, rows)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, under a minute")
    parser.add_argument("--only", choices=PARTS, action="append", help="run this part alone")
    parser.add_argument(
        "--memory-files",
        type=Path,
        default=topics.FOLDER,
        help="folder of agents' memory files, for topics",
    )
    parser.add_argument(
        "--runs",
        type=int,
        help=f"seeded runs of each case, for tuning: {tuning.RUNS:,}, "
        f"{SOME_RUNS} with other parts or --quick",
    )
    parser.add_argument(
        "--results",
        type=Path,
        default=tuning.RESULTS,
        help="file that keeps the runs of tuning, and goes on where it was left (%(default)s)",
    )
    options = parser.parse_args()
    parts = options.only or PARTS
    quick = options.quick
    if options.runs is not None and options.runs < 1:
        parser.error(f"--runs is {options.runs}: give a number from 1 on")
    alone = set(parts) == {"tuning"} and not quick
    runs = options.runs or (tuning.RUNS if alone else SOME_RUNS)
    from datasette.utils.sqlite import sqlite3

    print(f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if "search" in parts:
            sizes = (2_000,) if quick else (10_000, 100_000)
            _print("Search", searching.run(folder, sizes, 2 if quick else 5))
        if "recording" in parts:
            _print(
                "Recording", recording.run(folder, (2_000,) if quick else (10_000, 100_000), quick)
            )
            _print(
                "Growth per recorded search",
                recording.growth(folder, 200 if quick else 1000),
                ".0f",
            )
        written = writing.run(folder, quick=quick) if "writing" in parts else []
        if "importing" in parts:
            written += importing.run(folder, quick=quick)
        if "start" in parts:
            written += starting.run(folder, 2 if quick else 7)
        if written:
            _print("Indexing, import, sync, start", written)
        if "acting" in parts:
            _print("Actions on large entities", acting.run(folder, quick=quick))
        if "pages" in parts:
            entities, repeats = (2_000, 5) if quick else (100_000, 30)
            _print("Pages", pages.run(folder, entities, repeats), ".1f")
        if "tuning" in parts:
            _print("Tuning: a large log", tuning_speed.run(folder, quick))
    if "duplicates" in parts:
        size, repeats = (5_000, 3) if quick else (100_000, 7)
        _print("Duplicates of a whole memory", duplicates.run(size, repeats))
    if "quality" in parts:
        _quality()
    if "topics" in parts:
        _topics(quick, options.memory_files)
    if "tuning" in parts:
        for title, rows in tuning.run(options.results, runs).items():
            _print(title, rows, ".4f")
        _print("Tuning: openings by name", tuning_chance.run(min(runs, tuning_chance.RUNS)))


if __name__ == "__main__":
    main()
