"""What actions moved or merged away: it is still here, so no import brings it a second time.

The log of changes knows: a split takes observations to new entities, a merge of entities takes
observations and relations to the one kept, and a merge of observations leaves one that says what
the others said. What has been undone counts for nothing. The log is read once, when an import
begins, and by SQLite; where it is empty that is one look.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from datasette.utils.sqlite import sqlite3

from ..exporting.values import decode
from .source_state import digest

Triple = tuple[int, int, str]

_STANDING = "c.undone_by is null and c.undoes is null"
_ANY = (
    f"select 1 from limbic_changes c where {_STANDING}"
    " and c.action in ('split', 'merge', 'merge_entities') limit 1"
)
# any program may have written to the log
_BEFORE, _AFTER = (f"iif(json_valid(c.{side}), c.{side}, '{{}}')" for side in ("before", "after"))
_MOVED = f"""
select c.id, cast(j.key as integer), json_extract(j.value, '$.entity_id')
from limbic_changes c, json_each({_BEFORE}, '$.observations') j
where c.action in ('split', 'merge_entities') and {_STANDING} and j.type = 'object'
  and json_type(j.value, '$.entity_id') = 'integer'
order by c.id
"""
_REMOVED = f"""
select c.id, cast(j.key as integer) from limbic_changes c, json_each({_AFTER}, '$.observations') j
where c.action in ('merge', 'delete') and {_STANDING} and j.type = 'null' order by c.id
"""
_CLUSTERS = f"""
select c.id, j.value from limbic_changes c, json_each({_AFTER}, '$.arguments.clusters') j
where c.action = 'merge' and {_STANDING} and j.type = 'object'
"""
_MERGED_ROWS = f"""
select c.id, cast(j.key as integer), j.value
from limbic_changes c, json_each({_BEFORE}, '$.observations') j
where c.action = 'merge' and {_STANDING} and j.type = 'object'
  and json_type(j.value, '$.content') is not null
  and json_type(j.value, '$.entity_id') = 'integer'
"""
_REPOINTED = f"""
select cast(j.key as integer), j.value, json_extract({_AFTER}, '$.relations."' || j.key || '"')
from limbic_changes c, json_each({_BEFORE}, '$.relations') j
where c.action = 'merge_entities' and {_STANDING} and j.type = 'object'
  and (json_type(j.value, '$.from_entity') is not null
    or json_type(j.value, '$.to_entity') is not null)
order by c.id desc
"""
# Restored since, and maybe archived again: then it is an entity by itself.
_INTO = f"""
select e.id, c.entity_id from limbic_changes c, json_each({_AFTER}, '$.entities') j
join entities e on e.id = cast(j.key as integer)
  and e.archived_at = json_extract(j.value, '$.archived_at')
join entities k on k.id = c.entity_id
where c.action = 'merge_entities' and {_STANDING} and j.type = 'object' and e.id <> k.id
order by c.id
"""
# Its own come first. Empty lists where the entity has nothing elsewhere.
_WHERE = "(entity_id in (select value from json_each(?)) or id in (select value from json_each(?)))"
_ORDER = "order by entity_id <> ?, id"


class Moved:
    """What the log of changes says, for one import. Reads only."""

    def __init__(self, conn: sqlite3.Connection) -> None:
        self.conn = conn
        self.touched: set[int] = set()
        """Entities from which, or to which, anything moved: only these need a second look."""
        self.links: dict[Triple, int] = {}
        """Relations by the ends and the type that they had before."""
        self._elsewhere: dict[int, list[int]] = defaultdict(list)
        self._merged: dict[int, Counter[bytes]] = defaultdict(Counter)
        self._into: dict[int, int] = {}
        if conn.execute(_ANY).fetchone() is not None:
            self._read()

    def takes(self, entity_id: int) -> int:
        """The entity to which new facts about this one go: the one kept, where it was merged into
        another, and is archived since."""
        seen = {entity_id}
        while (kept := self._into.get(entity_id)) is not None and kept not in seen:
            seen.add(kept)
            entity_id = kept
        return entity_id

    def ends(self, from_id: int, to_id: int) -> tuple[int, int]:
        """The ends of a new relation; one that would lead from the one kept to itself stays with
        the archived one, as merging leaves it."""
        ends = self.takes(from_id), self.takes(to_id)
        return (from_id, to_id) if ends[0] == ends[1] else ends

    def observations(self, entity_id: int) -> tuple[str, list[Any], str]:
        """A condition, its arguments and an order (with ``entity_id`` as its argument) for what
        is said of the entity: its observations, those that stood there, and those of the ones
        that it was merged into."""
        chain = self._chain(entity_id)
        ids = [number for each in chain for number in self._elsewhere.get(each, ())]
        return _WHERE, [json.dumps(chain), json.dumps(ids)], _ORDER

    def merged(self, entity_id: int) -> Mapping[bytes, int]:
        """How many copies of each text (by its digest) were merged into one that is there."""
        found: Counter[bytes] = Counter()
        for each in self._chain(entity_id):
            found += self._merged.get(each, Counter())
        return found

    def comes_again(self, was: int, entity_id: int) -> None:
        """An entity that is gone is made anew under another id: what had moved from it stays."""
        if was not in self.touched:
            return
        self.touched.add(entity_id)
        self._elsewhere[entity_id] = list(self._elsewhere.get(was, ()))
        self._merged[entity_id] = Counter(self._merged.get(was, ()))
        for (*ends, kind), number in list(self.links.items()):
            if was in ends:
                source, target = (entity_id if end == was else end for end in ends)
                self.links[source, target, kind] = number

    def _chain(self, entity_id: int) -> list[int]:
        chain = [entity_id]
        while (kept := self._into.get(chain[-1])) is not None and kept not in chain:
            chain.append(kept)
        return chain

    def _read(self) -> None:
        former: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for change, number, entity_id in self.conn.execute(_MOVED):
            former[number].append((change, entity_id))
        removed: dict[int, list[int]] = defaultdict(list)
        for change, number in self.conn.execute(_REMOVED):
            removed[number].append(change)
        for number, places in former.items():
            # an id may be given anew once its row is removed
            last = max(removed.get(number, (0,)))
            for entity_id in {place for change, place in places if change > last}:
                self._elsewhere[entity_id].append(number)
        self._read_merged(former, removed)
        self._read_links()
        self._into.update(self.conn.execute(_INTO).fetchall())
        owners = self.conn.execute(
            "select distinct entity_id from observations"
            " where id in (select value from json_each(?))",
            [json.dumps([number for ids in self._elsewhere.values() for number in ids])],
        )
        self.touched.update(number for (number,) in owners)
        for some in (self._elsewhere, self._merged, self._into, self._into.values()):
            self.touched.update(some)
        self.touched.update(end for *ends, _ in self.links for end in ends)

    def _read_merged(
        self,
        former: Mapping[int, Iterable[tuple[int, int]]],
        removed: Mapping[int, Iterable[int]],
    ) -> None:
        """Texts that were merged away and for which another one stands that is still there."""
        keeps: dict[tuple[int, int], int] = {}
        for change, text in self.conn.execute(_CLUSTERS):
            cluster = json.loads(text)
            for number in cluster["remove"]:
                keeps[change, number] = cluster["keep"]
        if not keeps:
            return
        stands: dict[tuple[int, int], int] = {}
        for change, number in keeps:
            kept = _last(change, number, keeps, removed)
            if kept is not None:
                stands[change, number] = kept
        here = {
            number
            for (number,) in self.conn.execute(
                "select id from observations where id in (select value from json_each(?))",
                [json.dumps(sorted(set(stands.values())))],
            )
        }
        for change, number, text in self.conn.execute(_MERGED_ROWS):
            if stands.get((change, number)) not in here:
                continue
            row = json.loads(text)
            first = max((each for each in removed.get(number, ()) if each < change), default=0)
            places = {place for at, place in former.get(number, ()) if first < at < change}
            content = decode(row["content"])
            if isinstance(content, bytes):  # as files bring it
                content = content.decode("utf-8", "replace")
            for entity_id in places | {row["entity_id"]}:
                self._merged[entity_id][digest(content)] += 1

    def _read_links(self) -> None:
        """Backwards from what each relation is now, through the ends that it had."""
        images = self.conn.execute(_REPOINTED).fetchall()
        now = {
            number: {"from_entity": source, "to_entity": target, "relation_type": kind}
            for number, source, target, kind in self.conn.execute(
                "select id, from_entity, to_entity, relation_type from relations"
                " where id in (select value from json_each(?))",
                [json.dumps([number for number, *_ in images])],
            )
        }
        for number, before, after in images:
            row = now.get(number)
            if row is None:
                continue
            moved_to = json.loads(after or "{}")
            if any(row[end] != moved_to.get(end, row[end]) for end in ("from_entity", "to_entity")):
                del now[number]  # another program has moved it, or it is another one
                continue
            was = json.loads(before)
            row.update({end: was[end] for end in ("from_entity", "to_entity") if end in was})
            triple = row["from_entity"], row["to_entity"], row["relation_type"]
            self.links.setdefault(triple, number)


def _last(
    change: int,
    number: int,
    keeps: Mapping[tuple[int, int], int],
    removed: Mapping[int, Iterable[int]],
) -> int | None:
    """The one that stands for what a merge took away, through later merges; None where that was
    deleted."""
    kept: int | None = keeps[change, number]
    while kept is not None:
        later = min((each for each in removed.get(kept, ()) if each > change), default=None)
        if later is None:
            return kept
        change, kept = later, keeps.get((later, kept))
    return None
