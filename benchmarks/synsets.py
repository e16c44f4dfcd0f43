"""WordNet's synsets, as Debian's package ``wordnet-base`` installs them.

A synset is a set of words that mean the same: it becomes one entity, with what is said about it as
observations and its pointers to others as relations.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path("/usr/share/wordnet")
PACKAGE = "wordnet-base"
PARTS = {"n": "noun", "v": "verb", "a": "adjective", "r": "adverb"}
_FILES = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}

# By number, as the manual page lexnames(5WN) has them.
LEXICOGRAPHERS = (
    "adj.all", "adj.pert", "adv.all", "noun.Tops", "noun.act", "noun.animal", "noun.artifact",
    "noun.attribute", "noun.body", "noun.cognition", "noun.communication", "noun.event",
    "noun.feeling", "noun.food", "noun.group", "noun.location", "noun.motive", "noun.object",
    "noun.person", "noun.phenomenon", "noun.plant", "noun.possession", "noun.process",
    "noun.quantity", "noun.relation", "noun.shape", "noun.state", "noun.substance", "noun.time",
    "verb.body", "verb.change", "verb.cognition", "verb.communication", "verb.competition",
    "verb.consumption", "verb.contact", "verb.creation", "verb.emotion", "verb.motion",
    "verb.perception", "verb.possession", "verb.social", "verb.stative", "verb.weather",
    "adj.ppl",
)  # fmt: skip

# Of two pointers that say the same from both ends one is kept: hyponyms are hypernyms turned
# round, meronyms holonyms, members of a domain its topics.
POINTERS = {
    "@": "is_a",
    "@i": "instance_of",
    "#m": "member_of",
    "#s": "substance_of",
    "#p": "part_of",
    ";c": "in_topic",
    ";r": "in_region",
    ";u": "in_usage",
    "*": "entails",
    ">": "causes",
    "<": "participle_of",
    "\\": "pertains_to",
    "^": "see_also",
    "!": "antonym_of",
    "&": "similar_to",
    "$": "grouped_with",
    "=": "attribute_of",
    "+": "related_to",
}
_BOTH_WAYS = frozenset("^!&$=+")

Key = tuple[str, int]
"""Part of speech (a letter of PARTS) and offset in its file: what a pointer names."""

_MARKER = re.compile(r"\((?:a|p|ip)\)$")
_FIRST_EXAMPLE = re.compile(r'(?:^|;)\s*(?=")')
_EXAMPLE = re.compile(r'"([^"]+)(?:"|$)')


@dataclass
class Synset:
    """One set of synonyms."""

    key: Key
    kind: str
    """The lexicographer's file: ``noun.animal``."""
    words: list[str]
    definition: str
    examples: list[str]
    pointers: list[tuple[str, Key]]
    """Relation type and the synset pointed at, in the file's order; one of each pair of ends."""
    name: str = ""
    """Unique: the first word with its sense, ``dog (noun 1)``."""


@dataclass
class WordNet:
    """All synsets, in the order of their files, and relations between them."""

    synsets: list[Synset]
    relations: list[tuple[int, int, str]] = field(default_factory=list)
    """(index, index, type), sorted by the first; each once, none to itself."""


def read(folder: Path = FOLDER) -> WordNet:
    """All of WordNet. Raises FileNotFoundError where it is not installed."""
    require(folder)
    found: list[Synset] = []
    for letter, name in _FILES.items():
        data, index = folder / f"data.{name}", folder / f"index.{name}"
        senses = parse_index(index.read_text("utf-8").splitlines())
        for line in data.read_text("utf-8").splitlines():
            if line.startswith(" "):  # the licence
                continue
            synset = parse_synset(line)
            word = synset.words[0]
            sense = senses[(word.replace(" ", "_").lower(), synset.key[1])]
            synset.name = f"{word} ({PARTS[letter]} {sense})"
            found.append(synset)
    return WordNet(found, relations(found))


def require(folder: Path = FOLDER) -> None:
    """Raise FileNotFoundError, naming the package, where WordNet is not installed."""
    for name in _FILES.values():
        data = folder / f"data.{name}"
        if not data.exists():
            raise FileNotFoundError(f"{data} is absent: install Debian's package {PACKAGE}")


def parse_index(lines: list[str]) -> dict[tuple[str, int], int]:
    """The number of the sense, from 1, of each (lemma, offset) of an index file."""
    senses = {}
    for line in lines:
        if line.startswith(" "):
            continue
        lemma, _, count, *rest = line.split()
        for sense, offset in enumerate(rest[-int(count) :], 1):
            senses[(lemma, int(offset))] = sense
    return senses


def parse_synset(line: str) -> Synset:
    """One line of a data file, as wndb(5WN) describes it: counts of words are hexadecimal."""
    fields, _, gloss = line.partition("|")
    offset, file, letter, count, *rest = fields.split()
    words = int(count, 16)
    at = 2 * words + 1
    pointers = []
    for i in range(at, at + 4 * int(rest[at - 1]), 4):
        symbol, target, part = rest[i : i + 3]
        if symbol in POINTERS:
            pointers.append((POINTERS[symbol], (_part(part), int(target))))
    definition, examples = parse_gloss(gloss)
    return Synset(
        key=(_part(letter), int(offset)),
        kind=LEXICOGRAPHERS[int(file)],
        words=[_MARKER.sub("", word).replace("_", " ") for word in rest[: 2 * words : 2]],
        definition=definition,
        examples=examples,
        pointers=pointers,
    )


def parse_gloss(gloss: str) -> tuple[str, list[str]]:
    """The definition, and the example sentences, which stand in quotes behind it."""
    gloss = gloss.strip()
    first = _FIRST_EXAMPLE.search(gloss)
    if first is None:
        return gloss, []
    examples = [text.strip(" ;") for text in _EXAMPLE.findall(gloss[first.end() :])]
    return gloss[: first.start()].strip(" ;"), [text for text in examples if text]


def relations(synsets: list[Synset]) -> list[tuple[int, int, str]]:
    """The pointers as (index, index, type): each once, and of those that go both ways one."""
    place = {synset.key: i for i, synset in enumerate(synsets)}
    mutual = {POINTERS[symbol] for symbol in _BOTH_WAYS}
    seen: set[tuple[int, int, str]] = set()
    out = []
    for i, synset in enumerate(synsets):
        for kind, target in synset.pointers:
            j = place[target]
            pair = (min(i, j), max(i, j), kind) if kind in mutual else (i, j, kind)
            if i != j and pair not in seen:
                seen.add(pair)
                out.append((i, j, kind))
    return out


def _part(letter: str) -> str:
    """A satellite of an adjective (``s``) stands in the file of adjectives."""
    return "a" if letter == "s" else letter
