"""The tables in which a vec0 table keeps its rows: vec0 trusts them, and fails where one is not so.

Plain tables: what is read here is read without sqlite-vec too.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..vec_tables import TABLES, table_dimension
from .context import Context

# Bytes of a metadata column for one row of a chunk: an integer, or the first of a text.
_ROOM = {"integer": 8, "text": 16}
# Bytes of a text that fit there besides its length.
_SHORT = 12


def parts(name: str) -> dict[str, int]:
    """Tables with a row for each chunk, and bytes in it for each row; 0 for vectors."""
    table = TABLES[name]
    found = {f"{table.name}_vector_chunks00": 0}
    for number, column in enumerate(table.columns.split(", ")):
        found[f"{table.name}_metadatachunks{number:02}"] = _ROOM[column.split()[1]]
    return found


def long_texts(name: str) -> list[tuple[str, str]]:
    """Tables of the texts that have no room in a chunk, each with its column."""
    return [
        (f"{TABLES[name].name}_metadatatext{number:02}", column.split()[0])
        for number, column in enumerate(TABLES[name].columns.split(", "))
        if column.endswith(" text")
    ]


def every_part(name: str) -> list[str]:
    """All tables that belong to the vec0 table of a collection."""
    table = TABLES[name]
    texts = [part for part, _ in long_texts(name)]
    plain = [f"{table.name}_{part}" for part in ("info", "chunks", "rowids")]
    return [*plain, *parts(name), *texts]


def broken_parts(context: Context, name: str) -> list[str]:
    """What is wrong with the tables behind the vec0 table of a collection, in words."""
    table, dimension = TABLES[name].name, table_dimension(context.conn, name)
    if dimension is None:
        left = sorted(other for other in context.objects if other in every_part(name))
        return [f"is missing, but not its table {other}" for other in left]
    absent = [part for part in every_part(name) if part not in context.objects]
    if absent:
        return [f"lacks its table {part}" for part in absent]
    found = []
    execute = context.conn.execute
    if execute(f"select count(*) from {table}_info").fetchone()[0] == 0:
        found.append(f"{table}_info: empty")
    lost = execute(
        f"select count(*) from {table}_rowids where chunk_id is null or chunk_offset is null"
        f" or chunk_id not in (select chunk_id from {table}_chunks)"
    ).fetchone()[0]
    if lost:
        found.append(f"{table}_chunks: lacks what {lost:,} rows are in")
    bad = execute(
        f"select count(*) from {table}_chunks where typeof(validity) <> 'blob'"
        " or typeof(rowids) <> 'blob' or length(validity) * 8 <> size"
        " or length(rowids) <> size * 8"
    ).fetchone()[0]
    if bad:
        found.append(f"{table}_chunks: {bad:,} rows damaged")
    for part, room in parts(name).items():
        column, room = ("data", room) if room else ("vectors", dimension * 4)
        bad = execute(
            f"select count(*) from {table}_chunks c left join {part} p on p.rowid = c.chunk_id"
            f" where p.{column} is null or typeof(p.{column}) <> 'blob'"
            f" or length(p.{column}) <> c.size * {room}"
        ).fetchone()[0]
        if bad:
            found.append(f"{part}: {bad:,} rows missing or damaged")
    for part, column in long_texts(name):
        bad = execute(
            f"select count(*) from {table}_rowids r join {name} t on t.id = r.rowid"
            f" where length(cast({column} as blob)) > {_SHORT}"
            f" and not exists (select 1 from {part} p where p.rowid = r.rowid)"
            " and not exists (select 1 from limbic_stale s where s.collection = ?"
            "  and s.item_id = r.rowid)",
            [name],
        ).fetchone()[0]
        if bad:
            found.append(f"{part}: {bad:,} rows missing")
    return found


def other_rows(context: Context, name: str) -> Iterator[str]:
    """Chunks that hold other rows than the list of rows says: search goes by the chunk."""
    import numpy  # not needed by any page, so not at the top

    table = TABLES[name].name
    kind = [("chunk", "i8"), ("offset", "i8"), ("row", "i8")]
    listed = numpy.fromiter(
        context.conn.execute(f"select chunk_id, chunk_offset, rowid from {table}_rowids"), kind
    )
    listed = listed[numpy.lexsort((listed["offset"], listed["chunk"]))]
    for chunk, validity, rowids in context.conn.execute(
        f"select chunk_id, validity, rowids from {table}_chunks"
    ):
        bits = numpy.unpackbits(numpy.frombuffer(validity, "u1"), bitorder="little")
        used = numpy.flatnonzero(bits)
        first, last = numpy.searchsorted(listed["chunk"], [chunk, chunk + 1])
        mine = listed[first:last]
        rows = numpy.frombuffer(rowids, "<i8")[used]
        if not (numpy.array_equal(mine["offset"], used) and numpy.array_equal(mine["row"], rows)):
            yield f"part {chunk} of it holds other rows than are listed"
