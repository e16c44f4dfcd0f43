"""``POST /reviewed``: the consolidation report was looked through, today and by whom."""

from __future__ import annotations

from datasette import Response

from ..answers import plain, public
from ..reports.review import mark_reviewed
from ..schema import REPORTED_TABLES
from . import acting, posting
from .common import Page, by_method, checked, json_response
from .consolidation import REVIEWS
from .writable import written

EXAMPLE = "{}"


async def _reviewed(here: Page) -> Response:
    await acting.must(here)
    as_form = posting.is_form(here.request)
    if as_form:
        await posting.fields(here, EXAMPLE)
    else:
        posting.require_json(here, EXAMPLE)
        await posting.body(here, (), EXAMPLE)
    actor = posting.actor_id(here)
    done = await written(here, lambda conn: mark_reviewed(conn, actor))
    if not as_form:
        return json_response(here.datasette, public(plain(done)))
    return Response.redirect(here.url("/consolidation"), 303)


reviewed_view = by_method(
    f"with {EXAMPLE}",
    POST=checked(
        _reviewed, (*REPORTED_TABLES, *REVIEWS), wants_json=lambda r: not posting.is_form(r)
    ),
)
