"""Values that no reader expects: text that is none, counts, beliefs, flags, JSON."""

from __future__ import annotations

from .context import Check
from .report import Repair
from .rows import bad_rows

# The text index numbers its rows id * 2 and id * 2 + 1.
LARGEST = 1 << 62

_NO_BELIEF = "typeof(confidence) not in ('real', 'integer') or confidence not between 0 and 1"
_NO_PARAMETER = "typeof({0}) not in ('real', 'integer') or {0} not between 0 and 10"
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


def _one_of(table: str, key: str, column: str, known: str, fix: str | None) -> Check:
    """A column that takes a few values only: CHECK constraints, which may be switched off.

    Without a ``fix`` it is found again by sync.
    """
    return bad_rows(
        f"values.{table}.{column}",
        f"rows of {table} whose {column} is none of {known}",
        table,
        f"{column} is null or {column} not in ({known})",
        fix,
        shown=(key, column),
        repair=None if fix else Repair("sync"),
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
        "update limbic_searches set treatment = (policy <> 'baseline') where {where}",
    ),
    _one_of(
        "limbic_parameters",
        "version",
        "source",
        "'tuned', 'manual', 'rollback'",
        "update limbic_parameters set source = 'manual' where {where}",
    ),
    # searches pass over them
    bad_rows(
        "values.limbic_parameters.unusable",
        "rows of limbic_parameters whose values no search can use",
        "limbic_parameters",
        f"{_NO_PARAMETER.format('beta_sal')} or {_NO_PARAMETER.format('gamma')} or version < 1",
        "delete from limbic_parameters where {where}",
        shown=("version", "beta_sal", "gamma"),
        text="they were never in force; what is wanted can be set with"
        " datasette limbic tune --set-beta … --set-gamma …",
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
    _one_of("limbic_duplicates", "later_id", "kind", "'duplicate', 'contradiction', 'look'", None),
    _one_of(
        "limbic_duplicates", "later_id", "rule", "'exact', 'cosine', 'containment', 'wording'", None
    ),
    _one_of("limbic_approximate", "build", "state", "'filling', 'measuring', 'ready'", None),
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
        repair=None if fix else Repair("sync"),
    )


JSON = (
    _json("limbic_imports", "id", "counts", "'{}'"),
    _json("limbic_indexes", "collection", "rejected", None),
    _json("limbic_searches", "id", "parameters", "'{}'"),
    _json("limbic_changes", "id", "before", "'null'"),
    _json("limbic_changes", "id", "after", "'null'"),
    _json("limbic_topics", "entity_id", "topics", "'[]'"),
    _json("limbic_parameters", "version", "evidence", "null", empty=True),
    _json("limbic_approximate", "build", "measured", "null", empty=True),
    _json("embeddings", "id", "metadata", "null", empty=True),
)
