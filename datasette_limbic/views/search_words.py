"""The words of a query in a text: marked, and the piece of a long text that has them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from markupsafe import Markup, escape

from .. import text

_WORD = re.compile(r"\w+")
# So much of a text is looked through.
MOST = 100_000


class Words:
    """What a query looks for: words as the full-text index sees them, and runs of scripts that
    put no space between words, which are found inside others."""

    def __init__(self, query: str) -> None:
        terms = text.fts_terms(query)
        self.tokens = {token for term in terms if not term.cjk for token in term.tokens}
        runs = sorted(text.cjk_runs(query), key=len, reverse=True)
        self._runs = re.compile("|".join(map(re.escape, runs))) if runs else None

    def spans(self, content: str) -> Iterator[tuple[int, int]]:
        """Where the words stand in the first ``MOST`` characters, in order, without overlap."""
        found = [
            match.span()
            for match in _WORD.finditer(content, 0, MOST)
            if self.tokens.intersection(text.fts_tokens(match.group()[:1000]))
        ]
        if self._runs:
            found += [match.span() for match in self._runs.finditer(content, 0, MOST)]
        last = 0
        for start, end in sorted(found):
            if start >= last:
                yield start, end
                last = end

    def in_text(self, content: str) -> bool:
        """Whether any of the words stands there."""
        return next(self.spans(content), None) is not None

    def marked(self, content: str) -> Markup:
        """``content`` escaped, with the words in <mark>."""
        pieces, last = [], 0
        for start, end in self.spans(content):
            pieces.append(escape(content[last:start]))
            pieces.append(Markup("<mark>{}</mark>").format(content[start:end]))
            last = end
        pieces.append(escape(content[last:]))
        return Markup("").join(pieces)

    def around(self, content: str, most: int) -> str:
        """At most about ``most`` characters of ``content``, with the first of the words."""
        if len(content) <= most:
            return content
        first = next(self.spans(content), (0, 0))[0]
        start = max(0, first - most // 4) if first > most * 3 // 4 else 0
        piece = content[start : start + most]
        return ("…" if start else "") + piece + ("…" if start + most < len(content) else "")
