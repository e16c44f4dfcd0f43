"""What undoing does beside putting rows back: accesses that came to an entity which it takes away,
and what a person has to know of where things come back to."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from datasette.utils.sqlite import sqlite3

from .. import times
from ..text import counted, listed, short
from . import basis, rows
from .model import Row, RowChange, update

ACCESS = "entity_access"


def seen(change: Row, found: Iterable[RowChange], warnings: Sequence[str]) -> basis.Basis:
    """What an undo does, in one digest for each table: another undo is another proposal.

    Of what moves by itself (accesses, kept pairs and the like) nothing makes it stale, nor does
    what is in a finding; that one came or went does.
    """
    number = change["id"]
    by_table: dict[str, list[Any]] = {}
    for each in found:
        if each.table == "limbic_insights":
            done: Any = None
        elif rows.TABLES[each.table].derived:
            continue
        else:
            done = basis.facts(each.after) if each.after is not None else None
            if done == {} and each.before:  # a flag or a time alone
                continue
        by_table.setdefault(each.table, []).append([list(each.key), each.what, done])
    return basis.make(
        rows={"change": [{"id": number, "undone_by": change["undone_by"]}]},
        together={
            f"what undoing change {number} does to {table}": sorted(some, key=lambda e: e[0])
            for table, some in by_table.items()
        }
        | {f"what there is to know of undoing change {number}": list(warnings)},
    )


class Accesses:
    """Accesses that an entity got since it was made, and that go to the one it came from."""

    def __init__(self) -> None:
        self.rows: list[tuple[Row, Any]] = []

    def add(self, row: Row, had: Any = 0) -> None:
        """Those of one entity, which had so many when it was made."""
        self.rows.append((row, had))

    def given(
        self, conn: sqlite3.Connection, found: list[RowChange], entity_id: Any
    ) -> list[RowChange]:
        """``found`` with the count and the latest time added to what ``entity_id`` has then."""
        since = {
            number: count
            for number, (row, had) in enumerate(self.rows)
            if (count := rows.count_of(conn, row["access_count"]) - rows.count_of(conn, had)) > 0
        }
        if not since or not isinstance(entity_id, int):
            return found
        key = (entity_id,)
        row = rows.read(conn, ACCESS, [key]).get(key)
        own = next((each for each in found if (each.table, each.key) == (ACCESS, key)), None)
        others = [each for each in found if each is not own]
        then = row if own is None else (None if own.after is None else {**(row or {}), **own.after})
        given = {
            "access_count": rows.count_of(conn, then["access_count"] if then else 0)
            + sum(since.values()),
            "last_access": times.latest(
                [
                    then["last_access"] if then else None,
                    *(self.rows[number][0]["last_access"] for number in since),
                ]
            ),
        }
        given = {**((own and own.after) or {}), **given}
        if row is None:
            return [*others, RowChange(ACCESS, key, None, {"entity_id": entity_id, **given})]
        return [*others, update(ACCESS, key, row, **given)]


def archived(conn: sqlite3.Connection, found: Iterable[RowChange]) -> list[str]:
    """Where observations come back to an entity that is archived: nobody finds them there."""
    changes = list(found)
    back: dict[Any, list[int]] = {}
    for each in changes:
        if each.table == "observations" and each.after and "entity_id" in each.after:
            back.setdefault(each.after["entity_id"], []).append(each.key[0])
    there = rows.of(conn, "entities", "id", [e for e in back if isinstance(e, int)])
    after = {e.key: e.after for e in changes if e.table == "entities" and e.after is not None}
    said = []
    for key, row in there.items():
        then = {**row, **after.get(key, {})}
        if then["archived_at"] is not None:
            ids = back[key[0]]
            what = counted(len(ids), "observation", "observations")
            reason = f" ({short(then['archived_reason'])})" if then["archived_reason"] else ""
            said.append(
                f"{what} ({listed([str(i) for i in sorted(ids)])}) "
                f"{'goes' if len(ids) == 1 else 'go'} back to {rows.named(then)}, which is "
                f"archived{reason}: search leaves it out until it is restored"
            )
    return said
