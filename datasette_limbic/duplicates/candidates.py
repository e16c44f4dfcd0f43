"""Which pairs of texts are worth judging, found without a Python loop over pairs.

Rows are texts, grouped by entity: entity k has the rows ``starts[k]`` to ``starts[k + 1]``. Both
finders answer (later row, earlier row) of pairs within one entity, each once, and keep of each
row's hits the ``NEAREST`` strongest, so that what comes out is bounded by the number of rows.
Given ``some`` rows, ascending, they answer the pairs of those alone, of each the ``NEAREST``
strongest with earlier rows and as many with later ones, without comparing the rest.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .model import LENGTH_RATIO, MIN_WORDS

NEAREST = 20
"""Each text is judged against at most so many texts before it, by cosine and by words each."""

# Numbers of one block of products: 4 MB of float32, which a second-level cache nearly holds.
_BLOCK = 1 << 20
# Entries of one sparse product.
_SPARSE_BLOCK = 4 << 20


def by_cosine(vectors: Any, starts: Any, lowest: float, some: Any = None) -> tuple[Any, Any, Any]:
    """Pairs with a cosine of at least ``lowest``: rows (n,), columns (n,), cosines (n,) float32.

    ``vectors`` are unit vectors (rows, d), float32; rows of NaN are like nothing. All products of
    small entities go side by side into one block, which is compared at once; of large entities
    some rows at a time, so that 5,000 observations need no matrix of 5,000 × 5,000.
    """
    import numpy as np

    if some is not None:
        return _some_by_cosine(vectors, starts, lowest, some)
    parts: list[tuple[Any, Any, Any]] = []
    block = np.empty(_BLOCK, dtype=vectors.dtype)
    bounds = starts.tolist()
    at: list[int] = []  # where in the block each entity's square begins
    firsts: list[int] = []
    sizes: list[int] = []
    used = 0

    def flush() -> None:
        nonlocal used
        hits = np.flatnonzero(block[:used] >= lowest)
        which = np.searchsorted(at, hits, side="right") - 1
        rows, columns = np.divmod(hits - np.asarray(at)[which], np.asarray(sizes)[which])
        below = columns < rows
        first = np.asarray(firsts)[which[below]]
        parts.append(_strongest(rows[below] + first, columns[below] + first, block[hits[below]]))
        at.clear()
        firsts.clear()
        sizes.clear()
        used = 0

    # NaN rows and macOS's BLAS both raise flags that say nothing here
    with np.errstate(all="ignore"):
        for a, b in itertools.pairwise(bounds):
            size = b - a
            if size < 2:
                continue
            square = size * size
            if square > _BLOCK:
                if used:
                    flush()
                parts.extend(_large(vectors, a, b, lowest, block))
                continue
            if used + square > _BLOCK:
                flush()
            mine = vectors[a:b]
            np.matmul(mine, mine.T, out=block[used : used + square].reshape(size, size))
            at.append(used)
            firsts.append(a)
            sizes.append(size)
            used += square
        if used:
            flush()
    return _joined(parts, vectors.dtype)


def _large(
    vectors: Any, a: int, b: int, lowest: float, block: Any
) -> Iterator[tuple[Any, Any, Any]]:
    import numpy as np

    height = max(1, _BLOCK // (b - a))
    for top in range(a, b, height):
        end = min(top + height, b)
        shape = (end - top, end - a)
        found = block[: shape[0] * shape[1]].reshape(shape)
        np.matmul(vectors[top:end], vectors[a:end].T, out=found)
        square = found[:, top - a :]
        square[np.triu_indices(end - top)] = -np.inf
        rows, columns = _hits(found, lowest)
        yield _strongest(rows + top, columns + a, found[rows, columns])


def _hits(found: Any, lowest: float) -> tuple[Any, Any]:
    """Where a block is at least ``lowest`` and among the ``NEAREST`` of its row, with all that
    are equal to the last of them; by row. Changes the block."""
    import numpy as np

    if found.shape[1] <= NEAREST:
        return np.nonzero(found >= lowest)  # type: ignore[return-value]
    found[~(found >= lowest)] = -np.inf  # NaN too, which would come last
    last = np.partition(found, -NEAREST, axis=1)[:, -NEAREST, None]
    return np.nonzero((found >= last) & (found >= lowest))  # type: ignore[return-value]


def _some_by_cosine(vectors: Any, starts: Any, lowest: float, some: Any) -> tuple[Any, Any, Any]:
    import numpy as np

    parts: list[tuple[Any, Any, Any]] = []
    with np.errstate(all="ignore"):
        for a, b, mine in _some_blocks(starts, some, _BLOCK):
            found = vectors[mine] @ vectors[a:b].T
            at = np.arange(a, b)
            for later in (False, True):
                part = np.where((at > mine[:, None]) if later else (at < mine[:, None]), found, -2)
                rows, columns = _hits(part, lowest)
                one, other = mine[rows], columns + a
                strength = part[rows, columns]
                one, other, strength = _strongest(one, other, strength)
                parts.append((np.maximum(one, other), np.minimum(one, other), strength))
    return _unique(_joined(parts, vectors.dtype))


def _some_blocks(starts: Any, some: Any, most: int) -> Iterator[tuple[int, int, Any]]:
    """Rows of ``some`` that belong to the entity with the rows a to b, so many at a time that
    their products with it are at most ``most``."""
    import numpy as np

    entity = np.searchsorted(starts, some, side="right") - 1
    for which in np.unique(entity).tolist():
        a, b = int(starts[which]), int(starts[which + 1])
        mine = some[entity == which]
        height = max(1, most // (b - a))
        for top in range(0, len(mine), height):
            yield a, b, mine[top : top + height]


def _unique(found: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
    """Each pair once, in order."""
    import numpy as np

    rows, columns, strength = found
    _, first = np.unique(np.stack([rows, columns], axis=1), axis=0, return_index=True)
    return rows[first], columns[first], strength[first]


def by_words(
    texts: Sequence[frozenset[str]],
    lengths: Any,
    counts: Any,
    starts: Any,
    containment: float,
    overlap: float,
    progress: Callable[[int], None] | None = None,
    some: Any = None,
) -> tuple[Any, Any]:
    """Pairs alike by their words: rows (n,), columns (n,).

    ``texts`` are the sets of words, ``lengths`` the characters and ``counts`` the word tokens of
    each. Alike are texts of which the longer holds the shorter (see ``rules``), and those that
    share ``overlap`` of the words of the one that has more. A sparse matrix has a column for each
    word of each entity; its products with itself count the words that two texts share.
    """
    import numpy as np

    matrix, distinct = _matrix(texts, starts)

    def alike(rows: Any, columns: Any, common: Any) -> tuple[Any, Any, Any]:
        part = common / np.minimum(distinct[rows], distinct[columns])
        row_length, column_length = lengths[rows], lengths[columns]
        row_shorter = row_length <= column_length
        held = (
            (part >= containment)
            & (
                np.maximum(row_length, column_length)
                >= LENGTH_RATIO * np.minimum(row_length, column_length)
            )
            & (np.where(row_shorter, counts[rows], counts[columns]) >= MIN_WORDS)
        )
        overlaps = common / np.maximum(distinct[rows], distinct[columns])
        keep = held | (overlaps >= overlap)
        return _strongest(rows[keep], columns[keep], overlaps[keep])

    parts = []
    if some is not None:
        for a, b, mine in _some_blocks(starts, some, _SPARSE_BLOCK):
            shared = (matrix[mine] @ matrix[a:b].T).tocoo()
            rows, columns, common = mine[shared.row], shared.col + a, shared.data
            for side in (columns < rows, columns > rows):
                one, other, strength = alike(rows[side], columns[side], common[side])
                parts.append((np.maximum(one, other), np.minimum(one, other), strength))
        rows, columns, _ = _unique(_joined(parts, np.float64))
        return rows, columns
    for a, b, top, end in _sparse_blocks(starts.tolist()):
        shared = (matrix[top:end] @ matrix[a:b].T).tocoo()
        rows, columns, common = shared.row + top, shared.col + a, shared.data
        below = columns < rows
        parts.append(alike(rows[below], columns[below], common[below]))
        if progress is not None:
            progress(end)
    rows, columns, _ = _joined(parts, np.float64)
    return rows, columns


def _matrix(texts: Sequence[frozenset[str]], starts: Any) -> tuple[Any, Any]:
    import numpy as np
    from scipy import sparse

    numbers: dict[str, int] = {}
    flat: list[int] = []
    for words in texts:
        flat.extend([numbers.setdefault(word, len(numbers)) for word in words])
    distinct = np.fromiter((len(words) for words in texts), dtype=np.int64, count=len(texts))
    indptr = np.concatenate(([0], np.cumsum(distinct)))
    entity = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    keys = np.repeat(entity, distinct) * max(1, len(numbers)) + np.array(flat, dtype=np.int64)
    _, columns = np.unique(keys, return_inverse=True)
    width = int(columns.max()) + 1 if len(columns) else 1
    ones = np.ones(len(columns), dtype=np.int32)
    return sparse.csr_matrix((ones, columns, indptr), shape=(len(texts), width)), distinct


def _sparse_blocks(bounds: list[int]) -> Iterator[tuple[int, int, int, int]]:
    """Rows ``top`` to ``end`` against rows ``a`` to ``b``: many small entities at once, since
    they share no column, or some rows of a large one."""
    first, entries = bounds[0], 0
    for a, b in itertools.pairwise(bounds):
        square = (b - a) ** 2
        if entries and entries + square > _SPARSE_BLOCK:
            yield first, a, first, a
            first, entries = a, 0
        if square > _SPARSE_BLOCK:
            height = max(1, _SPARSE_BLOCK // (b - a))
            for top in range(a, b, height):
                end = min(top + height, b)
                yield a, end, top, end
            first, entries = b, 0
        else:
            entries += square
    if entries:
        yield first, bounds[-1], first, bounds[-1]


def _strongest(rows: Any, columns: Any, strength: Any) -> tuple[Any, Any, Any]:
    """Of each row the ``NEAREST`` strongest, the earliest of equally strong ones."""
    import numpy as np

    if not len(rows) or np.unique(rows, return_counts=True)[1].max() <= NEAREST:
        return rows, columns, strength
    order = np.lexsort((columns, -strength, rows))
    rows, columns, strength = rows[order], columns[order], strength[order]
    begins = np.flatnonzero(np.concatenate(([True], rows[1:] != rows[:-1])))
    rank = np.arange(len(rows)) - np.repeat(begins, np.diff([*begins, len(rows)]))
    keep = rank < NEAREST
    return rows[keep], columns[keep], strength[keep]


def _joined(parts: list[tuple[Any, Any, Any]], dtype: Any) -> tuple[Any, Any, Any]:
    import numpy as np

    if not parts:
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0, dtype=dtype)
    rows, columns, strength = (np.concatenate(each) for each in zip(*parts, strict=True))
    return rows, columns, strength
