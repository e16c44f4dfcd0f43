"""Reports at their edges: dates, order, cuts, and what is left out."""

from __future__ import annotations

import itertools
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from duplicates_helpers import OTHER, asked, kept, made, marked, pairs, written
from health_helpers import OVER, change, healthy_memory, relate

from datasette_limbic import connection, health, report_settings
from datasette_limbic.duplicates import Observation, Thresholds, find_pairs
from datasette_limbic.health import bridges
from datasette_limbic.reports import keeping
from datasette_limbic.reports.across import across_entities
from datasette_limbic.reports.name_clashes import SHOWN, name_clashes
from datasette_limbic.reports.similar import find_duplicate_observations

NOW = "2026-06-01 00:00:00"


@pytest.fixture(name="path")
def memory(tmp_path: Any) -> Any:
    return made(tmp_path / "memory.db")


def called(path: Any, function: Any, *args: Any, **options: Any) -> Any:
    with closing(connection.connect(path, readonly=True)) as conn:
        return function(conn, *args, **options)


def unseen(path: Any, *statements: str) -> None:
    """Change the file while the trigger on observations is away."""
    trigger = "limbic_report_observations_update"
    ((text,),) = asked(path, "select sql from sqlite_master where name = ?", trigger)
    written(path, f"drop trigger {trigger}", *statements, text)


# what is kept ----------------------------------------------------------------------------------


@pytest.mark.parametrize("column", ["valid_from", "valid_to"])
def test_time_alone_changes_what_holds(path: Any, column: str) -> None:
    kept(path)
    soon = "strftime('%Y-%m-%d %H:%M:%S', 'now', '+1 hour')"
    written(path, f"update observations set {column} = {soon} where id = 2")
    kept(path)
    there = column == "valid_to"
    assert ((1, 2, "duplicate") in pairs(path)) is there
    # the hour passes: all that was noted is an hour older
    unseen(
        path,
        f"update observations set {column} = datetime({column}, '-2 hours')",
        "update limbic_reports set computed_at = datetime(computed_at, '-2 hours')",
    )
    assert marked(path) == set()
    assert called(path, keeping.state)["changed_since"] == 1
    assert kept(path).entities == 1
    assert ((1, 2, "duplicate") in pairs(path)) is not there


def test_the_date_is_that_of_the_beginning(path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What ends while the rest is looked at must be after the date, or no run would see it."""
    clock = (f"2026-11-29 12:00:{second:02}" for second in itertools.count())
    monkeypatch.setattr(keeping, "now_sql", lambda: next(clock))
    look = keeping.look

    def slowly(*args: Any) -> Any:
        next(clock)
        return look(*args)

    monkeypatch.setattr(keeping, "look", slowly)
    kept(path)
    assert called(path, keeping.state)["computed_at"] == "2026-11-29 12:00:00"


@pytest.mark.parametrize("ids", ["earlier_id = 1, later_id = 2", "earlier_id = 2, later_id = 1"])
def test_a_pair_that_another_entity_holds_is_in_nobodys_way(path: Any, ids: str) -> None:
    kept(path)
    written(
        path,
        f"update limbic_duplicates set entity_id = 2, {ids} where kind = 'duplicate'",
        "insert into limbic_report_pending(entity_id) values (1)",
    )
    assert kept(path).entities == 1
    assert asked(path, "select earlier_id, later_id, entity_id from limbic_duplicates") == [
        (1, 2, 1),
        (3, 4, 1),
    ]


# settings --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plain", "accented"),
    [
        ("a", "áàâäãå"),
        ("e", "éèêë"),
        ("i", "íìîï"),
        ("o", "óòôöõ"),
        ("u", "úùûü"),
        ("n", "ñ"),
        ("c", "ç"),
    ],
)
def test_views_take_every_accent_for_its_letter(empty_db: Any, plain: str, accented: str) -> None:
    with closing(connection.connect(empty_db)) as conn:
        conn.execute(
            "insert into limbic_settings(key, value) values (?, 3)",
            [f"split_threshold:x{plain}x"],
        )
        kinds = [f"X{letter}X" for letter in (*accented, *accented.upper(), plain)]
        conn.executemany(
            "insert into entities(id, name, entity_type) values (?, 'e' || ?1, ?)",
            list(enumerate(kinds, 1)),
        )
        conn.execute(
            "insert into observations(entity_id, content) select e.id, v.value"
            " from entities e, json_each('[1, 2, 3, 4]') v"
        )
        conn.commit()
        # stock SQL, as another program reads the view
        found = asked(empty_db, "select entity_type, threshold from limbic_large_entities")
    assert sorted(found) == sorted((kind, 3) for kind in kinds)


@pytest.mark.parametrize(
    ("rows", "model", "cosine", "look"),
    [
        ({}, "any", 0.85, 0.75),
        ({"look_threshold": "0.9"}, "any", 0.85, 0.85),  # never above the other
        ({"duplicate_threshold": "0.6"}, "any", 0.6, 0.6),
        ({"look_threshold:mine": "0.4"}, "mine", 0.85, 0.4),
        ({"look_threshold:mine": "0.4"}, "other", 0.85, 0.75),
        ({"look_threshold:mine": "0.4", "look_threshold": "0.5"}, "mine", 0.85, 0.4),
        ({"look_threshold:mine": "0.4", "look_threshold": "0.5"}, "other", 0.85, 0.5),
        ({"duplicate_threshold:mine": "0.7"}, "mine", 0.7, 0.7),
        ({"look_threshold:mine": "0.99"}, "mine", 0.85, 0.85),
        ({"look_threshold": "0.5"}, None, 0.85, 0.5),
    ],
)
def test_thresholds_of_a_model(
    empty_db: Any, rows: dict[str, str], model: str | None, cosine: float, look: float
) -> None:
    with closing(connection.connect(empty_db)) as conn:
        conn.executemany(
            "insert into limbic_settings(key, value) values (?, ?)"
            " on conflict(key) do update set value = excluded.value",
            list(rows.items()),
        )
        found = report_settings.read(conn).thresholds(model)
    assert found == replace(Thresholds(), cosine=cosine, look=look)


# duplicates ------------------------------------------------------------------------------------


def test_without_vectors_the_pair_that_holds_more_comes_first(path: Any) -> None:
    rest = "and then very many further things follow that nobody has said before in any place"
    texts = {
        11: "maple cedar willow birch poplar",
        12: f"maple cedar willow birch {rest}",
        13: "granite marble slate basalt quartz",
        14: f"granite marble slate basalt quartz {rest}",
    }
    written(
        path,
        "insert into entities(id, name) values (9, 'nine')",
        *(f"insert into observations(id, entity_id, content) values ({n}, 9, '{text}')"
          for n, text in texts.items()),
    )  # fmt: skip
    found = called(path, find_duplicate_observations, 9)["pairs"]
    assert [(p["earlier"]["id"], p["later"]["id"], p["containment"]) for p in found] == [
        (13, 14, 1.0),
        (11, 12, 0.8),
    ]


def test_members_across_entities_are_those_in_use(path: Any) -> None:
    written(
        path,
        *(f"insert into entities(id, name) values ({n}, 'e{n}')" for n in (3, 4, 5, 6)),
        *(f"insert into observations(id, entity_id, content) values ({n}0, {n}, '{OTHER}')"
          for n in (3, 4, 5, 6)),
    )  # fmt: skip
    kept(path)
    written(path, "update entities set archived_at = '2026-01-01' where id = 3")
    # as time does it: no trigger sees that one ends and another has yet to begin
    unseen(
        path,
        "update observations set valid_to = '2020-01-01' where entity_id = 4",
        "update observations set valid_from = '2999-01-01' where entity_id = 6",
    )
    (group,) = called(path, across_entities)["groups"]
    assert [member["entity_id"] for member in group["members"]] == [2, 5]
    assert (group["entities"], group["observations"]) == (2, 2)


def test_of_a_large_clash_those_in_use_are_not_cut_off(path: Any) -> None:
    spellings = itertools.islice(
        ("".join(each) for each in itertools.product(*zip("abcdef", "ABCDEF", strict=True))),
        SHOWN + 5,
    )
    written(
        path,
        *(f"insert into entities(id, name, archived_at) values ({n}, '{name}', '2026-01-01')"
          for n, name in enumerate(spellings, 10)),
        "update entities set archived_at = null where id = (select max(id) from entities)",
    )  # fmt: skip
    (group,) = called(path, name_clashes)["groups"]
    assert (group["entities"], len(group["members"])) == (SHOWN + 5, SHOWN)
    assert group["members"][0]["archived_at"] is None
    assert group["members"][0]["id"] == 10 + SHOWN + 4


@pytest.mark.parametrize(("length", "listed"), [(2, False), (3, False), (4, True), (7, True)])
def test_a_list_is_followed_to_its_end(length: int, listed: bool) -> None:
    """Each is alike to its neighbours alone, so that one of it sees one other at a time."""
    words = (
        "lamp table chair window door carpet mirror shelf clock basket curtain pillow blanket"
        " drawer"
    ).split()
    observations = [
        Observation(i, 1, f"The {' '.join(words[i : i + 8])} cost {100 + 7 * i} euros")
        for i in range(length)
    ]
    angles = np.radians(35 * np.arange(length))
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    whole = find_pairs(observations, vectors, Thresholds())
    assert len(whole) == (0 if listed else length - 1)
    for one in range(length):
        some = find_pairs(observations, vectors, Thresholds(), only={one})
        assert some == [p for p in whole if one in (p.earlier_id, p.later_id)]


# health ----------------------------------------------------------------------------------------


def test_what_is_wrong_with_an_index_stands_on_one_page(tmp_path: Any) -> None:
    path = healthy_memory(tmp_path / "memory.db")
    change(path, "update limbic_indexes set vectors = 99")
    pages = []
    for page in (1, 2, 3):
        report = called(path, health.health_report, only="vectors", page=page, size=1)
        (finding,) = report["findings"]
        assert (finding["count"], finding["pages"]) == (2, 2)
        pages.append([row["collection"] for row in finding["rows"]])
    assert sorted(pages) == [[], ["entities"], ["observations"]]
    assert pages[2] == []


def fill(conn: Any, live: set[int], archived: set[int], links: Any) -> None:
    conn.executemany(
        "insert into entities(id, name, archived_at) values (?, 'e' || ?1, ?)",
        [*((i, None) for i in live), *((i, OVER) for i in archived)],
    )
    for one, other in links:
        relate(conn, one, other)


@pytest.fixture(name="conn")
def empty_memory(empty_db: Any) -> Any:
    with closing(connection.connect(empty_db)) as conn:
        conn.execute("pragma foreign_keys = off")
        yield conn


def test_the_only_links_come_first_however_little_they_join(conn: Any) -> None:
    # 100 and 101 each join the two large parts; 102 alone joins two entities
    large = [(n, n + 1) for part in (1, 11) for n in range(part, part + 8)]
    either = [(1, 100), (100, 11), (1, 101), (101, 11)]
    fill(conn, {*range(1, 20), 30, 31}, {100, 101, 102}, [*large, *either, (30, 102), (102, 31)])
    found = bridges.bridges(conn, NOW)
    assert found.ids == [102, 100, 101]
    assert [bridge.only for bridge in found.shown(0, 9)] == [True, False, False]


def test_what_is_gone_joins_nothing(conn: Any) -> None:
    fill(conn, {1, 2}, {10, 11}, [(1, 10), (10, 99), (99, 11), (11, 2)])
    assert bridges.bridges(conn, NOW).ids == []
    fill(conn, set(), {99}, [])
    assert bridges.bridges(conn, NOW).ids == [10, 11, 99]
