"""The state of a memory at a glance, for ``datasette limbic status`` and the overview page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Protocol, TypeVar

from datasette.utils.sqlite import sqlite3

from . import connection, schema, times
from .config import Settings
from .index_state import index_state
from .reports.review import review
from .request import applied_parameters
from .retrieval.state import retrieval
from .signal_figures import signal_figures

T = TypeVar("T")
TYPES = 30
VALID_TABLES = ("entities", "observations", "relations")

COUNTED = {
    "entities": "entities",
    "archived": "entities where archived_at is not null",
    "observations": "observations",
    "flagged": "observations where similarity_flag = 1",
    "relations": "relations",
    "ended_relations": "relations where valid_to is not null",
    "accesses": "entity_access_log",
    "co_occurrences": "co_occurrences",
    "imports": "limbic_imports",
}
"""What is counted → where."""
COUNTS = "select " + ", ".join(
    f"(select count(*) from {rows}) as {name}" for name, rows in COUNTED.items()
)

NO_PARAMETERS: dict[str, Any] = {
    "parameters": None,
    "parameters_version": None,
    "parameter_warning": None,
}

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


class Part(Protocol):
    """How one part is read: ``slow`` parts take longer the more rows there are."""

    def __call__(self, name: str, read: Callable[[], T], *, slow: bool = False) -> T: ...


def _read(name: str, read: Callable[[], T], *, slow: bool = False) -> T:
    return read()


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
    return in_parts(conn, _read, settings=settings, reports=reports, reviews=reviews)


def in_parts(
    conn: sqlite3.Connection,
    part: Part,
    *,
    settings: Settings | None = None,
    reports: bool = True,
    reviews: bool = True,
) -> dict[str, Any]:
    """``status``, each part read by ``part``, which may answer None where one cannot be read."""
    settings = settings or Settings()
    schema.require_memory(conn)
    return {
        "counts": part("counts", lambda: _counts(conn), slow=True),
        "unreadable_validity": part(
            "unreadable_validity",
            lambda: conn.execute(UNREADABLE_VALIDITY).fetchone()[0],
            slow=True,
        ),
        "review": part("review", lambda: review(conn, reviews=reviews), slow=True)
        if reports
        else None,
        "signals": part("signals", lambda: signal_figures(conn, settings), slow=True),
        "types": part("types", lambda: _types(conn), slow=True),
        "vectors": part("vectors", lambda: _vectors(conn, settings)),
        **(part("parameters", lambda: _parameters(conn, settings)) or NO_PARAMETERS),
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
        "settings": part("settings", lambda: _settings(conn)),
        "sqlite_version": sqlite3.sqlite_version,
        "now": times.now_sql(),
    }


def size(conn: sqlite3.Connection) -> dict[str, int]:
    """How many ``entities`` and ``observations`` there are. Reads only."""
    entities, observations = conn.execute(
        f"select (select count(*) from {COUNTED['entities']}),"
        f" (select count(*) from {COUNTED['observations']})"
    ).fetchone()
    return {"entities": entities, "observations": observations}


def _counts(conn: sqlite3.Connection) -> dict[str, int]:
    cursor = conn.execute(COUNTS)
    return dict(zip([c[0] for c in cursor.description], cursor.fetchone(), strict=True))


def _types(conn: sqlite3.Connection) -> list[dict[str, Any]]:
    return [
        {"entityType": row[0], "count": row[1]}
        for row in conn.execute(
            f"""select entity_type, count(*) from entities group by entity_type
            order by count(*) desc, entity_type limit {TYPES}"""
        )
    ]


def _vectors(conn: sqlite3.Connection, settings: Settings) -> dict[str, Any]:
    missing = connection.vec_missing(conn)
    state = index_state(conn)
    return {
        "usable": missing is None,
        "reason": missing,
        "model": settings.model,
        "in_step": missing is None and all(s["in_step"] for s in state.values()),
        "collections": state,
        "retrieval": retrieval(conn, settings) if missing is None else None,
    }


def _parameters(conn: sqlite3.Connection, settings: Settings) -> dict[str, Any]:
    applied = applied_parameters(conn)
    parameters = asdict(settings.parameters())
    parameters.update({k: v for k, v in applied.items() if k in parameters})
    return {
        "parameters": parameters,
        "parameters_version": applied.get("version"),
        "parameter_warning": parameter_warning(parameters),
    }


def _settings(conn: sqlite3.Connection) -> dict[str, Any]:
    return {
        row[0]: row[1]
        for row in conn.execute("select key, value from limbic_settings order by key")
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
