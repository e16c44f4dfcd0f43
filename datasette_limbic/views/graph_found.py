"""The map of a memory, computed apart and remembered until the memory is another one.

What is read depends on the file, communities on the entities and relations alone: a search that
is recorded has the file read again, and no community looked for again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from typing import Any

from datasette.utils.sqlite import sqlite3

from .. import times
from ..config import Settings
from ..graph import atlas, communities, full_map, other_process, whole
from ..graph.atlas import Sheet
from ..graph.layout import Positions
from ..graph.sheet_layout import sheet_positions
from ..graph.whole import Whole
from .apart import apart, stamped
from .common import Page
from .working import Worker, token

READING = Worker("limbic-map-read", remembered=3)
"""Whole memories: up to 30 MB each."""
LOOKING = Worker("limbic-map-large", remembered=4)
"""Communities of large memories, which take up to a minute: no smaller map waits for these."""
MAPS = Worker("limbic-map", remembered=32)

Drawn = tuple[Sheet, Positions, tuple[int, int]]
"""A sheet, where its nodes stand, and the width and height of that."""


async def state(here: Page) -> Hashable:
    """Another one after any write, and each day, as relations may end; None if that is unknown."""
    if here.db.path is None:
        return None
    stamp = await asyncio.to_thread(stamped, here.db.path)
    return token(here.db), stamp, _day()


def _day() -> str:
    return times.now_sql()[:10]


async def read(here: Page, mark: Hashable) -> Whole:
    """All of the memory that the map is of."""
    return await apart(here, mark, _read, None, worker=READING)


def _read(conn: sqlite3.Connection, settings: Settings, nothing: None) -> Whole:
    return whole.read(conn, times.now_sql())


async def first_parts(found: Whole) -> Any:
    """Its communities."""
    key = "communities", found.digest
    if len(found.linked) <= communities.LOUVAIN:
        return await MAPS.run(key, atlas.first_parts, found)
    return await LOOKING.run(key, other_process.first_parts, found)


async def sheet(here: Page, entity: int | None = None, level: int = 1) -> Drawn:
    """One page of the map: the whole, or the community of an entity. Raises UnknownEntity."""
    mark = await state(here)
    found = await read(here, mark)
    first = await first_parts(found)
    key = None if mark is None else _key(mark, entity, level)
    return await apart(here, key, _sheet, (found, first, entity, level), worker=MAPS)


def _key(mark: Hashable, entity: int | None, level: int) -> Hashable:
    return "sheet", mark, entity, level


def _sheet(conn: sqlite3.Connection, settings: Settings, asked: Any) -> Drawn:
    found, first, entity, level = asked
    drawn = atlas.sheet(conn, found, first, now=times.now_sql(), entity=entity, level=level)
    return (drawn, *sheet_positions(drawn.graph))


async def within(here: Page, seconds: float, most: int) -> Drawn | None:
    """The whole map, where it is known, or found in that time for a memory of ``most`` entities.

    None where it is not; where it was begun it goes on, and is known the next time.
    """
    mark = await state(here)
    known: Drawn | None = MAPS.found(None if mark is None else _key(mark, None, 1))
    if known is not None:
        return known
    if not await here.db.execute_fn(lambda conn: whole.is_small(conn, most)):
        return None
    try:
        return await asyncio.wait_for(sheet(here), seconds)
    except asyncio.TimeoutError:  # another class than TimeoutError up to Python 3.10
        return None


async def full(here: Page) -> tuple[Whole, full_map.FullMap | None]:
    """Every entity and its place; no places where there are too many entities."""
    mark = await state(here)
    found = await read(here, mark)
    if len(found) > full_map.MOST:
        return found, None
    first = await first_parts(found)
    key = "full", found.digest
    return found, await MAPS.run(key, full_map.full_map, found, first)
