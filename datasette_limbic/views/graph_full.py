"""The full map of a memory of a few thousand entities: a picture of its own, as SVG."""

from __future__ import annotations

import asyncio

from datasette import Response

from ..errors import BadParameter
from ..graph import full_map
from ..graph.full_picture import full_picture
from ..schema import SEARCHED_TABLES
from . import graph_found
from .common import Page, by_method, checked

TEMPLATE = "limbic_graph_full.html"


async def _full(here: Page) -> Response:
    whole, placed = await graph_found.full(here)
    if placed is None:
        raise BadParameter(
            f"this memory has {len(whole):,} entities, and a full map holds {full_map.MOST:,} at "
            f"most: open one community after another at {here.url('/graph')}"
        )
    drawn = await asyncio.to_thread(
        full_picture,
        whole,
        placed,
        name=here.db.name,
        url=lambda entity: here.url(f"/entity/{entity}"),
    )
    svg = await here.datasette.render_template(TEMPLATE, {"map": drawn}, request=here.request)
    return Response(svg, content_type="image/svg+xml; charset=utf-8")


full_map_view = by_method(GET=checked(_full, SEARCHED_TABLES))
