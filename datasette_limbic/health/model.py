"""What health looks for, and what it answers."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from datasette.utils.sqlite import sqlite3

from ..config import Settings

SEVERITIES = ("broken", "attention", "note")
"""Most urgent first: what is wrong in the file, what a person should look at, what is worth
knowing."""


@dataclass(frozen=True)
class Advice:
    """What to do about a finding."""

    text: str
    command: str | None = None
    """A command line, with FILE for the database."""
    sql: tuple[str, ...] = ()
    """Statements that a person may run once they have decided."""

    def as_dict(self, file: str) -> dict[str, Any]:
        """The same as plain data; ``file`` is how the command line names the database."""
        command = self.command and self.command.replace("FILE", shlex.quote(file))
        return {"text": self.text, "command": command, "sql": list(self.sql)}


@dataclass(frozen=True)
class Ask:
    """What is looked at, and how much of what is found is wanted."""

    conn: sqlite3.Connection
    settings: Settings
    now: str
    """UTC, as SQLite writes it."""
    first: int
    size: int
    hidden: frozenset[str] = frozenset()
    """Tables that must not be read."""


@dataclass
class Found:
    """How many, and those of them that were asked for."""

    count: int = 0
    rows: list[dict[str, Any]] = field(default_factory=list)
    advice: Advice | None = None
    """In place of the finding's own."""
    note: str | None = None


class NotLookedAt(Exception):
    """It cannot be told here; the text says why."""


@dataclass(frozen=True)
class Look:
    """One thing that health looks for."""

    name: str
    title: str
    """As one would say it of a finding: "entities without relations"."""
    severity: str
    """One of SEVERITIES."""
    columns: tuple[str, ...]
    """Keys of the rows that are shown; rows may hold more."""
    find: Callable[[Ask], Found]
    advice: Advice
    reads: Sequence[str] = ()
    """Tables without the right to which it is not shown."""
    links: Mapping[str, str] = field(default_factory=dict)
    """Column that names an entity → column that holds its id."""
    view: str | None = None
    """A view of the file with the same rows."""
