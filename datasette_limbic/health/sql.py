"""The SQL of health: the views' own text, and what is asked besides (queries/health.sql)."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from typing import NamedTuple

from ..reports import queries
from ..schema import COLLECTIONS

_FILLED = re.compile(r"\{(current|view):(\w+)\}")
_NAME = re.compile(r"^-- name: (\w+)$", re.M)


def current(alias: str) -> str:
    """Whether a row holds at ``:now``, as the views have it for the moment they are read."""
    return queries.current(alias, ":now")


def view(name: str) -> str:
    """The select of one of the views of the reports, at ``:now``."""
    return queries.queries(parametrised=True)[name]


class Query(NamedTuple):
    """A select, and how its rows are ordered as ``q``."""

    text: str
    order: str


@cache
def own() -> dict[str, Query]:
    """What is in queries/health.sql by name."""
    text = (resources.files("datasette_limbic") / "queries" / "health.sql").read_text("utf-8")
    # a comment stands before the name of what it is about
    lines = [line for line in text.splitlines() if not re.match(r"-- (?!name: )", line)]
    _, *pieces = _NAME.split("\n".join(lines))
    found = {
        name: _FILLED.sub(_fill, sql).strip()
        for name, sql in zip(pieces[::2], pieces[1::2], strict=True)
    }
    one = found.pop("vectors_of")
    for name in COLLECTIONS:
        of = one.replace("{name}", name)
        found["vectors"] = found["vectors"].replace("{" + name + "}", of)
    return {name: Query(*_ordered(sql)) for name, sql in found.items()}


def _ordered(sql: str) -> tuple[str, str]:
    text, _, order = sql.rpartition("\norder by ")
    return text, order


def _fill(match: re.Match[str]) -> str:
    return current(match[2]) if match[1] == "current" else view(match[2])
