"""Retrieval quality on an evaluation set: recall@1 and MRR by language, mode and fusion.

Each fact and each distractor of the set becomes an entity with one observation, in one memory;
a query is right at 1 when the entity of its fact comes first. The set is given as a file of
``{"queries": {"en": [{"query", "target", "distractor"}], "es": […]}}``. Signals are empty and all
times equal, so that only retrieval and fusion count.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from datasette_limbic import connection, schema, search
from datasette_limbic.sync import sync

EVAL = Path(__file__).parent / "eval_en_es.json"
NOW = "2026-11-29 12:00:00"
MODES = (
    ("semantic", "document"),
    ("text", "document"),
    ("hybrid", "document"),
    ("hybrid", "fused"),
)


def build(path: Path, facts: list[str]) -> None:
    """A memory with one entity per fact; names say nothing."""
    conn = connection.connect(path, create=True)
    schema.init(conn)
    with conn:
        for i, fact in enumerate(facts, 1):
            conn.execute(
                "insert into entities(id, name, entity_type, created_at, last_activity_at)"
                " values (?, ?, 'Note', ?, ?)",
                [i, f"n{i:03}", NOW, NOW],
            )
            conn.execute("insert into observations(entity_id, content) values (?, ?)", [i, fact])
    sync(conn)
    conn.close()


def evaluate(path: Path, queries: list[dict], facts: list[str], mode: str, fusion: str) -> dict:
    """recall@1, MRR over the first 10 and the number of queries."""
    conn = connection.connect(path, readonly=True)
    first, reciprocal = 0, 0.0
    for row in queries:
        answer = search.search(conn, row["query"], mode=mode, fusion=fusion, now=NOW, limit=10)
        ids = [r["id"] for r in answer["results"]]
        target = facts.index(row["target"]) + 1
        rank = ids.index(target) + 1 if target in ids else None
        first += rank == 1
        reciprocal += 1 / rank if rank else 0
    conn.close()
    return {"recall_at_1": first, "mrr": reciprocal / len(queries), "queries": len(queries)}


def run(eval_file: Path = EVAL) -> list[dict]:
    """Rows of the quality table."""
    sets = json.loads(eval_file.read_text("utf-8"))["queries"]
    everything = [row for rows in sets.values() for row in rows]
    table = []
    with tempfile.TemporaryDirectory() as folder:
        for name, rows in {**sets, "mixed": everything}.items():
            facts = list(
                dict.fromkeys(text for row in rows for text in (row["target"], row["distractor"]))
            )
            path = Path(folder) / f"{name}.db"
            build(path, facts)
            for mode, fusion in MODES:
                found = evaluate(path, rows, facts, mode, fusion)
                table.append({"set": name, "mode": mode, "fusion": fusion, **found})
    return table


if __name__ == "__main__":
    from tabulate import tabulate

    print(tabulate(run(), headers="keys", floatfmt=".3f", tablefmt="github"))
