"""Labels: which of several events counts, what never does, and what a repeat is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tuning_helpers import START, UNKNOWN, log_of

from datasette_limbic.errors import BadParameter
from datasette_limbic.tuning.labels import (
    NO_SEARCH,
    REPEATS,
    Feedback,
    LabelPolicy,
    counts,
    find,
    label,
)
from datasette_limbic.tuning.log import (
    NONE,
    NOT_USEFUL,
    OPENED,
    REACCESSED,
    SOURCES,
    USEFUL,
    Log,
)

MINUTE = 60.0
DAY_MINUTES = 24 * 60


def feedback(*events: tuple[Any, ...]) -> Feedback:
    """Events as (search or None, entity, event, minutes after START or None, client)."""
    return Feedback(
        search=np.array([NO_SEARCH if e[0] is None else e[0] for e in events], np.int64),
        entity=np.array([e[1] for e in events], np.int64),
        event=np.array([e[2] for e in events], np.int64),
        at=np.array([UNKNOWN if e[3] is None else START + e[3] * MINUTE for e in events], float),
        client=tuple(e[4] for e in events),
    )


# Long before, so that it is known how often each is opened by chance.
BEFORE = [
    (None, entity, OPENED, -10 * DAY_MINUTES, client)
    for entity in (1, 2, 3, 4, 99)
    for client in ("me", "you")
]


def searches(*given: dict[str, Any]) -> Log:
    """Searches of one agent for one thing and another, with pools of four, of which two are
    shown; ``minutes`` says when."""
    return log_of(
        [
            {
                "gain": [UNKNOWN] * 4,
                "entity": [1, 2, 3, 4],
                "limit": 2,
                "client": "me",
                "query": f"query {number}",
                **each,
                "at": START + each.get("minutes", 0) * MINUTE,
            }
            for number, each in enumerate(given, 1)
        ]
    )


# What became of a search at minute 0 that showed the entities 1 and 2 of its pool of 1 to 4 to
# "me", and of another at minute 10 that showed them to "you" → where the labels of the first come
# from. Coming back counts for a day here.
CASES: dict[str, tuple[list[tuple[Any, ...]], dict[int, int]]] = {
    "nothing": ([], {}),
    "opened": ([(1, 1, OPENED, 1, "me")], {1: OPENED}),
    "opened by another client": ([(1, 1, OPENED, 1, "you")], {1: OPENED}),
    "opened by who knows whom": ([(1, 1, OPENED, 1, None)], {1: OPENED}),
    "opened, nobody knows when": ([(1, 1, OPENED, None, "me")], {1: OPENED}),
    "opened long after": ([(1, 1, OPENED, 90 * DAY_MINUTES, "me")], {1: OPENED}),
    "rated useful": ([(1, 2, USEFUL, 1, "me")], {2: USEFUL}),
    "both opened, one useful": (
        [(1, 1, OPENED, 1, "me"), (1, 2, OPENED, 1, "me"), (1, 2, USEFUL, 2, "me")],
        {1: OPENED, 2: USEFUL},
    ),
    "the last rating wins": (
        [(1, 1, USEFUL, 1, "me"), (1, 1, NOT_USEFUL, 2, "me")],
        {1: NOT_USEFUL},
    ),
    "the last rating wins the other way": (
        [(1, 1, NOT_USEFUL, 1, "me"), (1, 1, USEFUL, 2, "me")],
        {1: USEFUL},
    ),
    "the last that was written, whatever the clock said": (
        [(1, 1, NOT_USEFUL, 9, "me"), (1, 1, USEFUL, 2, "me")],
        {1: USEFUL},
    ),
    "the last rating, whoever gave it": (
        [(1, 1, USEFUL, 1, "me"), (1, 1, NOT_USEFUL, 2, "page")],
        {1: NOT_USEFUL},
    ),
    "not useful beats opened": (
        [(1, 1, NOT_USEFUL, 1, "me"), (1, 1, OPENED, 2, "me")],
        {1: NOT_USEFUL},
    ),
    "opened beats coming back": (
        [(None, 1, OPENED, 3, "me"), (1, 1, OPENED, 2, "me"), (None, 1, OPENED, 4, "me")],
        {1: OPENED},
    ),
    "not useful beats coming back": (
        [(1, 1, NOT_USEFUL, 1, "me"), (None, 1, OPENED, 3, "me")],
        {1: NOT_USEFUL},
    ),
    "came back by name": ([(None, 2, OPENED, 3, "me")], {2: REACCESSED}),
    "opened from another search": ([(2, 2, OPENED, 11, "me")], {}),
    "opened from a search that is not here": ([(77, 2, OPENED, 11, "me")], {}),
    "another client came": ([(None, 2, OPENED, 3, "you"), (2, 2, OPENED, 11, "you")], {}),
    "who knows who came": ([(None, 2, OPENED, 3, None)], {}),
    "before the search": ([(None, 2, OPENED, -1, "me")], {}),
    "at the very moment of the search": ([(None, 2, OPENED, 0, "me")], {}),
    "at the end of the window": ([(None, 2, OPENED, DAY_MINUTES, "me")], {2: REACCESSED}),
    "after the window": ([(None, 2, OPENED, DAY_MINUTES + 0.01, "me")], {}),
    "before and after the window": (
        [(None, 2, OPENED, -1, "me"), (None, 2, OPENED, DAY_MINUTES + 1, "me")],
        {},
    ),
    "at a time that nobody can read": ([(None, 2, OPENED, None, "me")], {}),
    "came back to another entity": ([(None, 99, OPENED, 3, "me")], {}),
    "came back to what was not shown": ([(None, 3, OPENED, 3, "me")], {}),
    # an hour after the one before it is the same, wherever the search was
    "opened shortly before, and again": (
        [(None, 2, OPENED, -30, "me"), (None, 2, OPENED, 30, "me")],
        {},
    ),
    "opened long before, and again": (
        [(None, 2, OPENED, -30, "me"), (None, 2, OPENED, 30.01, "me")],
        {2: REACCESSED},
    ),
    "came back again and again": (
        [(None, 2, OPENED, minute, "me") for minute in (3, 4, 5, 6, 50)],
        {2: REACCESSED},
    ),
    "rated by name alone": ([(None, 1, USEFUL, 3, "me")], {}),
    "rated elsewhere": ([(77, 1, USEFUL, 3, "me"), (2, 2, NOT_USEFUL, 11, "me")], {}),
    "about no candidate": ([(1, 99, USEFUL, 3, "me"), (1, 99, OPENED, 3, "me")], {}),
    "opened though it was not shown": ([(1, 3, OPENED, 1, "me")], {3: OPENED}),
    "useful though it was not shown": ([(1, 4, USEFUL, 1, "me")], {4: USEFUL}),
    "not useful, not shown": ([(1, 4, NOT_USEFUL, 1, "me")], {4: NOT_USEFUL}),
}


@pytest.mark.parametrize("name", CASES)
def test_where_a_label_comes_from(name):
    events, expected = CASES[name]
    policy = LabelPolicy(reaccess_hours=24)
    log = searches({}, {"minutes": 10, "client": "you"})
    found = label(log, feedback(*BEFORE, *events), policy)
    assert len(found) == 2
    assert found.left_out == {}
    for entity, source, gain in zip(
        found.entity[:4], found.source[:4], found.gain[:4], strict=True
    ):
        wanted = expected.get(int(entity), NONE)
        assert SOURCES[source] == SOURCES[wanted], entity
        if wanted != NONE:
            assert gain == getattr(policy, SOURCES[wanted])
        elif entity <= 2:
            assert gain == 0  # shown
        else:
            assert np.isnan(gain)  # nobody saw it


def test_being_shown_again_is_no_label():
    """The same results, four more times, of the same client: nothing was opened."""
    found = label(searches(*({"minutes": 10 * i} for i in range(5))), feedback())
    assert (found.source == NONE).all()


def test_a_client_that_nobody_knows_never_comes_back():
    log = searches({"client": None}, {"minutes": 10, "client": None})
    found = label(log, feedback((2, 1, OPENED, 11, None), (None, 2, OPENED, 12, None)))
    assert found.source.tolist() == [NONE] * 4 + [OPENED, NONE, NONE, NONE]


def test_the_last_search_that_showed_it_gets_the_coming_back():
    log = searches({}, {"minutes": 100}, {"minutes": 200}, {"minutes": 100, "client": "you"})
    policy = LabelPolicy(reaccess_hours=24)
    found = label(log, feedback(*BEFORE, (None, 1, OPENED, 150, "me")), policy)
    assert found.source.reshape(4, 4)[:, 0].tolist() == [NONE, REACCESSED, NONE, NONE]


def test_the_order_of_the_baseline_says_what_was_shown():
    log = searches({"limbic": False, "baseline_rank": [4, 3, 2, 1]})
    came = (None, 1, OPENED, 3, "me"), (None, 4, OPENED, 3, "me")
    found = label(log, feedback(*BEFORE, *came))
    assert np.array_equal(found.gain, [UNKNOWN, UNKNOWN, 0, 0.5], equal_nan=True)


# -- repeats -------------------------------------------------------------------------------------

SAME = {"query": "same"}


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ([{}, {"minutes": 60}], [1]),
        ([{}, {"minutes": 60.01}], [1, 2]),
        ([{}, {}], [1]),
        # from the first of a group, not from the one before
        ([{}, {"minutes": 40}, {"minutes": 80}, {"minutes": 139}], [1, 3]),
        ([{}, {"minutes": 5, "query": "another"}], [1, 2]),
        ([{}, {"minutes": 5, "client": "you"}], [1, 2]),
        ([{"client": None}, {"minutes": 5, "client": None}], [1]),
        ([{"client": None}, {"minutes": 5}], [1, 2]),
        ([{}, {"minutes": 5, "client": "you"}, {"minutes": 9}], [1, 2]),
        ([{}, {"minutes": 5, "limit": 4, "strategy": "cosine_heavy"}], [1]),
    ],
)
def test_what_is_one_search(given, kept):
    found = label(searches(*({**SAME, **each} for each in given)), feedback())
    assert found.id.tolist() == kept
    gone = len(given) - len(kept)
    assert found.left_out == ({REPEATS: gone} if gone else {})


def test_labels_of_a_repeat_go_to_the_first():
    log = searches(
        SAME,
        {**SAME, "minutes": 30, "limit": 4, "entity": [1, 2, 3, 9]},
        {**SAME, "minutes": 300},
    )
    found = label(
        log,
        feedback(
            (1, 1, USEFUL, 1, "me"),
            (2, 1, NOT_USEFUL, 31, "me"),
            (2, 2, OPENED, 31, "me"),
            (2, 3, USEFUL, 31, "me"),  # the first had not shown it
            (2, 9, USEFUL, 31, "me"),  # nor had it in its pool
        ),
    )
    assert found.id.tolist() == [1, 3]
    assert found.source.tolist() == [NOT_USEFUL, OPENED, USEFUL, NONE] + [NONE] * 4
    assert counts(found)["unshown_ratings"] == 1


@pytest.mark.parametrize(("minutes", "source"), [(110, REACCESSED), (110.01, NONE)])
def test_coming_back_is_timed_from_the_last_repeat(minutes, source):
    log = searches(SAME, {**SAME, "minutes": 50})
    found = label(log, feedback(*BEFORE, (None, 1, OPENED, minutes, "me")))
    assert found.source.tolist() == [source, NONE, NONE, NONE]


def test_how_often_by_chance_has_to_be_known():
    """Of a client that opened nothing else, nobody knows what it would have opened anyway."""
    found = label(searches({}), feedback((None, 1, OPENED, 3, "me")))
    assert (found.source == NONE).all()
    assert (found.chance == 0).all()


@pytest.mark.parametrize("minutes", [0, 60])
def test_a_burst_is_one_chance(minutes):
    """Who opens entity 99 five times within five minutes did so once, as far as chance goes."""
    policy = LabelPolicy(repeat_minutes=minutes, reaccess_hours=1)
    burst = [(None, 99, OPENED, 10 + i, "me") for i in range(5)]
    of_five = label(searches({}), feedback(*BEFORE, *burst), policy)
    of_one = label(searches({}), feedback(*BEFORE, burst[0]), policy)
    assert (of_one.chance[:2] > 0).all()
    if minutes:
        assert of_five.chance.tolist() == of_one.chance.tolist()
    else:
        assert (of_five.chance > of_one.chance)[:2].all()


def test_one_query_a_thousand_times():
    log = searches(*({**SAME, "minutes": i} for i in range(1000)))
    found = label(log, feedback(*((i, 1, OPENED, i, "me") for i in range(1, 1001))))
    assert len(found) == 17  # one for each hour
    assert found.left_out == {REPEATS: 983}
    assert (found.source.reshape(17, 4)[:, 0] == OPENED).all()


# -- the policy ----------------------------------------------------------------------------------


def test_the_policy_decides():
    policy = LabelPolicy(
        useful=7,
        opened=3,
        reaccessed=2,
        not_useful=1,
        reaccess_hours=0.5,
        repeat_minutes=0,
    )
    log = searches(SAME, {**SAME, "minutes": 1})
    events = feedback(
        *BEFORE,
        (1, 1, NOT_USEFUL, 0, "me"),
        (2, 2, USEFUL, 1, "me"),
        (None, 1, OPENED, 60.5, "me"),
    )
    found = label(log, events, policy)
    assert len(found) == 2
    assert found.gain[[0, 1, 4, 5]].tolist() == [1, 0, 0, 7]
    longer = label(log, events, LabelPolicy(reaccess_hours=2, repeat_minutes=0))
    assert longer.gain[[0, 1, 4, 5]].tolist() == [0, 0, 0.5, 2]


def test_as_evidence():
    assert LabelPolicy().as_dict() == {
        "useful": 2,
        "opened": 1,
        "reaccessed": 0.5,
        "not_useful": 0,
        "reaccess_hours": 1,
        "repeat_minutes": 60,
        "version": 1,
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((n, v) for n in ("useful", "opened") for v in (-1, float("nan"), 101, "lots", None)),
        *((n, v) for n in ("reaccessed", "not_useful") for v in (float("inf"), True, [1], -0.1)),
        *((n, v) for n in ("reaccess_hours", "repeat_minutes") for v in (-1, float("nan"), 1e7)),
        *(("version", v) for v in (0, 2, "1", None, True)),
        ("useful", 0),
        ("not_useful", 2),
    ],
)
def test_what_no_policy_can_be(name, value):
    with pytest.raises(BadParameter, match=rf"{name} (is )?") as caught:
        LabelPolicy(**{name: value})
    assert str(value)[:20] in str(caught.value)


# -- counting ------------------------------------------------------------------------------------


def test_counts():
    log = searches(
        {},
        {"minutes": 10, "limbic": False, "query": "query 1"},
        {"minutes": 2 * DAY_MINUTES, "client": None},
        {"minutes": 2 * DAY_MINUTES, "client": "you"},
    )
    events = feedback(
        (1, 1, USEFUL, 1, "me"),
        (1, 4, NOT_USEFUL, 1, "me"),
        (3, 3, OPENED, 3000, None),
        (None, 2, OPENED, 2 * DAY_MINUTES + 30, "you"),
        *BEFORE,
    )
    found = counts(label(log, events, LabelPolicy(repeat_minutes=1)))
    assert found == {
        "searches": 4,
        "treatment": 3,
        "baseline": 1,
        "labelled": 3,
        "labels": {"useful": 1, "not_useful": 1, "opened": 1, "reaccessed": 1},
        "unshown_ratings": 1,
        "unshown_opened": 1,
        "clients": 3,
        "client_days": 3,
        "queries": 3,
        "first": "2026-09-21 00:00:00",
        "last": "2026-09-23 00:00:00",
    }


def test_counts_of_nothing():
    found = counts(label(log_of([]), feedback((1, 1, OPENED, 1, "me"))))
    assert (found["searches"], found["labelled"], found["first"], found["last"]) == (0, 0) + (
        None,
    ) * 2
    assert set(found["labels"].values()) == {0}


# -- against the rules, one by one ----------------------------------------------------------------

_SMALL = st.integers(1, 3)
_CLIENTS = st.sampled_from(["me", "you", None])
_TIMES = st.integers(0, 40).map(lambda halves: halves * 30)


def by_the_rules(log: Log, events: Feedback, policy: LabelPolicy) -> dict[tuple[int, int], int]:
    """(search, entity) → source of each label, in loops."""
    group: dict[int, int] = {}
    for i in range(len(log)):
        for j in range(i):
            if (
                group[j] == j
                and log.query[i] == log.query[j]
                and log.client[i] == log.client[j]
                and log.at[i] - log.at[j] <= policy.repeat_minutes * 60
            ):
                group[i] = j
        group.setdefault(i, i)
    repeats = set()
    begun: dict[tuple[str | None, int], float] = {}
    for k in np.argsort(events.at, kind="stable"):
        if events.event[k] != OPENED or events.search[k] != NO_SEARCH or np.isnan(events.at[k]):
            continue
        key, at = (events.client[k], int(events.entity[k])), events.at[k]
        if at - begun.get(key, -np.inf) <= policy.repeat_minutes * 60:
            repeats.add(int(k))
        else:
            begun[key] = at
    found: dict[tuple[int, int], int] = {}
    shown = [
        {int(e) for e in log.entity[log.start[i] : log.start[i + 1]][log.shown[log.of == i]]}
        for i in range(len(log))
    ]
    for i in set(group.values()):
        until = max(log.at[j] for j in range(len(log)) if group[j] == i)
        until += policy.reaccess_hours * 3600
        for row in range(log.start[i], log.start[i + 1]):
            entity, source, best = int(log.entity[row]), NONE, 0
            again = [
                log.at[j]
                for j in range(i + 1, len(log))
                if group[j] == j and log.client[j] == log.client[i] and entity in shown[j]
            ]
            for k in range(len(events.search)):
                if events.entity[k] != entity or k in repeats:
                    continue
                own = [group[j] for j in range(len(log)) if log.id[j] == events.search[k]] == [i]
                weight = 0
                if events.event[k] != OPENED:
                    weight = 3 if own else 0
                elif own:
                    weight = 2
                elif (
                    log.shown[row]
                    and events.search[k] == NO_SEARCH
                    and log.client[i] is not None
                    and log.client[i] == events.client[k]
                    and log.at[i] < events.at[k] <= min([until, *again])
                ):
                    weight = 1
                if weight and weight >= best:
                    best = weight
                    source = REACCESSED if weight == 1 else int(events.event[k])
            if source != NONE:
                found[int(log.id[i]), entity] = source
    return found


@example(
    # opened while it had not been shown, and again when it had
    given_searches=[(600, "me", 1, True)],
    given_events=[(None, 1, OPENED, 570, "me"), (None, 1, OPENED, 630, "me")],
)
@given(
    given_searches=st.lists(st.tuples(_TIMES, _CLIENTS, _SMALL, st.booleans()), max_size=8),
    given_events=st.lists(
        st.tuples(
            st.sampled_from([None, 1, 2, 3, 4, 5, 6, 77]),
            st.integers(1, 5),
            st.sampled_from([USEFUL, NOT_USEFUL, OPENED, OPENED]),
            st.one_of(_TIMES, st.none()),
            _CLIENTS,
        ),
        max_size=25,
    ),
)
@settings(deadline=None)
def test_arrays_follow_the_rules(given_searches, given_events):
    log = searches(
        *(
            {"minutes": at, "client": client, "query": f"q{query}", "limbic": limbic}
            | {"baseline_rank": [4, 3, 2, 1]}
            for at, client, query, limbic in sorted(given_searches, key=lambda each: each[0])
        )
    )
    events = feedback(*BEFORE, *given_events)
    policy = LabelPolicy(reaccess_hours=5)
    found = label(log, events, policy)
    labelled = np.flatnonzero(found.source != NONE)
    assert {
        (int(found.id[found.of[row]]), int(found.entity[row])): int(found.source[row])
        for row in labelled
    } == by_the_rules(log, events, policy)
    assert len(found) + found.left_out.get(REPEATS, 0) == len(log)
    unlabelled = found.source == NONE
    assert (found.gain[unlabelled & found.shown] == 0).all()
    assert np.isnan(found.gain[unlabelled & ~found.shown]).all()


@given(st.lists(st.integers(-(2**63), 2**63 - 1)), st.lists(st.integers(-(2**63), 2**63 - 1)))
@settings(deadline=None)
def test_finding_whole_numbers_of_any_size(among, wanted):
    ordered = np.array(sorted(set(among)), np.int64)
    wanted = [*wanted, *among]
    places = find(ordered, np.array(wanted, np.int64)).tolist()
    known = {value: place for place, value in enumerate(ordered.tolist())}
    assert places == [known.get(value, -1) for value in wanted]


def test_ids_at_the_edges_of_numbers():
    low, high = -(2**63), 2**63 - 1
    log = searches({"entity": [low, 0, high - 1, high]})
    events = feedback(
        (None, low, OPENED, -DAY_MINUTES, "me"),
        (1, high, USEFUL, 1, "me"),
        (None, low, OPENED, 5, "me"),
    )
    found = label(log, events)
    assert found.source.tolist() == [REACCESSED, NONE, NONE, USEFUL]
