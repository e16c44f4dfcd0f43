"""Whether what an insight says is still so: compared with the rows before a yes is carried out.

Reports are looked at now and then, and any program may write in between. A person approves what
they read, so where the texts, names or accesses that it rests on are others, nothing is done.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from datasette.utils.sqlite import sqlite3

from ..answers import plain
from ..config import Settings
from ..duplicates import Observation
from ..duplicates.model import earlier_first
from ..health.sql import current
from ..reports.entities import rows
from .differences import what_changed
from .entities import archived_bridges
from .model import Looking, is_ours, named, read_evidence, text_digest, text_of

_NOW = "select datetime('now')"
_ENTITY = "select name, archived_at from entities where id = ?"
_TEXTS = f"""
select o.id, o.entity_id, cast(o.content as blob) as content, o.created_at, {current("o")} as holds
from observations o where o.id in (select value from json_each(:ids)) order by o.id
"""
_ALL_TEXTS = f"""
select o.id, cast(o.content as blob) from observations o
where o.entity_id = :id and {current("o")}
"""
_NAMES = """
select id, name from entities
where archived_at is null and id in (select value from json_each(:ids))
"""
_USED = f"""
select cast(coalesce(a.access_count, 0) as integer) as access_count, a.last_access,
  e.last_activity_at, (select count(distinct n.other) from (
    select r.to_entity as other from relations r where r.from_entity = e.id and {current("r")}
    union select r.from_entity from relations r where r.to_entity = e.id and {current("r")}
  ) n join entities m on m.id = n.other where m.id <> e.id and m.archived_at is null) as degree
from entities e left join entity_access a on a.entity_id = e.id where e.id = :id
"""


def no_longer(conn: sqlite3.Connection, row: Mapping[str, Any]) -> str | None:
    """What is not as a pending insight says, in a sentence; None where it is. Reads only.

    ``row`` is one of ``limbic_insights``. What an import brought says nothing that could be
    compared.
    """
    evidence = read_evidence(row["evidence"])
    kind = row["kind"]
    if not is_ours(row["key"], kind, row["evidence_digest"], evidence):
        return None
    material, facts = evidence["material"], evidence.get("facts")
    facts = facts if isinstance(facts, dict) else {}
    now = str(conn.execute(_NOW).fetchone()[0])
    said = [*_entity(conn, kind, facts)]
    return "; ".join(said or _LOOKS[kind](conn, now, material, facts)) or None


def _entity(conn: sqlite3.Connection, kind: str, facts: Mapping[str, Any]) -> Iterator[str]:
    shown = facts.get("entity")
    if not isinstance(shown, dict):
        return
    found = conn.execute(_ENTITY, [shown.get("id")]).fetchone()
    if found is None:
        yield f"{named(shown.get('name'))} is not there any more"
        return
    if plain(text_of(found[0])) != shown.get("name"):
        yield f"{named(shown.get('name'))} is called {named(found[0])} now"
    if kind != "bridge" and found[1] is not None:
        yield f"{named(found[0])} is archived"


def _observations(
    conn: sqlite3.Connection, now: str, material: Mapping[str, Any], _: Mapping[str, Any]
) -> Iterator[str]:
    was = material["observations"]
    found = {r["id"]: r for r in rows(conn, _TEXTS, {"ids": json.dumps(list(was)), "now": now})}
    for key, digest in was.items():
        row = found.get(int(key))
        if row is None:
            yield f"observation {key} is not there any more"
        elif row["entity_id"] != material["entity"]:
            yield f"observation {key} belongs to entity {row['entity_id']} now"
        elif not row["holds"]:
            yield f"observation {key} has ended"
        elif text_digest(text_of(row["content"])) != digest:
            yield f"observation {key} has another text"
    if "earlier" in material and len(found) == len(was):
        first = _first(found.values())
        if first != material["earlier"]:
            yield f"observation {first} is the earlier one now"


def _first(of: Iterable[Mapping[str, Any]]) -> int:
    one, other = (Observation(r["id"], r["entity_id"], "", r["created_at"]) for r in of)
    return earlier_first(one, other)[0].id


def _split(
    conn: sqlite3.Connection, now: str, material: Mapping[str, Any], _: Mapping[str, Any]
) -> Iterator[str]:
    texts = conn.execute(_ALL_TEXTS, {"id": material["entity"], "now": now})
    is_now = {str(number): text_digest(text_of(content)) for number, content in texts}
    yield from _said(what_changed("split", material, {**material, "observations": is_now}))


def _names(
    conn: sqlite3.Connection, _: str, material: Mapping[str, Any], __: Mapping[str, Any]
) -> Iterator[str]:
    ids = json.dumps(list(material["names"]))
    is_now = {str(number): text_of(name) for number, name in conn.execute(_NAMES, {"ids": ids})}
    yield from _said(what_changed("name_clash", material, plain({"names": is_now})))


def _used(
    conn: sqlite3.Connection, now: str, material: Mapping[str, Any], facts: Mapping[str, Any]
) -> Iterator[str]:
    (found,) = plain(rows(conn, _USED, {"id": material["entity"], "now": now}))
    degree, was = found.pop("degree"), facts.get("degree")
    yield from _said(what_changed("archive_candidate", material, {**material, **found}))
    if isinstance(was, int) and degree > was:
        yield f"live entities linked with it: {degree:,}, {was:,} before"


def _bridge(
    conn: sqlite3.Connection, now: str, material: Mapping[str, Any], _: Mapping[str, Any]
) -> Iterator[str]:
    for raised in archived_bridges(conn, Looking(now, 0, 0, Settings())):
        if raised.entity_id == material["entity"]:
            yield from _said(what_changed("bridge", material, plain(raised.material)))
            return
    yield "it is not archived any more, or joins no live entities"


def _said(sentence: str | None) -> list[str]:
    return [] if sentence is None else [sentence]


_Look = Callable[[sqlite3.Connection, str, Mapping[str, Any], Mapping[str, Any]], Iterator[str]]
_LOOKS: dict[str, _Look] = {
    "contradiction": _observations,
    "duplicate": _observations,
    "name_clash": _names,
    "bridge": _bridge,
    "split": _split,
    "archive_candidate": _used,
}
