"""Taking over the vectors that another program made, as a collection of ``llm``.

Nobody wrote down which model made them. Where the user names it, they become the vectors of
the collection ``entities``, which search uses; otherwise they stand in a collection of their
own, which search leaves alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .. import llm_store
from ..embedding import collection_info, get_model, run_model
from ..errors import IndexedElsewhere
from .links import REMOVED, Staging
from .summary import FileSummary

COLLECTION = "mcp_memory_v2"
UNKNOWN_MODEL = "unknown"
_AT_ONCE = 500

if TYPE_CHECKING:
    from .import_job import Options


def with_model(options: Options) -> Options:
    """The options with the id and the vector length of the model that they name.

    Asked before the import begins, since loading a model may take long. Raises UnknownModel, or
    VectorsUnavailable where the model does not run here: search could not use it either.
    """
    assert options.vectors_model
    vector = run_model(options.vectors_model, ["length"])[0]
    return replace(
        options,
        vectors_model=get_model(options.vectors_model).model_id,
        vectors_length=4 * len(vector),
    )


def settle_vectors(
    staging: Staging, files: dict[int, FileSummary], model: str | None, length: int = 0
) -> None:
    """Store the staged vectors under the ids that the entities have here.

    A vector counts as that of the entity's text as it is now, so that ``sync`` indexes it as it
    is, and embeds anew what changes later. Vectors that are here already stay.

    Raises IndexedElsewhere where ``model`` or the length is another than the collection's.
    """
    rows = staging.conn.execute(
        "select import_id, line, entity, vector from temp._limbic_import_vectors order by seq"
    )
    target = _Target(staging, model, length)
    while batch := rows.fetchmany(_AT_ONCE):
        known: dict[int, tuple[FileSummary, bytes]] = {}
        for import_id, line, entity, blob in batch:
            file = files[import_id]
            counts = file.vectors
            counts.rows += 1
            entity_id = staging.resolve(import_id, entity)
            if entity_id is None:
                counts.dangling += 1
                reason = staging.unknown(entity)
                staging.rejects.add(import_id, file, line, reason, f"vector of {entity}")
            elif entity_id == REMOVED:
                counts.removed_here += 1
            elif not target.takes(blob):
                counts.dangling += 1
                reason = f"a vector of {len(blob)} bytes, where the others have {target.length}"
                staging.rejects.add(import_id, file, line, reason, f"vector of {entity}")
            elif entity_id in known:
                counts.already_there += 1
            else:
                known[entity_id] = (file, blob)
        target.write(known)


class _Target:
    """The collection that takes the vectors; made when the first one comes."""

    def __init__(self, staging: Staging, model: str | None, length: int) -> None:
        self.conn, self.model = staging.conn, model
        self.name = "entities" if model else COLLECTION
        self.length = length
        info = collection_info(self.conn, self.name)
        if info is not None and info.count:
            self.length = info.dimension * 4
            if model and info.model_id != model:
                raise IndexedElsewhere(
                    f"this memory was embedded with {info.model_id!r}, and vectors of {model!r} "
                    "cannot be compared with those: leave --vectors-model out to keep them apart, "
                    "or leave them to 'datasette limbic sync', which embeds every text itself"
                )
        self.checked = bool(self.length)

    def takes(self, blob: bytes) -> bool:
        """Whether a vector has the length of the others; the first one decides."""
        if not self.length:
            self.length = len(blob)
        elif self.checked and self.model and len(blob) != self.length:
            raise IndexedElsewhere(
                f"the vectors of the file have {len(blob) // 4} dimensions, those of "
                f"{self.model!r} have {self.length // 4}: another model made them; name that one, "
                "or leave --vectors-model out to keep them apart"
            )
        return len(blob) == self.length and len(blob) % 4 == 0

    def write(self, known: dict[int, tuple[FileSummary, bytes]]) -> None:
        if not known:
            return
        collection_id = self._ensure()
        there = llm_store.stored(self.conn, collection_id, list(known))
        texts = llm_store.texts(self.conn, "entities", list(known))
        rows: list[tuple[int, str, bytes]] = []
        for entity_id, (file, blob) in known.items():
            if entity_id in there:
                file.vectors.already_there += 1
            else:
                file.vectors.added += 1
                rows.append((entity_id, texts[entity_id], blob))
        llm_store.write(self.conn, collection_id, rows)
        # as the trigger would: a vector that is new must reach the index
        self.conn.executemany(
            "insert or ignore into limbic_stale(collection, item_id) values (?, ?)",
            [(self.name, item) for item, _, _ in rows if self.name != COLLECTION],
        )

    def _ensure(self) -> int:
        found = llm_store.collection(self.conn, self.name)
        model: Any = self.model or UNKNOWN_MODEL
        if found is not None:
            if self.model and found[1] != self.model:  # an empty collection of another model
                self.conn.execute(
                    "update collections set model = ? where id = ?", [model, found[0]]
                )
            return found[0]
        cursor = self.conn.execute(
            "insert into collections(name, model) values (?, ?)", [self.name, model]
        )
        return int(cursor.lastrowid or 0)
