"""What the server does not have yet: rows to search here, exactly, beside its candidates."""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple

from datasette.utils.sqlite import sqlite3

from ... import vectors
from ...errors import RetrieverFailed
from .. import changes
from ..model import Candidate

MOST = 5000
"""Rows that one search looks through here; of more, those with the highest ids, the newest."""

REMEMBERED = 16
"""Lists of changes that are kept: two for each memory that is searched."""

# Versions are moments, so no two memories have the same but copies of one.
_lists: OrderedDict[tuple[str, int, int], list[int] | None] = OrderedDict()
_guard = threading.Lock()

_MARKED = "select item_id from limbic_stale where collection = ? order by item_id desc limit ?"
_VECTORS = """
select e.id, m.embedding from json_each(:ids) j
cross join entities e on e.id = j.value
cross join collections c on c.name = 'entities'
cross join embeddings m on m.collection_id = c.id and m.id = cast(e.id as text)
where (:archived or e.archived_at is null) and (:type is null or e.entity_type = :type)
"""


class Pending(NamedTuple):
    """Ids that the server has not, or not as they are; and how many are too many to look at."""

    ids: frozenset[int]
    left_out: int


def pending(conn: sqlite3.Connection, collection: str, pushed: int) -> Pending:
    """What changed after version ``pushed``, the server's.

    Raises RetrieverFailed where this file cannot tell: it was indexed anew, it lags behind, it was
    restored from a backup, or another copy of it was pushed.
    """
    now = changes.version(conn, collection).now
    changed = _changed(conn, collection, pushed, now)
    if changed is None:
        raise RetrieverFailed(
            f"the PostgreSQL server has another state of the {collection} than this file knows: "
            "run datasette limbic sync"
        )
    marked = [row[0] for row in conn.execute(_MARKED, [collection, MOST + 1])]
    ids = set(changed).union(marked)
    if len(ids) <= MOST:
        return Pending(frozenset(ids), 0)
    return Pending(frozenset(sorted(ids)[-MOST:]), len(ids) - MOST)


def _changed(conn: sqlite3.Connection, collection: str, pushed: int, now: int) -> list[int] | None:
    """The ids that changed between two versions; read once, since the list may be long."""
    key = (collection, pushed, now)
    with _guard:
        if key in _lists:
            return _lists[key]
    found = changes.since(conn, collection, pushed)
    with _guard:
        _lists[key] = found
        while len(_lists) > REMEMBERED:
            _lists.popitem(last=False)
    return found


def measured(
    conn: sqlite3.Connection,
    ids: Iterable[int],
    query: bytes,
    entity_type: str | None,
    include_archived: bool,
) -> list[Candidate]:
    """Entities with their exact cosine distances, by the file's own vectors; unordered.

    Those that are gone, archived or of another type are left out, and those without a vector of
    the query's dimension.
    """
    rows = conn.execute(
        _VECTORS,
        {
            "ids": json.dumps(list(ids)),
            "archived": include_archived,
            "type": entity_type,
        },
    ).fetchall()
    if not rows:
        return []
    import numpy  # not needed by any page, so not at the top

    checked = vectors.units([row[1] for row in rows], len(query) // 4)
    good = [(row[0], u) for row, u in zip(rows, checked, strict=True) if isinstance(u, bytes)]
    matrix = numpy.frombuffer(b"".join(u for _, u in good), dtype="<f4").reshape(len(good), -1)
    similar = matrix.astype("f8") @ numpy.frombuffer(query, dtype="<f4").astype("f8")
    distances = numpy.clip(1.0 - similar, 0.0, 2.0).tolist()
    return [Candidate(i, d) for (i, _), d in zip(good, distances, strict=True)]
