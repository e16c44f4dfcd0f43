"""How much of a text a model embeds, where that is known: what is said of others is a guess."""

from __future__ import annotations

from dataclasses import dataclass

from .. import embedding
from ..config import Settings

PACKAGED_CHARACTERS = 8000
"""As llm_model.MAX_CHARS, which importing would import llm; a test holds the two together."""
CHARACTERS_A_TOKEN = 4.0
"""What a token of these models covers of English and Spanish prose, about. Chinese takes a token
for one or two characters, so a text may be cut sooner."""

TOKENS = {
    "all-MiniLM-L6-v2": 256,
    "all-MiniLM-L12-v2": 128,
    "all-mpnet-base-v2": 384,
    "paraphrase-multilingual-MiniLM-L12-v2": 128,
    "paraphrase-multilingual-mpnet-base-v2": 128,
    "distiluse-base-multilingual-cased-v2": 128,
    "multilingual-e5-small": 512,
    "multilingual-e5-base": 512,
    "multilingual-e5-large": 512,
    "bge-m3": 8192,
    "text-embedding-ada-002": 8191,
    "text-embedding-3-small": 8191,
    "text-embedding-3-large": 8191,
}
"""Tokens by the last part of the model's name: ``max_seq_length`` of its card on Hugging Face, or
what the maker's documentation says."""


@dataclass(frozen=True)
class Limit:
    """How much of a text is embedded."""

    characters: int
    exact: bool
    """Whether characters are what the model counts."""
    words: str
    """The bound as one would say it."""


def limit(model_id: str, settings: Settings) -> Limit | None:
    """How much of an observation ``model_id`` embeds, or None where that is not known.

    The setting ``passage_prefix`` takes its share. Never loads a model.
    """
    prefix = len(settings.passage_prefix or "")
    if model_id in embedding.PACKAGED:
        left = max(PACKAGED_CHARACTERS - prefix, 0)
        return Limit(left, True, f"{model_id} embeds the first {PACKAGED_CHARACTERS:,} characters")
    tokens = _known(model_id)
    if tokens is None:
        return None
    left = max(int(tokens * CHARACTERS_A_TOKEN) - prefix, 0)
    return Limit(
        left,
        False,
        f"{model_id} embeds {tokens:,} tokens, about {left:,} characters at "
        f"{CHARACTERS_A_TOKEN:g} to a token",
    )


def _known(model_id: str) -> int | None:
    """By the last part of a name such as ``sentence-transformers/org/name`` or a path."""
    last = model_id.replace("\\", "/").rstrip("/").rpartition("/")[2]
    return TOKENS.get(last)
