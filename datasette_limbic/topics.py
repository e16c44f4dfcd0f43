"""Topics of an entity's observations: do they fall into groups that stand apart, and which of them
could move with each?

TF-IDF over words and pieces of words, with the embedding vectors where there are any, grouped by
`topic_clustering`. Source: "Mantenimiento & Operaciones", "Extracción de tópicos con TF-IDF". The
same texts give the same groups, in whatever order they come.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from datasette_limbic.topic_form import is_form
from datasette_limbic.topic_words import (
    deal_words,
    surface_forms,
    top_terms,
    weigh_pieces,
    weigh_words,
)

MIN_TOPIC_SIZE = 3
MIN_SILHOUETTE = 0.1
MIN_FIRMNESS = 0.2
MAX_TOPICS = 8


@dataclass(frozen=True)
class Topics:
    """The topics found in a list of texts.

    `labels` holds one topic number per text, from 0 (the largest topic), or -1 for a text with
    nothing to go by (no letters, no vector) or of mere form (a heading, a short field).
    `firmness` says of each text how clearly it is in its topic and in no other: its silhouette,
    -1 to 1, 0 where it is no clearer than by chance (and for a text without topic). `terms` holds
    the top terms of each topic, strongest first, written as they mostly are; `silhouettes` how
    firm each topic is, the mean of its texts.

    `apart` holds the numbers of the topics that stand apart, `silhouette` the mean of their texts,
    `diversity` is 1 + silhouette. With fewer than two such topics, or with groups no better than
    chance makes, `apart` is empty and the other two are 0.

    `vectors_used` says whether vectors had a part in it: enough texts had one.
    """

    labels: list[int]
    firmness: list[float]
    terms: list[list[str]]
    silhouettes: list[float]
    apart: list[int]
    silhouette: float
    diversity: float
    vectors_used: bool = False

    @property
    def count(self) -> int:
        """How many topics there are."""
        return len(self.terms)


@dataclass(frozen=True)
class Move:
    """Texts that move together. `topic` is the number in `Topics`, `texts` the positions in the
    list that was analysed, ascending; `firmness` their mean, 0 to 1."""

    topic: int
    terms: list[str]
    texts: list[int]
    firmness: float


@dataclass(frozen=True)
class Proposal:
    """Which texts move, largest group first, and which `stay` in the parent, as positions."""

    moves: list[Move]
    stay: list[int]


def analyse_topics(
    texts: Sequence[str],
    vectors: Any = None,
    *,
    min_silhouette: float = MIN_SILHOUETTE,
    min_size: int = MIN_TOPIC_SIZE,
    max_topics: int = MAX_TOPICS,
) -> Topics:
    """Group `texts` into topics; see `Topics`.

    `vectors` is a float array (number of texts, dimensions), a row for each text, all NaN where it
    has none; they are used where at least half of the texts have one. Any other shape raises
    ValueError.

    A topic stands apart when it has at least `min_size` texts and a mean silhouette of at least
    `min_silhouette`. With fewer than `2 * min_size` different texts, or nothing to tell them apart
    by, there is one topic and `diversity` is 0. Of a text the first 8,000 characters count, and
    the same text twice counts as one. Headings and short fields (`topic_form`) are in no topic
    where they are fewer than half of the texts: they belong to the whole.
    """
    if not texts:
        return Topics([], [], [], [], [], 0.0, 0.0, False)
    # scikit-learn takes a second to import and only reports and split proposals need it: Datasette
    # must start without it.
    import numpy as np

    from datasette_limbic.topic_clustering import group

    # One row for each different text, sorted: order and repetition decide nothing.
    unique = sorted(set(texts))
    row_of = {text: row for row, text in enumerate(unique)}
    rows = np.array([row_of[text] for text in texts])
    words, names = weigh_words(unique)
    views = [words, weigh_pieces(unique)]
    if vectors is not None:
        views.append(_vector_rows(vectors, rows, len(unique)))
    seen = [np.asarray(abs(view).sum(axis=1)).ravel() > 0 for view in views]
    vectors_used = vectors is not None and bool(2 * seen[-1].sum() >= len(unique))
    if vectors is not None and not vectors_used:
        del views[-1], seen[-1]
    form = np.array([is_form(text) for text in unique])
    usable = np.flatnonzero(np.logical_or.reduce(seen) & ~(form & (2 * form.sum() < len(unique))))
    if not len(usable):
        nothing = [0.0] * len(texts)
        return Topics([-1] * len(texts), nothing, [], [], [], 0.0, 0.0, vectors_used)
    used = [view[usable] for view, some in zip(views, seen, strict=True) if some.any()]

    def exchanged(some: Any, seed: int) -> list[Any]:
        dealt = deal_words([unique[i] for i in usable[some]], seed)
        again = [weigh_words(dealt)[0], weigh_pieces(dealt)]
        return [view for view, there in zip(again, seen, strict=False) if there.any()]

    found = group(
        used, min_size=min_size, max_groups=max_topics, bar=min_silhouette, exchanged=exchanged
    )

    of_unique = np.full(len(unique), -1)
    of_unique[usable] = found.labels
    firm = np.zeros(len(unique))
    firm[usable] = found.silhouettes
    labels, firmness = _renumber(of_unique, rows), firm[rows]
    count = int(labels.max()) + 1
    surfaces = surface_forms(texts)
    terms = [top_terms(words[rows[labels == topic]], names, surfaces) for topic in range(count)]
    silhouettes = [float(firmness[labels == topic].mean()) for topic in range(count)]
    apart = [
        topic
        for topic, firm in enumerate(silhouettes)
        if firm >= min_silhouette and (labels == topic).sum() >= min_size
    ]
    if len(apart) < 2 or not found.beats_chance:
        apart = []
    silhouette = float(firmness[np.isin(labels, apart)].mean()) if apart else 0.0
    return Topics(
        labels.tolist(),
        firmness.tolist(),
        terms,
        silhouettes,
        apart,
        silhouette,
        1.0 + silhouette if apart else 0.0,
        vectors_used,
    )


def propose(
    topics: Topics, *, min_firmness: float = MIN_FIRMNESS, min_size: int = MIN_TOPIC_SIZE
) -> Proposal:
    """What could move out of an entity: of each topic that stands apart the texts at least
    `min_firmness` (-1 to 1) firm in it.

    The rest stays: what is general, what touches several topics, what is in none. A topic that is
    left with fewer than `min_size` texts stays whole, and where only one topic is left nothing
    moves, since there is nothing to separate it from.
    """
    moves = []
    for topic in topics.apart:
        moving = [
            i
            for i, (label, firm) in enumerate(zip(topics.labels, topics.firmness, strict=True))
            if label == topic and firm >= min_firmness
        ]
        if len(moving) >= min_size:
            firm = sum(topics.firmness[i] for i in moving) / len(moving)
            moves.append(Move(topic, topics.terms[topic], moving, firm))
    if len(moves) < 2:
        moves = []
    moves.sort(key=lambda move: -len(move.texts))
    gone = {i for move in moves for i in move.texts}
    return Proposal(moves, [i for i in range(len(topics.labels)) if i not in gone])


def _vector_rows(vectors: Any, rows: Any, unique: int) -> Any:
    """The vector of each different text, of length 1, or 0 where it has none."""
    import numpy as np

    array = np.asarray(vectors, dtype=np.float64)
    if array.ndim != 2 or len(array) != len(rows):
        raise ValueError(
            f"vectors has the shape {array.shape}: give one row for each of the {len(rows)} texts,"
            " all NaN where a text has no vector"
        )
    # Infinities are as useless as NaN; of the same text twice, the first with a vector counts.
    good = np.isfinite(array).all(axis=1) & (np.where(np.isfinite(array), array, 0) != 0).any(1)
    found = np.zeros((unique, array.shape[1]))
    for i in np.flatnonzero(good)[::-1]:
        found[rows[i]] = array[i] / np.linalg.norm(array[i])
    return found


def _renumber(of_unique: Any, rows: Any) -> Any:
    """Topics of all texts, numbered by size; of equal ones the one whose first text comes first."""
    import numpy as np

    labels = of_unique[rows]
    groups = [topic for topic in np.unique(labels) if topic >= 0]
    order = sorted(groups, key=lambda t: (-(labels == t).sum(), int(np.argmax(labels == t))))
    renumbered = np.full(len(labels), -1)
    for number, topic in enumerate(order):
        renumbered[labels == topic] = number
    return renumbered
