"""The full map of a memory of a few thousand entities: a picture of its own, as SVG."""

from __future__ import annotations

from datasette import Response

from .. import compat
from ..errors import BadParameter
from ..graph import full_map
from ..graph.full_picture import full_picture
from ..graph.whole import Whole
from ..schema import SEARCHED_TABLES
from . import graph_found
from .common import Page, by_method, checked, refuse_unknown

TEMPLATE = "limbic_graph_full.html"
PATIENCE = 20.0
"""Seconds after which it is not waited for any more; it goes on."""


async def _full(here: Page) -> Response:
    refuse_unknown(here, ())
    template = compat.environment(here.datasette, here.request).get_template(TEMPLATE)

    def render(whole: Whole, placed: full_map.FullMap) -> bytes:
        drawn = full_picture(
            whole,
            placed,
            name=here.db.name,
            url=lambda entity: here.url(f"/entity/{entity}"),
        )
        svg: str = template.render(map=drawn)
        return svg.encode()

    svg = await graph_found.within(graph_found.full(here, render), PATIENCE)
    if isinstance(svg, int):
        raise BadParameter(
            f"this memory has {svg:,} entities, and a full map holds {full_map.MOST:,} at "
            f"most: open one community after another at {here.url('/graph')}"
        )
    return Response(svg, content_type="image/svg+xml; charset=utf-8")


full_map_view = by_method(GET=checked(_full, SEARCHED_TABLES))
