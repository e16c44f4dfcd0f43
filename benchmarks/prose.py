"""Sentences of English prose in HTML, POD and dictionaries, with the heading above each.

What is no sentence is left out: code, signatures, navigation, tables of numbers.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import PurePosixPath

SHORTEST, LONGEST, FEWEST_WORDS = 30, 400, 5
HEADING = 40
"""Characters of a heading that are kept."""

_SKIPPED = frozenset((
    "script", "style", "pre", "svg", "math", "nav", "footer", "head", "button", "select",
    "textarea",
))  # fmt: skip
_HEADINGS = frozenset(("h1", "h2", "h3", "h4"))
_INLINE = frozenset((
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "br", "cite", "code", "dfn", "em", "font",
    "i", "img", "ins", "kbd", "mark", "q", "s", "samp", "small", "span", "strong", "sub", "sup",
    "tt", "u", "var", "wbr",
))  # fmt: skip
_NUMBER = re.compile(r"^(?:(?:[A-Z]\.)?\d[\d.]*|[A-Z]\.)\s+")
_SIGNS = re.compile("[¶#§\ue000-\uf8ff]")
_SPLIT = re.compile(
    r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)(?<!etc\.)(?<!vs\.)(?<!cf\.)\s+(?=[\"'(]?[A-Z])"
)
_WORD = re.compile(r"[\"'(]?[A-Za-z]+(?:[-'’][A-Za-z]+)*[\"')]?[.,;:!?]*$")
# English prose has one of these in nearly every sentence, other languages in few.
_COMMON = frozenset((
    "the", "of", "to", "a", "an", "is", "are", "in", "and", "for", "that", "this", "with", "be",
    "by", "or", "it", "as", "on", "from", "can", "if", "not", "which", "when", "has", "have", "at",
    "its", "was",
))  # fmt: skip
_DICTIONARY_NOISE = re.compile(r"\[[^\]]*\]|[{}]")


class _Page(HTMLParser):
    """Blocks of prose of a page: (heading, text), in order."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self.blocks: list[tuple[str, str]] = []
        self._title = self._heading = title
        self._said: list[str] = []
        self._skipped = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag in _SKIPPED:
            self._end_block()
            self._skipped += 1
        elif tag == "br":
            self._said.append(" ")
        elif tag not in _INLINE:
            self._end_block()

    def handle_endtag(self, tag: str) -> None:
        if tag in _SKIPPED:
            self._skipped = max(0, self._skipped - 1)
        elif tag in _HEADINGS:
            self._head(tag, heading("".join(self._said)))
            self._said.clear()
        elif tag not in _INLINE:
            self._end_block()

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        if tag == "br":
            self._said.append(" ")

    def handle_data(self, data: str) -> None:
        if not self._skipped:
            self._said.append(data)

    def close(self) -> None:
        super().close()
        self._end_block()

    def _head(self, tag: str, text: str) -> None:
        """A heading of one word ("Description") says little without that of its page."""
        if tag == "h1":
            self._title = text or self._title
        elif text and " " not in text and text != self._title:
            text = heading(f"{self._title}: {text}")
        self._heading = text or self._heading

    def _end_block(self) -> None:
        if self._said:
            text = "".join(self._said)
            self._said.clear()
            if len(text) >= SHORTEST:
                self.blocks.append((self._heading, text))


def html_blocks(text: str, title: str) -> list[tuple[str, str]]:
    """(heading, text) of each block of an HTML page; ``title`` stands above its first heading."""
    page = _Page(title)
    page.feed(text)
    page.close()
    return page.blocks


def pod_blocks(text: str, title: str) -> list[tuple[str, str]]:
    """The same of Perl's documentation: paragraphs at the margin, formatting codes taken off."""
    blocks = []
    for paragraph in re.split(r"\n\s*\n", text):
        if paragraph.startswith("=head"):
            title = heading(_plain_pod(paragraph.partition(" ")[2])) or title
        elif paragraph[:1].strip() and not paragraph.startswith("="):
            blocks.append((title, _plain_pod(paragraph)))
    return blocks


def _plain_pod(text: str) -> str:
    text = re.sub(r"X<[^<>]*>", "", text)  # words of the index
    for _ in range(3):  # codes within codes
        text = re.sub(r"L<([^<>|]*)\|[^<>]*>", r"\1", text)
        text = re.sub(r"[A-Z]<([^<>]*)>", r"\1", text)
    return text


def dictionary_blocks(text: str, title: str) -> list[tuple[str, str]]:
    """The same of a dictionary in dictd's form: head words at the margin, text indented."""
    blocks = []
    for paragraph in re.split(r"\n\s*\n", text):
        first, _, rest = paragraph.partition("\n")
        if first[:1].strip():
            title = heading(re.split(r"\s*[\\(\[,]", first)[0]) or title
            paragraph = rest
        blocks.append((title, _DICTIONARY_NOISE.sub("", paragraph)))
    return blocks


def heading(text: str) -> str:
    """A heading without its number and paragraph sign, cut at a word."""
    text = _NUMBER.sub("", " ".join(_SIGNS.sub("", text).split()))
    return text if len(text) <= HEADING else text[:HEADING].rpartition(" ")[0] or text[:HEADING]


def split(text: str) -> list[str]:
    """The sentences of English prose in a block of text."""
    return [part for part in _SPLIT.split(" ".join(text.split())) if is_prose(part)]


def is_prose(text: str) -> bool:
    """Whether a text is one sentence of words: its length, its beginning and end, its words."""
    if not SHORTEST <= len(text) <= LONGEST or text[-1] not in ".!?" or "\0" in text:
        return False
    if text.count("(") != text.count(")"):
        return False
    if not (text[0].isupper() or text[0] in "\"'(“"):
        return False
    parts = text.split()
    words = [part for part in parts if _WORD.match(part)]
    if len(words) < max(FEWEST_WORDS, 0.7 * len(parts)):
        return False
    return not _COMMON.isdisjoint(part.lower() for part in words)


def sentences_of(text: str, path: PurePosixPath) -> list[tuple[str, str]]:
    """(heading, sentence) of a file, each sentence once."""
    blocks = READERS[path.suffix](text, heading(path.stem.replace("_", " ")))
    found = {said: title for title, block in blocks for said in split(block)}
    return [(title, said) for said, title in found.items()]


READERS = {
    ".html": html_blocks,
    ".pod": pod_blocks,
    ".dz": dictionary_blocks,
}
