"""Pairs of texts as people read them: what differs, by which rule, how alike."""

from __future__ import annotations

import difflib
import re
from typing import Any

from markupsafe import Markup, escape

from ..text import counted, fold
from .display import number

SHOWN = 1200
"""Characters of a text that are shown; words beyond are for the entity's own page."""
SHOWN_IDS = 20
_WORD = re.compile(r"\w+|[^\w\s]")

KINDS = {
    "duplicate": "Duplicates",
    "contradiction": "Contradictions?",
    "look": "Worth a look",
}
KIND = {"duplicate": "duplicate", "contradiction": "contradiction?", "look": "worth a look"}
RULES = {
    "exact": "The same text, but for case, spaces and punctuation around it",
    "cosine": "Nearly the same meaning",
    "containment": "The longer one holds the shorter one",
    "wording": "The same wording",
}


def marked(one: str, other: str) -> tuple[Markup, Markup]:
    """Both texts escaped, cut to what is shown, with the words in <mark> that the other lacks."""
    texts = [cut(one), cut(other)]
    words = [list(_WORD.finditer(t)) for t in texts]
    forms = [[fold(match.group()) for match in each] for each in words]
    matcher = difflib.SequenceMatcher(None, forms[0], forms[1], autojunk=False)
    spans: tuple[list[tuple[int, int]], list[tuple[int, int]]] = ([], [])
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag != "equal":
            for side, (start, end) in enumerate(((a, b), (c, d))):
                if start < end:
                    spans[side].append((words[side][start].start(), words[side][end - 1].end()))
    return _with_marks(texts[0], spans[0]), _with_marks(texts[1], spans[1])


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
        "meaning not compared: no vectors" if cosine is None else f"cosine {number(cosine)}",
        "no words to compare"
        if containment is None
        else f"{containment:.0%} of the shorter one's words are in the longer one",
    ]


def decorate(pair: dict[str, Any], kind: str) -> None:
    """What a template needs beside a pair of this kind."""
    earlier, later = pair["earlier"], pair["later"]
    earlier["_text"], later["_text"] = marked(str(earlier["content"]), str(later["content"]))
    earlier["_which"], later["_which"] = "Earlier", "Later"
    pair["_rule"] = RULES[pair["rule"]] if kind != "look" else "Near in meaning"
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
        cluster["_size"] = counted(len(cluster["ids"]), "observation", "observations")
        cluster["_text"] = cut(cluster["survivor"]["content"])


def cut(content: Any) -> str:
    """The beginning of a text."""
    text = str(content)
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"
