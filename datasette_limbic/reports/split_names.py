"""Names for the parts of an entity: of its own name and each part's terms, like none there is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count

from ..text import fold, fts_tokens
from .name_clashes import folded

TERMS = 2
"""Terms in a name; more only where two are not enough to make it a name of its own."""
_LONGEST_PARENT = 200
_LONGEST_TERM = 40


def child_names(parent: str, terms: Sequence[Sequence[str]], taken: Iterable[str]) -> list[str]:
    """A name for each part, in order: ``Atlas – geocoder, cache``.

    ``terms`` are each part's, strongest first. Those that no other part has come first, those
    that the parent's name holds are left out. ``taken`` are the names that there are: no name
    given is one of them, or of the others given, by ``name_clashes.folded``.
    """
    used = {folded(name) for name in [*taken, parent]}
    start = _short(" ".join(parent.split()), _LONGEST_PARENT)
    own = [_own_terms(parent, each) for each in terms]
    names = []
    for at, mine in enumerate(own):
        others = {fold(term) for n, each in enumerate(own) if n != at for term in each}
        mine = sorted(mine, key=lambda term: fold(term) in others)  # stable: strongest first
        name = next(name for name in _candidates(start, mine, at + 1) if folded(name) not in used)
        used.add(folded(name))
        names.append(name)
    return names


def _own_terms(parent: str, terms: Sequence[str]) -> list[str]:
    there = set(fts_tokens(fold(parent)))
    return [term for term in terms if not there.issuperset(fts_tokens(fold(term)))]


def _candidates(parent: str, terms: Sequence[str], number: int) -> Iterable[str]:
    """With two terms, with more, then numbered; without terms just numbered."""
    shown = [_short(term, _LONGEST_TERM) for term in terms]
    for size in range(min(TERMS, len(shown)), len(shown) + 1):
        if size:
            yield f"{parent} – {', '.join(shown[:size])}"
    base = f"{parent} – {', '.join(shown[:TERMS])}" if shown else f"{parent} –"
    for each in count(2 if shown else number):
        yield f"{base} {each}"


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
