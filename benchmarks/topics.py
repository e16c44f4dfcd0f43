"""Topics: the observations of two real entities put together, and told apart again.

Reads memory files of agents (`*.json`, `*.jsonl`, as the reference memory server writes them) from
a folder, at run time; nothing of them is kept. Each pair of entities with at least `LEAST`
different observations is mixed, embedded with the packaged model and analysed as one entity.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from datasette_limbic.topic_words import weigh_pieces, weigh_words
from datasette_limbic.topics import analyse_topics, propose

FOLDER = Path(__file__).parents[2] / "shared" / "data" / "memory_files"
LEAST = 8
SHARE = 0.75
MOST = 600
"""Held-out pairs of two files that are looked at, and half as many of each other kind."""
_SPLIT_SEED = 2024


class Entity(NamedTuple):
    file: str
    texts: list[str]
    vectors: Any


def entities(folder: Path) -> list[Entity]:
    """Entities of at least LEAST different observations, embedded."""
    from datasette_limbic.llm_model import encode

    found = []
    for path in sorted(folder.glob("*.json*")):
        text = path.read_text(encoding="utf-8")
        try:
            rows = json.loads(text)
            rows = rows if isinstance(rows, list) else rows.get("entities", [rows])
        except ValueError:  # one object a line
            rows = [json.loads(line) for line in text.splitlines() if line.strip()]
        by_name: dict[str, dict[str, None]] = {}
        for row in rows:
            if isinstance(row.get("observations"), list):
                by_name.setdefault(row["name"], {}).update(dict.fromkeys(row["observations"]))
        for texts in by_name.values():
            if len(texts) >= LEAST:
                found.append(Entity(path.name, list(texts), np.array(encode(list(texts)))))
    return found


def kmeans(rows: Any) -> tuple[Any, Any]:
    """Two groups, and each row's margin between the centres."""
    from sklearn.cluster import KMeans

    model = KMeans(2, n_init=10, random_state=0).fit(rows)
    far = model.transform(rows)
    return model.labels_, np.abs(far[:, 0] - far[:, 1])


def nmf(rows: Any) -> tuple[Any, Any]:
    import warnings

    from sklearn.decomposition import NMF

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it has not converged after 300 rounds
        parts = NMF(2, init="nndsvda", max_iter=300).fit_transform(rows)
    return parts.argmax(axis=1), np.abs(parts[:, 0] - parts[:, 1])


def _by_similarity(similarity: Any, labels: Any) -> tuple[Any, Any]:
    means = np.stack([similarity[:, labels == k].mean(axis=1) for k in (0, 1)], axis=1)
    return labels, np.abs(means[:, 0] - means[:, 1])


def average_linkage(similarity: Any) -> tuple[Any, Any]:
    from sklearn.cluster import AgglomerativeClustering

    model = AgglomerativeClustering(2, metric="precomputed", linkage="average")
    return _by_similarity(similarity, model.fit_predict(np.clip(1 - similarity, 0, None)))


def spectral(similarity: Any) -> tuple[Any, Any]:
    from sklearn.cluster import SpectralClustering

    model = SpectralClustering(2, affinity="precomputed", assign_labels="cluster_qr")
    return _by_similarity(similarity, model.fit_predict(np.clip(similarity, 1e-6, None)))


def walk(views: list[Any]) -> tuple[Any, Any]:
    """The product's own way, made to give two groups."""
    from datasette_limbic.topic_clustering import group

    found = group(views, min_size=3, max_groups=2, bar=-1.0)
    return found.labels, found.silhouettes


def ways(texts: list[str], vectors: Any) -> dict[str, Callable[[], tuple[Any, Any]]]:
    """What is compared, by name: each gives labels and how sure it is of each text."""
    words, pieces = weigh_words(texts)[0], weigh_pieces(texts)
    both = 0.5 * vectors @ vectors.T + 0.5 * (pieces @ pieces.T).toarray()
    return {
        "k-means, TF-IDF of words": lambda: kmeans(words.toarray()),
        "NMF, TF-IDF of words": lambda: nmf(words),
        "k-means, TF-IDF of pieces": lambda: kmeans(pieces.toarray()),
        "k-means, embeddings": lambda: kmeans(vectors),
        "k-means, embeddings beside pieces": lambda: kmeans(np.hstack([vectors, pieces.toarray()])),
        "average linkage, embeddings + pieces": lambda: average_linkage(both),
        "spectral, embeddings + pieces": lambda: spectral(both),
        "walks and Ward, words and pieces": lambda: walk([words, pieces]),
        "walks and Ward, words, pieces, embeddings": lambda: walk([words, pieces, vectors]),
    }


def _mixed(one: Entity, other: Entity) -> tuple[list[str], Any, Any]:
    origin = np.repeat([0, 1], [len(one.texts), len(other.texts)])
    return one.texts + other.texts, np.vstack([one.vectors, other.vectors]), origin


def _rand(origin: Any, labels: Any) -> float:
    from sklearn.metrics import adjusted_rand_score

    return float(adjusted_rand_score(origin, labels))


def compare(pairs: list[tuple[Entity, Entity]]) -> list[dict]:
    """The mean adjusted Rand index of each way told to make two groups, on all texts and on the
    SHARE of them it is surest of."""
    scores: dict[str, list[tuple[float, float]]] = {}
    for pair in pairs:
        texts, vectors, origin = _mixed(*pair)
        for name, way in ways(texts, vectors).items():
            labels, sure = way()
            kept = np.argsort(-sure, kind="stable")[: int(SHARE * len(texts))]
            scores.setdefault(name, []).append(
                (_rand(origin, labels), _rand(origin[kept], labels[kept]))
            )
    return [
        {
            "two groups by": name,
            "ARI, all": np.mean([a for a, _ in found]),
            f"ARI, surest {SHARE:.0%}": np.mean([b for _, b in found]),
        }
        for name, found in scores.items()
    ]


def proposals(what: str, pairs: list[tuple[Entity, Entity]], *, with_vectors: bool = True) -> dict:
    """What `propose` would move, judged by the entity each observation came from."""
    moved, strict, pure, base, topics = [], [], [], [], []
    for pair in pairs:
        texts, vectors, origin = _mixed(*pair)
        moves = propose(analyse_topics(texts, vectors if with_vectors else None)).moves
        if not moves:
            continue
        labels = np.full(len(texts), -1)
        for number, move in enumerate(moves):
            labels[move.texts] = number
        at = np.flatnonzero(labels >= 0)
        moved.append(len(at) / len(texts))
        strict.append(_rand(origin[at], labels[at]))
        pure.append(sum(np.bincount(origin[m.texts]).max() for m in moves) / len(at))
        topics.append(len(moves))
        found, sure = kmeans(vectors)
        kept = np.argsort(-sure, kind="stable")[: len(at)]
        base.append(_rand(origin[kept], found[kept]))
    if not moved:
        return {"mixed": what, "pairs": len(pairs), "proposals": 0.0}
    return {
        "mixed": what,
        "pairs": len(pairs),
        "proposals": len(moved) / len(pairs),
        "topics": np.mean(topics),
        "moved": np.mean(moved),
        "ARI": np.mean(strict),
        "least": np.min(strict),
        "10 %": np.quantile(strict, 0.1),
        "median": np.median(strict),
        "purity": np.mean(pure),
        "k-means": np.mean(base),
        "not below k-means": np.mean(np.array(strict) >= np.array(base) - 1e-9),
    }


def alone(found: list[Entity]) -> list[dict]:
    """How often single entities, and texts of random words, are called diverse; and the time."""
    import random

    from datasette_limbic.llm_model import encode

    words = sorted({word for e in found for text in e.texts for word in text.split()})
    chance = []
    for seed in range(100):
        rng = random.Random(seed)
        some = rng.sample(words, 150)
        texts = [" ".join(rng.choices(some, k=10)) for _ in range(rng.choice((15, 25, 40)))]
        chance.append(Entity("", texts, np.array(encode(texts))))
    rows = []
    for what, group in (
        ("single entities, under 15 observations", [e for e in found if len(e.texts) < 15]),
        ("single entities, 15 and more", [e for e in found if len(e.texts) >= 15]),
        ("random words", chance),
    ):
        for with_vectors in (True, False):
            called, times = 0, []
            for entity in group:
                start = time.perf_counter()
                topics = analyse_topics(entity.texts, entity.vectors if with_vectors else None)
                times.append(1000 * (time.perf_counter() - start))
                called += topics.diversity > 0
            rows.append(
                {
                    "what": what,
                    "embeddings": "yes" if with_vectors else "no",
                    "lists": len(group),
                    "called diverse": called / max(1, len(group)),
                    "median ms": np.median(times),
                    "longest ms": np.max(times),
                }
            )
    return rows


def pairs_of(found: list[Entity], *, same_file: bool) -> list[tuple[Entity, Entity]]:
    """Pairs of entities of one file, or of different files."""
    return [p for p in combinations(found, 2) if (p[0].file == p[1].file) is same_file]


def halves(pairs: list[tuple[Entity, Entity]]) -> tuple[list, list]:
    """The pairs on which `topic_clustering.ENOUGH` was chosen, and those held out from it.

    Two random halves of all pairs; an entity is in pairs of both.
    """
    import random

    order = list(range(len(pairs)))
    random.Random(_SPLIT_SEED).shuffle(order)
    half = len(pairs) // 2
    return [pairs[i] for i in sorted(order[:half])], [pairs[i] for i in sorted(order[half:])]


def spread(pairs: list, most: int) -> list:
    """At most `most` of the pairs, evenly spread."""
    if len(pairs) <= most:
        return pairs
    return [pairs[i] for i in np.linspace(0, len(pairs) - 1, most).astype(int)]


def run(folder: Path = FOLDER, *, quick: bool = False) -> dict[str, list[dict]]:
    """The tables, by title. FileNotFoundError where the folder holds no memory files."""
    if not any(folder.glob("*.json*")):
        raise FileNotFoundError(f"{folder} holds no memory files (*.json, *.jsonl)")
    found = entities(folder)
    most = 30 if quick else MOST
    seen, held_out = halves(pairs_of(found, same_file=False))
    return {
        "Topics: ways to make two groups": compare(spread(held_out, 20 if quick else 150)),
        "Topics: what would move": [
            proposals("two files, held out", spread(held_out, most)),
            proposals("two files, the other half", spread(seen, most // 2)),
            proposals(
                "two files, held out, no embeddings",
                spread(held_out, most // 2),
                with_vectors=False,
            ),
            proposals("one file", spread(pairs_of(found, same_file=True), most // 2)),
        ],
        "Topics: false alarms and time": alone(found),
    }
