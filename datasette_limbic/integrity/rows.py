"""Rows that should not be there, each kind one query: what a person has to decide.

Adopted tables may lack every constraint that ``init`` would give them, and a writer may have
switched them off, so none is trusted.
"""

from __future__ import annotations

from collections.abc import Iterator

from .context import Check, Context, Found, scan
from .report import Repair
from .schema import Link, reference

SYNC = Repair("sync")
# The text index numbers its rows id * 2 and id * 2 + 1.
LARGEST = 1 << 62

# What identifies a row, and what of it a person wants to see.
SHOWN = {
    "entities": ("id", "name"),
    "observations": ("id", "entity_id", "content"),
    "relations": ("id", "from_entity", "to_entity", "relation_type"),
    "entity_access": ("entity_id", "access_count"),
    "entity_access_log": ("id", "entity_id", "entity_name"),
    "co_occurrences": ("entity_a_id", "entity_b_id", "co_count"),
    "embeddings": ("collection_id", "id"),
    "limbic_insights": ("id", "title"),
}
# Links without a foreign key.
_UNDECLARED = (
    Link("observations", "supersedes", "observations", "id", "SET NULL", False),
    Link("embeddings", "collection_id", "collections", "id", "CASCADE", True),
)


def bad_rows(
    name: str,
    title: str,
    table: str,
    where: str,
    fix: str | None = None,
    *,
    shown: tuple[str, ...] = (),
    needs: tuple[str, ...] = (),
    text: str | None = None,
    repair: Repair | None = None,
) -> Check:
    """A check for rows of ``table`` that meet ``where``.

    ``fix`` is the statement that a person may run, with ``{where}`` for the condition. ``shown``
    are columns to show besides those that always are.
    """
    columns = tuple(dict.fromkeys((*SHOWN.get(table, ()), *shown)))
    sql = f"select {', '.join(columns)} from {table} where {where}"
    fixes = () if fix is None else (fix.replace("{where}", where) + ";",)

    def find(context: Context) -> Found:
        return scan(context.conn.execute(sql), columns)

    needed = (*(f"{table}.{column}" for column in columns), *needs)
    return Check(name, title, find, repair or Repair("person", fixes, text), needed)


def _gone() -> Iterator[Check]:
    """A check for each column that holds the key of a row elsewhere."""
    links = [link for link in reference().links if link.table != "embeddings"]
    for link in (*links, *_UNDECLARED):
        here = f"{link.table}.{link.column}"
        absent = (
            f"not exists (select 1 from {link.target} as there where there.{link.key} = {here})"
        )
        # a required column that is empty leads nowhere either
        where = absent if link.required else f"{here} is not null and {absent}"
        if link.required or link.on_delete == "CASCADE":
            fix = f"delete from {link.table} where {{where}}"
        else:
            fix = f"update {link.table} set {link.column} = null where {{where}}"
        keys = [c.name for c in reference().columns[link.table].values() if c.key]
        yield bad_rows(
            f"gone.{link.table}.{link.column}",
            f"rows of {link.table} whose {link.column} is not in {link.target}",
            link.table,
            where,
            fix,
            shown=(*keys, link.column),
            needs=(f"{link.target}.{link.key}",),
        )


def _several(table: str, key: tuple[str, ...], fix: str, text: str) -> Check:
    columns = ", ".join(key)
    # blobs and numbers are told apart from text, as the tables do it
    sql = (
        f"select {columns}, count(*) from {table} group by {columns}"
        f" having count(*) > 1 order by {columns}"
    )

    def find(context: Context) -> Found:
        return scan(context.conn.execute(sql), (*key, "rows"))

    return Check(
        f"several.{table}",
        f"several rows of {table} with one {' and '.join(key)}",
        find,
        Repair("person", (fix,), text),
        tuple(f"{table}.{column}" for column in key),
    )


SEVERAL = (
    _several(
        "entities",
        ("name",),
        "update entities set name = name || ' (' || id || ')' where id not in"
        " (select min(id) from entities group by name);",
        "this tells them apart by their id; merging them is up to you",
    ),
    _several(
        "relations",
        ("from_entity", "to_entity", "relation_type"),
        "delete from relations where id not in"
        " (select min(id) from relations group by from_entity, to_entity, relation_type);",
        "this keeps the first of each",
    ),
    _several(
        "entity_access",
        ("entity_id",),
        "delete from entity_access where rowid not in"
        " (select max(rowid) from entity_access group by entity_id);",
        "this keeps the last of each",
    ),
)

_NO_BELIEF = "typeof(confidence) not in ('real', 'integer') or confidence not between 0 and 1"
_NO_COUNT = "typeof({0}) not in ('integer', 'real') or {0} < 0"
_BLANK = "' ' || char(9, 10, 13)"
_AS_IT_IS = "coalesce(cast({0} as text), '')"
_TOO_LARGE = f"id >= {LARGEST} or id < -{LARGEST}"


def _text(table: str, column: str, fix: str, *, empty: bool, text: str | None = None) -> Check:
    where = f"{column} is null or typeof({column}) <> 'text'" + (
        f" or trim({column}, {_BLANK}) = ''" if empty else ""
    )
    return bad_rows(
        f"values.{table}.{column}",
        f"rows of {table} whose {column} is {'empty or ' if empty else ''}no text",
        table,
        where,
        f"update {table} set {column} = {fix} where {{where}}",
        shown=(column,),
        text=text,
    )


def _count(table: str, column: str, least: int) -> Check:
    return bad_rows(
        f"values.{table}.{column}",
        f"rows of {table} whose {column} is no count",
        table,
        _NO_COUNT.format(column),
        f"update {table} set {column} = max({least}, cast(coalesce({column}, 0) as integer))"
        " where {where}",
        shown=(column,),
    )


def _confidence(table: str) -> Check:
    return bad_rows(
        f"values.{table}.confidence",
        f"rows of {table} whose confidence is not between 0 and 1",
        table,
        _NO_BELIEF,
        f"update {table} set confidence = 1.0 where {{where}}",
        shown=("confidence",),
    )


def _as_text(column: str, otherwise: str) -> str:
    return f"coalesce(nullif(trim(cast({column} as text), {_BLANK}), ''), {otherwise})"


def _one_of(table: str, key: str, column: str, known: str, fix: str) -> Check:
    """A column that takes a few values only: CHECK constraints, which may be switched off."""
    return bad_rows(
        f"values.{table}.{column}",
        f"rows of {table} whose {column} is none of {known}",
        table,
        f"{column} is null or {column} not in ({known})",
        fix,
        shown=(key, column),
    )


VALUES = (
    _text("entities", "name", _as_text("name", "'unnamed ' || id"), empty=True),
    _text("entities", "entity_type", _as_text("entity_type", "'Generic'"), empty=True),
    _text("observations", "content", _AS_IT_IS.format("content"), empty=False),
    _text("relations", "relation_type", _as_text("relation_type", "'related_to'"), empty=True),
    _text("entity_access_log", "entity_name", _AS_IT_IS.format("entity_name"), empty=False),
    _confidence("entities"),
    _confidence("observations"),
    _confidence("limbic_insights"),
    _one_of(
        "observations",
        "id",
        "similarity_flag",
        "0, 1",
        "update observations set similarity_flag = 0 where {where}",
    ),
    _one_of(
        "limbic_searches",
        "id",
        "treatment",
        "0, 1",
        "update limbic_searches set treatment = 1 where {where}",
    ),
    _one_of(
        "limbic_parameters",
        "version",
        "source",
        "'tuned', 'manual', 'rollback'",
        "update limbic_parameters set source = 'manual' where {where}",
    ),
    _one_of(
        "limbic_feedback",
        "id",
        "event",
        "'opened', 'useful', 'not_useful'",
        "delete from limbic_feedback where {where}",
    ),
    _one_of(
        "limbic_insights",
        "id",
        "status",
        "'pending', 'approved', 'dismissed'",
        "update limbic_insights set status = 'pending' where {where}",
    ),
    _count("entity_access", "access_count", 0),
    _count("co_occurrences", "co_count", 1),
    bad_rows(
        "values.entities.id",
        "rows of entities whose id is too large",
        "entities",
        _TOO_LARGE,
        text="give such an entity an id under 2^62, and the rows that point to it",
    ),
    bad_rows(
        "values.observations.id",
        "rows of observations whose id is too large",
        "observations",
        _TOO_LARGE,
        "update observations set id = (select coalesce(max(id), 0) + 1 from observations"
        f" where id < {LARGEST}) where id = (select id from observations where {{where}} limit 1)",
        text="one row at a time: run it again while there are more",
    ),
)

PAIRS = (
    bad_rows(
        "pairs.self",
        "pairs of an entity with itself",
        "co_occurrences",
        "entity_a_id = entity_b_id",
        repair=SYNC,
    ),
    bad_rows(
        "pairs.order",
        "pairs in the wrong order",
        "co_occurrences",
        "entity_a_id > entity_b_id",
        repair=SYNC,
    ),
    Check(
        "pairs.twice",
        "pairs that are there more than once",
        lambda context: scan(
            context.conn.execute(
                "select min(entity_a_id, entity_b_id), max(entity_a_id, entity_b_id), count(*)"
                " from co_occurrences where entity_a_id <> entity_b_id"
                " group by 1, 2 having count(*) > 1"
            ),
            ("entity_a_id", "entity_b_id", "rows"),
        ),
        SYNC,
        ("co_occurrences.entity_a_id", "co_occurrences.entity_b_id"),
    ),
)


def _json(table: str, key: str, column: str, fix: str | None, *, empty: bool = False) -> Check:
    """``empty`` says that NULL is as good; without a ``fix`` it is rebuilt."""
    unset = f"{column} is not null and" if empty else f"{column} is null or"
    where = f"{unset} not json_valid({column})"
    return bad_rows(
        f"json.{table}.{column}",
        f"rows of {table} whose {column} cannot be read",
        table,
        where,
        fix and f"update {table} set {column} = {fix} where {{where}}",
        shown=(key, column),
        repair=None if fix else SYNC,
    )


JSON = (
    _json("limbic_imports", "id", "counts", "'{}'"),
    _json("limbic_indexes", "collection", "rejected", None),
    _json("limbic_searches", "id", "parameters", "'{}'"),
    _json("limbic_changes", "id", "before", "'null'"),
    _json("limbic_changes", "id", "after", "'null'"),
    _json("limbic_topics", "entity_id", "topics", "'[]'"),
    _json("embeddings", "id", "metadata", "null", empty=True),
)

MARKS = (
    Check(
        "marks.guard",
        "guards left behind: activity of entities does not move",
        lambda context: scan(context.conn.execute("select name from _limbic_guard"), ("name",)),
        SYNC,
        ("_limbic_guard.name",),
    ),
    Check(
        "marks.stale",
        "marks for a sync that are about nothing",
        lambda context: scan(
            context.conn.execute(
                "select collection, item_id from limbic_stale where collection is null or"
                " collection not in ('entities', 'observations') or typeof(item_id) <> 'integer'"
            ),
            ("collection", "item_id"),
        ),
        SYNC,
        ("limbic_stale.collection", "limbic_stale.item_id"),
    ),
)


def checks() -> tuple[Check, ...]:
    """All of them; the links are read from the schema that ``init`` makes."""
    return (*_gone(), *SEVERAL, *PAIRS, *VALUES, *JSON, *MARKS)
