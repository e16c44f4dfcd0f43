"""The words of a query in a text: marked, and the piece of a long text that has them."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import islice

from markupsafe import Markup, escape

from .. import text
from .display import light

# So much of a text is looked through.
MOST = 100_000
# So many places of one text are marked: in a text of one word over and over, each would be.
MARKS = 40

Phrase = tuple[str, ...]


class Words:
    """What a query looks for: words as the full-text index sees them, and runs of scripts that
    put no space between words, which are found inside others.

    A word that the index takes apart (``38.101``, ``don't``) is a phrase: its pieces count where
    they follow one another, and nowhere else.
    """

    def __init__(self, query: str) -> None:
        # words of signs alone (🤖) count as ``cjk`` too, and have no run
        terms = [t for t in text.fts_terms(query) if not (t.cjk and text.cjk_runs(t.match))]
        self._longest = max((len(term.tokens) for term in terms), default=0)
        self._starting: dict[str, list[Phrase]] = {}
        for term in terms:
            self._starting.setdefault(term.tokens[0], []).append(term.tokens)
        # as it is written: the index finds it as a piece of a name where it is nowhere a word
        written = {term.tokens: term.match[1:-1].replace('""', '"') for term in terms}
        self._written = {
            phrase: re.compile(re.escape(word), re.IGNORECASE)
            for phrase, word in written.items()
            if len(word) > 2  # as trigrams have it
        }
        # those with a run of such a script may stand inside a word
        self._whole = {phrase for phrase, word in written.items() if not text.cjk_runs(word)}
        runs = sorted(text.cjk_runs(query), key=len, reverse=True)
        self._runs = re.compile("|".join(map(re.escape, runs))) if runs else None

    def _phrases(self, content: str) -> Iterator[tuple[int, int, Phrase]]:
        """Where a phrase stands as words, in order of its beginning. Reads no more than asked."""
        if not self._starting:
            return
        tokens = text.fts_spans(content, MOST)
        ahead: deque[tuple[str, int, int]] = deque(islice(tokens, self._longest))
        while ahead:
            for phrase in self._starting.get(ahead[0][0], ()):
                found = list(islice(ahead, len(phrase)))
                if phrase == tuple(token for token, _, _ in found):
                    yield found[0][1], found[-1][2], phrase
            ahead.popleft()
            ahead.extend(islice(tokens, 1))

    def _found(self, content: str, parts: Iterable[Phrase] = ()) -> Iterator[tuple[int, int]]:
        """Where the words stand in the first ``MOST`` characters, in order of their beginning."""
        patterns = [self._written[phrase] for phrase in parts]
        patterns += [self._runs] if self._runs else []
        inside = (
            (match.span() for match in pattern.finditer(content, 0, MOST)) for pattern in patterns
        )
        return merge(((start, end) for start, end, _ in self._phrases(content)), *inside)

    def spans(self, content: str, parts: Iterable[Phrase] = ()) -> Iterator[tuple[int, int]]:
        """Where the words stand, without overlap: two that share a piece are one.

        Those of ``parts`` count wherever they are written, also inside a word.
        """
        held: tuple[int, int] | None = None
        for start, end in self._found(content, parts):
            if held and start < held[1]:
                held = held[0], max(end, held[1])
                continue
            if held:
                yield held
            held = start, end
        if held:
            yield held

    def in_text(self, content: str) -> bool:
        """Whether any of the words stands there."""
        return next(self._found(content), None) is not None

    def nowhere(self, texts: Iterable[str]) -> set[Phrase]:
        """Those that stand in none of the texts as words, though they could."""
        missing = set(self._whole)
        for content in texts:
            for _, _, phrase in self._phrases(content):
                missing.discard(phrase)
                if not missing:
                    return missing
        return missing

    def parts(self, name: str, texts: Iterable[str]) -> set[Phrase]:
        """Those that are written inside a word of the name, and stand nowhere as words."""
        inside = {
            phrase
            for phrase in self._whole & self._written.keys()
            if self._written[phrase].search(name, 0, MOST)
        }
        return inside & self.nowhere([name, *texts]) if inside else inside

    def marked(self, content: str, parts: Iterable[Phrase] = ()) -> Markup:
        """``content`` escaped, with the first ``MARKS`` of the words in <mark>."""
        pieces, last = [], 0
        for start, end in islice(self.spans(content, parts), MARKS):
            pieces.append(escape(content[last:start]))
            pieces.append(Markup("<mark>{}</mark>").format(content[start:end]))
            last = end
        pieces.append(escape(content[last:]))
        return Markup("").join(pieces)

    def around(self, content: str, most: int) -> str:
        """At most about ``most`` characters of ``content``, with the first of the words."""
        beginning = light(content, most)
        if beginning == content:
            return content
        first = next(self._found(content), (0, 0))[0]
        start = max(0, first - most // 4) if first > len(beginning) * 3 // 4 else 0
        return f"…{light(content[start:], most)}" if start else beginning
