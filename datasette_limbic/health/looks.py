"""Everything that health looks for, in the order in which equally severe findings are shown."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any

from ..embedding_target import choose
from ..errors import LimbicError
from ..i18n import marked as _
from ..reports.lists import with_type
from ..reports.name_clashes import name_clashes
from . import bridges, checks, limits, listing, vectors
from .model import Advice, Ask, Found, Look, NotLookedAt
from .sql import own

HUB_DEGREE = 3  # stands in the title below as well, which is translated
"""Live neighbours from which an entity without content is a hub stub."""
SNAPSHOT = 4000
"""Characters of an entity's text that are embedded where the setting says nothing else."""

# What the queries on the graph read; whoever may not see these does not see the page.
GRAPH = ("entities", "observations", "relations", "entity_access")

_LOOK = Advice(_("Look at the rows first: each says which check found it."))


def _listed(name: str, values: Callable[[Ask], dict[str, Any]] | None = None) -> Any:
    def find(ask: Ask) -> Found:
        return listing.read(ask, own()[name], values(ask) if values else None)

    return find


def _name_clashes(ask: Ask) -> Found:
    found = name_clashes(ask.conn, page=ask.first // ask.size + 1, size=ask.size)
    return Found(found["count"], [_clash(group) for group in found["groups"]])


def _clash(group: dict[str, Any]) -> dict[str, Any]:
    members = group["members"]
    return {
        "entities": group["entities"],
        "names": [
            {"id": m["id"], "name": m["name"], "archived": m["archived_at"] is not None}
            for m in members
        ],
        "observations": sum(m["observations"] for m in members),
    }


def _archived_bridges(ask: Ask) -> Found:
    found = bridges.bridges(ask.conn, ask.now)
    shown = found.shown(ask.first, ask.size)
    wanted = {bridge.id for bridge in shown}
    for bridge in shown:
        wanted.update(i for side in bridge.sides[: bridges.SIDES] for i in side.first)
    known = _entities(ask, wanted)
    return Found(len(found), [_bridge(bridge, known) for bridge in shown])


def _bridge(bridge: bridges.Bridge, known: dict[int, dict[str, Any]]) -> dict[str, Any]:
    return {
        **known[bridge.id],
        "only_link": bridge.only,
        "joins": bridge.entities,
        "parts": len(bridge.sides),
        "sides": [
            {
                "entities": side.entities,
                "names": [{"id": i, "name": known[i]["name"]} for i in side.first],
            }
            for side in bridge.sides[: bridges.SIDES]
        ],
    }


def _entities(ask: Ask, ids: set[int]) -> dict[int, dict[str, Any]]:
    columns = ("id", "name", "entity_type", "archived_at", "archived_reason")
    rows = ask.conn.execute(
        f"select {', '.join(columns)} from entities where id in (select value from json_each(?))",
        [json.dumps(sorted(ids))],
    )
    return {row[0]: with_type(dict(zip(columns, tuple(row), strict=True))) for row in rows}


def _long_observations(ask: Ask) -> Found:
    try:
        model = choose(ask.conn, "observations", settings=ask.settings).asked
    except LimbicError as error:
        raise NotLookedAt(str(error)) from None
    bound = limits.limit(model, ask.settings)
    if bound is None:
        raise NotLookedAt(f"how much of a text the model {model!r} embeds is not known")
    found = listing.read(ask, own()["long_observations"], {"characters": bound.characters})
    found.note = bound.words
    return found


def _cut_snapshots(ask: Ask) -> Found:
    row = ask.conn.execute(
        "select coalesce((select cast(value as integer) from limbic_settings"
        " where key = 'snapshot_max_chars'), ?)",
        [SNAPSHOT],
    ).fetchone()
    found = listing.read(ask, own()["cut_snapshots"], {"characters": row[0]})
    found.note = f"the setting snapshot_max_chars is {row[0]:,}"
    return found


@cache
def looks() -> tuple[Look, ...]:
    """All of them."""
    return (
        Look(
            "dangling_rows",
            _("rows that point to something that is gone"),
            "broken",
            checks.COLUMNS,
            checks.finder(checks.GONE),
            _LOOK,
        ),
        Look(
            "unreadable_times",
            _("times that cannot be read"),
            "broken",
            checks.COLUMNS,
            checks.finder(checks.TIMES),
            _LOOK,
        ),
        Look(
            "broken_vectors",
            _("vectors of rows that are gone, and indexes of another dimension"),
            "broken",
            checks.COLUMNS,
            checks.finder(checks.VECTORS),
            _LOOK,
        ),
        Look(
            "other_checks",
            _("other rows and tables that are not as they should be"),
            "broken",
            checks.COLUMNS,
            checks.finder(checks.REST),
            _LOOK,
        ),
        Look(
            "vectors",
            _("vectors that are missing, out of date or unusable"),
            "attention",
            vectors.COLUMNS,
            vectors.find,
            Advice(
                _(
                    "Text search alone finds these until a sync; what the model rejects stays as "
                    "it is until its text changes."
                ),
                "datasette limbic sync FILE",
            ),
            vectors.READS,
            {"entity": "entity_id"},
        ),
        Look(
            "archived_bridges",
            _("archived entities without which live ones fall apart"),
            "attention",
            ("name", "entityType", "only_link", "joins", "parts", "sides"),
            _archived_bridges,
            Advice(
                _(
                    "Restore it, or link its sides directly. Where it is not the only link, "
                    "restoring one of several is enough."
                )
            ),
            links={"name": "id"},
        ),
        Look(
            "name_clashes",
            _("names that differ only in case, accents or punctuation"),
            "attention",
            ("names", "entities", "observations"),
            _name_clashes,
            Advice(_("Merge those that mean the same, or give them names that tell them apart.")),
        ),
        Look(
            "hub_stubs",
            _("entities with 3 or more neighbours and no observations"),
            "attention",
            ("name", "entityType", "degree", "ended_observations", "access_count"),
            _listed("hub_stubs", lambda _: {"hub_degree": HUB_DEGREE}),
            Advice(
                _("Say in an observation or two what it is: much leads there, and finds nothing.")
            ),
            links={"name": "id"},
        ),
        Look(
            "empty_entities",
            _("entities without observations"),
            "attention",
            ("name", "entityType", "degree", "ended_observations", "access_count", "created_at"),
            _listed("empty_entities"),
            Advice(_("Say something of it, or archive it; hub stubs are among these.")),
            links={"name": "id"},
            view="limbic_empty_entities",
        ),
        Look(
            "orphans",
            _("entities without relations to a live one"),
            "attention",
            ("name", "entityType", "observations", "access_count", "last_access", "created_at"),
            _listed("orphans"),
            Advice(_("Relate it to what it belongs to; one that nobody needs can be archived.")),
            links={"name": "id"},
            view="limbic_orphans",
        ),
        Look(
            "long_observations",
            _("observations longer than the model embeds"),
            "note",
            ("entity", "content", "characters", "share_left_out"),
            _long_observations,
            Advice(
                _(
                    "Split each into several: search by meaning does not see what comes after the "
                    "bound, text search does."
                )
            ),
            ("collections", "embeddings"),
            {"entity": "entity_id"},
        ),
        Look(
            "cut_snapshots",
            _("entities whose text is embedded only in part"),
            "note",
            ("name", "entityType", "observations", "characters", "share_left_out"),
            _cut_snapshots,
            Advice(
                _(
                    "Search by meaning does not see what comes after the bound, text search does. "
                    "Split the entity, or raise the bound as far as the model goes, and sync."
                ),
                "datasette limbic sync FILE",
                ("update limbic_settings set value = '8000' where key = 'snapshot_max_chars';",),
            ),
            ("limbic_settings",),
            {"name": "id"},
        ),
        Look(
            "ended_relations",
            _("relations that ended"),
            "note",
            ("from_name", "relation_type", "to_name", "valid_from", "valid_to"),
            _listed("ended_relations"),
            Advice(_("Nothing to do: they are history, and search leaves them out.")),
            links={"from_name": "from_entity", "to_name": "to_entity"},
            view="limbic_ended_relations",
        ),
    )
