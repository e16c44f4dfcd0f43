"""Observations of which no similarity can be told, since they have no vector of their text."""

from __future__ import annotations

from typing import Any

from datasette.utils.sqlite import sqlite3

from ..embedding import collection_info
from ..llm_store import content_hash
from .queries import current

_COUNTS = f"""
select count(*), coalesce(sum(o.id not in (
  select cast(m.id as integer) from embeddings m join collections c on c.id = m.collection_id
  where c.name = 'observations')), 0)
from observations o where {current("o")}
"""
# Of what was marked, and of what the index refused: NaN, nothing but zeros, another dimension.
_DOUBTFUL = f"""
select cast(o.content as text), m.content_hash, r.value is not null
from (
  select item_id as id from limbic_stale where collection = 'observations'
  union select json_extract(value, '$.id') from limbic_indexes i, json_each(i.rejected)
    where i.collection = 'observations'
) marked
join observations o on o.id = marked.id
join collections c on c.name = 'observations'
join embeddings m on m.collection_id = c.id and m.id = cast(o.id as text)
left join (
  select json_extract(value, '$.id') as value from limbic_indexes i, json_each(i.rejected)
  where i.collection = 'observations'
) r on r.value = o.id
where {current("o")}
"""


def count(conn: sqlite3.Connection, prefix: str = "") -> tuple[int, int]:
    """Observations that hold now; those of them without a usable vector of their present text.

    ``prefix`` is what was put before a text that was embedded.
    """
    total, missing = conn.execute(_COUNTS).fetchone()
    for content, digest, rejected in conn.execute(_DOUBTFUL):
        missing += bool(rejected) or digest != content_hash(prefix + (content or ""))
    return total, missing


def similarity(conn: sqlite3.Connection, prefix: str = "") -> dict[str, Any]:
    """Whether texts could be compared by meaning: ``computed`` (of any), ``model``, how many
    observations are ``without_vector``, and in ``reason`` what that means and what to do."""
    info = collection_info(conn, "observations")
    total, without = count(conn, prefix)
    reason = None
    if without:
        reason = (
            f"similarity was not computed for {without:,} of {total:,} observations, which have "
            "no vector of their present text, only the rules on words: run 'datasette limbic sync'"
        )
    return {
        "computed": total > without,
        "model": info.model_id if info and info.count else None,
        "without_vector": without,
        "reason": reason,
    }
