"""One entity."""

from __future__ import annotations

from typing import Any

from datasette.utils import tilde_decode

from .. import compat, entity, schema, signal_figures, times
from ..errors import BadParameter, UnknownEntity
from . import charts
from .common import Page, page, whole_number

RATINGS_TABLE = ("limbic_feedback",)


@page
async def entity_page(here: Page) -> tuple[str, dict[str, Any]]:
    given = here.request.url_vars["entity"]
    wanted = whole_number(given)
    if wanted is None:
        shown = tilde_decode(given)[:60]
        raise UnknownEntity(f"{shown!r} is no entity id: search for the name instead")
    now = here.args.get("now") or None
    if now is not None and times.to_sql(now) is None:
        raise BadParameter(f"now is {now[:60]!r}: use a time such as 2026-11-29 12:00:00")
    number = here.whole("page", 1)
    access_log = await compat.may_view(
        here.datasette, here.request.actor, here.db.name, (schema.ACCESS_LOG,)
    )
    data = await here.read(
        lambda conn: entity.entity_detail(
            conn,
            wanted,
            settings=here.settings,
            now=times.to_sql(now) if now else None,
            page=number,
            access_log=access_log,
        )
    )
    signals = data["signals"]
    signals["events"] = await _events(here, wanted)
    weeks, outside = signals["weeks"], signals["outside_weeks"]
    data["_log_shown"] = access_log
    data["_chart"] = charts.week_chart(weeks) if access_log else None
    data["_outside"] = charts.outside_words(outside, weeks) if access_log else []
    data["_partners"] = charts.partner_bars(signals["co_occurrences"])
    data["_row_url"] = str(here.datasette.urls.row(here.db.name, "entities", str(wanted)))
    return "limbic_entity.html", data


async def _events(here: Page, wanted: int) -> dict[str, int] | None:
    """How often it was opened from a search and rated; None for who may not see the log of that.

    The page itself asks for no more rights than the entity does.
    """
    if not await compat.may_view(here.datasette, here.request.actor, here.db.name, RATINGS_TABLE):
        return None
    found: dict[str, int] = await here.read(lambda conn: signal_figures.events(conn, wanted))
    return found
