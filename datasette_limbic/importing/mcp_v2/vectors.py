"""The server's own embeddings, out of the plain tables in which vec0 keeps them.

sqlite-vec is not needed, and whether it is loaded changes nothing: the virtual table itself is
never touched. A chunk holds ``size`` vectors on end; a bitmap says which places are taken.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

from datasette.utils.sqlite import sqlite3

from ..items import Item, Rejection, Vector
from ..notes import Notes
from .cells import name
from .tables import Layout, quoted

TABLE = "entity_embeddings"
_BYTES = 4  # of a float32
# The first column of vectors; keys, metadata and options may stand before and after it.
_COLUMN = re.compile(
    r"[(,]\s*[\"'`\[]?\w+[\"'`\]]?\s+(float\w*|f32|int8|i8|bit)\s*\[\s*(\d+)\s*\]([^,)]*)", re.I
)
_DISTANCE = re.compile(r"distance_metric\s*=\s*(\w+)", re.I)
_TEXT_KEY = re.compile(r"\btext\s+primary\s+key\b", re.I)


class Stored(NamedTuple):
    """What a vec0 table holds, by its own statement."""

    element: str
    dimension: int
    distance: str

    @property
    def readable(self) -> bool:
        """Whether these are float32, the only vectors that are carried."""
        return self.element.startswith("f") and self.dimension > 0


def stored_vectors(layout: Layout, table: str = TABLE) -> Stored | None:
    """What the table of vectors holds; None where there is none that can be read by row."""
    if layout.modules.get(table) != "vec0" or not _parts(table) <= set(layout.tables):
        return None
    found = _COLUMN.search(layout.virtual[table])
    if found is None or _TEXT_KEY.search(layout.virtual[table]):
        return None
    distance = _DISTANCE.search(found[3])
    return Stored(found[1].lower(), int(found[2]), distance[1].lower() if distance else "l2")


class VectorReader:
    """Reads one vector for each row of ``entity_embeddings``. ``passed`` counts the rows."""

    def __init__(self, conn: sqlite3.Connection, stored: Stored, notes: Notes) -> None:
        self.conn, self.notes = conn, notes
        self.dimension = stored.dimension
        self.passed = 0

    def items(self) -> Iterator[Item]:
        """The vectors in the order in which they are stored; of entities that are gone, none."""
        current: object = None
        chunk: tuple[bytes, bytes] | None = None
        for number, chunk_id, place, title in self.conn.execute(
            f"select r.rowid, r.chunk_id, r.chunk_offset, e.name from {TABLE}_rowids r"
            " left join entities e on e.id = r.rowid order by r.chunk_id, r.chunk_offset"
        ):
            self.passed += 1
            entity = name(title)
            if entity is None:
                self.notes.not_carried["vectors of entities that are gone"] += 1
                continue
            if chunk is None or chunk_id != current:
                current, chunk = chunk_id, self._chunk(chunk_id)
            raw = json.dumps({"rowid": number, "entity": entity}, ensure_ascii=False)
            blob = self._vector(chunk, place)
            yield Item(
                number,
                raw,
                Rejection(
                    f"{TABLE} row {number}: no vector of {self.dimension} float32 in its place"
                )
                if blob is None
                else Vector(entity, blob),
            )

    def _chunk(self, chunk_id: object) -> tuple[bytes, bytes] | None:
        """Its bitmap and its vectors. Their key is a plain column that is called rowid."""
        found = self.conn.execute(
            f"select c.validity, v.vectors from {TABLE}_chunks c"
            f" join {TABLE}_vector_chunks00 v on v.rowid = c.chunk_id where c.chunk_id = ?",
            [chunk_id],
        ).fetchone()
        if found and isinstance(found[0], bytes) and isinstance(found[1], bytes):
            return found[0], found[1]
        return None

    def _vector(self, chunk: tuple[bytes, bytes] | None, place: object) -> bytes | None:
        if chunk is None or not isinstance(place, int) or not 0 <= place < 8 * len(chunk[0]):
            return None
        taken = chunk[0][place // 8] >> (place % 8) & 1
        width = self.dimension * _BYTES
        blob = chunk[1][place * width : (place + 1) * width]
        return blob if taken and len(blob) == width else None


def count_vectors(conn: sqlite3.Connection, layout: Layout, table: str) -> int:
    """How many vectors a vec0 table holds."""
    if f"{table}_rowids" not in layout.tables:
        return 0
    return int(conn.execute(f"select count(*) from {quoted(table + '_rowids')}").fetchone()[0])


def _parts(table: str) -> set[str]:
    return {f"{table}_{part}" for part in ("rowids", "chunks", "vector_chunks00")}
