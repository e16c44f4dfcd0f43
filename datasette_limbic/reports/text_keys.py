"""One number for all spellings of the same text, to find it again in other entities."""

from __future__ import annotations

import hashlib

from ..duplicates import MIN_WORDS
from ..text import normalise, word_tokens

_LOOKED_AT = 200
"""Characters in which words are counted: a text may have 100,000."""


def text_key(content: str) -> int | None:
    """64 bits of the text as ``text.normalise`` gives it; None for a text of under three words.

    Words such as "active" stand in many entities and say nothing of any two of them.
    """
    text = normalise(content)
    if len(word_tokens(text[:_LOOKED_AT])) < MIN_WORDS:
        return None
    data = text.encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big", signed=True)
