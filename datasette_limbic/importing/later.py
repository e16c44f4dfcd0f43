"""What only the end of a source can tell: that it says something of an entity no more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .baseline import Baseline
from .items import Entity
from .merging import taken_back
from .source_state import State, fields_of
from .summary import FileSummary

if TYPE_CHECKING:
    from .entities import EntityWriter


@dataclass
class _Waiting:
    """``kinds`` are those of which the source has something to say; ``at`` is when it changed."""

    file: FileSummary
    at: str
    kinds: set[str | None]


class Later:
    """Entities that cannot be settled before all rows of their source were read."""

    def __init__(self, now: str) -> None:
        self.now = now
        self.waiting: dict[str, _Waiting] = {}

    def look(self, key: str, state: State, entity: Entity, file: FileSummary) -> None:
        """Remember the entity where the row says less than the source said before."""
        assert state.before is not None
        given = fields_of(entity)
        is_less = any(b and not g for b, g in zip(state.before[1:], given[1:], strict=True))
        if not is_less and not (
            entity.replaces and any(text.is_outdated for text in state.texts.values())
        ):
            return
        waiting = self.waiting.setdefault(key, _Waiting(file, self.now, set()))
        if entity.replaces:
            waiting.at = entity.updated_at or self.now
            waiting.kinds.update(o.kind for o in entity.observations)

    def settle(self, entities: EntityWriter, baseline: Baseline) -> None:
        """Take back what the source took back, where it stands here as the source said it."""
        for key, waiting in self.waiting.items():
            state = baseline.state(key)
            assert state is not None
            row = entities.find_by_id(state.entity_id)
            if row is None or state.before is None or state.now is None:
                continue
            replaced = entities.observations.replace(
                state.entity_id, waiting.kinds, state, waiting.at
            )
            here = row.stored
            changed = entities.write(row, taken_back(here, state.before, state.now))
            waiting.file.observations.replaced += replaced
            if (changed or replaced) and not state.counted:
                waiting.file.entities.updated += 1
                state.counted = True
        self.waiting.clear()
