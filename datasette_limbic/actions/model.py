"""An action before it happens: the exact rows that would be created, changed and removed.

The same plan is what a person is shown, what is applied in one transaction, what the log of
changes keeps, and what undoing turns round.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .basis import Basis

Row = dict[str, Any]
Key = tuple[Any, ...]


class New(str):
    """Stands for the id of a row that is not there yet; equal ones are the same row."""


@dataclass(frozen=True)
class RowChange:
    """What happens to one row.

    ``before`` None: it is created, with the columns of ``after``. ``after`` None: it is removed,
    and ``before`` is all of it. Else ``before`` and ``after`` have the columns that change.
    """

    table: str
    key: Key
    before: Row | None
    after: Row | None
    shown: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """What else a person wants to see of it, such as the content of an observation that moves."""

    @property
    def what(self) -> str:
        """``created``, ``removed``, ``moved`` (to another entity) or ``changed``."""
        if self.before is None:
            return "created"
        if self.after is None:
            return "removed"
        return "moved" if MOVES.intersection(self.after) else "changed"

    def value(self, column: str) -> Any:
        """The column as it would be, from whatever of the row is known."""
        for row in (self.after, self.before, self.shown):
            if row is not None and column in row:
                return row[column]
        return None


MOVES = frozenset(("entity_id", "from_entity", "to_entity"))


@dataclass(frozen=True)
class Plan:
    """One action on the memory as it stands. Applying it is ``applying.apply``."""

    action: str
    summary: str
    """What it would do, in a sentence."""
    changes: tuple[RowChange, ...]
    basis: Basis
    """The rows that it was worked out from: if they change, it is out of date."""
    entity_id: int | None = None
    entity_name: str | None = None
    """Of what it is mostly about, for the log."""
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """What was asked for, in full, as the action would take it again."""
    warnings: tuple[str, ...] = ()
    undoes: int | None = None
    """The change that it takes back."""

    def of(self, table: str) -> list[RowChange]:
        """What happens to the rows of one table."""
        return [change for change in self.changes if change.table == table]


def same(one: Any, other: Any) -> bool:
    """Whether two values are one to SQLite, which tells 1 from 1.0 and text from bytes."""
    return type(one) is type(other) and bool(one == other)


def update(table: str, key: Key, row: Row, shown: Iterable[str] = (), **after: Any) -> RowChange:
    """A change of ``row`` as it is now; the columns that stay the same are left out."""
    changed = {name: value for name, value in after.items() if not same(row[name], value)}
    return RowChange(
        table,
        key,
        {name: row[name] for name in changed},
        changed,
        {name: row[name] for name in shown},
    )
