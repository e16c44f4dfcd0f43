"""Writing observations: new ones in batches, known ones united with what is there."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple

from datasette.utils.sqlite import sqlite3

from .batches import Inserts
from .items import Entity, Observation
from .moved import Moved
from .source_state import BEGUN, DATED, ENDED, FLAGGED, GONE, KIND, State, digest, flags_of

# Texts remembered (as digests) of entities that are merged, over all of them.
_REMEMBERED = 100_000

_FILL = """
update observations set created_at = coalesce(created_at, ?), kind = coalesce(kind, ?),
  valid_from = coalesce(valid_from, ?), valid_to = coalesce(valid_to, ?)
where id = ?
"""
# What is not known here, as the flags of what a source may say.
_GAPS = f"""
select id, content, {DATED} * (created_at is null) + {KIND} * (kind is null)
  + {BEGUN} * (valid_from is null) + {ENDED} * (valid_to is null)
  + {FLAGGED} * (similarity_flag is 0), entity_id
from observations where """
_ALL = DATED | KIND | BEGUN | ENDED | FLAGGED
_NOTHING: Mapping[bytes, int] = {}


class United(NamedTuple):
    """What became of the observations of one row; ``moved`` are those of the others that are
    another entity's by now."""

    added: int = 0
    already_there: int = 0
    updated: int = 0
    removed_here: int = 0
    moved: int = 0


class ObservationWriter:
    """Adds observations; knows which ids are new and which vectors went stale.

    An observation is told by its entity and its text. A line's own repetitions are kept, but
    no import makes more copies of a text than one line of it holds or the database has. What
    actions moved from an entity counts as there.
    """

    def __init__(self, conn: sqlite3.Connection, moved: Moved) -> None:
        self.conn, self.moved = conn, moved
        self.above = int(
            conn.execute("select coalesce(max(id), 0) from observations").fetchone()[0]
        )
        self.next_id = self.above + 1
        self.new = Inserts(
            "observations",
            ("id", "entity_id", "content"),
            {
                "created_at": "null",
                "kind": "null",
                "confidence": "1.0",
                "valid_from": "null",
                "valid_to": "null",
                "similarity_flag": "0",
            },
        )
        self.fills: list[tuple[Any, ...]] = []
        self.flags: list[tuple[int]] = []
        self.reopened: list[tuple[int]] = []
        self.stale: list[tuple[str, int]] = []
        # the source's own ids, only where another observation supersedes that one
        self.refs: dict[int, int] = {}
        self.superseding: list[tuple[int, int]] = []
        # per merged entity: digest of a text -> its rows, as [id, gaps, whose it is]
        self.texts: OrderedDict[int, dict[bytes, list[list[int]]]] = OrderedDict()
        self.remembered = 0

    def insert(self, entity_id: int, observation: Observation) -> int:
        """Add one, whatever is there."""
        observation_id = self.next_id
        self.next_id += 1
        content, created, kind, confidence, start, end, flag, ref, supersedes = observation
        self.new.add(
            (observation_id, entity_id, content),
            created,
            kind,
            confidence,
            start,
            end,
            flag or None,
        )
        if ref is not None or supersedes is not None:
            self._refer(observation_id, ref, supersedes)
        return observation_id

    def insert_all(self, entity_id: int, entity: Entity) -> None:
        """Add all of a new entity."""
        if entity.only_texts:
            first = self.next_id
            self.next_id += len(entity.observations)
            self.new.plain([(i, entity_id, o[0]) for i, o in enumerate(entity.observations, first)])
            return
        for observation in entity.observations:
            self.insert(entity_id, observation)

    def known(self, entity_id: int) -> bool:
        """Whether the entity's texts are remembered, those that wait in a batch included."""
        return entity_id in self.texts

    def unite(
        self,
        entity_id: int,
        observations: list[Observation],
        digests: list[bytes],
        state: State | None = None,
        restore: bool = False,
        says_all: bool = False,
    ) -> United:
        """Add those that are not there, fill what was unknown of the others.

        Nothing of an entity that is not ``known`` may wait in a batch. By ``state``, what an
        earlier import brought and is not here any more stays away, unless ``restore`` is set.
        ``says_all``: an end that the source leaves out is one that it took back.
        A text that a merge took away stays away while the one kept is there. New ones of an
        entity that was merged into another go to that one.
        """
        if not observations:
            return United()
        texts = self._texts_of(entity_id)
        target, merged = entity_id, _NOTHING
        if entity_id in self.moved.touched:
            target, merged = self.moved.takes(entity_id), self.moved.merged(entity_id)
        seen: dict[bytes, int] = {}
        added = updated = removed = moved = 0
        for observation, found in zip(observations, digests, strict=True):
            rows = texts.setdefault(found, [])
            copy = seen.get(found, 0)
            seen[found] = copy + 1
            text = state.texts.get(found[:7]) if state else None
            was = text.before[copy] if text and copy < len(text.before) else None
            if copy < len(rows):
                updated += self._update(rows[copy], observation, was, says_all)
                moved += rows[copy][2] != entity_id
            elif (was is not None and not restore) or copy < len(rows) + merged.get(found, 0):
                removed += 1
            else:
                gaps = _ALL & ~flags_of(observation)
                rows.append([self.insert(target, observation), gaps, target])
                self.remembered += 1
                added += 1
        if entity_id in self.moved.touched:
            self._forget(entity_id)  # others may say the same rows, and change them
        return United(added, len(observations) - added - removed, updated, removed, moved)

    def _update(
        self,
        stored: list[int],
        observation: Observation,
        was: int | None,
        says_all: bool,
    ) -> bool:
        """Fill what is unknown here; of what was known before, only what the source changed."""
        _, created, kind, _, start, end, _, ref, supersedes = observation
        # whom it replaces is said when it comes: later it may have been corrected here
        if ref is not None or (supersedes is not None and was is None):
            self._refer(stored[0], ref, supersedes if was is None else None)
        given = flags_of(observation)
        useful = stored[1] & given & ~(FLAGGED if was is None else was)
        # it ended there or was gone, and is asserted anew
        reopened = says_all and was is not None and was & (ENDED | GONE) and not given & ENDED
        if reopened and not stored[1] & ENDED:
            self.reopened.append((stored[0],))
            stored[1] |= ENDED
        elif not useful:
            return False
        else:
            reopened = 0
        if useful & FLAGGED:
            self.flags.append((stored[0],))
        stored[1] &= ~useful
        if useful & ~FLAGGED:
            self.fills.append(
                (
                    created if useful & DATED else None,
                    kind if useful & KIND else None,
                    start if useful & BEGUN else None,
                    end if useful & ENDED else None,
                    stored[0],
                )
            )
        if reopened or useful & (BEGUN | ENDED):
            # decides whether the text is part of what is embedded
            self._mark(stored[2], stored[0])
        return True

    def replace(self, entity_id: int, kinds: set[str | None], state: State, at: str) -> int:
        """End what the same source said of these kinds before, and says otherwise now.

        To be called when all rows of the source were read and written.
        """
        outdated = {key for key, text in state.texts.items() if text.is_outdated}
        if not outdated:
            return 0
        ended = 0
        where, args, _ = self.moved.observations(entity_id)
        for observation_id, content, kind, owner in self.conn.execute(
            "select id, content, kind, entity_id from observations"
            f" where {where} and kind is not null and valid_to is null",
            args,
        ).fetchall():
            if kind in kinds and digest(content)[:7] in outdated:
                self.conn.execute(
                    "update observations set valid_to = ? where id = ?", [at, observation_id]
                )
                self._mark(owner, observation_id)
                ended += 1
        if ended:
            self._forget(entity_id)
        return ended

    def _mark(self, entity_id: int, observation_id: int) -> None:
        self.stale.append(("observations", observation_id))
        self.stale.append(("entities", entity_id))

    def _refer(self, observation_id: int, ref: int | None, supersedes: int | None) -> None:
        if ref is not None:
            self.refs[ref] = observation_id
        if supersedes is not None:
            self.superseding.append((observation_id, supersedes))

    def settle_references(self) -> None:
        """Say which observation replaced which; at the end of each source, whose ids these are."""
        self.flush()
        self.conn.executemany(
            "update observations set supersedes = ? where id = ? and supersedes is null",
            [
                (self.refs[ref], observation_id)
                for observation_id, ref in self.superseding
                if ref in self.refs
            ],
        )
        self.refs.clear()
        self.superseding.clear()

    def _texts_of(self, entity_id: int) -> dict[bytes, list[list[int]]]:
        """Digests of the entity's observations, from memory or from the database."""
        if entity_id in self.texts:
            self.texts.move_to_end(entity_id)
            return self.texts[entity_id]
        while self.texts and self.remembered > _REMEMBERED:
            self._forget(next(iter(self.texts)))
        found: dict[bytes, list[list[int]]] = {}
        where, args, order = "entity_id = ?", [entity_id], "order by id"
        if entity_id in self.moved.touched:
            where, args, order = self.moved.observations(entity_id)
            args.append(entity_id)
        for observation_id, content, gaps, owner in self.conn.execute(
            f"{_GAPS}{where} {order}", args
        ):
            found.setdefault(digest(content), []).append([observation_id, gaps, owner])
            self.remembered += 1
        self.texts[entity_id] = found
        return found

    def _forget(self, entity_id: int) -> None:
        dropped = self.texts.pop(entity_id, {})
        self.remembered -= sum(len(rows) for rows in dropped.values())

    def flush(self) -> None:
        """Write what waits; the entities must be there already."""
        self.new.flush(self.conn)
        if self.reopened:
            self.conn.executemany(
                "update observations set valid_to = null where id = ?", self.reopened
            )
            self.reopened.clear()
        if self.fills:
            self.conn.executemany(_FILL, self.fills)
            self.fills.clear()
        if self.flags:
            self.conn.executemany(
                "update observations set similarity_flag = 1 where id = ?", self.flags
            )
            self.flags.clear()
