"""The retriever ``postgres``: candidates from the server, and from here what it lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

from datasette.utils.sqlite import sqlite3

from ...config import Settings
from ...errors import RetrieverFailed
from ...schema import COLLECTIONS
from ..model import MAX_K, Candidate, Hit, Retriever, Wanted
from . import connection, schema
from .dsn import dsn_of, unusable
from .pending import MOST, measured, pending
from .rows import PART, PLACES
from .source import docs as numbered
from .substrings import substrings
from .terms import K1, NAME_WEIGHT, B, Size, Worth, here, rated, size_of, terms, tsquery

if TYPE_CHECKING:
    from .connection import Lent

EF_LEAST, EF_MOST = 40, 1000
"""Candidates that an HNSW index looks through: pgvector's default, and the most it takes."""
MOST_LONG = 200
"""Texts beyond a tsvector that one search looks up here; of more, the newest."""
_SYNC = "run datasette limbic sync"
SPARE = 10
"""Candidates asked for beyond those wanted: some are gone, or have changed meanwhile."""

_STATE = (
    "select m.format, m.memory, m.model, s.collection, s.ready, s.version"
    " from limbic.limbic_memory m left join limbic.limbic_state s on true"
)


class _State(NamedTuple):
    ready: bool
    version: int


class Postgres(Retriever):
    """Candidates by HNSW and full text of a PostgreSQL server (``docs/postgres.md``)."""

    name = "postgres"
    finds_texts = True

    def unusable(self, conn: sqlite3.Connection, settings: Settings) -> str | None:
        """No server named, no psycopg, nothing pushed, or the server failed seconds ago."""
        problem = unusable(settings)
        if problem is None and _memory(conn) is None:
            problem = "this memory was not pushed to PostgreSQL yet: run datasette limbic sync"
        return problem or connection.server(dsn_of(settings)).paused()

    def note(self, conn: sqlite3.Connection, settings: Settings) -> str | None:
        """Whether more waits to be pushed than a search looks through here."""
        for collection, version in conn.execute(
            "select collection, version from limbic_pushes where version is not null"
        ).fetchall():
            try:
                left_out = pending(conn, collection, version).left_out
            except RetrieverFailed:
                return f"the {collection} were indexed anew since the last push: {_SYNC}"
            if left_out:
                return (
                    f"more than {MOST:,} {collection} are not on the PostgreSQL server yet, and a "
                    f"search looks through the newest {MOST:,} of them: {_SYNC}"
                )
        return None

    def nearest(
        self, conn: sqlite3.Connection, wanted: Wanted, settings: Settings
    ) -> Sequence[Candidate]:
        """The nearest entities; their distances are those of the file's own vectors."""
        with _told_once(settings):
            return self._nearest(conn, wanted, settings)

    def _nearest(
        self, conn: sqlite3.Connection, wanted: Wanted, settings: Settings
    ) -> Sequence[Candidate]:
        literal = "[" + ",".join(map(repr, memoryview(wanted.vector).cast("f"))) + "]"
        where = "" if wanted.include_archived else " and not archived"
        params: list[Any] = [literal]
        if wanted.entity_type is not None:
            where += " and entity_type = %s"
            params.insert(0, wanted.entity_type.replace("\0", "\ufffd"))
        count = min(MAX_K, wanted.k + SPARE + wanted.k // 10)
        sql = f"select id from limbic.entities where true{where} order by embedding <=> %s limit %s"
        states, found = self._ask(
            conn,
            settings,
            sql,
            [*params, count],
            lambda lent: _index_settings(lent, count, settings),
        )
        waiting = pending(conn, "entities", states["entities"].version)
        ids = waiting.ids.union(row[0] for row in found)
        exact = measured(conn, ids, wanted.vector, wanted.entity_type, wanted.include_archived)
        return sorted(exact, key=lambda one: (one.distance, one.id))[: wanted.k]

    def texts(self, conn: sqlite3.Connection, wanted: Wanted, settings: Settings) -> Sequence[Hit]:
        """The best texts by the words they hold, and those that hold a part of a word."""
        with _told_once(settings):
            return self._texts(conn, wanted, settings)

    def _texts(self, conn: sqlite3.Connection, wanted: Wanted, settings: Settings) -> list[Hit]:
        size = size_of(conn)
        worth = terms(conn, wanted.query, size)
        known = [one for one in worth if one.frequency]
        hits = substrings(conn, wanted.query, worth, wanted.k)
        if known:
            hits += self._words(conn, settings, known, size, wanted.k)
        best: dict[int, float] = {}
        for hit in hits:
            best[hit.doc] = min(hit.score, best.get(hit.doc, hit.score))
        order = sorted(best.items(), key=lambda one: (one[1], one[0]))
        return [Hit(doc, value) for doc, value in order[: wanted.k]]

    def _words(
        self,
        conn: sqlite3.Connection,
        settings: Settings,
        known: list[Worth],
        size: Size,
        k: int,
    ) -> list[Hit]:
        """The best texts that hold some of the words."""
        cases = " + ".join(
            ["case when words @@ %s::tsquery then %s::float8 else 0 end"] * len(known)
        )
        statement = (
            f"select doc, false from (select doc, length, ({cases}) as idf,"
            " case when doc & 1 = 1 then 1 else %s::float8 end as times"
            " from limbic.texts where words @@ %s::tsquery) found"
            " order by idf * times / (times + %s::float8 + length * %s::float8) desc, doc limit %s"
        )
        params: list[Any] = []
        for one in known:
            params += [tsquery(one.term.tokens), one.idf]
        matching = " | ".join(f"({tsquery(one.term.tokens)})" for one in known)
        params += [NAME_WEIGHT, matching, K1 * (1 - B), K1 * B / size.average]
        # and texts that the server has in part: whether they hold the words is for the file to say
        statement = f"({statement}) union all (select doc, true from limbic.texts"
        statement += " where words @@ %s::tsquery order by doc desc limit %s)"
        phrases = any(len(one.term.tokens) > 1 for one in known)
        marks = [PART, PLACES] if phrases else [PART]
        lacking = " | ".join(tsquery((mark,)) for mark in marks)
        params += [k + SPARE + k // 10, lacking, MOST_LONG]
        states, found = self._ask(conn, settings, statement, params)
        in_part = [doc for doc, part in found if part]
        docs = {row[0] for row in found}.difference(in_part)
        for collection in COLLECTIONS:
            waiting = pending(conn, collection, states[collection].version)
            docs.update(numbered(collection, sorted(waiting.ids)))
        return rated(conn, docs, known, size) + here(conn, in_part, known)

    def _ask(
        self,
        conn: sqlite3.Connection,
        settings: Settings,
        sql: str,
        params: Sequence[Any],
        more: Callable[[Lent], dict[str, str]] | None = None,
    ) -> tuple[dict[str, _State], list[tuple[Any, ...]]]:
        """The server's state and the rows of a query, in one round trip. Raises RetrieverFailed."""
        memory = _memory(conn)
        timeout_s = settings.postgres_timeout_ms / 1000

        def work(lent: Lent) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
            extra = more(lent) if more else {}
            placed = schema.Placed(lent.conn, settings.postgres_schema)
            # no transaction() of psycopg's: who fails loses the connection, and need not end it
            with _together(lent):
                lent.conn.execute("begin")
                for statement in schema.settings(lent, timeout_s, jit="off", **extra):
                    lent.conn.execute(statement)
                state = placed.execute(_STATE)
                found = placed.execute(sql, params)
                lent.conn.execute("commit")
            return state.fetchall(), found.fetchall()

        state, found = connection.server(dsn_of(settings)).run(work, timeout_s)
        return _checked(state, memory, _model(conn), settings), found


@contextmanager
def _together(lent: Lent) -> Iterator[None]:
    """Statements that are sent at once, where libpq can. Raises psycopg.Error.

    What fails is raised after the pipeline was left: psycopg logs what it cannot raise, for each
    search that a lost server breaks off.
    """
    from psycopg import Error, Pipeline

    problem: Error | None = None
    try:
        with lent.conn.pipeline() if Pipeline.is_supported() else nullcontext():
            try:
                yield
            except Error as error:
                problem = error
    except Error as error:
        problem = problem or error
    if problem is not None:
        raise problem


@contextmanager
def _told_once(settings: Settings) -> Iterator[None]:
    """A failure that the log has heard of a moment ago is marked as told."""
    try:
        yield
    except RetrieverFailed as error:
        error.told = connection.server(dsn_of(settings)).told()
        raise


def _memory(conn: sqlite3.Connection) -> str | None:
    """The name by which the server knows this memory; None where nothing was ever pushed."""
    try:
        row = conn.execute(
            "select min(memory) from limbic_pushes where pushed_at is not null"
        ).fetchone()
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):
            return None  # a file that an older version made
        raise
    return row[0] if row else None


def _model(conn: sqlite3.Connection) -> str | None:
    row = conn.execute("select model from limbic_indexes where collection = 'entities'").fetchone()
    return row[0] if row else None


def _checked(
    found: list[tuple[Any, ...]], memory: str | None, model: str | None, settings: Settings
) -> dict[str, _State]:
    """The state of both collections. Raises RetrieverFailed where the server is of no use."""
    if not found:
        raise RetrieverFailed(f"the PostgreSQL server holds nothing of this memory yet: {_SYNC}")
    if found[0][0] != schema.FORMAT:
        raise RetrieverFailed(schema.other_format(found[0][0]))
    if found[0][1] != memory:
        raise RetrieverFailed(schema.other_memory(settings.postgres_schema))
    if found[0][2] != (model or ""):
        raise RetrieverFailed(
            f"the PostgreSQL server has vectors of the model {found[0][2]!r}, and this file of "
            f"{model!r}: {_SYNC}"
        )
    states = {row[3]: _State(*row[4:]) for row in found}
    for collection in COLLECTIONS:
        if collection not in states or not states[collection].ready:
            raise RetrieverFailed(
                f"the {collection} are not all on the PostgreSQL server yet: {_SYNC} (or wait for "
                "the one that runs)"
            )
    return states


def _index_settings(lent: Lent, count: int, settings: Settings) -> dict[str, str]:
    """How far each HNSW index looks for ``count`` candidates."""
    # for 98 in 100 of the right ones, measured (docs/postgres.md): each of several indexes has
    # to find but a part of them
    factor = 4 if settings.postgres_partitions > 1 else 10
    ef = settings.postgres_ef_search or max(EF_LEAST, factor * count)
    wanted = {
        "ybhnsw.ef_search": str(min(EF_MOST, ef)),  # YugabyteDB's
        "hnsw.ef_search": str(min(EF_MOST, ef)),
        # from pgvector 0.8 on: it goes on until a filtered query is filled
        "hnsw.iterative_scan": "relaxed_order",
    }
    return {name: value for name, value in wanted.items() if name in lent.settings}
