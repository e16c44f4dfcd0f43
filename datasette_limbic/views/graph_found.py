"""The map of a memory, computed apart and remembered until the memory is another one.

What is read depends on the file, communities on relations alone: a search that is recorded has
the file read again, and no community looked for again. Of a memory that is written to all the
time, what was found last is shown where the new takes long.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from datasette.utils.sqlite import sqlite3

from .. import i18n, times
from ..config import Settings
from ..errors import Busy
from ..graph import atlas, communities, full_map, whole
from ..graph.atlas import Sheet
from ..graph.communities import Part
from ..graph.layout import Positions
from ..graph.sheet_layout import sheet_positions
from ..graph.whole import Whole
from .apart import apart, stamped
from .common import Page
from .working import Worker, token

log = logging.getLogger("datasette_limbic")

T = TypeVar("T")

FOUND = 3
"""Memories that are kept: up to 40 MB each."""
FRESH = 2.0
"""Seconds to wait for what is new, where something older can be shown."""
READING = Worker("limbic-map-read", remembered=0)
MAPS = Worker("limbic-map", remembered=64)
FULL = Worker("limbic-map-full", remembered=6)
"""Full maps as SVG: up to 3 MB each."""


@dataclass(eq=False)
class Drawn:
    """A sheet, where its nodes stand, and the width and height of that.

    ``pictures`` are what was made of it, by language and address: nobody may change one.
    """

    sheet: Sheet
    places: Positions
    size: tuple[int, int]
    pictures: dict[Hashable, Any] = field(default_factory=dict)

    async def picture(self, key: Hashable, make: Callable[[], T]) -> T:
        """What ``make`` makes in a thread, once for each ``key``."""
        if key not in self.pictures:
            self.pictures[key] = await asyncio.to_thread(make)
        made: T = self.pictures[key]
        return made


@dataclass(frozen=True, eq=False)
class Found:
    """A memory as it was at ``at``, its communities, and the sheets that are in use."""

    mark: Hashable
    at: str
    whole: Whole
    first: Sequence[Part]
    sheets: WeakValueDictionary[Hashable, Drawn] = field(default_factory=WeakValueDictionary)

    @property
    def key(self) -> Hashable:
        """None where nothing says whether the memory is another one by now."""
        return None if self.mark is None else (self.mark, self.at)

    def holds(self, mark: Hashable) -> bool:
        """Whether it is still so: nothing was written, no relation began or ended."""
        if mark is None or self.mark != mark:
            return False
        return self.whole.until is None or times.now_sql() < self.whole.until


_found: OrderedDict[int, Found] = OrderedDict()
"""The last of each database, by its token."""
_read_last: WeakValueDictionary[int, Found] = WeakValueDictionary()
"""The same from the moment it is read: of the one thread that reads."""


async def state(here: Page) -> Hashable:
    """Another one after any write, and for any other database; None where that is unknown."""
    return await asyncio.to_thread(_state, token(here.db), here.db.path)


def _state(number: int, path: str | None) -> Hashable:
    return None if path is None else (number, stamped(path))


async def memory(here: Page) -> tuple[Found, bool]:
    """All of the memory that the map is of, and whether that is what it is now."""
    mark = await state(here)
    last = _found.get(token(here.db))
    if last is None:
        return await _read_anew(here, mark, None), True
    if last.holds(mark):
        _found.move_to_end(token(here.db))
        return last, True
    try:
        return await within(_read_anew(here, mark, last), FRESH), True
    except Busy:
        return last, False


async def _read_anew(here: Page, mark: Hashable, last: Found | None) -> Found:
    number = token(here.db)
    key = None if mark is None else ("read", number)
    found: Found = await apart(here, key, _read, (number, here.db.path, last), worker=READING)
    if found.mark != mark:
        # that of another, begun before what is asked for was written
        found = await apart(here, key, _read, (number, here.db.path, found), worker=READING)
    if mark is not None:
        _found[number] = found
        _found.move_to_end(number)
        while len(_found) > FOUND:
            _found.popitem(last=False)
    return found


def _read(conn: sqlite3.Connection, settings: Settings, asked: Any) -> Found:
    number, path, last = asked
    # of before it is read: what is written meanwhile has it read again
    mark = _state(number, path)
    # who asked at the very end of a reading need not wait for another
    if (known := _read_last.get(number)) is not None and known.holds(mark):
        return known
    now = times.now_sql()
    found = whole.read(conn, now, settings)
    if last is not None and last.whole.links == found.links:
        first = communities.moved(last.first, last.whole, found)
    else:
        first = atlas.first_parts(found)
    made = _read_last[number] = Found(mark, now, found, first)
    return made


async def sheet(here: Page, entity: int | None = None, level: int = 1) -> tuple[Drawn, str | None]:
    """One page of the map: the whole, or the community of an entity. Raises UnknownEntity.

    With the time of which it is, where the memory was written to since and takes long to read.
    """
    found, is_new = await memory(here)
    key = None if found.key is None else ("sheet", found.key, entity, level)
    drawn = await apart(here, key, _sheet, (found, entity, level), worker=MAPS)
    return drawn, None if is_new else found.at


def _sheet(conn: sqlite3.Connection, settings: Settings, asked: Any) -> Drawn:
    found, entity, level = asked
    shown = atlas.opened(found.whole, found.first, entity, level)
    drawn: Drawn | None = found.sheets.get(shown.key)
    if drawn is None:
        sheet = atlas.sheet(conn, found.whole, shown, now=found.at)
        drawn = Drawn(sheet, *sheet_positions(sheet.graph))
        found.sheets[shown.key] = drawn
    return drawn


async def known(here: Page) -> Drawn | None:
    """The map of the whole, where it is drawn already."""
    last, mark = _found.get(token(here.db)), await state(here)
    return last.sheets.get(atlas.WHOLE) if last is not None and last.holds(mark) else None


async def is_small(here: Page, most: int) -> bool:
    """Whether a memory has so few entities and relations that its map takes no time."""
    found: bool = await here.db.execute_fn(lambda conn: whole.is_small(conn, most))
    return found


async def full(here: Page, render: Callable[[Whole, full_map.FullMap], bytes]) -> bytes | int:
    """What ``render`` makes of every entity and its place, in a thread; remembered.

    How many entities there are, where these are too many.
    """
    found, _ = await memory(here)
    if len(found.whole) > full_map.MOST:
        return len(found.whole)
    placed = await FULL.run(
        ("places", found.whole.shape), full_map.full_map, found.whole, found.first
    )
    key = found.key and ("svg", found.key, i18n.language(), here.url())
    # the language is that of this page, whose thread it is not
    context = contextvars.copy_context()
    return await FULL.run(key, context.run, render, found.whole, placed)


_going_on: set[asyncio.Task[Any]] = set()


async def within(work: Coroutine[Any, Any, T], seconds: float) -> T:
    """What ``work`` answers. Raises Busy after so many seconds: it goes on to its end, and what
    it found is there for the next who asks."""
    task = asyncio.ensure_future(work)
    _going_on.add(task)
    task.add_done_callback(_going_on.discard)
    done, _ = await asyncio.wait({task}, timeout=seconds)
    if not done:
        task.add_done_callback(_tell)
        raise Busy("the map is being drawn: ask again in some seconds")
    return task.result()


def _tell(task: asyncio.Task[Any]) -> None:
    """What went wrong when nobody waited any more."""
    if not task.cancelled() and (error := task.exception()):
        log.warning("drawing a map failed: %s", error)
