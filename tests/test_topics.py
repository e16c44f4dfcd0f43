from __future__ import annotations

import random
import subprocess
import sys
import time

import numpy as np
import pytest
import split_helpers
from scipy.sparse.csgraph import connected_components

from datasette_limbic import topic_clustering
from datasette_limbic.topic_words import surface_forms, topic_pieces, topic_words, weigh_pieces
from datasette_limbic.topics import Proposal, Topics, analyse_topics, propose

DATABASE = [
    "PostgreSQL database migration finished",
    "database backup runs nightly on PostgreSQL",
    "slow PostgreSQL queries need an index",
    "database replica lag in PostgreSQL",
    "PostgreSQL upgrade planned for March",
    "vacuum the PostgreSQL database weekly",
]
CAFE = [
    "Ana prefiere el café por la mañana",
    "café con Ana el viernes",
    "a Ana no le gusta el café descafeinado",
    "Ana compró un molinillo de café",
    "granos de café de Etiopía",
    "el café tostado en casa sabe mejor",
]
BICYCLE = [
    "bicycle chain needs grease",
    "the bicycle tyre is flat",
    "bought a bicycle helmet",
    "bicycle ride along the river",
    "bicycle brakes squeak",
    "repair the bicycle saddle",
]


def random_texts(texts: int, vocabulary: int, seed: int = 1) -> list[str]:
    rng = random.Random(seed)
    words = [f"word{chr(97 + i % 26)}{i}" for i in range(vocabulary)]
    return [" ".join(rng.choices(words, k=12)) for _ in range(texts)]


def test_topics_that_stand_apart():
    found = analyse_topics([*DATABASE, *CAFE, *BICYCLE])
    assert found.count == 3
    assert found.apart == [0, 1, 2]
    assert found.diversity == 1 + found.silhouette
    assert 0.1 <= found.silhouette <= 1
    tops = {terms[0] for terms in found.terms}
    assert {"PostgreSQL", "café", "bicycle"} == tops  # as people write them
    # Each group is together, whatever its number.
    for start in (0, 6, 12):
        labels = found.labels[start : start + 6]
        assert max(labels.count(label) for label in set(labels)) >= 5


def test_interleaving_changes_nothing_but_the_order():
    mixed = [text for pair in zip(DATABASE, BICYCLE, strict=True) for text in pair]
    found = analyse_topics(mixed)
    assert found.diversity > 1
    assert found.labels == [0, 1] * 6


def test_the_silhouette_limit_is_an_argument():
    texts = [*DATABASE, *BICYCLE]
    assert analyse_topics(texts, min_silhouette=0.1).diversity > 1
    assert analyse_topics(texts, min_silhouette=0.99).diversity == 0


def test_topics_of_fewer_than_the_size_do_not_count():
    assert analyse_topics([*DATABASE, *BICYCLE], min_size=6).diversity > 1
    assert analyse_topics([*DATABASE, *BICYCLE], min_size=7).diversity == 0
    pair = analyse_topics([*DATABASE, "bicycle chain grease", "bicycle chain oil"])
    assert pair.diversity == 0


@pytest.mark.parametrize(
    ("texts", "labels"),
    [
        ([], []),
        (["hello world"], [0]),
        (["hello world", "other thing"], [0, 0]),
        ([""], [-1]),
        (["12", "", "?! 2026 10000"], [-1, -1, -1]),
        (["same words here today"] * 10, [0] * 10),
        (["same words", "", "same words"], [0, -1, 0]),
        (DATABASE[:5], [0] * 5),
    ],
)
def test_nothing_to_split(texts, labels):
    found = analyse_topics(texts)
    assert found.labels == labels
    assert (found.silhouette, found.diversity, found.apart) == (0.0, 0.0, [])
    assert found.count == len(set(labels) - {-1})


def test_one_topic_is_not_diverse():
    assert analyse_topics(DATABASE).diversity == 0
    assert analyse_topics([f"{text} again" for text in DATABASE]).diversity == 0


def test_texts_that_differ_in_a_number_only():
    notes = [f"Nota {i}: desplegar el servicio de facturación" for i in range(11)]
    recipes = [f"Recipe {i} with garlic and olive oil" for i in range(9)]
    found = analyse_topics([*notes, *recipes])
    assert found.labels == [0] * 11 + [1] * 9
    assert found.diversity > 1.5


def test_the_order_of_the_texts_does_not_decide():
    texts = [*DATABASE, *CAFE, *BICYCLE]
    diversity = {
        round(analyse_topics(random.Random(seed).sample(texts, 18)).diversity, 9)
        for seed in range(6)
    }
    assert len(diversity) == 1
    assert diversity.pop() > 1


def test_random_words_seldom_look_like_topics():
    diverse = [
        analyse_topics(random_texts(texts, vocabulary, seed)).diversity > 0
        for texts in (20, 30)
        for vocabulary in (60, 200)
        for seed in range(5)
    ]
    assert sum(diverse) <= 2


def test_the_same_texts_give_the_same_topics():
    texts = [*DATABASE, *CAFE, *BICYCLE]
    assert analyse_topics(texts) == analyse_topics(list(texts))


def two_clouds(sizes: list[int], apart: float, seed: int = 0) -> np.ndarray:
    """Unit vectors around one centre for each size; `apart` 0 puts all around one."""
    rng = np.random.default_rng(seed)
    centres = apart * rng.standard_normal((len(sizes), 64))
    points = np.vstack(
        [c + rng.standard_normal((n, 64)) for c, n in zip(centres, sizes, strict=True)]
    )
    return (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)


def test_vectors_tell_apart_what_words_do_not():
    texts = [chr(0x1F600 + i) for i in range(20)]  # emoji: no letters at all
    vectors = two_clouds([11, 9], 0.7)
    assert analyse_topics(texts).diversity == 0
    found = analyse_topics(texts, vectors)
    assert found.labels == [0] * 11 + [1] * 9
    assert found.apart == [0, 1]
    assert min(found.firmness) > 0
    assert analyse_topics(texts, two_clouds([20], 0.0)).diversity == 0


def test_a_few_missing_vectors_do_no_harm():
    vectors = two_clouds([6, 6, 6], 1.0)
    vectors[[2, 8, 14]] = np.nan
    found = analyse_topics([*DATABASE, *CAFE, *BICYCLE], vectors)
    assert found.labels == [0] * 6 + [1] * 6 + [2] * 6
    assert found.apart == [0, 1, 2]
    assert found.vectors_used


def test_with_most_vectors_missing_words_decide():
    texts = [*DATABASE, *CAFE, *BICYCLE]
    vectors = two_clouds([18], 0.0)
    vectors[8:] = np.nan
    assert analyse_topics(texts, vectors) == analyse_topics(texts)
    assert not analyse_topics(texts, vectors).vectors_used
    nothing = np.full((18, 64), np.nan, dtype=np.float32)
    assert analyse_topics(texts, nothing) == analyse_topics(texts)


@pytest.mark.parametrize("bad", [np.inf, 0.0])
def test_vectors_that_say_nothing_count_as_missing(bad):
    texts = [*DATABASE, *BICYCLE]
    vectors = two_clouds([6, 6], 1.0)
    missing = vectors.copy()
    vectors[3], missing[3] = bad, np.nan
    assert analyse_topics(texts, vectors) == analyse_topics(texts, missing)


@pytest.mark.parametrize("shape", [(3,), (4, 8), (2, 8), (3, 8, 1)])
def test_vectors_of_another_shape_are_refused(shape):
    with pytest.raises(ValueError, match=r"shape .*one row for each of the 3 texts"):
        analyse_topics(["one", "two", "three"], np.ones(shape))


@pytest.mark.parametrize("with_vectors", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_another_order_gives_the_same_groups(with_vectors, seed):
    texts = [*DATABASE, *CAFE, *BICYCLE, "remember the milk", DATABASE[0]]
    vectors = two_clouds([6, 6, 6, 1, 1], 1.0) if with_vectors else None
    if vectors is not None:
        vectors[-1] = vectors[0]
    order = random.Random(seed).sample(range(len(texts)), len(texts))
    found = analyse_topics(texts, vectors)
    other = analyse_topics(
        [texts[i] for i in order], vectors[order] if vectors is not None else None
    )

    def groups(labels: list[int], names: list[int]) -> set[frozenset[int]]:
        return {frozenset(names[i] for i, x in enumerate(labels) if x == n) for n in labels}

    assert groups(found.labels, list(range(len(texts)))) == groups(other.labels, order)
    assert [found.firmness[i] for i in order] == other.firmness
    assert found.diversity == pytest.approx(other.diversity)


def test_the_proposal_moves_what_is_firm_and_leaves_the_rest():
    topics = Topics(
        labels=[0, 0, 0, 0, 1, 1, 1, 2, 2, 2, -1],
        firmness=[0.5, 0.4, 0.1, 0.3, 0.6, 0.6, 0.9, 0.9, 0.9, 0.9, 0.0],
        terms=[["one"], ["two"], ["three"]],
        silhouettes=[0.3, 0.7, 0.9],
        apart=[0, 1],  # 2 does not stand apart, however firm its texts
        silhouette=0.5,
        diversity=1.5,
        vectors_used=False,
    )
    found = propose(topics)
    assert [(move.topic, move.terms, move.texts) for move in found.moves] == [
        (0, ["one"], [0, 1, 3]),
        (1, ["two"], [4, 5, 6]),
    ]
    assert [move.firmness for move in found.moves] == pytest.approx([0.4, 0.7])
    assert found.stay == [2, 7, 8, 9, 10]
    # Only one of three is left of topic 0, and alone topic 1 has nothing to be apart from.
    assert propose(topics, min_firmness=0.45) == Proposal([], list(range(11)))
    assert propose(topics, min_size=4).moves == []
    assert propose(topics, min_firmness=0.1).moves[0].texts == [0, 1, 2, 3]


def test_the_proposal_of_real_topics_leaves_what_fits_none():
    texts = [*DATABASE, *BICYCLE, "remember the milk"]
    topics = analyse_topics(texts)
    found = propose(topics)
    assert len(found.moves) == 2
    assert 12 in found.stay
    for move in found.moves:
        assert len(move.texts) >= 3
        assert len({i < 6 for i in move.texts}) == 1
        assert 0.2 <= move.firmness <= 1
    assert sorted([*found.stay, *(i for move in found.moves for i in move.texts)]) == list(
        range(13)
    )


def test_the_same_text_moves_together():
    texts = [*DATABASE, *BICYCLE, *DATABASE]
    found = analyse_topics(texts)
    assert found.labels[:6] == found.labels[12:]
    assert found.labels[0] != found.labels[6]


@pytest.mark.parametrize("with_vectors", [False, True])
@pytest.mark.parametrize(
    "texts",
    [
        [],
        ["one"],
        ["the very same"] * 40,
        ["🚲", "🚀🚀", "☕", "🎉", "😀", "🙃", "💾", "🔥"],
        ["short", "word", "tea", "cat", "dog", "index", "river", "stone"],
        ["用户身份", "数据库迁移", "数据库备份", "咖啡", "自行车链条", "自行车头盔", "数据库索引"],
        [
            "데이터베이스 백업",
            "데이터베이스 이전",
            "자전거 체인",
            "자전거 헬멧",
            "커피 원두",
            "빌드",
        ],
        ["ฐานข้อมูล", "สำรองฐานข้อมูล", "จักรยาน", "โซ่จักรยาน", "กาแฟ", "หมวกจักรยาน"],
        [f"{word} " * 12000 for word in ("alpha", "beta", "gamma", "delta", "omega", "sigma")],
        ["a\x00b", "\ud800 half", "", " ", "\u202e", "ﬁ", "ǅ"],
    ],
    ids="none one same emoji words chinese korean thai long odd".split(),
)
def test_any_text_is_taken(texts, with_vectors):
    vectors = two_clouds([len(texts)], 0.0) if with_vectors and texts else None
    found = analyse_topics(texts, vectors)
    assert len(found.labels) == len(found.firmness) == len(texts)
    assert np.isfinite([*found.firmness, *found.silhouettes, found.silhouette]).all()
    assert all(-1 <= firm <= 1 for firm in found.firmness)
    moved = [i for move in propose(found).moves for i in move.texts]
    assert sorted([*moved, *propose(found).stay]) == list(range(len(texts)))


@pytest.mark.parametrize("topics", [2, 3])
@pytest.mark.parametrize("size", [15, 16, 21, 30, 60])
def test_topics_without_a_word_in_common_are_told_at_sight(size, topics):
    found = analyse_topics(split_helpers.texts(size, topics))
    assert found.labels == [i % topics for i in range(size)]
    assert found.apart == list(range(topics))
    moved = sum(len(move.texts) for move in propose(found).moves)
    assert moved == size


@pytest.mark.parametrize(
    ("sizes", "distance"),
    [
        ([8, 8], 1.0),
        ([11, 9], 1.0),
        ([20, 10], 1.0),
        ([30, 30], 1.0),
        ([6, 6, 6], 1.0),
        ([30, 30], 0.7),  # a text or two are among the nearest of the others'
    ],
)
def test_clouds_far_from_each_other_are_told_at_sight(sizes, distance):
    texts = [chr(0x1F600 + i) for i in range(sum(sizes))]
    found = analyse_topics(texts, two_clouds(sizes, distance))
    assert found.labels == [n for n, size in enumerate(sizes) for _ in range(size)]
    assert found.apart == list(range(len(sizes)))


def test_random_texts_that_fall_apart_are_not_told_at_sight():
    """One word each: letters in common join some of them, and nothing joins the rest."""
    fallen = 0
    for seed in range(40):
        letters = random.Random(seed)
        words = {"".join(letters.choices("abcdefghijklmnopqrstuvwxyz", k=5)) for _ in range(14)}
        views = [weigh_pieces(sorted(words))]
        kernels = [(view @ view.T).toarray() for view in views]
        walked = topic_clustering._cut(kernels, 8, 1)
        sizes = np.bincount(connected_components(walked.graph > 0, directed=False)[1])
        fallen += len(sizes) > 1
        assert topic_clustering._told_at_sight(kernels, walked, 1) is None
        assert analyse_topics(sorted(words)).diversity == 0
    assert fallen > 10


def cut(labels: list[int], silhouettes: list[float]) -> topic_clustering._Cut:
    return topic_clustering._Cut(
        np.array(labels), np.array(silhouettes), float(np.mean(silhouettes))
    )


def test_the_fewest_groups_are_taken_that_give_enough():
    two = cut([0] * 6 + [1] * 6, [0.4] * 12)
    three = cut([0] * 6 + [1] * 3 + [2] * 3, [0.8] * 12)
    loose = cut([0] * 6 + [1] * 6, [0.9] * 6 + [0.0] * 6)
    little = cut([0] * 6 + [1] * 6, [0.3] * 12)
    chance = {2: 0.0, 3: 0.0}

    def choose(first: topic_clustering._Cut, chance: dict[int, float] = chance) -> int:
        return topic_clustering._choose({2: first, 3: three}, chance, 3, 0.1)

    assert choose(two) == 2  # half of what three groups give
    assert choose(little) == 3
    assert choose(loose) == 3  # only one of two stands apart
    assert choose(two, {2: 0.3, 3: 0.0}) == 3  # most of it is chance
    assert topic_clustering._choose({2: loose}, chance={2: 0.0}, min_size=3, bar=0.1) == 2


def test_chance_is_asked_of_some_of_many_texts_for_any_size_of_topic():
    vectors = two_clouds([160, 160], 0.5)
    texts = [chr(0x1F600 + i % 80) * (1 + i // 80) for i in range(320)]
    for min_size in (3, 40):
        found = analyse_topics(texts, vectors, min_size=min_size)
        assert found.apart == [0, 1]
        same = sum(label == found.labels[0] for label in found.labels[:160])
        other = sum(label == found.labels[0] for label in found.labels[160:])
        assert same > 155
        assert other < 5
    assert analyse_topics(texts, two_clouds([320], 0.0), min_size=40).apart == []


def test_what_chance_must_be_beaten_by():
    chance = [0.1, 0.2, 0.3, 0.2, 0.2]
    assert not topic_clustering._clearly(0.3, chance)
    assert topic_clustering._clearly(0.5, chance)
    assert topic_clustering._clearly(1.0, [0.9, 0.5, 0.7])


def test_scripts_without_spaces_have_topics():
    database = [
        f"数据库{what}" for what in ("迁移完成", "每晚备份", "需要索引", "副本延迟", "升级计划")
    ]
    bicycle = [
        f"自行车{what}" for what in ("链条坏了", "头盔很贵", "轮胎没气", "刹车响", "座椅高度")
    ]
    found = analyse_topics(database + bicycle)
    assert found.labels == [0] * 5 + [1] * 5
    assert found.apart == [0, 1]
    assert found.terms[0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The Index of 2026 was slow", ["index", "slow"]),
        ("Sesión con Ana", ["sesion"]),
        ("数据库", ["数据", "据库"]),
        ("백업 완료", ["백업", "완료"]),
        ("12 345678", []),
        ("🚲", []),
    ],
)
def test_words_that_tell(text, words):
    assert topic_words(text) == words


def test_pieces_have_their_ends():
    assert topic_pieces("tea 12") == [" te", "tea", "ea ", " tea", "tea ", " tea "]


def test_terms_are_written_as_they_mostly_are():
    forms = surface_forms(
        ["Sesión larga. Sesión corta", "la sesión", "Index, index", "API api API"]
    )
    assert {w: forms[w] for w in ("sesion", "index", "api")} == {
        "sesion": "Sesión",
        "index": "index",  # of two as common the one in small letters
        "api": "API",
    }


def test_silhouettes_are_those_of_scikit_learn():
    from sklearn.metrics import silhouette_samples

    rng = np.random.default_rng(0)
    points = rng.standard_normal((30, 4))
    distance = np.linalg.norm(points[:, None] - points[None], axis=2)
    labels = np.r_[np.arange(4), rng.integers(0, 3, 26)]  # 3 is alone
    ours = topic_clustering._silhouettes(distance, labels)
    assert ours == pytest.approx(silhouette_samples(distance, labels, metric="precomputed"))


def test_cuts_are_those_of_scipy():
    from scipy.cluster.hierarchy import cut_tree, linkage

    tree = linkage(np.random.default_rng(0).standard_normal((40, 5)), "ward")
    for count, ours in enumerate(topic_clustering._labels(tree, 8), 2):
        theirs = cut_tree(tree, n_clusters=count).ravel()
        assert len(set(ours)) == len(set(zip(ours, theirs, strict=True))) == count


def test_rotations_keep_lengths_and_the_mean():
    turn = topic_clustering._rotation(12, np.random.default_rng(0))
    assert turn @ turn.T == pytest.approx(np.eye(12))
    assert turn @ np.ones(12) == pytest.approx(np.ones(12))


def test_words_of_any_script():
    russian = ["велосипед быстро", "велосипед сломан", "велосипед красный", "велосипед старый"]
    greek = ["θάλασσα γαλάζια", "θάλασσα ήρεμη", "θάλασσα ζεστή", "θάλασσα βαθιά"]
    found = analyse_topics(russian + greek)
    assert found.labels == [0] * 4 + [1] * 4
    assert [terms[0] for terms in found.terms] == ["велосипед", "θάλασσα"]


def test_chance_alone_seldom_looks_like_topics():
    # few words in common, and vectors that lie anywhere
    diverse = [
        analyse_topics(random_texts(30, 3000, seed), two_clouds([30], 0.0, seed)).diversity > 0
        for seed in range(12)
    ]
    assert sum(diverse) <= 2


@pytest.mark.parametrize(
    ("count", "seconds"),
    [
        (30, 0.8),
        (60, 1.0),
        (250, 2.0),
        (1000, 4.0),
        (5000, 12.0),
    ],  # .04, .05, .15, .3 and 1.1 s alone
)
def test_entities_of_any_size_are_quick(count, seconds):
    texts = random_texts(count, 3000)
    vectors = two_clouds([count], 0.0)
    analyse_topics(texts[:30], vectors[:30])  # the import is not what is timed
    start = time.process_time()  # what else runs on the machine does not count
    found = analyse_topics(texts, vectors)
    elapsed = time.process_time() - start
    assert len(found.labels) == count
    assert elapsed < seconds


def test_large_entities_have_their_topics_found():
    rng = random.Random(3)
    groups = [
        [f"{stem}{chr(97 + i // 26)}{chr(97 + i % 26)}" for i in range(80)]
        for stem in ("velo", "cafe")
    ]
    texts = [" ".join(rng.choices(groups[i % 2], k=10)) for i in range(1000)]
    found = analyse_topics(texts)
    assert found.apart == [0, 1]
    assert sum(label == found.labels[0] for label in found.labels[::2]) > 490
    assert sum(label == found.labels[1] for label in found.labels[1::2]) > 490
    assert found.labels[0] != found.labels[1]
    assert sum(len(move.texts) for move in propose(found).moves) > 500


def test_importing_is_light():
    code = (
        "import sys, datasette_limbic.topics, datasette_limbic.sql_functions;"
        "heavy = {'numpy', 'sklearn', 'scipy', 'llm'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
