"""Merge duplicate observations of one entity: exactly one of each cluster stays, as it is.

What goes must be said by the one that stays, now (``saying``), and so must all that earlier merges
took away in favour of what goes. So no sequence of merges removes the last copy of a text: it
ends in an observation that was judged to say it, and the log of changes holds both. What a person
wants gone all the same is deleted, which is another action.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from datasette.utils.sqlite import sqlite3

from ..duplicates.stars import stars
from ..errors import BadParameter, Refused
from ..reports.similar import compare, read_alike
from ..text import counted, listed, short
from . import basis, merged, rows
from .model import Plan, Row, RowChange
from .saying import Saying
from .settling import settled

MAX_OBSERVATIONS = 10_000
"""In one merge, those that stay among them."""
_GOES = ("kind", "confidence", "valid_from", "valid_to")
_MAX_SAID = 5


@dataclass(frozen=True)
class Cluster:
    """One that stays, and those that go."""

    keep: int
    remove: tuple[int, ...]

    def argument(self) -> dict[str, Any]:
        """As a caller gives it."""
        return {"keep": self.keep, "remove": list(self.remove)}


def proposed(
    conn: sqlite3.Connection, arguments: Mapping[str, Any], settings: Any = None
) -> dict[str, Any]:
    """``arguments`` with all clusters of duplicates that ``find_duplicate_observations`` suggests
    where they are left out; never contradictions.

    A cluster of which the survivor does not say everything becomes several, and what nothing else
    says stays. May take seconds. Raises Refused where nothing can be merged.
    """
    if arguments.get("clusters") is not None:
        return dict(arguments)
    row = _live(conn, arguments.get("entity"))
    asked = read_alike(conn, row["id"], fresh=False, settings=settings)
    alike, saying = compare(asked), Saying(conn, row["id"])
    before = merged.stood_for(conn, (i for cluster in alike.clusters for i in cluster.ids))

    def says(kept: int, other: int) -> bool:
        return saying.why_not(kept, other) is None and (
            saying.why_not_before(kept, other, before.get(other, ()), frozenset()) is None
        )

    found = [
        {"keep": keep, "remove": remove}
        for cluster in alike.clusters
        for keep, remove in stars(cluster, asked.observations, says)
    ]
    if not found:
        left = ", and those that are alike cannot be merged" if alike.clusters else ""
        raise Refused(
            f"nothing was changed: {rows.named(row)} has no duplicates among its "
            f"{counted(asked.count, 'observation', 'observations')}{left}"
        )
    return {**arguments, "entity": row["id"], "clusters": _first(found)}


def _first(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """As many clusters as one merge may have; what is left is proposed the next time."""
    room, some = MAX_OBSERVATIONS, []
    for cluster in found:
        remove = cluster["remove"][: room - 1]
        if not remove:
            break
        some.append({"keep": cluster["keep"], "remove": remove})
        room -= 1 + len(remove)
    return some


def plan(conn: sqlite3.Connection, arguments: Mapping[str, Any], now: str) -> Plan:
    """``{"entity": id or name, "clusters": [{"keep": id, "remove": [ids]}]}``; ``clusters`` left
    out: those that are suggested.

    What stays is left as it is; what goes takes its kind, confidence and validity along, and a
    warning says so where they are others. Merging is no activity of the entity.

    Raises BadParameter, UnknownEntity, UnknownRow, and Refused: an archived entity, observations
    of another one or that do not hold now, and what the one that stays does not say.
    """
    arguments = proposed(conn, arguments)
    row = _live(conn, arguments.get("entity"))
    clusters = _read(arguments["clusters"])
    ids = [number for each in clusters for number in (each.keep, *each.remove)]
    there = rows.observations(conn, ids)
    _refuse_others(conn, row, there)
    saying = Saying(conn, row["id"])
    _refuse_ended(there, saying)
    _refuse_unsaid(conn, clusters, saying)
    changes = [
        RowChange(
            "observations",
            (number,),
            there[number],
            None,
            {"kept": each.keep, "kept_content": short(there[each.keep]["content"])},
        )
        for each in clusters
        for number in each.remove
    ]
    return Plan(
        "merge",
        _summary(row, clusters),
        tuple(settled(conn, changes)),
        basis.make([row], rows={"observation": there.values()}),
        row["id"],
        row["name"],
        {"entity": row["id"], "clusters": [each.argument() for each in clusters]},
        tuple(_warnings(clusters, there)),
    )


def _live(conn: sqlite3.Connection, asked: Any) -> Row:
    row = rows.entity(conn, asked)
    rows.refuse_archived(row)
    return row


def _read(asked: Any) -> list[Cluster]:
    """The clusters as a caller gave them. Raises BadParameter, naming what is wrong."""
    if not isinstance(asked, (list, tuple)) or not asked:
        raise BadParameter(
            f"clusters is {asked!r:.60}: give a list of "
            '{"keep": id, "remove": [ids]}, or leave it out for what is suggested'
        )
    clusters = [_cluster(each) for each in asked]
    seen: set[int] = set()
    for each in clusters:
        twice = sorted({each.keep, *each.remove} & seen)
        if twice:
            raise BadParameter(
                f"observation {listed([str(i) for i in twice])} is in two clusters: put it into one"
            )
        seen.update((each.keep, *each.remove))
    if len(seen) > MAX_OBSERVATIONS:
        raise BadParameter(
            f"clusters has {len(seen):,} ids: merge at most {MAX_OBSERVATIONS:,} at once"
        )
    return clusters


def _cluster(asked: Any) -> Cluster:
    if not isinstance(asked, Mapping):
        raise BadParameter(f'a cluster is {asked!r:.60}: give {{"keep": id, "remove": [ids]}}')
    unknown = [str(key)[:40] for key in asked if key not in ("keep", "remove")]
    if unknown:
        raise BadParameter(
            f"unknown {listed(unknown)} in a cluster: it takes keep (an id) and remove (ids)"
        )
    keep = rows.whole_id("keep", asked.get("keep"))
    remove = rows.whole_ids("remove", asked.get("remove"), most=MAX_OBSERVATIONS)
    if keep in remove:
        raise BadParameter(f"observation {keep} is to be kept and removed: take it out of remove")
    return Cluster(keep, tuple(remove))


def _refuse_others(conn: sqlite3.Connection, row: Row, there: Mapping[int, Row]) -> None:
    others = {i: each for i, each in there.items() if each["entity_id"] != row["id"]}
    if others:
        owner = rows.owners(conn, [next(iter(others.values()))])[0]
        of_it = [str(i) for i, each in others.items() if each["entity_id"] == owner["id"]]
        raise Refused(
            f"observation {listed(of_it)} belongs to {rows.named(owner)}, not to "
            f"{rows.named(row)}: only observations of one entity can be merged"
        )


def _refuse_ended(there: Mapping[int, Row], saying: Saying) -> None:
    for number, each in there.items():
        if number not in saying.held:
            when = (
                f"ended at {each['valid_to']}"
                if each["valid_to"] is not None
                else f"holds from {each['valid_from']} on"
            )
            raise Refused(
                f"observation {number} {when}: only observations that hold now can be merged. "
                "Delete it if it is not wanted (action delete)"
            )


def _refuse_unsaid(conn: sqlite3.Connection, clusters: Sequence[Cluster], saying: Saying) -> None:
    removed = {number for each in clusters for number in each.remove}
    staying = frozenset(text for number, text in saying.texts.items() if number not in removed)
    before = merged.stood_for(conn, removed)
    for each in clusters:
        for number in each.remove:
            why = saying.why_not(each.keep, number) or saying.why_not_before(
                each.keep, number, before.get(number, ()), staying
            )
            if why:
                raise Refused(f"nothing was changed: {why}")


def _summary(row: Row, clusters: Sequence[Cluster]) -> str:
    count = sum(len(each.remove) for each in clusters)
    what = f"Merge {counted(count, 'observation', 'observations')} of {rows.named(row)} into"
    if len(clusters) == 1:
        return f"{what} observation {clusters[0].keep}, which stays"
    return f"{what} {len(clusters):,} that stay"


def _warnings(clusters: Sequence[Cluster], there: Mapping[int, Row]) -> list[str]:
    """What goes with those that go."""
    found = []
    for each in clusters:
        kept = there[each.keep]
        for number in each.remove:
            lost = [
                f"{column} {there[number][column]!s:.40}"
                for column in _GOES
                if there[number][column] is not None and there[number][column] != kept[column]
            ]
            if lost:
                found.append(
                    f"observation {number} has {' and '.join(lost)}, which observation "
                    f"{each.keep} has not"
                )
    more = len(found) - _MAX_SAID
    if more > 0:
        found = [*found[:_MAX_SAID], f"{more:,} more have something that the one kept has not"]
    return found
