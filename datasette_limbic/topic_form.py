"""Texts that give a record its form and have no topic of their own: headings and short fields.

Many entities are written as reports, line by line. Grouped with the rest, "Status: Open",
"Priority: high" and "=== Phase 2 ===" make a topic of what only looks alike.
"""

from __future__ import annotations

import re

MAX_CHARS = 80
"""A longer text says something, however it is written."""
_RULED = re.compile(r"[=#*_~-]{2,}\s*\S.*|.*\S\s*[=*_~-]{3,}")
_OPENS_A_LIST = re.compile(r"[^:]*:")
# Up to three words, a colon, and a value of up to three: a date, a state, a name.
_FIELD = re.compile(r"[^\W\d_][\w/()-]*(?: [\w/()-]+){0,2} ?:(?: +\S+){1,3}")


def is_form(text: str) -> bool:
    """Whether a text is a heading (ruled, or ending in a colon) or a field of a few words."""
    line = text.strip()
    if not line or len(line) > MAX_CHARS or "\n" in line:
        return False
    return any(each.fullmatch(line) for each in (_RULED, _OPENS_A_LIST, _FIELD))
