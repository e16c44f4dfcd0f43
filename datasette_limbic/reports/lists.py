"""One list of a report: how many rows it has, and a page of them in a stated order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from datasette.utils.sqlite import sqlite3

from .. import times
from ..errors import BadParameter
from .queries import queries

SIZE = 20
MAX_SIZE = 1000
MAX_PAGE = 10_000_000


@dataclass(frozen=True)
class Listing:
    """A list over the query of one view, which stands as ``q`` in ``where`` and ``order``."""

    view: str
    order: str
    """What deserves attention first; the id last, so that pages never overlap."""
    where: str = "1"
    join: str = ""
    kept: bool = True
    """Whether the query reads the tables of migration 4."""

    def count(self, conn: sqlite3.Connection, values: Mapping[str, Any]) -> int:
        """How many rows the whole list has."""
        # without the columns: SQLite then leaves out what only they would need
        return int(conn.execute(f"select count(*) {self._source()}", values).fetchone()[0])

    def counts_by(
        self, conn: sqlite3.Connection, column: str, values: Mapping[str, Any]
    ) -> dict[Any, int]:
        """How many rows there are of each value of ``column``."""
        return dict(
            conn.execute(
                f"select {column}, count(*) {self._source()} group by 1", values
            ).fetchall()
        )

    def rows(
        self, conn: sqlite3.Connection, values: Mapping[str, Any], page: int, size: int
    ) -> list[dict[str, Any]]:
        """One page of the list, rows as dicts by the view's column names."""
        cursor = conn.execute(
            f"select q.* {self._source()} order by {self.order} limit :size offset :skip",
            {**values, "size": size, "skip": (page - 1) * size},
        )
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor]

    def _source(self) -> str:
        text = queries(parametrised=True)[self.view]
        return f"from ({text}) q {self.join} where {self.where}"


def pages(count: int, size: int) -> int:
    """Pages of a list, at least one."""
    return max(1, -(-count // size))


def moment(now: Any) -> str:
    """A time as a caller gives it, as SQL writes it; None and '' are now. Raises BadParameter."""
    text = times.now_sql() if now is None or now == "" else times.to_sql(now)
    if text is None:
        raise BadParameter(
            f"now is {now!r:.60}: use a time such as 2026-11-29 12:00:00 (UTC), "
            "an ISO time with offset, or Unix seconds"
        )
    return text


def with_type(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of SQL as JSON has it: the type of an entity is ``entityType`` there."""
    return {("entityType" if key == "entity_type" else key): row[key] for key in row}
