"""The rows of limbic_parameters, and which version each stands for.

A rollback stands for the version whose values it brought back, so the version before a rollback
is the one before that, and what was rolled back stays so.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from datasette.utils.sqlite import sqlite3

from ..config import Settings
from ..errors import BadParameter
from ..request import unusable
from ..text import storable

CONFIGURATION, CONSTANTS = "configuration", "constants"
_COLUMNS = (
    *("version", "beta_sal", "gamma", "source", "evidence", "log_digest", "applied_by"),
    "created_at",
)
# Levels of evidence at most: what is parsed is walked through and written again, level by level.
_DEEPEST = 50


@dataclass(frozen=True)
class InForce:
    """The parameters that count, and where they come from.

    ``version`` is 0 where none was applied; ``source`` is then "configuration" or "constants",
    else tuned, manual or rollback.
    """

    version: int
    beta_sal: float
    gamma: float
    source: str

    @property
    def values(self) -> dict[str, float]:
        return {"beta_sal": self.beta_sal, "gamma": self.gamma}


@dataclass(frozen=True)
class Row:
    """One row, as it stands in the file: another program may have written anything into it."""

    version: int
    beta_sal: Any
    gamma: Any
    source: Any
    evidence: Any
    log_digest: Any
    applied_by: Any
    created_at: Any

    @property
    def values(self) -> dict[str, Any]:
        return {"beta_sal": self.beta_sal, "gamma": self.gamma}

    @cached_property
    def unusable(self) -> str | None:
        """Why it was never in force, in a sentence; None where it was."""
        if self.version < 1:
            return f"versions are counted from 1, and this is {self.version}"
        reason = unusable(self.beta_sal, self.gamma)
        return None if reason is None else reason[:200]

    @cached_property
    def read_evidence(self) -> Any:
        """Parsed where it is JSON that others can take, else as it is.

        Half a surrogate pair, which JSON can hold and UTF-8 cannot, is U+FFFD in it.
        """
        if not isinstance(self.evidence, str):
            return self.evidence
        try:
            found = json.loads(self.evidence)
        except (ValueError, RecursionError):
            return self.evidence
        return self.evidence if _deeper(found, _DEEPEST) else _storable(found)

    @property
    def brought_back(self) -> int | None:
        """The version that a rollback says it brought back; None where it is none."""
        found = self.read_evidence
        to = found.get("to") if self.source == "rollback" and isinstance(found, dict) else None
        return to if isinstance(to, int) and not isinstance(to, bool) else None


@dataclass(frozen=True)
class Versions:
    """All rows, oldest first, and how those that were in force follow each other."""

    rows: tuple[Row, ...]
    newest: Row | None = None
    """The row in force."""
    stands_for: dict[int, int] = field(default_factory=dict)
    """By version, 0 too: itself, or what a rollback brought back, which is no rollback."""
    preceding: dict[int, int | None] = field(default_factory=dict)
    """By a version that stands for itself: the one before it, None for 0."""
    previous: dict[int, Row | None] = field(default_factory=dict)
    """By version: the row that was in force just before."""

    @property
    def next(self) -> int:
        """The number of the next version."""
        return max(0, self.rows[-1].version if self.rows else 0) + 1

    def get(self, version: int) -> Row | None:
        """The row of that version."""
        return next((row for row in self.rows if row.version == version), None)

    def before(self, row: Row) -> dict[str, Any]:
        """Number and values of what was in force before a row; None for what nobody wrote down."""
        last = self.previous.get(row.version)
        if last is not None:
            return {"version": last.version, **last.values}
        found = row.read_evidence.get("from") if isinstance(row.read_evidence, dict) else None
        if not isinstance(found, dict) or unusable(found.get("beta_sal"), found.get("gamma")):
            found = {}
        return {"version": 0, **{name: found.get(name) for name in ("beta_sal", "gamma")}}

    def named(self) -> str:
        """The numbers of the versions, for a sentence."""
        if not self.rows:
            return "no version yet"
        first, last = self.rows[0].version, self.rows[-1].version
        return f"version {first}" if first == last else f"versions from {first} to {last}"


def read(conn: sqlite3.Connection) -> Versions:
    """All versions of a memory. Reads only."""
    rows = tuple(
        Row(*found)
        for found in conn.execute(
            f"select {', '.join(_COLUMNS)} from limbic_parameters order by version"
        )
    )
    stands_for: dict[int, int] = {0: 0}
    preceding: dict[int, int | None] = {0: None}
    previous: dict[int, Row | None] = {}
    last: Row | None = None
    for row in rows:
        previous[row.version] = last
        if row.unusable is not None:
            continue
        # only what was there before it can have been brought back
        origin = stands_for.get(row.version if row.brought_back is None else row.brought_back)
        if origin is None:
            origin = row.version
            preceding[origin] = stands_for[last.version if last else 0]
        stands_for[row.version] = origin
        last = row
    return Versions(rows, last, stands_for, preceding, previous)


def configured(settings: Settings | None = None) -> InForce:
    """Version 0: what configuration has. Raises BadParameter where that is out of range."""
    settings = settings or Settings()
    reason = unusable(settings.beta_sal, settings.gamma)
    if reason is not None:
        raise BadParameter(f"configuration: {reason:.200}")
    unset = Settings()
    same = (settings.beta_sal, settings.gamma) == (unset.beta_sal, unset.gamma)
    return InForce(
        0, float(settings.beta_sal), float(settings.gamma), CONSTANTS if same else CONFIGURATION
    )


def _deeper(value: Any, levels: int) -> bool:
    """Whether there is more than so many levels in what JSON gave."""
    if not isinstance(value, (dict, list)):
        return False
    items = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_deeper(item, levels - 1) for item in items)


def _storable(value: Any) -> Any:
    """What JSON gave, with texts and keys that can be sent again."""
    if isinstance(value, dict):
        return {storable(key): _storable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_storable(item) for item in value]
    return storable(value) if isinstance(value, str) else value
