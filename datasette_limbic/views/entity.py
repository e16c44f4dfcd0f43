"""One entity."""

from __future__ import annotations

from typing import Any

from .. import entity, times
from ..errors import BadParameter, UnknownEntity
from .common import Page, page


@page
async def entity_page(here: Page) -> tuple[str, dict[str, Any]]:
    given = here.request.url_vars["entity"]
    if not given.isascii() or not given.isdigit() or int(given[:20]) >= 2**63:
        raise UnknownEntity(f"{given!r:.80} is no entity id: search for the name instead")
    now = here.args.get("now") or None
    if now is not None and times.to_sql(now) is None:
        raise BadParameter(f"now is {now!r:.60}: use a time such as 2026-11-29 12:00:00")
    number = here.whole("page", 1)
    data = await here.db.execute_fn(
        lambda conn: entity.entity_detail(
            conn,
            int(given),
            settings=here.settings,
            now=times.to_sql(now) if now else None,
            page=number,
        )
    )
    data["_row_url"] = str(here.datasette.urls.row(here.db.name, "entities", given))
    return "limbic_entity.html", data
