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
# What reports keep can be found again.
KEPT = ("limbic_duplicates", "limbic_topics")
# Links without a foreign key.
_UNDECLARED = (
    Link("observations", "supersedes", "observations", "id", "SET NULL", False),
    Link("embeddings", "collection_id", "collections", "id", "CASCADE", True),
)

# Where one value stands in thousands of rows.
_MANY = (
    ("co_occurrences", "entity_a_id"),
    ("co_occurrences", "entity_b_id"),
    ("entity_access_log", "entity_id"),
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
        if (link.table, link.column) in _MANY:
            # each value once, in the order of an index
            absent = (
                f"{here} in (select value from (select distinct {link.column} as value"
                f" from {link.table}) where not exists (select 1 from {link.target} as there"
                f" where there.{link.key} = value))"
            )
            if link.required:
                absent = f"({here} is null or {absent})"
        # a required column that is empty leads nowhere either
        where = absent if link.required else f"{here} is not null and {absent}"
        if link.required or link.on_delete == "CASCADE":
            fix = f"delete from {link.table} where {{where}}"
        else:
            fix = f"update {link.table} set {link.column} = null where {{where}}"
        keys = [c.name for c in reference().columns[link.table].values() if c.key]
        kept = link.table in KEPT
        yield bad_rows(
            f"gone.{link.table}.{link.column}",
            f"rows of {link.table} whose {link.column} is not in {link.target}",
            link.table,
            where,
            None if kept else fix,
            shown=(*keys, link.column),
            needs=(f"{link.target}.{link.key}",),
            repair=SYNC if kept else None,
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

# A pair is there twice where one row has it the wrong way round, or where the table has no key: two
# scans in the order of the key. To group ten million pairs by their smaller id would sort them.
_TWICE = """with odd as materialized (
  select min(entity_a_id, entity_b_id) as low, max(entity_a_id, entity_b_id) as high
  from co_occurrences where entity_a_id > entity_b_id
  union
  select min(entity_a_id, entity_b_id), max(entity_a_id, entity_b_id) from co_occurrences
  group by entity_a_id, entity_b_id having count(*) > 1
), counted as (
  select low, high, (select count(*) from co_occurrences
      where entity_a_id = low and entity_b_id = high)
    + (select count(*) from co_occurrences
      where entity_a_id = high and entity_b_id = low) as n
  from odd where low <> high
)
select low, high, n from counted where n > 1 order by low, high"""

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
            context.conn.execute(_TWICE),
            ("entity_a_id", "entity_b_id", "rows"),
        ),
        SYNC,
        ("co_occurrences.entity_a_id", "co_occurrences.entity_b_id"),
    ),
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
    return (*_gone(), *SEVERAL, *PAIRS, *MARKS)
