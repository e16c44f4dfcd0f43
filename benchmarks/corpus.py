"""Real short texts as entities, up to a million: WordNet, then sentences of documentation.

An order that is the same each time: a smaller memory is the beginning of a larger one.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from datasette_limbic.stop_words import STOP_WORDS

from . import sentences, synsets

WORDNET = 117_659
LARGEST = 1_000_000
HELD_GLOSSES, HELD_SENTENCES = 100, 200
SHORTEST_HELD = 30
"""Characters of a definition that is held out."""
MOST_LINKS = 50
"""Relations in an entity's text, as in the view ``entity_snapshots``."""
MOST_CHARACTERS = 4000
"""Of an entity's text, as its setting is where nobody changed it."""
_SEED = 42


@dataclass(frozen=True)
class Row:
    """One entity."""

    name: str
    kind: str
    observations: tuple[str, ...]


@dataclass(frozen=True)
class Corpus:
    """What the memory is made of; entity ``i`` has the id ``i + 1``."""

    rows: list[Row]
    relations: list[tuple[int, int, str]]
    heldout: list[str]
    """Texts that are in no row."""


@lru_cache(maxsize=1)
def wordnet() -> Corpus:
    """Every synset as an entity; the definitions of a few that have an example are held out."""
    source = synsets.read()
    held = _held_glosses(source.synsets)
    rows = []
    for i, synset in enumerate(source.synsets):
        said = [] if i in held else [synset.definition]
        if len(synset.words) > 1:
            said.append(f"also called {', '.join(synset.words[1:])}")
        rows.append(Row(synset.name, synset.kind, (*said, *synset.examples)))
    glosses = [source.synsets[i].definition for i in sorted(held)]
    return Corpus(rows, source.relations, glosses)


def _held_glosses(found: list[synsets.Synset]) -> set[int]:
    """Which: each leaves an example behind, so that its entity says something still."""
    fit = [i for i, s in enumerate(found) if s.examples and len(s.definition) > SHORTEST_HELD]
    return set(random.Random(_SEED).sample(fit, HELD_GLOSSES))


@lru_cache(maxsize=1)
def documentation(folder: Path) -> Corpus:
    """Every sentence of the documentation as an entity, less those held out."""
    found = sentences.collect(folder / "packages", LARGEST - WORDNET + HELD_SENTENCES)
    held = set(random.Random(_SEED).sample(range(LARGEST - WORDNET), HELD_SENTENCES))
    seen: Counter[str] = Counter()
    rows = []
    for i, sentence in enumerate(found):
        if i in held:
            continue
        seen[sentence.heading] += 1
        name = f"{sentence.heading} {seen[sentence.heading]}"
        rows.append(Row(name, sentence.subject, (sentence.text,)))
    return Corpus(rows, [], [found[i].text for i in sorted(held)])


def first(folder: Path, size: int) -> Corpus:
    """The first ``size`` entities. Raises ValueError where there are not so many."""
    if not 0 < size <= LARGEST:
        raise ValueError(f"a size of {size:,} is not between 1 and {LARGEST:,}")
    words = wordnet()
    if size <= len(words.rows):
        kept = [r for r in words.relations if max(r[:2]) < size]
        return Corpus(words.rows[:size], kept, words.heldout)
    text = documentation(folder)
    return Corpus((words.rows + text.rows)[:size], words.relations, words.heldout + text.heldout)


def snapshots(rows: list[Row], relations: Iterable[tuple[int, int, str]]) -> list[str]:
    """What the view ``entity_snapshots`` says of each, many times faster; ``build`` compares."""
    links: dict[int, list[str]] = defaultdict(list)
    for source, target, kind in relations:
        links[source].append(f"{kind} → {rows[target].name}")
    texts = []
    for i, row in enumerate(rows):
        text = f"{row.name} ({row.kind}): {' | '.join(row.observations)}"
        if links[i]:
            text += f" | {'; '.join(links[i][:MOST_LINKS])}"
        texts.append(text[:MOST_CHARACTERS])
    return texts


def short_queries(texts: Sequence[str], count: int) -> list[str]:
    """Two to four words each, of texts picked at random, in their order; no stop words."""
    rng = random.Random(_SEED)
    found: dict[str, None] = {}
    while len(found) < count:
        said = [word.strip(".,;:!?()\"'") for word in rng.choice(texts).split()]
        words = [w for w in said if len(w) > 3 and w.isalpha() and w.lower() not in STOP_WORDS]
        if len(words) >= 4:
            picked = sorted(rng.sample(range(len(words)), rng.randint(2, 4)))
            found[" ".join(words[i] for i in picked)] = None
    return list(found)
