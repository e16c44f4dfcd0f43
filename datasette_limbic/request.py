"""What a search is asked: arguments from a URL, JSON or the command line, checked.

Whose value counts: the argument, then the applied version in limbic_parameters, then plugin
configuration, then the constants.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from datasette.utils.sqlite import sqlite3

from . import scoring, times
from .config import (
    FUSIONS,
    MAX_D_MAX,
    MAX_LIMIT,
    MAX_QUERY,
    MAX_TYPE,
    MODES,
    RECENCIES,
    STRATEGIES,
    Settings,
    choice,
    flag,
    number,
)
from .errors import BadParameter, QueryTooLong
from .scoring import Parameters
from .text import storable

ARGUMENTS = (
    "q",
    "limit",
    "mode",
    "strategy",
    "type",
    "explain",
    "include_archived",
    "as_of",
    "now",
    "recency",
    "consolidation",
    "fusion",
    "expansion_factor",
    *(f.name for f in fields(Parameters)),
)


# What the statement takes where a parameter is ''.
DEFAULTS: dict[str, Any] = {
    "limit": 10,
    "strategy": "auto",
    "recency": "access",
    "expansion_factor": scoring.EXPANSION_FACTOR,
    **Parameters().as_dict(),
}


@dataclass(frozen=True)
class Request:
    """One search, every value resolved."""

    query: str
    limit: int
    mode: str
    strategy: str
    recency: str
    fusion: str
    consolidation: bool
    expansion_factor: int
    parameters: Parameters
    now: str
    type: str | None = None
    explain: bool = False
    include_archived: bool = False
    as_of: str | None = None

    def named(self) -> dict[str, Any]:
        """The statement's named parameters, as text and numbers; what is not given is ''."""
        values: dict[str, Any] = {
            "q": self.query,
            "consolidation": "1" if self.consolidation else "",
            "explain": "1" if self.explain else "",
            "include_archived": "1" if self.include_archived else "",
            "type": self.type or "",
            "as_of": self.as_of or "",
        }
        for name in ("limit", "strategy", "recency", "expansion_factor", "now"):
            values[name] = getattr(self, name)
        for name, value in self.parameters.as_dict().items():
            values[name] = "" if value is None else value
        return values

    def varied(self) -> dict[str, Any]:
        """Those of the named parameters that are not at the statement's own default."""
        return {
            name: value
            for name, value in self.named().items()
            if value != "" and (name in ("q", "limit", "now") or value != DEFAULTS.get(name))
        }

    def explained(self) -> Request:
        """The same search with its whole pool."""
        return replace(self, explain=True)


def applied_parameters(conn: sqlite3.Connection) -> dict[str, float]:
    """beta_sal, gamma and version of the newest version in limbic_parameters, or nothing.

    Versions are counted from 1. A row of another program's that no search can use is passed over.
    """
    rows = conn.execute(
        "select version, beta_sal, gamma from limbic_parameters where version > 0"
        " order by version desc"
    )
    for version, beta_sal, gamma in rows:
        if unusable(beta_sal, gamma) is None:
            return {"beta_sal": beta_sal, "gamma": gamma, "version": version}
    return {}


def unusable(beta_sal: object, gamma: object) -> str | None:
    """Why no search can rank by these values, in a sentence; None where it can."""
    values: dict[str, Any] = {"beta_sal": beta_sal, "gamma": gamma}
    try:
        Parameters(**values)
    except ValueError as error:
        return str(error)
    return None


def parse(
    given: Mapping[str, Any], settings: Settings, applied: Mapping[str, float] | None = None
) -> Request:
    """A Request from text or JSON values; None and '' mean "not given".

    Raises BadParameter, naming the argument, its value and what is allowed.
    """
    values = {k: v for k, v in given.items() if v is not None and v != ""}
    unknown = set(values) - set(ARGUMENTS)
    if unknown:
        named = [str(name)[:40] for name in sorted(unknown)[:5]]
        raise BadParameter(
            f"unknown argument {', '.join(named)}: a search takes {', '.join(ARGUMENTS)}"
        )

    def pick(name: str) -> Any:
        return values.get(name, getattr(settings, name))

    base = {f.name: getattr(settings, f.name) for f in fields(Parameters)}
    base.update({k: v for k, v in (applied or {}).items() if k in base})
    for name in base:
        if name in values:
            base[name] = number(name, values[name], float("-inf"), float("inf"))
    # a number of rows in the statement
    base["d_max"] = number("d_max", base["d_max"], 1, MAX_D_MAX, whole=True)
    try:
        parameters = Parameters(**base)
    except ValueError as error:
        raise BadParameter(str(error)) from error
    return Request(
        query=_query(values.get("q", "")),
        limit=int(number("limit", pick("limit"), 1, MAX_LIMIT, whole=True)),
        mode=choice("mode", pick("mode"), MODES),
        strategy=choice("strategy", pick("strategy"), STRATEGIES),
        recency=choice("recency", pick("recency"), RECENCIES),
        fusion=choice("fusion", pick("fusion"), FUSIONS),
        consolidation=flag("consolidation", pick("consolidation")),
        expansion_factor=int(
            number("expansion_factor", pick("expansion_factor"), 1, 40, whole=True)
        ),
        parameters=parameters,
        now=_time("now", values.get("now")) or times.now_sql(),
        type=_type(values.get("type")),
        explain=flag("explain", values.get("explain", "")),
        include_archived=flag("include_archived", values.get("include_archived", "")),
        as_of=_time("as_of", values.get("as_of")),
    )


def _query(value: Any) -> str:
    """The query as text. NUL bytes cannot be searched for; they count as spaces."""
    if not isinstance(value, str):
        raise BadParameter(f"the query is {type(value).__name__} {value!r:.60}: use text")
    if len(value) > MAX_QUERY:
        raise QueryTooLong(
            f"the query has {len(value):,} characters: at most {MAX_QUERY:,} are searched for"
        )
    return storable(value.replace("\x00", " ").strip())


def _type(value: Any) -> str | None:
    if not isinstance(value, (str, type(None))):
        raise BadParameter(f"type is {value!r:.60}: use the text of an entity type")
    if value is not None and len(value) > MAX_TYPE:
        raise BadParameter(f"type has {len(value):,} characters: use at most {MAX_TYPE:,}")
    return None if value is None else storable(value)


def _time(name: str, value: Any) -> str | None:
    if value is None:
        return None
    text = times.to_sql(value)
    if text is None:
        raise BadParameter(
            f"{name} is {value!r:.60}: use a time such as 2026-11-29 12:00:00 (UTC), "
            "an ISO time with offset, or Unix seconds"
        )
    return text
