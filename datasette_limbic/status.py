"""The state of a memory at a glance, for ``datasette limbic status`` and the overview page."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from datasette.utils.sqlite import sqlite3

from . import connection, schema, times
from .config import Settings
from .index_state import index_state
from .reports.review import review
from .request import applied_parameters
from .signal_figures import signal_figures

TYPES = 30
VALID_TABLES = ("entities", "observations", "relations")

COUNTS = """select
  (select count(*) from entities) as entities,
  (select count(*) from entities where archived_at is not null) as archived,
  (select count(*) from observations) as observations,
  (select count(*) from observations where similarity_flag = 1) as flagged,
  (select count(*) from relations) as relations,
  (select count(*) from relations where valid_to is not null) as ended_relations,
  (select count(*) from entity_access_log) as accesses,
  (select count(*) from co_occurrences) as co_occurrences,
  (select count(*) from limbic_imports) as imports"""

# Search compares these two with julianday(), which takes no Unix time ('2020' is a day number
# to it) and no zone but Z and +HH:MM. What it does not read never begins and never ends.
UNREADABLE_VALIDITY = "select " + " + ".join(
    f"(select count(*) from {table} where {{0}})" for table in VALID_TABLES
).format(
    " or ".join(
        f"(trim({column}) <> '' and (julianday({column}) is null"
        f" or ltrim({column}, ' +-') not glob '*[^0-9. ]*'))"
        for column in ("valid_from", "valid_to")
    )
)


def status(
    conn: sqlite3.Connection,
    *,
    settings: Settings | None = None,
    reports: bool = True,
    reviews: bool = True,
) -> dict[str, Any]:
    """Counts, types, signals, vectors and whether they are in step, parameters in force, recency.

    ``review`` is what ``reports.review`` says of what wants looking after. Without ``reports``
    the tables of the reports are not read and it is None; without ``reviews`` limbic_reviews is
    not. Reads only. Raises NotAMemory.
    """
    settings = settings or Settings()
    schema.require_memory(conn)
    cursor = conn.execute(COUNTS)
    counts = dict(zip([c[0] for c in cursor.description], cursor.fetchone(), strict=True))
    applied = applied_parameters(conn)
    parameters = asdict(settings.parameters())
    parameters.update({k: v for k, v in applied.items() if k in parameters})
    unreadable = conn.execute(UNREADABLE_VALIDITY).fetchone()[0]
    warning = parameter_warning(parameters)
    missing = connection.vec_missing(conn)
    state = index_state(conn)
    return {
        "counts": counts,
        "unreadable_validity": unreadable,
        "review": review(conn, reviews=reviews) if reports else None,
        "signals": signal_figures(conn, settings),
        "types": [
            {"entityType": row[0], "count": row[1]}
            for row in conn.execute(
                f"""select entity_type, count(*) from entities group by entity_type
                order by count(*) desc, entity_type limit {TYPES}"""
            )
        ],
        "vectors": {
            "usable": missing is None,
            "reason": missing,
            "model": settings.model,
            "in_step": missing is None and all(s["in_step"] for s in state.values()),
            "collections": state,
        },
        "parameters": parameters,
        "parameters_version": applied.get("version"),
        "parameter_warning": warning,
        "search": {
            name: getattr(settings, name)
            for name in ("limit", "mode", "strategy", "recency", "fusion", "consolidation")
        },
        "recency": {
            "recency_half_life_days": settings.recency_half_life_days,
            "insight_half_life_days": settings.insight_half_life_days,
            "insight_types": list(settings.insight_types),
            "half_life_days_by_type": dict(settings.half_life_days_by_type),
            "exempt_types": list(settings.exempt_types),
            "degree_factor": "half_life · (1 + log2(1 + degree))",
        },
        "settings": {
            row[0]: row[1]
            for row in conn.execute("select key, value from limbic_settings order by key")
        },
        "sqlite_version": sqlite3.sqlite_version,
        "now": times.now_sql(),
    }


def parameter_warning(parameters: dict[str, float]) -> str | None:
    """The document's warning: GAMMA raised without BETA_SAL lets co-occurrence outweigh salience.

    With the defaults a strong co-occurrence (boost 5) adds 5 % and full salience 50 %; the
    warning comes when the first outweighs the second.
    """
    if 5 * parameters["gamma"] <= parameters["beta_sal"]:
        return None
    return (
        f"gamma {parameters['gamma']:g} against beta_sal {parameters['beta_sal']:g}: "
        "co-occurrence outweighs salience, so how often something is used hardly counts. "
        "Lower gamma or raise beta_sal."
    )
