"""What an observation stands for: texts that merges took away because it says them.

The log of changes knows it: a merge that has not been undone names the one that it kept.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from datasette.utils.sqlite import sqlite3

from ..exporting.values import decode

_MERGES = """
select id, json_extract(after, '$.arguments.clusters') from limbic_changes
where action = 'merge' and undone_by is null and json_valid(after) order by id
"""
_REMOVED_SINCE = """
select 1 from limbic_changes where id > ? and undone_by is null and json_valid(after)
and json_type(after, ?) = 'null' limit 1
"""


@dataclass(frozen=True)
class Merged:
    """A text that is no row any more."""

    change: int
    """The merge that took it away, by its number in the log."""
    id: int
    """The id that the observation had."""
    content: Any
    """As it was: text, or what another program had put there."""


def stood_for(conn: sqlite3.Connection, ids: Iterable[int]) -> dict[int, list[Merged]]:
    """For each of these observations that stands for others, which: those that were merged into
    it, and those that these had stood for before. Reads only."""
    into: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for change, text in conn.execute(_MERGES).fetchall():
        for cluster in json.loads(text or "[]"):
            into[cluster["keep"]] += [(change, number) for number in cluster["remove"]]
    found: dict[int, list[tuple[int, int]]] = {}
    for number in ids:
        links = [link for link in into.get(number, ()) if not _given_away(conn, number, link[0])]
        if links:
            found[number] = _followed(into, links)
    texts = _texts(conn, {change for links in found.values() for change, _ in links})
    return {
        number: [Merged(change, each, texts[change, each]) for change, each in links]
        for number, links in found.items()
    }


def _followed(
    into: dict[int, list[tuple[int, int]]], links: Iterable[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Also what was merged, before, into what was merged."""
    found: list[tuple[int, int]] = []
    todo = list(links)
    while todo:
        change, number = todo.pop(0)
        found.append((change, number))
        todo += [link for link in into.get(number, ()) if link[0] < change]
    return found


def _given_away(conn: sqlite3.Connection, number: int, change: int) -> bool:
    """Whether the observation was removed later, so that the id is another one's now."""
    return (
        conn.execute(_REMOVED_SINCE, [change, f'$.observations."{number}"']).fetchone() is not None
    )


def _texts(conn: sqlite3.Connection, changes: Iterable[int]) -> dict[tuple[int, int], Any]:
    found: dict[tuple[int, int], Any] = {}
    for change, text in conn.execute(
        "select id, json_extract(before, '$.observations') from limbic_changes"
        " where id in (select value from json_each(?))",
        [json.dumps(sorted(changes))],
    ).fetchall():
        for key, row in json.loads(text or "{}").items():
            found[change, int(key)] = decode((row or {}).get("content"))
    return found
