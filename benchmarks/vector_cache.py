"""Vectors of many texts by the packaged model, kept on disk: a run that was stopped goes on.

Texts are embedded CHUNK at a time, and a chunk's file is named after its texts: whatever begins
with the same texts shares the files, and a changed text can never get an old vector.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy

from datasette_limbic import embedding

from . import apart
from .stopping import whole

MODEL = embedding.DEFAULT_MODEL
DIMENSION = 512
CHUNK = 4096
_BATCH = 256
_TOGETHER = 4
"""Chunks that a process of its own embeds: each process loads the model first."""

Progress = Callable[[int, int], None]
"""Called with (texts done, texts in all)."""


def fill(
    texts: Sequence[str], folder: Path, *, progress: Progress | None = None, processes: int = 1
) -> None:
    """Embed those chunks of which the folder holds no file yet."""
    folder.mkdir(parents=True, exist_ok=True)
    chunks = [(_path(folder, chunk), chunk) for chunk in _chunks(texts)]
    missing = [(path, chunk) for path, chunk in chunks if not path.exists()]
    if not missing:
        return
    here = len(texts) - sum(len(chunk) for _, chunk in missing)

    def embedded(chunks: int) -> None:
        if progress:
            progress(here + sum(len(chunk) for _, chunk in missing[:chunks]), len(texts))

    embedded(0)
    if processes == 1 or len(missing) <= _TOGETHER:
        for number, (path, chunk) in enumerate(missing, 1):
            _embed_chunk(path, chunk)
            embedded(number)
        return
    items = [(missing[at : at + _TOGETHER],) for at in range(0, len(missing), _TOGETHER)]
    apart.each(
        _embed_chunks,
        items,
        processes=processes,
        done=lambda number, _: embedded(number * _TOGETHER),
    )


def stored(texts: Sequence[str], folder: Path) -> Iterator[Any]:
    """Unit vectors of the texts, CHUNK at a time: float32 of shape (texts of it, DIMENSION).

    ``fill`` must have run. A million take 2 GB, so that they are not given as one array.
    """
    for chunk in _chunks(texts):
        yield numpy.load(_path(folder, chunk))


def unit_rows(texts: Sequence[str]) -> Any:
    """Unit vectors of some texts, (texts, DIMENSION) float32, by the model itself."""
    rows = numpy.empty((len(texts), DIMENSION), "<f4")
    for at in range(0, len(texts), _BATCH):
        rows[at : at + _BATCH] = embedding.run_model(MODEL, texts[at : at + _BATCH])
    rows /= numpy.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def _chunks(texts: Sequence[str]) -> list[Sequence[str]]:
    return [texts[at : at + CHUNK] for at in range(0, len(texts), CHUNK)]


def _path(folder: Path, chunk: Sequence[str]) -> Path:
    name = hashlib.sha256("\0".join([MODEL, *chunk]).encode()).hexdigest()[:24]
    return folder / f"{name}.npy"


def _embed_chunks(missing: Sequence[tuple[Path, Sequence[str]]]) -> None:
    for path, chunk in missing:
        _embed_chunk(path, chunk)


def _embed_chunk(path: Path, chunk: Sequence[str]) -> None:
    rows = unit_rows(chunk)
    with whole(path) as unfinished, unfinished.open("wb") as file:
        numpy.save(file, rows)
