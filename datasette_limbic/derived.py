"""What is made of other tables and says what they say: seen by whoever may view all of those.

Datasette asks for a right on the one table or view that is looked at. Whoever may not view
observations would read their texts in a view of them, in the pairs and topics that are kept, and in
the text index.
"""

from __future__ import annotations

import re
from functools import cache

from .reports.queries import queries
from .schema import CORE_TABLES, SEARCHED_TABLES, statements

_VIEW = re.compile(r"create view (?:if not exists )?(\w+) as\s+(.*)", re.I | re.S)
_READ = re.compile(r"\b(?:from|join)\s+(\w+)", re.I)
_GRAPH = ("entities", "observations", "relations")
# Kept tables whose columns hold words of the rows that they are about.
_KEPT = {
    "limbic_topics": ("observations",),
    "limbic_duplicates": ("observations",),
    "limbic_insights": (*_GRAPH, "entity_access"),
}
# The log has words of those as well: whoever may not view findings must not read them there.
_LOGGED: dict[str, tuple[str, ...]] = {"limbic_changes": (*SEARCHED_TABLES, "limbic_insights")}
_INDEXES = ("_limbic_fts", "_limbic_trigram")
_PARTS = ("", "_data", "_idx", "_content", "_docsize", "_config")
_INDEXED = ("entities", "observations")


@cache
def layers() -> tuple[dict[str, tuple[str, ...]], ...]:
    """Name → what it is made of. That of each layer is in none or in a layer before it.

    First the kept tables and the text index, then the log of changes, then the views, read from
    their SQL.
    """
    texts = {name + part: _INDEXED for name in _INDEXES for part in _PARTS}
    texts |= dict.fromkeys(("_limbic_fts_vocab", "_limbic_trigram_vocab"), _INDEXED)
    texts["_limbic_last_characters"] = _INDEXED
    views = dict(queries())
    for text in statements("views"):
        if (match := _VIEW.match(text)) is None:
            raise ValueError(f"no view: {text[:60]!r}")
        views[match[1]] = match[2]
    return {**_KEPT, **texts}, _LOGGED, {name: _read_by(text) for name, text in views.items()}


def made_of(name: str) -> tuple[str, ...]:
    """The tables that a table or view of ours is made of; empty for what is made of none.

    SQLite takes a name in any case, and so does this.
    """
    for layer in layers():
        if (found := layer.get(name.lower())) is not None:
            return found
    return ()


def _read_by(sql: str) -> tuple[str, ...]:
    """The tables that the SQL of a view reads; names of common tables are not ours."""
    names = dict.fromkeys(_READ.findall(sql))
    return tuple(n for n in names if n in CORE_TABLES or n.startswith("limbic_"))
