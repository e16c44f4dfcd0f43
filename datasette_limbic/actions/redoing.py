"""Undoing what undid a merge merges again: only while the one kept still says what goes.

Between the two, another merge may have gone the other way round, or somebody may have rewritten
the one kept. The last copy of a text is never taken away by that.
"""

from __future__ import annotations

import json

from datasette.utils.sqlite import sqlite3

from . import rows
from .changes import Change
from .model import Key
from .saying import Saying
from .settling import PAIRS

_ROOT = """
with recursive chain(id, undoes, action, clusters) as (
  select id, undoes, action, null from limbic_changes where id = ?
  union all
  select c.id, c.undoes, c.action, json_extract(c.after, '$.arguments.clusters')
  from limbic_changes c join chain on c.id = chain.undoes and c.id < chain.id
)
select clusters from chain where undoes is null and action = 'merge'
"""
_PAIRED = "kind = 'duplicate' and (earlier_id, later_id) in (values (?1, ?2), (?2, ?1))"


def unsaid(conn: sqlite3.Connection, change: Change) -> list[tuple[str, Key, str]]:
    """What stands in the way of merging again by undoing ``change``: rows, and what is the matter.

    Empty where it is no undoing of a merge. Reads only.
    """
    back = [i for i in change.images if i.table == "observations" and i.before is None]
    root = conn.execute(_ROOT, [change.id]).fetchone() if back else None
    if root is None or root[0] is None:
        return []
    going = {image.key[0] for image in back}
    pairs = [
        (cluster["keep"], number)
        for cluster in json.loads(root[0])
        for number in cluster["remove"]
        if number in going
    ]
    there = rows.read(conn, "observations", {(number,) for pair in pairs for number in pair})
    sayings: dict[int, Saying] = {}
    found = []
    for kept, number in pairs:
        one, other = there.get((kept,)), there.get((number,))
        if other is None:
            continue  # that it is gone stands in the way already
        entity = other["entity_id"]
        if one is None or one["entity_id"] != entity:
            where = "is not there any more" if one is None else "belongs to another entity"
            found.append(("observations", (kept,), f"{where}, which was kept for {number}"))
            continue
        if rows.where(conn, PAIRS, _PAIRED, [kept, number]):
            continue  # a pair goes as soon as one of its texts changes
        saying = sayings.setdefault(entity, Saying(conn, entity))
        if kept not in saying.held:
            found.append(("observations", (kept,), f"does not hold now, and {number} would go"))
        elif number in saying.held and saying.why_not(kept, number) is not None:
            found.append(("observations", (kept,), f"does not say any more what {number} says"))
    return found
