"""One entity."""

from __future__ import annotations

from typing import Any

from datasette.utils import tilde_decode

from .. import entity, times
from ..errors import BadParameter, UnknownEntity
from .common import Page, page, whole_number


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
    data = await here.read(
        lambda conn: entity.entity_detail(
            conn,
            wanted,
            settings=here.settings,
            now=times.to_sql(now) if now else None,
            page=number,
        )
    )
    data["_row_url"] = str(here.datasette.urls.row(here.db.name, "entities", str(wanted)))
    return "limbic_entity.html", data
