"""One entity."""

from __future__ import annotations

from typing import Any

from datasette.utils import tilde_decode
from datasette.utils.sqlite import sqlite3

from .. import compat, entity, schema, signal_figures, times
from ..errors import BadParameter, UnknownEntity
from ..reports.maintenance import likest, maintenance
from . import charts
from .common import Page, page, whole_number
from .display import short

RATINGS_TABLE = ("limbic_feedback",)
# kind of kept pairs → one of them, several
KINDS = {
    "duplicate": ("duplicate pair", "duplicate pairs"),
    "contradiction": ("contradiction", "contradictions"),
    "look": ("pair worth a look", "pairs worth a look"),
}


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
    await _add_maintenance(here, data)
    if here.as_json:
        return "limbic_entity.html", data
    _decorate(here, data)
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


async def _add_maintenance(here: Page, data: dict[str, Any]) -> None:
    """How it stands in the reports, and what each flagged observation is most like."""
    data["maintenance"] = None
    alike: dict[int, dict[str, Any]] = {}
    if await compat.may_view(
        here.datasette, here.request.actor, here.db.name, schema.REPORTED_TABLES
    ):
        data["maintenance"], alike = await here.read(lambda conn: _reported(conn, data))
    for row in data["observations"]:
        row["similar_to"] = alike.get(row["id"])


def _reported(
    conn: sqlite3.Connection, data: dict[str, Any]
) -> tuple[dict[str, Any] | None, dict[int, dict[str, Any]]]:
    found = maintenance(
        conn, data["id"], data["entityType"], archived=data["archived_at"] is not None
    )
    return found, likest(conn, [o["id"] for o in data["observations"] if o["similarity_flag"]])


def _decorate(here: Page, data: dict[str, Any]) -> None:
    """What the page says of the reports besides, in words and links."""
    kept = (data["maintenance"] or {}).get("pairs") or {}
    data["_pairs"] = [
        f"{count:,} {KINDS[kind][count != 1]}" for kind, count in kept.items() if count
    ]
    for row in (*data["relations_out"], *data["relations_in"]):
        row["_ended"] = _has_ended(row["valid_to"], data["now"])
    on_page = {row["id"] for row in data["observations"]}
    for row in data["observations"]:
        like = row["similar_to"]
        if like is None:
            row["_like"] = "Marked as like an earlier observation; which one is not known"
            continue
        row["_like"] = f"Like observation {like['id']}: {short(like['content'], 300)}"
        there = f"#observation-{like['id']}"
        row["_like_url"] = there if like["id"] in on_page else here.url(f"/duplicates/{data['id']}")


def _has_ended(end: Any, now: str) -> bool:
    """Whether ``valid_to`` is over; one that cannot be read is not, as ranking has it."""
    then, moment = times.parse_time(end), times.parse_time(now)
    return then is not None and moment is not None and then <= moment
