"""How one collection is embedded: by which model, with which prefix, and how that is stored.

Sync and adding share it. Texts are embedded outside of a transaction, since a model may take
long; what is stored is only what has still the text that was embedded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from datasette.utils.sqlite import sqlite3

from . import embedding, llm_store, vectors
from .connection import vec_missing
from .errors import IndexedElsewhere
from .schema import COLLECTIONS
from .vec_tables import table_dimension

SYNC = "run 'datasette limbic sync' on the file"
BATCH = 100
"""Texts handed to a model at once, where neither it nor the caller says fewer."""


@dataclass(frozen=True)
class Target:
    """The model of one collection, as ``choose`` finds it."""

    name: str
    """``entities`` or ``observations``."""
    asked: str
    """What llm is asked for: an id or alias of this machine."""
    stored_as: str
    """The model's name in the file."""
    prefix: str
    """Put before each text."""
    dimension: int
    """Values of the vectors that are stored, 0 where there are none."""

    def refuse(self, has: str, asked: str) -> NoReturn:
        """Raise IndexedElsewhere: the vectors that are there are of another model."""
        raise IndexedElsewhere(
            f"the collection {self.name!r} was embedded with {has}, not with {asked}: go on with "
            "the same model, or embed everything anew with the other one "
            "(datasette limbic sync FILE --reembed -m MODEL)"
        )


def choose(
    conn: sqlite3.Connection,
    name: str,
    *,
    model: str | None = None,
    settings: Any = None,
    reembed: bool = False,
) -> Target:
    """The model for a collection: ``model``, else ``settings.model``, else the collection's own,
    else the other collection's, else the packaged one.

    ``reembed``: the vectors that are there will go, so they decide nothing. Raises UnknownModel
    for ``model``, and IndexedElsewhere where the file has vectors of another one than that.
    """
    configured = getattr(settings, "model", None)
    info = embedding.collection_info(conn, name)
    there = info is not None and info.count > 0 and not reembed
    if model is not None:
        # what is stored is the id, whatever alias was typed
        asked = stored_as = embedding.get_model(model).model_id
    elif info is not None and there:
        # the setting is this machine's name for the model that the file names
        asked, stored_as = configured or info.model_id, info.model_id
    else:
        other = [embedding.collection_info(conn, c) for c in (name, *COLLECTIONS)]
        known = next((i.model_id for i in other if i is not None), embedding.DEFAULT_MODEL)
        asked = stored_as = configured or known
    prefix = getattr(settings, "passage_prefix", None) or ""
    target = Target(name, asked, stored_as, prefix, info.dimension if info and there else 0)
    if info is not None and there and info.model_id != stored_as:
        target.refuse(f"{info.model_id!r}", f"{stored_as!r}")
    return target


def batches(
    target: Target, texts: Sequence[str], size: int | None = None
) -> Iterator[tuple[int, list[str]]]:
    """Texts in groups that the model takes at once, each with the place of its first.

    The model is looked up only where there is a text. Raises UnknownModel.
    """
    if not texts:
        return
    size = size or BATCH
    size = max(1, min(size, embedding.get_model(target.asked).batch_size or size))
    for start in range(0, len(texts), size):
        yield start, list(texts[start : start + size])


def embed(target: Target, texts: Sequence[str]) -> list[bytes]:
    """The vectors of texts (prefix included) as llm stores them; one call of the model.

    Raises UnknownModel, VectorsUnavailable (the model failed), and IndexedElsewhere where it
    gives another dimension than what is stored.
    """
    found = embedding.run_model(target.asked, texts)
    dimension = len(found[0]) if found else 0
    if found and target.dimension and dimension != target.dimension:
        target.refuse(
            f"{target.dimension} dimensions ({target.stored_as!r})",
            f"{dimension} dimensions ({target.asked!r})",
        )
    return [llm_store.encode(vector) for vector in found]


def ensure_collection(conn: sqlite3.Connection, target: Target) -> int:
    """The collection's id, made where it is not there; inside the writing transaction.

    Raises IndexedElsewhere where another program filled it with another model meanwhile.
    """
    found = llm_store.collection(conn, target.name)
    if found is None:
        cursor = conn.execute(
            "insert into collections(name, model) values (?, ?)", [target.name, target.stored_as]
        )
        return int(cursor.lastrowid or 0)
    if found[1] != target.stored_as:
        info = embedding.collection_info(conn, target.name)
        if info and info.count:
            target.refuse(f"{found[1]!r} (by another program, just now)", f"{target.asked!r}")
        conn.execute("update collections set model = ? where id = ?", [target.stored_as, found[0]])
    return found[0]


def store(
    conn: sqlite3.Connection, target: Target, rows: Sequence[tuple[int, str, bytes]]
) -> list[tuple[int, bytes]]:
    """Store vectors of (item, the text that was embedded, blob), inside a transaction.

    Returns (item, blob) of those stored: an item that changed or went meanwhile is left out.
    """
    collection_id = ensure_collection(conn, target)
    now = llm_store.texts(conn, target.name, [item for item, _, _ in rows])
    fresh = [row for row in rows if row[0] in now and target.prefix + now[row[0]] == row[1]]
    llm_store.write(conn, collection_id, fresh)
    return [(item, blob) for item, _, blob in fresh]


def index(
    conn: sqlite3.Connection, name: str, rows: Sequence[tuple[int, bytes]], *, usable: bool = True
) -> None:
    """Put vectors into vec0 and clear their marks; inside the transaction that read them.

    ``usable`` False, where sqlite-vec is not to be had, clears the marks alone.
    """
    if usable and rows:
        vectors.upsert(conn, name, rows)
    conn.executemany(
        "delete from limbic_stale where collection = ? and item_id = ?",
        [(name, item) for item, _ in rows],
    )


def unusable(conn: sqlite3.Connection, target: Target) -> str | None:
    """Why vectors cannot be put into the index of a collection, which sync then makes."""
    missing = vec_missing(conn)
    if missing is not None:
        return missing
    row = conn.execute(
        "select model from limbic_indexes where collection = ?", [target.name]
    ).fetchone()
    made = table_dimension(conn, target.name)
    if made is None or row is None:
        return f"the vectors of {target.name} are not indexed yet: {SYNC}"
    if made != target.dimension or row[0] != target.stored_as:
        return f"the vectors of {target.name} were indexed with another model: {SYNC}"
    return None
