"""Which uses a source told of before: the access log cannot say, since a person may prune it."""

from __future__ import annotations

from collections import Counter

from .baseline import Baseline

# In the place of a second entity in _limbic_source_counts: how many rows of a kind the source
# had of the first one.
ACCESS_ROWS, LOG_ROWS = -1, -2


class KnownUses:
    """How many rows a source had of each entity, at its last import and now.

    Logs grow at their end, so the first rows are those that were there before.
    """

    def __init__(self, base: Baseline) -> None:
        self.base = base
        self.now: Counter[tuple[int, int]] = Counter()
        rows = base.conn.execute(
            "select entity_a_id, entity_b_id, count from _limbic_source_counts"
            " where source_id = ? and entity_b_id < 0",
            [base.source_id],
        )
        self.before = Counter({(entity_id, kind): count for entity_id, kind, count in rows})

    def is_known(self, entity_id: int, kind: int) -> bool:
        """Whether this row is one of those that the source had before; a part has none."""
        self.now[entity_id, kind] += 1
        if self.base.restore or not self.base.whole:
            return False
        return self.now[entity_id, kind] <= self.before[entity_id, kind]

    def keep(self) -> None:
        """Write the numbers down."""
        for (entity_id, kind), number in self.now.items():
            was = self.before[entity_id, kind]
            number = max(was, number) if self.base.whole else was + number
            if number != was:
                self.base.changed = True
                self.base.conn.execute(
                    "insert into _limbic_source_counts(source_id, entity_a_id, entity_b_id, count)"
                    " values (?, ?, ?, ?) on conflict(source_id, entity_a_id, entity_b_id)"
                    " do update set count = excluded.count",
                    [self.base.source_id, entity_id, kind, number],
                )
