"""A fast, deterministic embedding model for tests, and small memory files."""

from __future__ import annotations

import hashlib
import math
import struct
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import llm
import llm.plugins
import pytest
from empty_memory import empty_memory

from datasette_limbic import embedding
from datasette_limbic.connection import connect
from datasette_limbic.sync import sync

DIMENSION = 32


class BagModel(llm.EmbeddingModel):
    """Counts hashed words, so texts that share words are near each other."""

    batch_size = 50

    def __init__(self, model_id: str, dimension: int = DIMENSION, delay: float = 0) -> None:
        self.model_id, self.dimension, self.delay = model_id, dimension, delay
        self.seen: list[str] = []
        self.before: Any = None

    def embed_batch(self, items: Any, *, key: str | None = None) -> Iterator[list[float]]:
        items = list(items)
        self.seen += items
        if self.before:
            self.before(items)
        time.sleep(self.delay)
        for text in items:
            vector = [0.0] * self.dimension
            if "NANVEC" in text:
                vector[0] = math.nan
            elif "ZEROVEC" not in text:
                for word in text.split() or ["(empty)"]:
                    digest = hashlib.md5(word.encode()).digest()
                    vector[digest[0] % self.dimension] += 1 + digest[1] / 256
            yield vector


class KeyedModel(BagModel):
    """Needs a key, as a remote model does."""

    needs_key = "bag"
    key_env_var = "BAG_KEY"


class BrokenModel(BagModel):
    def embed_batch(self, items: Any, *, key: str | None = None) -> Iterator[list[float]]:
        raise OSError("no model at /elsewhere")


class Plugin:
    def __init__(self, *models: llm.EmbeddingModel) -> None:
        self.models = models

    @llm.hookimpl
    def register_embedding_models(self, register: Any) -> None:
        for model in self.models:
            register(model, aliases=[f"{model.model_id}-alias"])


@contextmanager
def registered(*models: llm.EmbeddingModel) -> Iterator[None]:
    """llm knows these models inside the block."""
    plugin = Plugin(*models)
    llm.plugins.load_plugins()
    llm.plugins.pm.register(plugin, "limbic-tests")
    embedding.clear_caches()
    try:
        yield
    finally:
        llm.plugins.pm.unregister(plugin)
        embedding.clear_caches()


@pytest.fixture(name="models")
def models_fixture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[dict[str, BagModel]]:
    """The test models by id, known to llm."""
    monkeypatch.setenv("LLM_USER_PATH", str(tmp_path / "llm"))
    made = {
        m.model_id: m
        for m in (
            BagModel("bag"),
            BagModel("bag2"),
            BagModel("bag16", 16),
            KeyedModel("keyed"),
            BrokenModel("broken"),
        )
    }
    with registered(*made.values()):
        yield made


@pytest.fixture(name="path")
def path_fixture(tmp_path: Path) -> Path:
    """A memory file without rows."""
    return empty_memory(tmp_path / "memory.db")


@pytest.fixture(name="conn")
def conn_fixture(path: Path) -> Iterator[Any]:
    """A connection to ``path``."""
    with closing(connect(path)) as found:
        yield found


def fill(conn: Any, count: int = 3, each: int = 2) -> None:
    """Entities 1…count named ``entity N`` of type Thing, with ``each`` observations."""
    for n in range(1, count + 1):
        conn.execute(
            "insert into entities(id, name, entity_type) values (?, ?, 'Thing')", [n, f"entity {n}"]
        )
        for k in range(each):
            conn.execute(
                "insert into observations(entity_id, content) values (?, ?)",
                [n, f"fact {k} of number {n}"],
            )
    conn.commit()


def fill_and_sync(conn: Any, count: int, each: int = 2) -> None:
    """``fill``, embedded with the model ``bag``."""
    fill(conn, count, each)
    sync(conn, model="bag")


def fill_and_store(conn: Any, *vectors: tuple[float, ...]) -> None:
    """Entities 1…n with these vectors, as another program would embed them."""
    fill(conn, len(vectors))
    store(conn, "entities", {n: blob(*vector) for n, vector in enumerate(vectors, 1)})


def embedded_with(conn: Any, model: str, collection: str = "entities") -> None:
    """A collection that says it was embedded with ``model``."""
    store(conn, collection, {1: blob(1)}, model)


def blob(*values: float) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


def values(found: bytes) -> tuple[float, ...]:
    return struct.unpack(f"<{len(found) // 4}f", found)


def store(conn: Any, collection: str, rows: dict[int, Any], model: str = "bag") -> None:
    """Write vectors as another program would, through llm's tables."""
    conn.execute(
        "insert or ignore into collections(name, model) values (?, ?)", [collection, model]
    )
    conn.executemany(
        "insert or replace into embeddings(collection_id, id, embedding, content_hash)"
        " values ((select id from collections where name = ?), ?, ?, x'00')",
        [(collection, str(i), b) for i, b in rows.items()],
    )
    conn.commit()
