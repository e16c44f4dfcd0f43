"""Tuning: what the log of searches says of beta_sal and gamma, and what it does not."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Mapping
from typing import Any

from datasette.utils.sqlite import sqlite3

from ..config import Settings
from ..errors import BadParameter
from ..tuning import state
from ..tuning.ranges import DEFAULT_BETA_SAL, DEFAULT_GAMMA, parse_range
from . import tuning_display, writable
from .apart import apart, stamped
from .common import Page, page
from .tabs import TUNING_TABLES
from .tuning_display import ASKED
from .working import token

TEMPLATE = "limbic_tuning.html"
RANGES = {"beta_sal_range": DEFAULT_BETA_SAL, "gamma_range": DEFAULT_GAMMA}
MOST_CELLS = 400
"""Pairs of parameters that a visitor may have compared at once; the command takes more."""


async def _tuning(here: Page) -> tuple[str, dict[str, Any]]:
    return TEMPLATE, await data(here, here.given)


async def options(given: Mapping[str, Any], until: int | None = None) -> Any:
    """The ``report.Options`` of texts or JSON values. Raises BadParameter, naming the value."""
    # the first time loads numpy, and nobody else waits for that
    return await asyncio.to_thread(_options, given, until)


def _options(given: Mapping[str, Any], until: int | None) -> Any:
    from ..tuning.report import DEFAULT_K, Options

    ranges = {
        name: default if given.get(name) is None else parse_range(name, given[name])
        for name, default in RANGES.items()
    }
    cells = 1
    for values in ranges.values():
        cells *= len(values)
    if cells > MOST_CELLS:
        counts = " by ".join(f"{len(values)}" for values in ranges.values())
        raise BadParameter(
            f"beta_sal_range by gamma_range is {counts} values: use at most {MOST_CELLS} pairs "
            "here, or the command datasette limbic tune for more"
        )
    return Options(
        k=DEFAULT_K if given.get("k") is None else given["k"],
        beta_sal=ranges["beta_sal_range"],
        gamma=ranges["gamma_range"],
        until=until,
    )


async def data(here: Page, given: Mapping[str, str]) -> dict[str, Any]:
    """The report, as JSON has it, and for the page what its template needs besides.

    ``given`` are the texts of ASKED, and ``done`` where a form was just done: of the URL, or what
    a form carried. Forms of the page carry them on. Raises BadParameter.
    """
    asked = await options(given)
    key = await _key(here, asked)
    found: dict[str, Any] = dict(await apart(here, key, _report, asked, slow="tuning"))
    if here.as_json:
        return found
    ids = tuning_display.entities(found)
    there = await here.read(lambda conn: state.entities_there(conn, ids)) if ids else set()
    await asyncio.to_thread(tuning_display.decorate, here, found, given, there)
    found["_why_not"] = await writable.why_not(here)
    return found


async def _key(here: Page, asked: Any) -> Hashable:
    """Another one after anything that the report may be another for.

    Rows that were added count as such, and of a file its time too: rows may be changed in place.
    """
    marked = await here.db.execute_fn(state.mark)
    stamp = await asyncio.to_thread(stamped, here.db.path) if here.db.path else None
    configured = (here.settings.beta_sal, here.settings.gamma)
    return ("tuning", token(here.db), marked, stamp, asked, configured)


def _report(conn: sqlite3.Connection, settings: Settings, asked: Any) -> dict[str, Any]:
    from ..tuning.report import report

    return report(conn, settings=settings, options=asked)


tuning_page = page(_tuning, TUNING_TABLES, takes=ASKED, told="done")
