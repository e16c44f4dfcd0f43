from __future__ import annotations

import random
import subprocess
import sys
import time

import pytest

from datasette_limbic.topics import Topics, analyse_topics

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
    assert {"cafe", "bicycle"} < tops
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
    assert analyse_topics(texts, min_silhouette=0.9).diversity == 0


def test_topics_of_fewer_than_the_size_do_not_count():
    assert analyse_topics([*DATABASE, *BICYCLE], min_size=6).diversity > 1
    assert analyse_topics([*DATABASE, *BICYCLE], min_size=7).diversity == 0
    pair = analyse_topics([*DATABASE, "bicycle chain grease", "bicycle chain grease"])
    assert pair.labels == [0] * 6 + [1] * 2
    assert pair.diversity == 0


@pytest.mark.parametrize(
    ("texts", "labels"),
    [
        ([], []),
        (["hello world"], [0]),
        (["hello world", "other thing"], [0, 0]),
        ([""], [-1]),
        (["a b 12", "", "the of 2026 10000"], [-1, -1, -1]),
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
    assert found.diversity == pytest.approx(2.0)


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
    assert sum(diverse) <= 5


def test_the_same_texts_give_the_same_topics():
    texts = [*DATABASE, *CAFE, *BICYCLE]
    assert analyse_topics(texts) == analyse_topics(list(texts))


def test_words_of_any_script():
    russian = ["велосипед быстро", "велосипед сломан", "велосипед красный", "велосипед старый"]
    greek = ["θάλασσα γαλάζια", "θάλασσα ήρεμη", "θάλασσα ζεστή", "θάλασσα βαθιά"]
    found = analyse_topics(russian + greek)
    assert found.labels == [0] * 4 + [1] * 4
    assert [terms[0] for terms in found.terms] == ["велосипед", "θαλασσα"]


def test_large_entities_are_quick():
    texts = random_texts(2000, 3000)
    analyse_topics(DATABASE * 2)  # the import is not what is timed
    start = time.perf_counter()
    found = analyse_topics(texts)
    elapsed = time.perf_counter() - start
    assert isinstance(found, Topics)
    assert len(found.labels) == 2000
    assert found.diversity == 0
    assert elapsed < 8  # about one second; the bound leaves room for a busy machine


def test_importing_is_light():
    code = (
        "import sys, datasette_limbic.topics, datasette_limbic.sql_functions;"
        "heavy = {'numpy', 'sklearn', 'scipy', 'llm'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
