"""Delete observations: they stay in the log of changes, from where they can come back.

The one action that may take the last copy of a text away, since a person says so; the plan warns
where it does.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from datasette.utils.sqlite import sqlite3

from ..reports.queries import current
from ..text import counted, listed, short
from . import basis, merged, rows
from .model import Plan, Row, RowChange
from .settling import PAIRS, settled

MAX_OBSERVATIONS = 10_000
MAX_SAID = 5
_LEFT = f"""
select o.entity_id, count(*), coalesce(sum({current("o")}), 0) from observations o
where o.entity_id in (select value from json_each(?1))
and o.id not in (select value from json_each(?2)) group by o.entity_id
"""
_PAIRS = f"""
select earlier_id, later_id from {PAIRS} where kind = 'duplicate'
and (earlier_id in (select value from json_each(?1))
  or later_id in (select value from json_each(?1)))
"""


def plan(conn: sqlite3.Connection, arguments: Mapping[str, Any], now: str) -> Plan:
    """``{"observations": [ids]}``, of one entity or of several; those that ended, and those of
    archived entities, may go too.

    Warns where an entity is left with none, where all copies of a text go, and where texts go that
    were merged into these. Deleting is no activity of the entity. Raises BadParameter, UnknownRow
    and UnknownEntity.
    """
    ids = rows.whole_ids("observations", arguments.get("observations"), most=MAX_OBSERVATIONS)
    found = rows.observations(conn, ids)
    owners = rows.owners(conn, found.values())
    changes = [RowChange("observations", (number,), row, None) for number, row in found.items()]
    names = [rows.named(row) for row in owners]
    return Plan(
        "delete",
        f"Delete {counted(len(ids), 'observation', 'observations')} of {listed(names)}",
        tuple(settled(conn, changes)),
        basis.make(owners, rows={"observation": found.values()}),
        owners[0]["id"] if len(owners) == 1 else None,
        owners[0]["name"] if len(owners) == 1 else None,
        {"observations": ids},
        (
            *_emptied(conn, owners, ids),
            *_cut([*_all_copies(conn, ids)], "more texts go with all of their copies"),
            *_cut([*_merged(conn, ids)], "more were kept for others, which go with them"),
        ),
    )


def _emptied(conn: sqlite3.Connection, owners: list[Row], ids: list[int]) -> Iterator[str]:
    of = json.dumps([row["id"] for row in owners])
    left = {row[0]: row[1:] for row in conn.execute(_LEFT, [of, json.dumps(ids)]).fetchall()}
    none = [rows.named(row) for row in owners if row["id"] not in left]
    ended = [rows.named(row) for row in owners if row["id"] in left and not left[row["id"]][1]]
    for names, what in ((none, "observations"), (ended, "observations that hold")):
        if names:
            verb = "is" if len(names) == 1 else "are"
            yield f"{listed(names)} {verb} left without {what}"


def _all_copies(conn: sqlite3.Connection, ids: Collection[int]) -> Iterator[str]:
    """Duplicates that go together, so that none of them says any more what they say."""
    pairs = conn.execute(_PAIRS, [json.dumps(list(ids))]).fetchall()
    if not pairs:
        return
    import networkx  # not at every start

    going = set(ids)
    for component in networkx.connected_components(networkx.Graph(pairs)):
        if component <= going:
            names = [str(number) for number in sorted(component)]
            yield (
                f"observations {listed(names)} say the same, and all of them go: to keep one, "
                "merge them (action merge)"
            )


def _merged(conn: sqlite3.Connection, ids: Collection[int]) -> Iterator[str]:
    for number, others in merged.stood_for(conn, ids).items():
        what = f"observation {others[0].id} “{short(others[0].content)}”"
        more = f" and {len(others) - 1:,} more" if len(others) > 1 else ""
        yield (
            f"observation {number} was kept for {what}{more} (change {others[0].change}), and "
            "goes now"
        )


def _cut(said: list[str], what: str) -> list[str]:
    more = len(said) - MAX_SAID
    return said if more <= 0 else [*said[:MAX_SAID], f"{more:,} {what}"]
