"""The tables on the server: made, checked, indexed.

All stand in one schema, and one schema holds one memory: two memories in one table would need
vectors of one dimension, and would be found in each other's places. ``entities`` and ``texts``
are hash-partitioned by their key and hold nothing that reaches across partitions, so that
partitions may stand on other servers (``docs/postgres.md``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...errors import RetrieverFailed
from .connection import Deadline, Lent

if TYPE_CHECKING:
    from psycopg import Connection, Cursor
    from psycopg.sql import Composed

FORMAT = 1
HALF_FROM = (0, 7)
"""The version of pgvector from which it has halfvec: half the room, and inside of the row."""
MAX_DIMENSION = {"halfvec": 4000, "vector": 2000}
"""Values that an HNSW index of each type takes."""
TABLES = ("entities", "texts")
MEGABYTE = 1 << 20
BUILD_S, BUILD_ROW_S = 600.0, 0.02
"""How long one index may take before the server counts as hung, and for each row in addition:
fifteen times what was measured (``docs/postgres.md``)."""

_MEMORY = (
    "create table if not exists limbic.limbic_memory ("
    "one boolean primary key default true check (one), format integer not null,"
    " memory text not null, model text not null, dimension integer not null, kind text not null,"
    " partitions integer"
    " not null, created_at timestamptz not null default now())"
)
_STATE = (
    "create table if not exists limbic.limbic_state ("
    "collection text primary key, ready boolean not null default false,"
    " version bigint not null default 0, target bigint not null default 0,"
    " pushed_to bigint, pushed_at timestamptz)"
)
_COLUMNS = {
    "entities": (
        "id bigint not null, archived boolean not null, digest bigint not null, entity_type text"
        " not null, embedding {kind}({dimension}) not null"
    ),
    "texts": "doc bigint not null, digest bigint not null, length integer not null,"
    " words tsvector not null",
}
KEYS = {"entities": "id", "texts": "doc"}


@dataclass(frozen=True)
class Kept:
    """What the schema on the server is for."""

    memory: str
    model: str
    dimension: int
    kind: str
    """``halfvec`` or ``vector``."""


class Placed:
    """A connection on which ``limbic.`` before a table's name stands for our schema.

    Names are never looked up along a path: tables of other programs may be called the same.
    """

    def __init__(self, conn: Connection[Any], schema: str) -> None:
        self.conn, self._schema = conn, quoted(schema)

    def execute(self, sql: str, params: Sequence[Any] | None = None) -> Cursor[Any]:
        """As the connection's own."""
        return self.conn.execute(self.sql(sql).encode(), params)

    def sql(self, sql: str) -> str:
        """The statement as the server gets it."""
        return sql.replace("limbic.", self._schema + ".")

    def copy(self, into: str, data: bytes) -> None:
        """Rows in the form of ``rows``, into ``limbic.TABLE (COLUMNS)``."""
        statement = self.sql(f"copy {into} from stdin (format binary)")
        with self.conn.cursor().copy(statement.encode()) as out:
            out.write(data)


@contextmanager
def transaction(lent: Lent, schema: str, timeout_s: float | None = None) -> Iterator[Placed]:
    """A transaction; ``timeout_s`` is that of each statement."""
    with lent.conn.transaction():
        for statement in settings(lent, timeout_s):
            lent.conn.execute(statement)
        yield Placed(lent.conn, schema)


def settings(lent: Lent, timeout_s: float | None, **more: str) -> list[Composed]:
    """The statements that set what a transaction needs; they end with it, so poolers may be
    used, and they are SET LOCAL, which Citus can hand on to its workers."""
    from psycopg import sql

    timeout = str(int(timeout_s * 1000) if timeout_s else 0)
    # for pgvector's types and operators
    path = sql.SQL("set local search_path to {}").format(sql.Identifier(lent.path))
    return [path] + [
        sql.SQL("set local {} to {}").format(sql.SQL(name), sql.Literal(value))
        for name, value in {"statement_timeout": timeout, **more}.items()
    ]


def quoted(name: str) -> str:
    """A name as SQL writes it."""
    return '"' + name.replace('"', '""') + '"'


def read(conn: Placed) -> Kept | None:
    """What the schema is for; None where that was never said. Raises RetrieverFailed where its
    tables are of another version."""
    found = conn.execute(
        "select format, memory, model, dimension, kind from limbic.limbic_memory"
    ).fetchone()
    if found is None:
        return None
    if found[0] != FORMAT:
        raise RetrieverFailed(other_format(found[0]))
    return Kept(*found[1:5])


def other_format(found: object) -> str:
    """The sentence for tables of another version of this package."""
    return (
        f"the tables on the PostgreSQL server are of version {found}, and this package writes "
        f"version {FORMAT}: use the package that made them, or drop the schema (nothing is lost) "
        "and run datasette limbic sync"
    )


def other_memory(schema: str) -> str:
    """The sentence for a schema that holds another memory."""
    return (
        f"the schema {schema!r} on the PostgreSQL server holds another memory: name one of its "
        "own in postgres_schema (or drop this one; what it holds can be pushed again)"
    )


def other_copy(collection: str, schema: str) -> str:
    """The sentence for a schema that another copy of the same file was pushed to."""
    return (
        f"the schema {schema!r} on the PostgreSQL server holds {collection} of another copy of "
        "this file, or of this one before it was restored from a backup, and they were left as "
        "they are: name a schema of its own for this copy in postgres_schema, or, where this file "
        f"is the one that counts, run DELETE FROM {quoted(schema)}.limbic_state there, then "
        "datasette limbic sync"
    )


def make(lent: Lent, schema: str, memory: str, model: str, dimension: int, partitions: int) -> Kept:
    """Make what is missing; what stands there of another model or dimension is thrown away, and
    what stands there in part.

    Raises RetrieverFailed with a sentence for a server without pgvector, a missing right, and a
    schema of another memory or version.
    """
    require_pgvector(lent)
    # YugabyteDB's indexes take no halfvec, although its pgvector has the type
    half = lent.vector >= HALF_FROM and not lent.yugabyte
    kind = "halfvec" if half else "vector"
    if dimension > MAX_DIMENSION[kind]:
        raise RetrieverFailed(
            f"vectors of {dimension:,} dimensions are more than an index of pgvector "
            f"{'.'.join(map(str, lent.vector))} takes ({MAX_DIMENSION[kind]:,} as {kind})"
        )
    _make_schema(lent, schema)
    with transaction(lent, schema, 60) as conn:
        conn.execute(_MEMORY)
        conn.execute(_STATE)
        there = read(conn)
        if there is not None and there.memory != memory:
            raise RetrieverFailed(other_memory(schema))
        whole = all(_exists(conn, table) for table in TABLES)
        if whole and there and (there.model, there.dimension) == (model, dimension):
            return there
        for table in TABLES:
            if there is None and _exists(conn, table):
                raise RetrieverFailed(
                    f"the schema {schema!r} on the PostgreSQL server has a table {table!r} of "
                    "another program: name a schema for this memory alone in postgres_schema"
                )
            conn.execute(f"drop table if exists limbic.{table}")
            _make_table(conn, table, partitions, kind, dimension)
        conn.execute("delete from limbic.limbic_state")
        conn.execute("delete from limbic.limbic_memory")
        made = Kept(memory, model, dimension, kind)
        conn.execute(
            "insert into limbic.limbic_memory(format, memory, model, dimension, kind, partitions)"
            " values (%s, %s, %s, %s, %s, %s)",
            [FORMAT, made.memory, model, dimension, kind, partitions],
        )
    return made


def require_pgvector(lent: Lent) -> None:
    """Make the extension where it is not there. Raises RetrieverFailed where that cannot be."""
    from psycopg import Error, errors

    if lent.vector:
        return
    try:
        with lent.conn.transaction():
            lent.conn.execute("create extension if not exists vector")
    except errors.InsufficientPrivilege:
        raise RetrieverFailed(
            "the PostgreSQL database lacks the extension pgvector, and the user may not add it: "
            "an administrator runs CREATE EXTENSION vector there, once"
        ) from None
    except Error as error:
        if isinstance(error, errors.OperationalError):
            raise
        raise RetrieverFailed(
            "the PostgreSQL server has no pgvector: install it there (Debian: "
            "postgresql-16-pgvector), then run datasette limbic sync again"
        ) from None
    lent.look()


def _make_schema(lent: Lent, schema: str) -> None:
    from psycopg import errors

    conn = lent.conn
    row = conn.execute("select to_regnamespace(%s)", [quoted(schema)]).fetchone()
    if row is not None and row[0] is not None:
        return
    try:
        conn.execute(f"create schema if not exists {quoted(schema)}")
    except errors.InsufficientPrivilege:
        raise RetrieverFailed(
            f"the PostgreSQL user {conn.info.user!r} may not make the schema {schema!r}: an "
            f"administrator runs CREATE SCHEMA {quoted(schema)} AUTHORIZATION "
            f"{quoted(conn.info.user)} there, once"
        ) from None


def _exists(conn: Placed, table: str) -> bool:
    row = conn.execute("select to_regclass(%s)", [conn.sql(f"limbic.{table}")]).fetchone()
    return row is not None and row[0] is not None


def _make_table(conn: Placed, table: str, partitions: int, kind: str, dimension: int) -> None:
    columns = _COLUMNS[table].format(kind=kind, dimension=dimension)
    key = KEYS[table]
    if not partitions:
        conn.execute(f"create table limbic.{table} ({columns}, primary key ({key}))")
        return
    # a key of the whole table would forbid partitions on another server
    conn.execute(f"create table limbic.{table} ({columns}) partition by hash ({key})")
    for i in range(partitions):
        conn.execute(
            f"create table limbic.{table}_{i} partition of limbic.{table} (primary key ({key}))"
            f" for values with (modulus {partitions}, remainder {i})"
        )


def make_indexes(
    lent: Lent, schema: str, kept: Kept, progress: Callable[[int, int, str], None] | None = None
) -> None:
    """Make the indexes that are missing, one table or partition after the other.

    A partition that is a foreign table is left out: its server makes them.
    """
    with Deadline(lent.conn, 60), transaction(lent, schema, 60) as conn:
        leaves = _leaves(conn)
        there = {
            row[0]
            for row in conn.execute(
                "select indexname from pg_indexes where schemaname = %s", [schema]
            )
        }
    method = "ybhnsw" if lent.yugabyte else "hnsw"
    wanted = []
    for table, leaf, rows in leaves:
        if table == "entities":
            # vectors and links to neighbours: with less memory than that it is built on disk
            size = rows * (kept.dimension * (2 if kept.kind == "halfvec" else 4) + 400)
            wanted.append((f"{leaf}_type", leaf, "btree (entity_type)", 0, rows))
            wanted.append(
                (f"{leaf}_near", leaf, f"{method} (embedding {kept.kind}_cosine_ops)", size, rows)
            )
        else:
            wanted.append((f"{leaf}_words", leaf, "gin (words)", rows * 200, rows))
    for done, (name, leaf, using, size, rows) in enumerate(wanted):
        if progress:
            progress(done, len(wanted), "indexes on the server")
        if name in there:
            continue
        patience = Deadline(lent.conn, BUILD_S + rows * BUILD_ROW_S)
        with patience, transaction(lent, schema) as conn:
            megabytes = min(2048, max(64, size // MEGABYTE))
            conn.execute(
                "select set_config('maintenance_work_mem', greatest(%s, pg_size_bytes("
                "current_setting('maintenance_work_mem')) / 1024)::text, true)",
                [megabytes * 1024],
            )
            conn.execute(f"create index if not exists {name} on limbic.{leaf} using {using}")
    if progress:
        progress(len(wanted), len(wanted), "indexes on the server")


def _leaves(conn: Placed) -> list[tuple[str, str, int]]:
    """(table, itself or a partition of it, rows as far as known) of what is on this server."""
    found = []
    for table in TABLES:
        rows = conn.execute(
            "select c.relname, greatest(c.reltuples, 0)::bigint from pg_class c where c.relkind ="
            " 'r' and (c.oid = %s::regclass or c.oid in (select inhrelid from pg_inherits where"
            " inhparent = %s::regclass)) order by c.oid",
            [conn.sql(f"limbic.{table}")] * 2,
        ).fetchall()
        found += [(table, name, count) for name, count in rows]
    return found
