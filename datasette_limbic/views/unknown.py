"""What answers where a path below ours leads nowhere."""

from __future__ import annotations

from typing import Any

from datasette.utils import tilde_decode

from ..errors import UnknownPage
from .common import Page, page


@page
async def unknown_page(here: Page) -> tuple[str, dict[str, Any]]:
    path = tilde_decode(here.request.url_vars["unknown"])
    raise UnknownPage(
        f"there is no page {path!r:.60} here: {here.url()} is the overview, {here.url('/search')} "
        f"the search, {here.url('/entity/ID')} an entity by its id, {here.url('/changes')} the log "
        f"of changes, {here.url('/imports')} that of imports; each takes .json at its end"
    )
