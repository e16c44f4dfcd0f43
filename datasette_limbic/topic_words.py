"""What the words of texts say about their topics: two TF-IDF matrices, and the terms people read.

*Words* are what a topic is named by; *pieces* are runs of three to five letters, which also see
that `index`, `indexes` and `indexing`, or the inflected words of Korean, belong together.
"""

from __future__ import annotations

import random
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from datasette_limbic.stop_words import STOP_WORDS
from datasette_limbic.text import cjk_runs, fold, word_tokens

MIN_TOKEN_LENGTH = 4
# Two characters of Chinese, Thai or Korean say what four letters of an alphabet do.
MIN_DENSE_LENGTH = 2
TERMS_PER_TOPIC = 5
MAX_CHARS = 8000
"""Characters of a text that are looked at, as many as the packaged model embeds."""
_PIECES = (3, 4, 5)
# Beyond these the rarest add time and no structure.
_MAX_WORDS = 4000
_MAX_PIECES = 20000
_SURFACE = re.compile(r"[^\W_]+")


def topic_words(text: str) -> list[str]:
    """The words that can tell topics apart, folded: no stop words, no bare numbers, none shorter
    than four letters (two characters in Chinese, Japanese, Korean, Thai and their like)."""
    return [word for word in word_tokens(text[:MAX_CHARS]) if _tells(word)]


@lru_cache(maxsize=65536)
def _tells(word: str) -> bool:
    # Bare numbers are years and counts: observations of one date are not one topic.
    if word.isdigit() or word in STOP_WORDS:
        return False
    if len(word) >= MIN_TOKEN_LENGTH:
        return True
    return len(word) >= MIN_DENSE_LENGTH and not word.isascii() and bool(cjk_runs(word))


def topic_pieces(text: str) -> list[str]:
    """Runs of three to five letters of each word of `text`, folded, words padded with spaces."""
    found: list[str] = []
    for word in word_tokens(text[:MAX_CHARS]):
        if not word.isdigit():
            found.extend(_pieces(word))
    return found


@lru_cache(maxsize=65536)
def _pieces(word: str) -> tuple[str, ...]:
    padded = f" {word} "
    return tuple(
        padded[i : i + size] for size in _PIECES for i in range(max(0, len(padded) - size + 1))
    )


def weigh_words(texts: Sequence[str]) -> tuple[Any, list[str]]:
    """The TF-IDF of words: a sparse matrix (texts x words, rows of length 1, or 0 for a text
    without words) and the word of each column."""
    return _weigh(texts, topic_words, _MAX_WORDS)


def weigh_pieces(texts: Sequence[str]) -> Any:
    """The TF-IDF of pieces of words, as `weigh_words` gives that of words."""
    return _weigh(texts, topic_pieces, _MAX_PIECES)[0]


def deal_words(texts: Sequence[str], seed: int) -> list[str]:
    """The words of all texts dealt out at random: each text gets as many as it had different ones.

    The same seed gives the same answer.
    """
    words = [list(dict.fromkeys(word_tokens(text[:MAX_CHARS]))) for text in texts]
    deck = [word for some in words for word in some]
    random.Random(seed).shuffle(deck)
    dealt = iter(deck)
    return [" ".join(next(dealt) for _ in some) for some in words]


def _weigh(
    texts: Sequence[str], analyzer: Callable[[str], list[str]], most: int
) -> tuple[Any, list[str]]:
    from scipy.sparse import csr_matrix
    from sklearn.feature_extraction.text import TfidfVectorizer

    documents = [analyzer(text) for text in texts]
    if not any(documents):
        return csr_matrix((len(documents), 0)), []
    vectorizer = TfidfVectorizer(analyzer=_identity, max_features=most, sublinear_tf=True)
    weights = vectorizer.fit_transform(documents)
    return weights, [str(name) for name in vectorizer.get_feature_names_out()]


def _identity(words: list[str]) -> list[str]:
    return words


def top_terms(rows: Any, names: Sequence[str], surfaces: dict[str, str]) -> list[str]:
    """The words that weigh most in some rows of `weigh_words`, strongest first, as people write
    them (`surface_forms`)."""
    import numpy as np

    strength = np.asarray(rows.sum(axis=0)).ravel()
    order = np.lexsort((np.arange(len(strength)), -strength))[:TERMS_PER_TOPIC]
    return [surfaces.get(names[i], names[i]) for i in order if strength[i] > 0]


def surface_forms(texts: Sequence[str]) -> dict[str, str]:
    """How each folded word is mostly written in `texts`: `sesion` as `Sesión`.

    Of forms written equally often the one in small letters, since the other may owe its capital to
    the start of a sentence.
    """
    written: Counter[str] = Counter()
    for text in texts:
        written.update(_SURFACE.findall(unicodedata.normalize("NFC", text[:MAX_CHARS])))
    forms: dict[str, tuple[int, bool, str]] = {}
    for form, count in sorted(written.items()):
        word = fold(form)
        found = (count, form == form.lower(), form)
        if word not in forms or found[:2] > forms[word][:2]:
            forms[word] = found
    return {word: form for word, (_, _, form) in forms.items()}
