"""The first line of a full export: its version, and the tables with their rows and columns.

It holds no date and nothing of the machine, so that one memory gives the same file each time.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from ..errors import UnknownFormat
from .tables import affinity

KEY = "limbic_export"
VERSION = 1


@dataclass
class TableHead:
    """How many rows of a table the file holds, and its columns with their types."""

    rows: int
    columns: dict[str, str]


@dataclass
class Envelope:
    version: int = VERSION
    tables: dict[str, TableHead] = field(default_factory=dict)

    def line(self) -> str:
        """The line, with its end."""
        tables = {
            name: {"rows": head.rows, "columns": head.columns} for name, head in self.tables.items()
        }
        return json.dumps({KEY: self.version, "tables": tables}, ensure_ascii=False) + "\n"


def read_envelope(first_line: str) -> Envelope | None:
    """The envelope that ``first_line`` is, or None where the file is no full export.

    Raises UnknownFormat where it is one that cannot be read: of a newer version, or damaged.
    """
    try:
        value = json.loads(first_line.lstrip("\ufeff"))
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict) or KEY not in value:
        return None
    version = value[KEY]
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise UnknownFormat(
            f"the first line says {KEY} {version!r:.40}, which is no version: export it again"
        )
    if version > VERSION:
        raise UnknownFormat(
            f"this is a full export of version {version}, and version {VERSION} is read here: "
            "upgrade with pip install -U datasette-limbic"
        )
    try:
        tables = {
            str(name): TableHead(
                int(head["rows"]),
                {str(column): affinity(kind) for column, kind in head["columns"].items()},
            )
            for name, head in value["tables"].items()
        }
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise UnknownFormat(
            "the first line of this full export is damaged: export it again"
        ) from error
    return Envelope(version, tables)
