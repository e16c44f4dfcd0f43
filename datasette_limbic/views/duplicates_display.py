"""Pairs of texts as people read them: what differs, by which rule, how alike."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate, groupby
from typing import Any

from markupsafe import Markup, escape

from .. import i18n
from ..i18n import gettext as _
from ..text import fold
from .display import number

SHOWN = 1200
"""Characters of a text that are shown; words beyond are for the entity's own page."""
SHOWN_IDS = 20
PAIR_STEPS = 20_000
"""Steps of comparing two texts. Two of 200 words each that say much the same take 3,000."""
PAGE_STEPS = 500_000
"""The same of all pairs of a page, of which there are up to 150."""
_WORD = re.compile(r"\w+|[^\w\s]")

KINDS = {
    "duplicate": i18n.marked("Duplicates"),
    "contradiction": i18n.marked("Contradictions?"),
    "look": i18n.marked("Worth a look"),
}
KIND = {
    "duplicate": i18n.marked("duplicate"),
    "contradiction": i18n.marked("contradiction?"),
    "look": i18n.marked("worth a look"),
}
RULES = {
    "exact": i18n.marked("The same text, but for case, spaces and punctuation around it"),
    "cosine": i18n.marked("Nearly the same meaning"),
    "containment": i18n.marked("The longer one holds the shorter one"),
    "wording": i18n.marked("The same wording"),
}


class Budget:
    """Steps of comparing that are left for one page; each takes less than a microsecond."""

    def __init__(self, steps: int = PAGE_STEPS) -> None:
        self.left = steps

    def take(self, most: int) -> int:
        """Set aside ``most`` steps, or what is left of the page's."""
        given = min(most, self.left)
        self.left -= given
        return given


class _TooMuch(Exception):
    """Two texts take more steps to compare than they are given."""


class _Matcher(difflib.SequenceMatcher[str]):
    """One that gives up instead of taking more than ``steps``.

    Texts of few distinct words take steps by the cube of their length. What one search for the
    longest match takes is known before it: a step for each word of the one, and one for each
    place that this word has in the other.
    """

    def __init__(self, one: Sequence[str], other: Sequence[str], steps: int) -> None:
        super().__init__(None, one, other, autojunk=False)
        self.left = steps
        places = Counter(other)
        self._until = [0, *accumulate(1 + places[word] for word in one)]

    def find_longest_match(
        self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None
    ) -> difflib.Match:
        """As ``difflib`` has it. Raises _TooMuch."""
        last = len(self._until) - 1 if ahi is None else ahi
        self.left -= self._until[last] - self._until[alo]
        if self.left < 0:
            raise _TooMuch
        return super().find_longest_match(alo, ahi, blo, bhi)


def marked(one: str, other: str, budget: Budget | None = None) -> tuple[Markup, Markup]:
    """Both texts escaped, cut to what is shown, with the words in <mark> that the other lacks.

    Compared in order, as long as ``budget`` allows it; otherwise the words count that stand
    nowhere in the other.
    """
    budget = budget or Budget()
    texts = [cut(one), cut(other)]
    words = [list(_WORD.finditer(t)) for t in texts]
    forms = [[fold(match.group()) for match in each] for each in words]
    spans = _in_order(forms, budget) or _nowhere(forms)
    shown = [
        _with_marks(text, [(found[a].start(), found[b - 1].end()) for a, b in each])
        for text, found, each in zip(texts, words, spans, strict=True)
    ]
    return shown[0], shown[1]


def _in_order(forms: list[list[str]], budget: Budget) -> list[list[tuple[int, int]]] | None:
    """Runs of words (first, behind the last) of each side that differ; None: it takes too much."""
    given = budget.take(PAIR_STEPS)
    matcher = _Matcher(forms[0], forms[1], given)
    try:
        codes = [code for code in matcher.get_opcodes() if code[0] != "equal"]
    except _TooMuch:
        return None
    budget.left += matcher.left
    return [
        [(a, b) for _, a, b, _, _ in codes if a < b],
        [(c, d) for _, _, _, c, d in codes if c < d],
    ]


def _nowhere(forms: list[list[str]]) -> list[list[tuple[int, int]]]:
    """Runs of words of each side that stand nowhere in the other."""
    spans: list[list[tuple[int, int]]] = []
    for mine, others in zip(forms, map(set, reversed(forms)), strict=True):
        at = 0
        runs = []
        for missing, run in groupby(form not in others for form in mine):
            size = sum(1 for _ in run)
            if missing:
                runs.append((at, at + size))
            at += size
        spans.append(runs)
    return spans


def _with_marks(text: str, spans: list[tuple[int, int]]) -> Markup:
    pieces, last = [], 0
    for start, end in spans:
        pieces += [escape(text[last:start]), Markup("<mark>{}</mark>").format(text[start:end])]
        last = end
    return Markup("").join([*pieces, escape(text[last:])])


def scores(pair: dict[str, Any]) -> list[str]:
    """How alike the two are, in words."""
    cosine, containment = pair["cosine"], pair["containment"]
    return [
        _("meaning not compared: no vectors")
        if cosine is None
        else _("cosine %(value)s") % {"value": number(cosine)},
        _("no words to compare")
        if containment is None
        else _("%(share)s of the shorter one's words are in the longer one")
        % {"share": i18n.figure(containment, ".0%")},
    ]


def decorate(pairs: Iterable[tuple[dict[str, Any], str]]) -> None:
    """What a template needs beside the pairs of one page, each with its kind.

    Takes up to some tenths of a second: not for the event loop.
    """
    budget = Budget()
    for pair, kind in pairs:
        earlier, later = pair["earlier"], pair["later"]
        earlier["_text"], later["_text"] = marked(
            str(earlier["content"]), str(later["content"]), budget
        )
        earlier["_which"], later["_which"] = _("Earlier"), _("Later")
        pair["_rule"] = _(RULES[pair["rule"]] if kind != "look" else i18n.marked("Near in meaning"))
        pair["_scores"] = scores(pair)


def decorate_clusters(data: dict[str, Any]) -> None:
    """Mark in each pair the observation that its cluster suggests to keep; words of clusters."""
    kept = {c["survivor"]["id"]: c["why"] for c in data["clusters"]}
    for pair in data["pairs"]:
        for side in (pair["earlier"], pair["later"]):
            side["_kept"] = kept.get(side["id"])
    for cluster in data["clusters"]:
        ids = [i for i in cluster["ids"] if i != cluster["survivor"]["id"]]
        cluster["_others"] = ids[:SHOWN_IDS]
        cluster["_more"] = len(ids) - len(cluster["_others"])
        cluster["_size"] = i18n.counting(
            "%(n)s observation", "%(n)s observations", len(cluster["ids"])
        )
        cluster["_text"] = cut(cluster["survivor"]["content"])


def cut(content: Any) -> str:
    """The beginning of a text."""
    text = str(content)
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"
