"""Coming back to a result later, and how often that happens by chance.

Who opens an entity by name within an hour of a search that showed it may have found it there. But
whoever opens a popular entity every day does so after any search as well, and popular entities are
what ``beta_sal`` lifts: taken as they come, such openings would speak for popularity whatever was
searched for. So what is expected by chance is worked out and taken off: of the names that this
client opened while it had not just been shown the entity, which share were this entity?
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .log import Bools, Floats, Ints, Log

SHRINK = 10.0
"""What all clients open counts as much as so many openings of the client's own."""


@dataclass(frozen=True)
class Openings:
    """m openings by name, in any order: of ``client`` (m,) (numbers), ``entity`` (m,), ``at``."""

    client: Ints
    entity: Ints
    at: Floats

    def once(self, seconds: float) -> Openings:
        """Without those that repeat what the same client opened at most ``seconds`` before.

        Who opens a note five times while working on it has one reason to. Taken for five chances,
        what is opened often would seem to be come back to less than by chance.
        """
        order = np.lexsort((self.at, self.entity, self.client))
        kept = np.zeros(len(order), bool)
        begun: tuple[int, int, float] | None = None
        rows = zip(
            self.client[order].tolist(),
            self.entity[order].tolist(),
            self.at[order].tolist(),
            order.tolist(),
            strict=True,
        )
        for client, entity, at, row in rows:
            if begun is None or begun[:2] != (client, entity) or at - begun[2] > seconds:
                kept[row] = True
                begun = client, entity, at
        return Openings(self.client[kept], self.entity[kept], self.at[kept])


def reaccesses(log: Log, client: Ints, openings: Openings, until: Floats) -> tuple[Bools, Floats]:
    """(N,) whether the client opened what it was shown, and (N,) the chance of that had the search
    not been. What is opened after ``until`` (n,) has nothing to do with the search.

    ``client`` (n,) are numbers, -1 where nobody knows who asked: that is never the same client. An
    opening belongs to the last search that had shown the entity to this client. Where nothing at
    all was opened but just after this entity was shown, nobody knows the chance: no label, and 0.
    """
    came = np.zeros(len(log.entity), bool)
    chance = np.zeros(len(log.entity))
    rows = np.flatnonzero(log.shown & (client >= 0)[log.of])
    if not len(rows) or not len(openings.client):
        return came, chance
    entities, code = np.unique(
        np.concatenate([log.entity[rows], openings.entity]), return_inverse=True
    )
    entity, opened_entity = code[: len(rows)], code[len(rows) :]
    who = client[log.of[rows]]
    shown = _Shown(who, entity, log.at[log.of[rows]], until[log.of[rows]], len(entities))
    opened = openings.client * len(entities) + opened_entity
    any_name = shown.within(shown.client, openings.client, openings.at)
    same_name = shown.within(shown.pair, opened, openings.at)
    # what was opened while the entity had not just been shown: of all clients, and of this one
    size = len(entities)
    of_all = len(openings.client) - np.bincount(entity, any_name, size)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = _unexposed(opened_entity, entity, same_name, size) / of_all
    pairs, number = np.unique(np.concatenate([shown.pair, opened]), return_inverse=True)
    pair = number[: len(rows)]
    of_pair = _unexposed(number[len(rows) :], pair, same_name, len(pairs))[pair]
    per_client = np.bincount(openings.client, minlength=int(client.max()) + 1)
    of_client = per_client[who] - np.bincount(pair, any_name, len(pairs))[pair]
    own = (of_pair + SHRINK * share[entity]) / (of_client + SHRINK)
    known = np.isfinite(own)
    own = np.clip(np.where(known, own, 0.0), 0.0, 1.0)
    came[rows] = (same_name > 0) & known
    chance[rows] = 1.0 - (1.0 - own) ** any_name
    return came, chance


def _unexposed(opened: Ints, of: Ints, within: Floats, size: int) -> Floats:
    """How often each number was opened, less what fell into the times of rows ``of`` it."""
    return np.asarray(np.bincount(opened, minlength=size) - np.bincount(of, within, size))


class _Shown:
    """Results that were shown, each with the time in which an opening is put down to it: until
    it is over, or the same entity is shown to the same client again."""

    def __init__(
        self, client: Ints, entity: Ints, at: Floats, until: Floats, entities: int
    ) -> None:
        self.client = client
        self.pair = client * entities + entity
        self.begin = at
        order = np.lexsort((at, self.pair))
        following = np.append(at[order][1:], np.inf)
        following[np.append(np.diff(self.pair[order]) != 0, True)] = np.inf
        self.end = np.empty(len(at))
        self.end[order] = np.minimum(until[order], following)

    def within(self, mine: Ints, key: Ints, at: Floats) -> Floats:
        """(rows,) how many openings with the ``key`` of ``mine`` fall into the time of each."""
        moments = np.unique(at)
        size = len(moments) + 1
        keys = np.sort(key * size + np.searchsorted(moments, at))
        first, last = (
            np.searchsorted(keys, mine * size + np.searchsorted(moments, each, side="right"))
            for each in (self.begin, self.end)
        )
        return np.asarray(np.maximum(last - first, 0), float)
