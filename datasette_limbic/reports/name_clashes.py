"""Names of entities that are the same but for case, accents and punctuation."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import defaultdict
from typing import Any

from datasette.utils.sqlite import sqlite3

from .entities import PAGE, pages, rows
from .queries import current

SHOWN = 20
"""Entities of one clash that are listed; all of them are counted."""
_MEANT = frozenset("+#%@*&")
"""C, C++ and C# are three things, and so are 5 and 5 %."""
_MARKS = re.compile("[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\ufe00-\ufe0f\ufe20-\ufe2f]")
_PLAIN = re.compile(r"[a-z0-9]+")
_BETWEEN = "\x00"
_EVIDENCE = f"""
select e.id as id, e.name as name, e.entity_type as entityType, e.archived_at as archived_at,
  (select count(*) from observations o where o.entity_id = e.id and {current("o")}) as observations
from entities e where e.id in (select value from json_each(?))
order by e.archived_at is not null, observations desc, e.id
"""


def folded(name: str) -> str:
    """What is left of a name without case, accents, spaces and punctuation.

    Compatibility forms (NFKD), case folded, without the accents of Latin, Greek and Cyrillic
    letters: marks of other scripts make other words. ``+ # % @ * &`` stay, since C is not C++, and
    what stands between two digits stays as a gap, since 1.10 is not 11.0. A name of nothing but
    punctuation stays as it is.
    """
    if name.isascii():
        text = name.lower()
        if _PLAIN.fullmatch(text):
            return text
    else:
        text = unicodedata.normalize("NFKD", name).casefold()
        text = unicodedata.normalize("NFC", _MARKS.sub("", text))
    kept: list[str] = []
    gap = False
    for char in text:
        if char not in _MEANT and unicodedata.category(char)[0] in "PZC":
            gap = True
            continue
        if gap and kept and kept[-1].isdecimal() and char.isdecimal():
            kept.append(_BETWEEN)
        gap = False
        kept.append(char)
    return "".join(kept) or text


def name_clashes(conn: sqlite3.Connection, *, page: int = 1, size: int = PAGE) -> dict[str, Any]:
    """Entities whose names may mean the same: ``count`` of clashes, ``groups`` a page at a time.

    Each group: ``entities`` (how many) and up to 20 ``members``: id, name, entityType,
    archived_at, observations that hold; those in use first. Clashes among archived ones alone are
    left out. In order of name.
    """
    by_form: dict[str, list[tuple[int, bool]]] = defaultdict(list)
    for entity, name, archived in conn.execute(
        "select id, name, archived_at is not null from entities order by id"
    ).fetchall():
        text = name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)
        by_form[folded(text)].append((entity, bool(archived)))
    clashes = sorted(
        (form, members)
        for form, members in by_form.items()
        if len(members) > 1 and not all(archived for _, archived in members)
    )
    start = (page - 1) * size
    groups = []
    for _, members in clashes[start : start + size]:
        # those in use first, so that none of them is cut off
        ids = [entity for entity, _ in sorted(members, key=lambda m: (m[1], m[0]))][:SHOWN]
        groups.append(
            {"entities": len(members), "members": rows(conn, _EVIDENCE, [json.dumps(ids)])}
        )
    return {"count": len(clashes), "pages": pages(size, len(clashes)), "groups": groups}
