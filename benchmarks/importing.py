"""How fast files are imported and memories exported, against plain inserts of the same rows.

Each run is a process of its own, so that its memory can be told: ``python -m
benchmarks.importing KIND SOURCE DATABASE`` prints seconds and megabytes.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[1]


def run(folder: Path, *, quick: bool = False) -> list[dict[str, Any]]:
    """Rows of the table: what was measured, the value, the target."""
    count = 20_000 if quick else 1_000_000
    source = folder / "memory.jsonl"
    write_source(source, count)
    repeats = 1 if quick else 3
    times: dict[str, list[float]] = {}
    peaks: dict[str, int] = {}
    for _ in range(repeats):
        for kind in ("executemany", "insert_all", "import"):
            path = folder / f"{kind}.db"
            path.unlink(missing_ok=True)
            seconds, peak = measure(kind, source, path)
            times.setdefault(kind, []).append(seconds)
            peaks[kind] = max(peak, peaks.get(kind, 0))
    for kind, origin in (("again", source), ("full", folder / "full.ndjson")):
        seconds, peak = measure(kind, origin, folder / "import.db")
        times[kind], peaks[kind] = [seconds], peak
    seconds, peak = measure("import", folder / "full.ndjson", folder / "restored.db")
    times["restore"], peaks["restore"] = [seconds], peak
    ours = median(times["import"])
    rows = []
    for baseline, target in (("executemany", 2.5), ("insert_all", None)):
        ratio = median(
            mine / plain for mine, plain in zip(times["import"], times[baseline], strict=True)
        )
        rows.append(
            {
                "what": f"import {count:,} observations / {_PLAIN[baseline]}",
                "value": f"{ratio:.2f} ({ours:.1f} s, {count / ours:,.0f} observations/s)",
                "target": f"<= {target}" if target else "",
                "met": ratio <= target if target else "",
            }
        )
    rows.append(
        {
            "what": f"memory of that import, {source.stat().st_size / 1e6:.0f} MB of JSON Lines",
            "value": f"{peaks['import']} MB",
            "target": "< 300 MB",
            "met": peaks["import"] < 300,
        }
    )
    for kind, what in (
        ("again", "import it again, nothing changed"),
        ("full", "full export of it"),
        ("restore", "restore that export"),
    ):
        rows.append(
            {
                "what": f"{what} / importing it",
                "value": f"{times[kind][0] / ours:.2f} ({peaks[kind]} MB)",
                "target": "< 300 MB",
                "met": peaks[kind] < 300,
            }
        )
    return rows


_PLAIN = {
    "executemany": "executemany of the same rows, no text index",
    "insert_all": "sqlite-utils insert_all of the same rows, no text index",
}


def write_source(path: Path, observations: int) -> None:
    """A JSONL file, ten observations to an entity."""
    import numpy  # not in the processes that are measured

    from . import memory

    texts = memory.sentences(numpy.random.default_rng(2), observations)
    with path.open("w", encoding="utf-8") as file:
        for i in range(observations // 10):
            row = {
                "type": "entity",
                "name": f"entity {i}",
                "entityType": memory.TYPES[i % len(memory.TYPES)],
                "observations": texts[i * 10 : i * 10 + 10],
            }
            file.write(json.dumps(row) + "\n")


def measure(kind: str, source: Path, database: Path) -> tuple[float, int]:
    """Seconds of the work alone, and megabytes of the whole process."""
    found = subprocess.run(
        [sys.executable, "-m", "benchmarks.importing", kind, str(source), str(database)],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    seconds, peak = found.stdout.split()
    return float(seconds), int(peak)


def _import(source: Path, database: Path) -> None:
    from datasette_limbic.importing import import_files

    import_files(database, [source])


def _full(source: Path, database: Path) -> None:
    from datasette_limbic import connection
    from datasette_limbic.exporting import export_full

    with source.open("w", encoding="utf-8", newline="\n") as out:
        export_full(connection.connect(database, readonly=True), out)


def _rows(source: Path) -> Iterator[dict[str, Any]]:
    with source.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def _executemany(source: Path, database: Path) -> None:
    """Into our own tables with their indexes, but no trigger and no text index."""
    from datasette_limbic import connection, schema

    conn = connection.connect(database, create=True)
    schema.init(conn)
    conn.execute("begin")
    schema.drop_triggers(conn)
    conn.executemany(
        "insert into entities(id, name, entity_type) values (?, ?, ?)",
        ((i, row["name"], row["entityType"]) for i, row in enumerate(_rows(source), 1)),
    )
    conn.executemany(
        "insert into observations(entity_id, content) values (?, ?)",
        ((i, text) for i, row in enumerate(_rows(source), 1) for text in row["observations"]),
    )
    conn.commit()
    conn.close()


def _insert_all(source: Path, database: Path) -> None:
    """Into tables as sqlite-utils makes them."""
    import sqlite_utils

    with sqlite_utils.Database(database) as db:
        db["entities"].insert_all(
            (
                {"id": i, "name": row["name"], "entity_type": row["entityType"]}
                for i, row in enumerate(_rows(source), 1)
            ),
            pk="id",
        )
        db["observations"].insert_all(
            (
                {"id": None, "entity_id": i, "content": text}
                for i, row in enumerate(_rows(source), 1)
                for text in row["observations"]
            ),
            pk="id",
            columns={"id": int, "entity_id": int, "content": str},
        )


_KINDS = {
    "executemany": _executemany,
    "insert_all": _insert_all,
    "import": _import,
    "again": _import,
    "full": _full,
}


def main() -> None:
    """One run in a process of its own."""
    kind, source, database = sys.argv[1:]
    start = time.perf_counter()
    _KINDS[kind](Path(source), Path(database))
    seconds = time.perf_counter() - start
    print(f"{seconds:.3f} {_peak()}")


def _peak() -> int:
    """Megabytes that this process used at most. Not ru_maxrss, which on Linux begins with what
    the parent used."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return int(found[1]) // 1024


if __name__ == "__main__":
    main()
