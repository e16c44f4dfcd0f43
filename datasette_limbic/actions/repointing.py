"""Relations of entities that are merged: which come to the one kept, and which have to stay."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from datasette.utils.sqlite import sqlite3

from ..text import counted, listed
from .model import Row, RowChange, update

_SHOWN = ("from_entity", "to_entity", "relation_type", "valid_from", "valid_to")


class Repointing:
    """What happens to ``links``, all relations of the one to ``keep`` and of ``others``, in order
    of their ids."""

    def __init__(
        self, conn: sqlite3.Connection, keep: int, others: set[int], links: Mapping[int, Row]
    ) -> None:
        self.keep, self.others, self.links = keep, others, links
        self.ended = {
            row[0]
            for row in conn.execute(
                "select r.id from relations r where r.id in (select value from json_each(?))"
                " and not coalesce(datetime(r.valid_to) > datetime('now'), 1)",
                # a hub has tens of thousands that have no end
                [json.dumps([n for n, row in links.items() if row["valid_to"] is not None])],
            )
        }
        self.moved: list[RowChange] = []
        self.again: dict[int, RowChange] = {}
        """Those of the one kept that had ended, and hold again."""
        self.loops: list[int] = []
        self.said: list[int] = []
        self._repoint()

    @property
    def changes(self) -> list[RowChange]:
        """Of relations that move, and of those that hold again."""
        return [*self.moved, *self.again.values()]

    def _repoint(self) -> None:
        there = {
            (row["from_entity"], row["to_entity"], row["relation_type"]): number
            for number, row in self.links.items()
            if not self._is_theirs(row)
        }
        # those that hold first: of two that say the same, that one moves
        for number, row in sorted(self.links.items(), key=lambda each: each[0] in self.ended):
            if not self._is_theirs(row):
                continue
            ends = {
                column: self.keep if row[column] in self.others else row[column]
                for column in ("from_entity", "to_entity")
            }
            if ends["from_entity"] == ends["to_entity"]:
                self.loops.append(number)
                continue
            first = there.setdefault((*ends.values(), row["relation_type"]), number)
            if first == number:
                self.moved.append(update("relations", (number,), row, _SHOWN, **ends))
                continue
            self.said.append(number)
            if first in self.ended and number not in self.ended and first not in self.again:
                self.again[first] = update(
                    "relations", (first,), self.links[first], _SHOWN, valid_to=row["valid_to"]
                )

    def _is_theirs(self, row: Row) -> bool:
        return row["from_entity"] in self.others or row["to_entity"] in self.others

    @property
    def warnings(self) -> list[str]:
        """What stays with the archived ones, and what holds again."""
        found = []
        if self.loops:
            found.append(
                f"{with_ids(self.loops, 'relation')} would lead from the entity to itself, and "
                "will stay with the archived ones"
            )
        if self.said:
            found.append(
                f"{with_ids(self.said, 'relation')} would say again what another one says, and "
                "will stay with the archived ones"
            )
        if self.again:
            found.append(
                f"{with_ids(self.again, 'relation')} had ended and will hold again, since "
                "the others have the same one and theirs holds"
            )
        return found


def with_ids(ids: Iterable[int], what: str) -> str:
    """``2 relations (4, 9)``."""
    every = sorted(ids)
    said = counted(len(every), what, f"{what}s")
    return f"{said} ({listed([str(each) for each in every])})"
