"""Whether the two text indexes hold exactly the names and observations that are there."""

from __future__ import annotations

from collections.abc import Callable

from .. import index_repair
from .context import Check, Context, Found
from .report import Repair
from .schema import shadows

_NAMES = {"_limbic_fts": "text.words", "_limbic_trigram": "text.substrings"}


def _find(index: str) -> Callable[[Context], Found]:
    def find(context: Context) -> Found:
        found = Found()
        differences = index_repair.find(context.conn, index, full=True)
        for what, rows in (
            ("missing", differences.missing),
            ("left over", differences.left_over),
            ("of other text", differences.changed),
        ):
            for row in rows:
                kind = "observation" if row & 1 else "entity"
                found.add({kind: row >> 1, "text": what})
        return found

    return find


CHECKS = tuple(
    Check(
        _NAMES[index],
        f"rows of {index} that are not in step",
        _find(index),
        Repair("sync"),
        ("entities.name", "observations.content", index, *shadows(index)),
    )
    for index in index_repair.INDEXES
)
