"""Words: how text is cut, folded, compared and turned into a full-text query.

`fts_terms` sees words as SQLite's FTS5 tokenizer `unicode61 remove_diacritics 2` does, so that a
term's tokens can be looked up in an `fts5vocab` table. Comparison of texts (`word_tokens`,
`text_containment`, `normalise`) folds further, with compatibility forms.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from datasette_limbic.stop_words import STOP_WORDS

__all__ = [
    "EXACT_NAME",
    "MAX_TERMS",
    "MOST_TOKENS",
    "STOP_WORDS",
    "Term",
    "cjk_runs",
    "counted",
    "coverage",
    "cut",
    "fold",
    "fts_query",
    "fts_spans",
    "fts_terms",
    "fts_tokens",
    "listed",
    "normalise",
    "short",
    "shows",
    "storable",
    "text_containment",
    "word_tokens",
]

MAX_TERMS = 64
MAX_TOKENS = 8
"""Tokens of one term: a longer chain is searched for in pieces of so many, at most MAX_PIECES."""
MAX_PIECES = 8
MOST_TOKENS = 128
"""Tokens of all terms of a query together."""

# Scripts written without spaces: Thai, Lao, Myanmar, Khmer, kana, bopomofo, Han with its
# extensions. Korean puts spaces between words, so Hangul is not here.
_CJK = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u19e0-\u19ff\u2e80-\u2fdf\u3005-\u3007\u3031-\u3035"
    "\u3041-\u30ff\u3100-\u312f\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua9e0-\ua9ff"
    "\uaa60-\uaa7f\uf900-\ufaff\uff66-\uff9f\U0001b000-\U0001b16f\U00020000-\U0003fffd"
)
_CJK_RUN = re.compile(f"[{_CJK}]+")
# Korean puts spaces between words but hangs particles on them, so a search needs its substrings
# too; in comparisons its words stay words.
_SEARCHED_RUN = re.compile(f"[{_CJK}\u1100-\u11ff\u3131-\u318e\uac00-\ud7a3]+")
# What an exact name counts for, against 1 for every word of the query.
EXACT_NAME = 1.25
_CJK_ONLY = re.compile(f"(?:[{_CJK}]|[^\\w])+")
_SURROGATE = re.compile("[\ud800-\udfff]")
# Spaces, controls, what formats or joins the characters around it, fillers, and what stands for a
# character that was lost.
_UNSEEN = frozenset(("Zs", "Zl", "Zp", "Cc", "Cf", "Cs"))
_FILLERS = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\ufffd"
    "\U000e0100-\U000e01ef]"
)
_ASCII_TOKEN = re.compile(r"[0-9a-z]+")
# All other ASCII characters part words; of the others each must be asked.
_NO_ASCII_SIGN = re.compile(r"[^\x00-/:-@\[-`{-\x7f]+")
# What a sentence may begin or end with. Not %, #, +, * or @: "5 %" is not "5", "C#" is not "C".
_OUTER = " \t\n.,;:!?¡¿…\"'`´«»“”„‘’‚‹›()[]{}<>·•–—-。、，！？；：「」『』（）"


class Term(NamedTuple):
    """One word of a query, as FTS5 takes it.

    `match` is a quoted FTS5 string (a phrase when the word holds several tokens), `tokens` what
    the tokenizer makes of it (folded), `cjk` whether it is all in a script without spaces, where a
    word table finds only whole runs and the trigram table (see `cjk_runs`) does better.
    """

    match: str
    tokens: tuple[str, ...]
    cjk: bool = False


def shows(text: str) -> bool:
    """Whether anything of a text can be seen where it stands: a name of none cannot be pressed."""
    return any(unicodedata.category(c) not in _UNSEEN and not _FILLERS.match(c) for c in text)


def storable(text: str) -> str:
    """`text` as UTF-8 and SQLite can hold it: half a surrogate pair becomes U+FFFD.

    JSON can hold such halves, and Python makes them of bytes that are no UTF-8.
    """
    return _SURROGATE.sub("\ufffd", text)


def counted(count: int, one: str, many: str) -> str:
    """`1 access`, `1,203 accesses`."""
    return f"{count:,} {one if count == 1 else many}"


def listed(names: Sequence[str], most: int = 5) -> str:
    """Names for a sentence: the first few, and how many more."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def cut(text: str, most: int) -> str:
    """The beginning of a text, of at most so many characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def short(value: object, most: int = 60) -> str:
    """The beginning of a text in one line, whatever a program put there; None is empty."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return cut(" ".join(str("" if value is None else value).split()), most)


def fold(text: str) -> str:
    """Lower case, without diacritics, compatibility forms resolved: `Sesión` → `sesion`."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).lower())
    kept = "".join(c for c in decomposed if not unicodedata.combining(c))
    return unicodedata.normalize("NFC", kept)


def fts_tokens(text: str) -> list[str]:
    """The tokens FTS5's `unicode61 remove_diacritics 2` makes of `text`, in order, folded.

    Letters and numbers of any script make tokens; everything else, also vowel signs that Unicode
    calls marks (Hindi), separates them. Differs from SQLite only on characters newer than the
    Unicode tables of one of the two.
    """
    if text.isascii():
        return _ASCII_TOKEN.findall(text.lower())
    tokens: list[str] = []
    for run in _NO_ASCII_SIGN.findall(unicodedata.normalize("NFC", text)):
        if run.isascii():
            tokens.append(run.lower())
            continue
        current: list[str] = []
        for char in run:
            folded = _fts_char(char)
            if folded is None:
                if current:
                    tokens.append("".join(current))
                    current.clear()
            elif folded or current:
                current.append(folded)
        if current:
            tokens.append("".join(current))
    return [token for token in tokens if token]


def fts_spans(text: str, most: int | None = None) -> Iterator[tuple[str, int, int]]:
    """Each of `fts_tokens` with where it begins and ends in `text` as it is written, one by one.

    Here a letter that is stored decomposed is what SQLite makes of it: `ó` is `o` either way, and
    `й` in two pieces is `и`. `most` is how many characters are looked through.
    """
    for run in _NO_ASCII_SIGN.finditer(text, 0, len(text) if most is None else most):
        if run.group().isascii():
            yield run.group().lower(), *run.span()
            continue
        token, start = "", run.start()
        for at, char in enumerate(run.group(), run.start()):
            folded = _fts_char(char)
            if folded is None:
                if token:
                    yield token, start, at
                token = ""
            elif folded and not token:
                token, start = folded, at
            else:
                token += folded if token else ""
        if token:
            yield token, start, run.end()


def word_tokens(text: str) -> list[str]:
    """Words for comparing texts: folded (`fold`); a run of a script without spaces gives its
    overlapping pairs of characters, since it has no words to see."""
    words: list[str] = []
    for token in fts_tokens(fold(text)):
        rest = _CJK_RUN.sub(" ", token).split()
        words.extend(rest)
        for run in _CJK_RUN.findall(token):
            words.extend(run[i : i + 2] for i in range(max(1, len(run) - 1)))
    return words


def fts_terms(text: str) -> list[Term]:
    """The terms of a query, at most 64 of at most 128 tokens in all, each once, in order.

    Each word between spaces is one term; one that holds several tokens (`POL-358`, `GB/s`,
    `38.101`) is a phrase. Stop words (en, es) go, unless nothing else remains. Words without a
    letter or number give no term; those of more than MAX_TOKENS tokens give one for each piece.
    `match` is always valid FTS5, whatever the text. Words are
    composed (NFC): Latin letters stored decomposed are found too, those of other scripts are not.
    """
    return list(_fts_terms(text))


@lru_cache(maxsize=64)  # a search asks for them in several places
def _fts_terms(text: str) -> tuple[Term, ...]:
    terms: dict[tuple[str, ...], Term] = {}
    stop: dict[tuple[str, ...], Term] = {}
    for word in _clean(text).split():
        tokens = tuple(fts_tokens(word))
        if not tokens:
            continue
        is_stop = len(tokens) == 1 and tokens[0] in STOP_WORDS
        found = stop if is_stop else terms
        for piece, of_it in _pieces(word, tokens):
            room = len(found) < MAX_TERMS and sum(map(len, found)) + len(of_it) <= MOST_TOKENS
            if room and of_it not in found:
                found[of_it] = Term(_quote(piece), of_it, _CJK_ONLY.fullmatch(piece) is not None)
    return tuple((terms or stop).values())


def cjk_runs(text: str) -> list[str]:
    """Runs of scripts whose words do not stand alone (Chinese, Japanese, Korean, Thai, Khmer, Lao,
    Myanmar), each once: they are searched for as substrings.

    Also found inside mixed words: `用户ID和身份` gives `用户` and `和身份`.
    """
    return list(dict.fromkeys(_SEARCHED_RUN.findall(_clean(text))))[:MAX_TERMS]


def fts_query(text: str) -> str:
    """An FTS5 MATCH expression that finds any of the words of `text`; `''` when it has none."""
    return " OR ".join(term.match for term in fts_terms(text))


def match(terms: Iterable[tuple[str, bool]]) -> str:
    """An FTS5 MATCH expression of terms (match, whether it leads): finds the texts that hold one
    that leads, and bm25() rates them by all. `'""'`, which finds nothing, of no terms.

    SQLite passes over the texts of the others; to rate them takes ten times as long.
    """
    given = list(terms)
    leading = " OR ".join(each for each, leads in given if leads)
    following = " OR ".join(each for each, leads in given if not leads)
    if not leading or not following:
        return leading or following or '""'
    # what leads stands twice and so counts twice, as the others must
    return f"({leading}) AND ({leading} OR {following} OR {following})"


def coverage(
    query: str, name: str, content: str | None, terms: Sequence[tuple[str, float, float]]
) -> float | None:
    """The share of what a query says that a name and an observation hold together, 0 to 1.

    `terms` are (match, document frequency, idf) of each term of the query; each counts by its
    idf, once. One that no text holds as a word (frequency 0), or in a script whose words do not
    stand alone, counts as held where it is a substring. A name that equals the query gives
    EXACT_NAME. `None` where the query has no terms.
    """
    if not terms:
        return None
    if normalise(name) == _normalised(query):
        return EXACT_NAME
    tokens = fts_tokens(name) + fts_tokens(content or "")
    words, joined = set(tokens), f" {' '.join(tokens)} "
    whole = held = 0.0
    for match, frequency, idf in terms:
        phrase, unspaced = _phrase(match)
        loose = not frequency or unspaced
        whole += idf
        if phrase in words or f" {phrase} " in joined or (loose and phrase in joined):
            held += idf
    return held / whole if whole else None


@lru_cache(maxsize=64)
def _normalised(query: str) -> str:
    """A query is compared with the name of each candidate."""
    return normalise(query)


@lru_cache(maxsize=1024)
def _phrase(match: str) -> tuple[str, bool]:
    """The tokens of a term, and whether it holds a script whose words do not stand alone."""
    return " ".join(fts_tokens(match)), _SEARCHED_RUN.search(match) is not None


def normalise(text: str) -> str:
    """The form under which two observations are the same text: NFKC, case folded, white space
    collapsed, outer punctuation stripped (a sign or point before a digit stays)."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    collapsed = " ".join(folded.split())
    start, end = 0, len(collapsed)
    while end > 0 and collapsed[end - 1] in _OUTER:
        end -= 1
    while start < end and collapsed[start] in _OUTER:
        if collapsed[start] in "-." and collapsed[start + 1].isalnum():
            break
        start += 1
    # Text of nothing but punctuation stays as it is: "???" is not "!!!".
    return collapsed[start:end] or collapsed


def text_containment(a: str, b: str) -> float | None:
    """How much of the shorter text is in the longer one: |A ∩ B| / |shorter|, 0 to 1.

    A and B are the sets of word tokens; the shorter is the one with fewer. `None` when a text
    has no words. Symmetric.
    """
    first, second = set(word_tokens(a)), set(word_tokens(b))
    if not first or not second:
        return None
    return len(first & second) / min(len(first), len(second))


def _pieces(word: str, tokens: tuple[str, ...]) -> list[tuple[str, tuple[str, ...]]]:
    """A word as it is, or in pieces, each with its tokens."""
    if len(tokens) <= MAX_TOKENS:
        return [(word, tokens)]
    starts = range(0, min(len(tokens), MAX_PIECES * MAX_TOKENS), MAX_TOKENS)
    pieces = [tokens[start : start + MAX_TOKENS] for start in starts]
    return [(" ".join(piece), piece) for piece in pieces]


def _clean(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text
    # Control characters separate words in FTS5 too; a lone surrogate cannot be bound at all.
    return "".join(
        " " if unicodedata.category(c) in ("Cc", "Cs") else c
        for c in unicodedata.normalize("NFC", text)
    )


def _quote(word: str) -> str:
    # Outer punctuation means nothing to the word table and would hide hits from a trigram one.
    start, end = 0, len(word)
    while start < end and not _fts_char(word[start]):
        start += 1
    while end > start and _fts_char(word[end - 1]) is None:
        end -= 1
    return '"' + word[start:end].replace('"', '""') + '"'


@lru_cache(maxsize=4096)
def _fts_char(char: str) -> str | None:
    """What FTS5 makes of one character: its folded form, '' when dropped, None: a separator."""
    if "\u0300" <= char <= "\u0331":
        return ""
    category = unicodedata.category(char)
    if category[0] not in "LN" and category != "Co":
        # To SQLite's tables (Unicode 6.1) younger characters are unassigned, and those make
        # tokens. Of them only the emoji are likely in a query: 🤖 can be found, 😀 cannot.
        young = char >= "\U0001f900" and category == "So"
        return char if young else None
    base = unicodedata.normalize("NFD", char)[0]
    # SQLite takes diacritics off Latin letters only: ά and й keep theirs.
    lowered = (base if base.isascii() else char).casefold()
    return lowered if len(lowered) == 1 else char
