"""Tuning: what the log of searches says of beta_sal and gamma, and what it does not."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Hashable, Mapping
from typing import Any, TypeVar

from datasette.utils.sqlite import sqlite3

from ..config import Settings
from ..errors import BadParameter
from ..tuning import state
from ..tuning.ranges import DEFAULT_BETA_SAL, DEFAULT_GAMMA, parse_range
from . import tuning_display, writable
from .common import Page, page
from .tabs import TUNING_TABLES
from .tuning_display import ASKED
from .working import WORKER, opened, token

TEMPLATE = "limbic_tuning.html"
RANGES = {"beta_sal_range": DEFAULT_BETA_SAL, "gamma_range": DEFAULT_GAMMA}
MOST_CELLS = 400
"""Pairs of parameters that a visitor may have compared at once; the command takes more."""
T = TypeVar("T")


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
    stamp = await asyncio.to_thread(_stamp, here.db.path) if here.db.path else None
    configured = (here.settings.beta_sal, here.settings.gamma)
    return ("tuning", token(here.db), marked, stamp, asked, configured)


def _stamp(path: str) -> tuple[Any, ...]:
    found: list[Any] = []
    for each in (path, f"{path}-wal"):
        try:
            status = os.stat(each)
        except FileNotFoundError:  # most files have no log beside them
            found.append(None)
        else:
            found.append((status.st_mtime_ns, status.st_size))
    return tuple(found)


def _report(conn: sqlite3.Connection, settings: Settings, asked: Any) -> dict[str, Any]:
    from ..tuning.report import report

    return report(conn, settings=settings, options=asked)


async def apart(
    here: Page,
    key: Hashable,
    function: Callable[[Any, Settings, Any], T],
    argument: Any,
    slow: str | None = None,
) -> T:
    """``function(connection, settings, argument)`` in the thread for what takes seconds.

    On a connection of its own, so that no thread of the database waits for it. A database that
    is no file, or that Datasette was told nobody writes to, can be opened by Datasette alone.
    Nobody may change what is answered.
    """
    path, settings = here.db.path, here.settings
    if path is not None and here.db.is_mutable:
        return await WORKER.run(key, _on_own, path, function, settings, argument, slow=slow)
    loop = asyncio.get_running_loop()

    def through_datasette() -> T:
        found = here.db.execute_fn(lambda conn: function(conn, settings, argument))
        done: T = asyncio.run_coroutine_threadsafe(found, loop).result()
        return done

    return await WORKER.run(key, through_datasette, slow=slow)


def _on_own(
    path: str, function: Callable[[Any, Settings, Any], T], settings: Settings, argument: Any
) -> T:
    with opened(path, settings, recover=False) as conn:
        return function(conn, settings, argument)


tuning_page = page(_tuning, TUNING_TABLES, takes=ASKED, told="done")
