"""What two texts are to each other: values that differ, and the rule of `judge`."""

from __future__ import annotations

import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from datasette_limbic.duplicates import Thresholds, judge
from datasette_limbic.duplicates.differences import differences
from datasette_limbic.duplicates.reading import read
from datasette_limbic.duplicates.rules import Verdict, containment_of
from datasette_limbic.duplicates.stated import LOOKED_AT
from datasette_limbic.errors import BadParameter

DEFAULT = Thresholds()


def said(one: str, other: str) -> list[str]:
    return [str(each) for each in differences(read(one), read(other))]


def of(one: str, other: str, cosine: float | None = None) -> Verdict | None:
    a, b = read(one), read(other)
    return judge(a, b, cosine, containment_of(a, b), DEFAULT)


DIFFERENT = [
    # names
    ("Maria lives in Lisbon.", "Maria lives in Madrid.", "name: Lisbon / Madrid"),
    ("The office is in New York.", "The office is in Madrid.", "name: New / Madrid"),
    ("We use GitLab for code", "We use GitHub for code", "name: GitLab / GitHub"),
    ("Lisbon is where Maria lives", "Madrid is where Maria lives", "name: Lisbon / Madrid"),
    ("Queries go to db_main", "Queries go to db_copy", "name: db_main / db_copy"),
    ("Settings are in app.yml", "Settings are in conf.toml", "name: app.yml / conf.toml"),
    ("El jefe de Ana es Luis.", "El jefe de Ana es Óscar.", "name: Luis / Óscar"),
    ("Москва: офис в Киеве сейчас", "Москва: офис в Минске сейчас", "name: Киеве / Минске"),
    # numbers
    ("The flat costs 900 euros", "The flat costs 950 euros", "number: 900 / 950"),
    ("Budget of 40,000 euros", "Budget of 45.000 euros", "number: 40,000 / 45.000"),
    ("Kept for thirty days", "Kept for 45 days", "number: thirty / 45"),
    ("Se guarda treinta días", "Se guarda diez días", "number: treinta / diez"),
    ("The disk has 5 GB", "The disk has 5 MB", "number: 5 gb / 5 mb"),
    ("It grew by 5 %", "It grew by 7%", "number: 5 / 7"),
    ("It costs $5", "It costs €5", "number: 5 dollar / 5 euro"),
    ("It is -5 degrees", "It is 5 degrees", "number: -5 / 5"),
    ("Nora wakes up at 6:30.", "Nora wakes up at 8:15.", "number: 6:30 / 8:15"),
    ("Lunch is at 6:30 am", "Lunch is at 6:30 pm", "number: 6:30 am / 6:30 pm"),
    ("It runs on 2.1.3", "It runs on 2.1.4", "number: 2.1.3 / 2.1.4"),
    ("The rate is 2.5", "The rate is 25", "number: 2.5 / 25"),
    ("twenty-one people work here", "25 people work here", "number: twenty-one / 25"),
    # dates
    ("Due on 30 September", "Due on 30 November", "date: 30 September / 30 November"),
    ("Due on September 30th", "Due on 29 september", "date: September 30th / 29 september"),
    ("Vence el 30 de septiembre", "Vence el 3 de mayo", "date: 30 de septiembre / 3 de mayo"),
    ("It is due 2026-09-30", "It is due 30 September 2025", "date: 2026-09-30 / 30 September 2025"),
    ("The call is on Monday", "The call is on friday", "date: Monday / friday"),
    ("La reunión es el lunes", "La reunión es el jueves", "date: lunes / jueves"),
    ("Backups run every night.", "Backups run every week.", "date: every night / every week"),
    ("A daily backup is made", "A weekly backup is made", "date: daily / weekly"),
    ("Copia cada semana", "Copia todas las noches", "date: cada semana / todas las noches"),
    ("She was born in May 1990", "She was born in June 1990", "date: May 1990 / June 1990"),
    # negations
    ("Tom is allergic to peanuts.", "Tom is not allergic to peanuts.", "negation"),
    ("Tom eats fish", "Tom doesn't eat fish", "negation"),
    ("Tom eats fish", "Tom doesn’t eat fish", "negation"),
    ("Tom can drive", "Tom cannot drive", "negation"),
    ("The build works without Docker", "The build works with Docker", "negation"),
    ("Ana come carne", "Ana no come carne", "negation"),
    ("Ana come carne", "Ana nunca come carne", "negation"),
    ("Café con azúcar", "Café sin azúcar", "negation"),
    ("The service uses Docker", "The service no longer uses Docker", "negation"),
    ("Tom plays chess", "Tom plays chess not at all", "negation"),
    # opposites
    ("The feature is enabled", "The feature is disabled", "opposite: enabled / disabled"),
    ("The build is stable", "The build is unstable", "opposite: stable / unstable"),
    ("El modo está activado", "El modo está desactivado", "opposite: activado / desactivado"),
    ("La puerta está abierta", "La puerta está cerrada", "opposite: abierta / cerrada"),
    # one value at a time
    ("Status: Open", "Status: RESOLVED", "status: Open / RESOLVED"),
    ("- **Priority**: high", "Priority = low", "priority: high / low"),
    ("Version: 1.2", "Version: 1.3", "version: 1.2 / 1.3"),
]

ALIKE = [
    # the same value, written otherwise
    ("Due on 30 September", "Due by September 30th"),
    ("Due on 30 September", "Due on 30 September 2026"),
    ("Due 2026-09-30", "Due on the 30th of September, 2026"),
    ("Vence el 30 de septiembre", "Due September 30"),
    ("Backups run every night.", "A nightly backup is made."),
    ("Copia cada semana", "Copia semanal"),
    ("Budget of 40,000 euros", "Budget of 40.000 €"),
    ("Budget of 40 000 euros", "Budget of forty thousand euros"),
    ("Kept for thirty days", "Kept for 30 days"),
    ("Lunch is at 18:30", "Lunch is at 6:30 pm"),
    ("Runs on v2.1.3", "Runs on 2.1.3"),
    ("It uses PostgreSQL", "It uses Postgres"),
    ("Maria's home is Lisbon", "In Lisbon lives Maria"),
    ("The data is in GitHub", "the data is in github"),
    ("It was made in March 2024", "It was made in 2024"),
    ("Moved to pkg/types/", "Moved to pkg/types/cpu_types.go"),
    ("Meetings start at 9:00", "Meetings begin at 9 am"),
    ("User dislikes long emails", "The user does not like long emails"),
    ("The mode is disabled", "The mode is not enabled"),
    # only added
    ("Maria lives in Lisbon", "Maria lives in Lisbon with Tom since 2020"),
    ("User likes tea", "User likes tea and coffee, but does not drink beer"),
    ("We use Postgres", "We use Postgres, not MySQL"),
    (
        "The new index makes search fast",
        "The new index makes search fast and does not change search",
    ),
    # no statement of that sort
    ("You may go to the march", "He will go to the march"),
    ("Project Overview And Main Goals", "Project Details And Other Plans"),
    ("SYSTEM IS DOWN", "SYSTEM IS BROKEN"),
    ("Tom does not eat fish", "Tom never eats fish"),
    ("Status: Resolved", "Status: Resolved in May"),
    ("Feature: search of nodes", "Feature: pages for nodes"),
    ("東京に住んでいる", "大阪に住んでいる"),
    ("😀😀", "😀🎉"),
    ("", "x"),
]


@pytest.mark.parametrize(("one", "other", "difference"), DIFFERENT)
def test_values_that_differ(one: str, other: str, difference: str) -> None:
    assert said(one, other) == [difference]


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_values_that_do_not_differ(one: str, other: str) -> None:
    assert said(one, other) == []
    assert said(other, one) == []


@pytest.mark.parametrize(("one", "other", "difference"), DIFFERENT)
def test_what_differs_is_never_a_duplicate(one: str, other: str, difference: str) -> None:
    verdict = of(one, other, 0.99)
    assert verdict is not None
    assert verdict.kind == "contradiction"
    assert verdict.difference == difference


@pytest.mark.parametrize(
    ("one", "other", "cosine", "kind", "rule"),
    [
        ("Tom likes tea.", "tom likes  TEA", None, "duplicate", "exact"),
        ("Tom likes tea", "Tea is what Tom likes", 0.85, "duplicate", "cosine"),
        ("Tom likes tea", "Tea is what Tom likes", 0.80, "look", "cosine"),
        ("Tom likes tea", "Tea is what Tom likes", 0.74, None, None),
        ("Tom likes tea", "Tea is what Tom likes", None, None, None),
        ("Tom likes tea", "Tom likes tea with milk and sugar", None, "duplicate", "containment"),
        # under twice as long
        ("Tom likes tea a lot", "Tom likes tea a lot in winter", None, None, None),
        # two words are too few
        ("Tom drinks", "Tom drinks tea with milk and sugar", None, None, None),
        # the small words alone are in the other
        ("it is in the red box", "is it in the end what the others say it is", None, None, None),
        # one content word each
        ("Tom is allergic to peanuts", "Tom is allergic to cats", 0.97, "look", "cosine"),
        ("The door is green", "The door is wooden", 0.97, "look", "cosine"),
        ("The door is green", "The door is wooden", None, None, None),
        ("The door is open", "The door is closed", 0.97, "contradiction", "cosine"),
        ("The door is open", "The door is closed", 0.7, None, None),
        # which is no other word
        ("He likes the red peanuts", "He likes the red peanut", 0.97, "duplicate", "cosine"),
        # values differ: without vectors too, and below the cosine of a duplicate
        ("Maria lives in Lisbon", "Maria lives in Madrid", None, "contradiction", "wording"),
        ("Maria lives in Lisbon", "Maria lives in Madrid", 0.76, "contradiction", "wording"),
        ("Maria lives in Lisbon", "Maria lives in Madrid", 0.86, "contradiction", "cosine"),
        # whatever the cosine, where all else is the same
        ("Maria lives in Lisbon", "Maria lives in Madrid", 0.4, "contradiction", "wording"),
        # but not where the words are others
        ("We deploy with GitHub", "Bugs are tracked in Jira", 0.8, None, None),
        (
            "Maria lives in Lisbon",
            "Maria has not lived in Lisbon for years, she now works elsewhere",
            None,
            "contradiction",
            "containment",
        ),
        (
            "Maria lives in Lisbon",
            "Maria had a shop in Lisbon, which she sold when she went away",
            None,
            None,
            None,
        ),
        (
            "Tom is allergic to peanuts",
            "Tom is not allergic to peanuts, as the last test has shown",
            None,
            "contradiction",
            "containment",
        ),
        # records of a series
        ("Task 15 completed", "Task 16 completed", 0.97, None, None),
        ("2026-05-01: tests passed", "2026-05-02: tests passed", 0.97, None, None),
        ("Phase 2: write tests", "Phase 3: write tests", 0.97, None, None),
        ("Fixed in #12 by Ana", "Fixed in #14 by Ana", 0.97, None, None),
        ("The run of 3 May took 31 s", "The run of 4 May took 29 s", 0.97, None, None),
        ("Status: Open", "Status: Closed", None, "contradiction", "wording"),
        ("Phase: 2", "Phase: 3", None, "contradiction", "wording"),
        ("", "", 0.9, "duplicate", "exact"),
        ("!", "?", None, None, None),
    ],
)
def test_judge(one: str, other: str, cosine: float | None, kind: str, rule: str) -> None:
    verdict = of(one, other, cosine)
    assert (verdict and verdict.kind, verdict and verdict.rule) == (kind, rule)


def test_texts_may_be_given_as_they_are() -> None:
    assert judge("Tom", "tom.", None, 1.0, DEFAULT) == Verdict("duplicate", "exact")


def test_the_end_of_a_long_text_is_not_looked_at() -> None:
    filler = "word " * (LOOKED_AT // 5)
    assert not said(f"{filler} costs 5 euros", f"{filler} costs 7 euros")
    assert said(f"costs 5 euros {filler}", f"costs 7 euros {filler}")


LONG = [
    *("a" * 100_000, "/a" * 50_000, "1." * 50_000, "a_" * 50_000, "a-" * 50_000, "." * 100_000),
    *(" ".join(map(str, range(15_000))), "not unlike " * 9_000),
    *("up down " * 12_000, "> 5 " * 25_000, "by is " * 16_000, "a b, " * 20_000, "👍" * 90_000),
    *("1 000 " * 17_000, "- " * 50_000, "a/" * 50_000, "a.b." * 25_000, "every " * 17_000),
]


@pytest.mark.slow
@pytest.mark.parametrize("text", LONG)
def test_no_text_takes_long(text: str) -> None:
    start = time.process_time()
    of(text, text[1:] + " more", 0.9)
    assert time.process_time() - start < 2


def test_long_texts_of_other_words_take_no_time_either() -> None:
    for mould in ("{}{}x ", "{}{}.5 ", "2{}{:02.0f}-05-01 ", "{} {} km ", "on {}{} up "):
        one, other = ("".join(mould.format(first, i) for i in range(3000)) for first in ("6", "7"))
        start = time.process_time()
        of(one, other, 0.9)
        assert time.process_time() - start < 2


words = st.sampled_from(
    "Tom Ana likes tea not no 5 7 30 September Monday every night lives in Lisbon Madrid . , : "
    "# task 2026-01-02 6:30 pm GB % forty thousand does a_b x/y/z.py 東京 😀 don't -5 of de "
    "up down is by than > <= at least most no one with from to more less before after 👍 👎 "
    "nunca siempre sin pagar pagado k al mes a@b.es a@c.es Lisboa".split(" ")
)
texts = st.lists(words, max_size=12).map(" ".join) | st.text(max_size=40)
cosines = st.none() | st.floats(-1, 1, width=32)


@given(texts, texts, cosines)
def test_judge_is_symmetric(one: str, other: str, cosine: float | None) -> None:
    first, second = of(one, other, cosine), of(other, one, cosine)
    assert (first and first[:2]) == (second and second[:2])
    assert (first is not None and first.difference is None) == (
        second is not None and second.difference is None
    )


@given(texts, cosines)
def test_a_text_is_its_own_duplicate(text: str, cosine: float | None) -> None:
    assert of(text, text, cosine) == Verdict("duplicate", "exact")
    assert said(text, text) == []


def test_long_lists_of_names_take_no_time() -> None:
    letters = ["".join(each) for each in itertools.product("abcdefghijklm", repeat=3)]
    one, other = (
        "".join(f"{start}{each} " for each in letters) for start in ("x Abcde", "x Abcdf")
    )
    start = time.process_time()
    of(one, other, 0.9)
    of(one, " ".join(reversed(one.split())), 0.9)
    assert time.process_time() - start < 2


@pytest.mark.parametrize("name", ["cosine", "look", "containment"])
@pytest.mark.parametrize("value", [-0.1, 1.01, float("nan"), float("inf"), "0.5", True, None])
def test_thresholds_outside_0_to_1(name: str, value: object) -> None:
    with pytest.raises(BadParameter, match=f"{name} is {value!r}: use a number from 0 to 1"):
        Thresholds(**{name: value})


def test_thresholds_at_their_ends() -> None:
    Thresholds(0, 0, 0)
    Thresholds(1, 1, 1)
    assert Thresholds(0.6).lowest == 0.6
    assert Thresholds(0.9).lowest == 0.75
