"""Merging duplicates: exactly one stays, and no sequence of merges loses a text."""

from __future__ import annotations

import json
from contextlib import closing

import pytest
from actions_helpers import everything
from embedding_helpers import DIMENSION, blob, store
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datasette_limbic import connection, schema
from datasette_limbic.actions import merged
from datasette_limbic.actions.functions import (
    delete_observations,
    end_observation,
    merge_observations,
    undo_change,
)
from datasette_limbic.duplicates import Observation, Pair, Thresholds, clusters, find_pairs
from datasette_limbic.duplicates.stars import by_pairs, stars
from datasette_limbic.errors import (
    BadParameter,
    DependedOn,
    Refused,
    StaleProposal,
    UnknownEntity,
    UnknownRow,
)
from datasette_limbic.reports.keeping import keep
from datasette_limbic.text import normalise

SAME = "The deploy runs early in the morning"
LONGER = SAME + ", after the backup was copied to the second machine and somebody looked at it"
OTHER = "Oranges grow in the valley behind the house"
LONG = f"{SAME} " * 600


def fill(conn, *texts, entity=1, first=1):
    """``texts`` as observations of one entity, ids from ``first`` on."""
    conn.execute(
        "insert or ignore into entities(id, name, last_activity_at, updated_at) values"
        " (?1, 'entity ' || ?1, '2024-01-01 00:00:00', '2024-01-01 00:00:00')",
        [entity],
    )
    conn.executemany(
        "insert into observations(id, entity_id, content, created_at) values (?, ?, ?, ?)",
        [
            (number, entity, text, f"2024-02-{number:02} 00:00:00")
            for number, text in enumerate(texts, first)
        ],
    )
    conn.execute(
        "update entities set last_activity_at = '2024-01-01 00:00:00',"
        " updated_at = '2024-01-01 00:00:00'"
    )
    conn.commit()


def there(conn):
    return [row[0] for row in conn.execute("select id from observations order by id")]


def cluster(kept, *removed):
    return {"keep": kept, "remove": list(removed)}


def axis(*near):
    """A vector of the given values, then zeros."""
    return blob(*near, *[0.0] * (DIMENSION - len(near)))


def test_one_of_each_cluster_stays_as_it_is(conn):
    fill(conn, SAME, SAME.upper() + ".", SAME, OTHER, OTHER + "!")
    keep(conn)
    before = conn.execute("select * from observations where id in (2, 4)").fetchall()
    entity = conn.execute("select * from entities").fetchall()
    done = merge_observations(conn, "entity 1", [cluster(2, 1, 3), cluster(4, 5)], actor="ana")
    assert there(conn) == [2, 4]
    after = conn.execute("select * from observations where id in (2, 4)").fetchall()
    flagged = [column[0] for column in conn.execute("select * from observations").description]
    flag = flagged.index("similarity_flag")
    assert [row[:flag] + row[flag + 1 :] for row in after] == [
        row[:flag] + row[flag + 1 :] for row in before
    ]
    assert [row[flag] for row in after] == [0, 0], "a flag for a pair that is gone"
    assert conn.execute("select * from limbic_duplicates").fetchall() == []
    assert conn.execute("select * from entities").fetchall() == entity, "merging is no activity"
    assert done["summary"] == "Merge 3 observations of 'entity 1' into 2 that stay"
    removed = [row for row in done["diff"]["rows"] if row["what"] == "removed"]
    assert {row["key"][0]: row["shown"]["kept"] for row in removed} == {1: 2, 3: 2, 5: 4}
    undo_change(conn, done["change"])
    assert there(conn) == [1, 2, 3, 4, 5]


def test_what_is_suggested(conn):
    fill(conn, SAME, LONGER, SAME + "!", OTHER, OTHER, "Status: open", "Status: closed")
    for _ in range(2):  # compared now, then by what is kept
        found = merge_observations(conn, 1, dry_run=True)
        assert found["arguments"] == {
            "entity": 1,
            "clusters": [cluster(2, 1, 3), cluster(4, 5)],
        }
        keep(conn)
    done = merge_observations(conn, 1, basis=found["basis"])
    assert there(conn) == [2, 4, 6, 7], "a contradiction was merged"
    assert done["arguments"] == found["arguments"]
    with pytest.raises(Refused, match="'entity 1' has no duplicates among its 4 observations"):
        merge_observations(conn, 1)


def test_stars():
    texts = ["a b c d", "A b c d", "a b c d e f", "x", "a b c d e f g h", "q r s"]
    rows = [Observation(i, 1, text) for i, text in enumerate(texts, 1)]
    chain = [(1, 2), (1, 3), (3, 5), (4, 5)]
    pairs = [Pair(1, a, b, "duplicate", "cosine", 0.9, None, None) for a, b in chain]
    (found,) = clusters(pairs, rows)
    # 5 is the longest, and of no pair with 1 and 2, which are one text
    assert stars(found, rows, by_pairs(pairs, rows)) == [(5, [3, 4]), (1, [2])]
    looked_at = [Pair(1, 1, 6, "look", "cosine", 0.8, None, None)]
    assert not by_pairs(looked_at, rows)(1, 6)


REFUSED = {
    "no clusters": ([], BadParameter, "clusters is \\[\\]: give a list"),
    "a text": ("1,2", BadParameter, "clusters is '1,2'"),
    "a cluster that is none": ([3], BadParameter, "a cluster is 3"),
    "an unknown key": (
        [{"keep": 1, "remove": [2], "drop": 3}], BadParameter, "unknown drop in a cluster",
    ),
    "no keep": ([{"remove": [2]}], BadParameter, "keep is None: use an id"),
    "keep is true": ([{"keep": True, "remove": [2]}], BadParameter, "keep is True"),
    "nothing to remove": ([cluster(1)], BadParameter, "remove has 0 ids"),
    "no remove": ([{"keep": 1}], BadParameter, "remove is None: give a list of ids"),
    "kept and removed": ([cluster(1, 1)], BadParameter, "observation 1 is to be kept and removed"),
    "removed twice": ([cluster(1, 2, 2)], BadParameter, "same id twice: 2"),
    "in two clusters": (
        [cluster(1, 2), cluster(3, 2)], BadParameter, "observation 2 is in two clusters",
    ),
    "kept here, removed there": (
        [cluster(1, 2), cluster(3, 1)], BadParameter, "observation 1 is in two clusters",
    ),
    "too many": (
        [cluster(1, *range(2, 10_001)), cluster(10_001, 10_002)], BadParameter, "at most 10,000",
    ),
    "unknown": ([cluster(1, 99)], UnknownRow, "no observation 99"),
    "beyond 64 bits": ([cluster(1, 1 << 70)], BadParameter, "use an id"),
    "of another entity": (
        [cluster(1, 20)], Refused, "observation 20 belongs to 'entity 2', not to 'entity 1'",
    ),
    "not alike": ([cluster(1, 4)], Refused, "observations 1 and 4 do not say the same"),
    "a contradiction": (
        [cluster(5, 6)], Refused, r"contradict each other \(status: open / closed\).*action end",
    ),
    "the longer one": (
        [cluster(1, 3)], Refused, "observation 3 says more than observation 1 .*keep 3 instead",
    ),
    "ended": ([cluster(1, 7)], Refused, "observation 7 ended at 2024-03-01 00:00:00"),
    "ended is kept": ([cluster(7, 1)], Refused, "observation 7 ended at"),
    "to come": ([cluster(1, 8)], Refused, "observation 8 holds from 2099-01-01 00:00:00 on"),
    "beyond what is compared": (
        [cluster(9, 10)], Refused, "observation 10 has .* characters, and only the first 20,000",
    ),
    "bytes that differ": ([cluster(11, 12)], Refused, "cannot be read, and differ in their bytes"),
}  # fmt: skip


def _fill_many(conn):
    fill(
        conn, SAME, SAME, LONGER, OTHER, "Status: open", "Status: closed", SAME, SAME,
        LONG * 3, LONG + "more", "x", "y",
    )  # fmt: skip
    fill(conn, SAME, entity=2, first=20)
    conn.executescript(
        "update observations set valid_to = '2024-03-01 00:00:00' where id = 7;"
        "update observations set valid_from = '2099-01-01 00:00:00' where id = 8;"
        "update observations set content = cast(x'c3' as text) where id = 11;"
        "update observations set content = cast(x'c4' as text) where id = 12;"
    )


@pytest.fixture
def many(conn):
    _fill_many(conn)
    return conn


@pytest.fixture(scope="module")
def refusing(tmp_path_factory):
    """One memory for all that is refused, since nothing changes it."""
    path = tmp_path_factory.mktemp("refusing") / "memory.db"
    with closing(connection.connect(path, create=True)) as conn:
        schema.init(conn)
        _fill_many(conn)
        yield conn


@pytest.mark.parametrize("case", REFUSED)
def test_refused(refusing, case):
    asked, error, message = REFUSED[case]
    before = everything(refusing)
    with pytest.raises(error, match=message) as raised:
        merge_observations(refusing, 1, asked)
    assert raised.type is error
    assert everything(refusing) == before


def test_entity_refused(many):
    with pytest.raises(UnknownEntity, match="no entity with the name 'nobody'"):
        merge_observations(many, "nobody", [cluster(1, 2)])
    many.execute("update entities set archived_at = '2024-05-01 00:00:00' where id = 1")
    many.commit()
    for asked in ([cluster(1, 2)], None):
        with pytest.raises(Refused, match=r"'entity 1' was archived at .*: restore it first"):
            merge_observations(many, 1, asked)


def test_same_bytes_are_the_same(many):
    many.execute("update observations set content = (select content from observations where id=11)")
    many.commit()
    merge_observations(many, 1, [cluster(11, 12)])
    left = many.execute("select id from observations where id in (11, 12)").fetchall()
    assert left == [(11,)]


def test_what_goes_is_said(many):
    many.execute(
        "update observations set kind = 'fact', confidence = 0.5, valid_from = '2020-01-01',"
        " supersedes = 4 where id = 2"
    )
    many.commit()
    found = merge_observations(many, 1, [cluster(1, 2)], dry_run=True)
    assert found["warnings"] == [
        "observation 2 has kind fact and confidence 0.5 and valid_from 2020-01-01, which "
        "observation 1 has not"
    ]


def test_by_meaning(conn, models):
    """The vectors say that two texts are alike which share few words."""
    fill(conn, "Elena prefers green tea", "Green tea is what Elena drinks", "Elena naps at noon")
    for number, vector in enumerate((axis(1, 0), axis(1, 0.1), axis(0, 1)), 1):
        store(conn, "observations", {number: vector})
    conn.execute("delete from limbic_stale")
    conn.commit()
    with pytest.raises(Refused, match="observations 1 and 3 do not say the same"):
        merge_observations(conn, 1, [cluster(1, 3)])
    done = merge_observations(conn, 1, [cluster(1, 2)], embed=False)
    undo_change(conn, done["change"], embed=False)
    conn.execute("delete from embeddings")
    conn.commit()
    with pytest.raises(Refused, match="observations 1 and 2 do not say the same"):
        merge_observations(conn, 1, [cluster(1, 2)])


def test_a_kept_pair_counts_until_something_changes(conn):
    fill(conn, "Elena prefers green tea", "Green tea is what Elena drinks")
    keep(conn)
    conn.execute(
        "insert into limbic_duplicates(earlier_id, later_id, entity_id, kind, rule, cosine)"
        " values (1, 2, 1, 'duplicate', 'cosine', 0.9)"
    )
    conn.commit()
    assert merge_observations(conn, 1, [cluster(1, 2)], dry_run=True)["warnings"] == []
    conn.execute(
        "insert into observations(id, entity_id, content) values (3, 1, 'Elena naps at noon')"
    )
    conn.commit()
    with pytest.raises(Refused, match="do not say the same"):
        merge_observations(conn, 1, [cluster(1, 2)])


def test_a_kept_contradiction_is_refused(conn):
    fill(conn, SAME, LONGER)
    keep(conn)
    conn.execute("update limbic_duplicates set kind = 'contradiction', difference = 'x: 1 / 2'")
    conn.commit()
    with pytest.raises(Refused, match=r"contradict each other \(x: 1 / 2\)"):
        merge_observations(conn, 1, [cluster(2, 1)])


# sequences ----------------------------------------------------------------------------------------

SHORT = "The deploy runs early"
WIDE = "The deploy runs early on Monday in winter with the old script and on foot"


def test_what_was_merged_before_must_be_said_too(conn):
    """1 is kept for 2; 3 says 1, and has nothing of 2."""
    first = "Deploys happen before breakfast and nobody is awake"
    fill(conn, "The deploy runs early", first, WIDE, WIDE + ": " + first)
    store(conn, "observations", {1: axis(1, 0), 2: axis(1, 0.1)})
    conn.execute("delete from limbic_stale")
    conn.commit()
    with pytest.raises(Refused, match="observation 2 says more"):
        merge_observations(conn, 1, [cluster(1, 2)], embed=False)
    conn.execute("update observations set content = substr(content, 1, 33) where id = 2")
    conn.execute("delete from limbic_stale")
    conn.commit()
    done = merge_observations(conn, 1, [cluster(1, 2)], embed=False)
    assert [m.id for m in merged.stood_for(conn, [1, 3])[1]] == [2]
    with pytest.raises(
        Refused,
        match=rf"observation 1 was kept for observation 2 “Deploys happen .*” \(change "
        rf"{done['change']}\), which observation 3 does not say .*: keep 1 instead",
    ):
        merge_observations(conn, 1, [cluster(3, 1)], embed=False)
    conn.execute("delete from observations where id = 4")
    conn.commit()
    # what is suggested is refused too, rather than losing it: 1 goes the other way or stays
    with pytest.raises(Refused, match="those that are alike cannot be merged"):
        merge_observations(conn, 1, embed=False)
    undo_change(conn, done["change"], embed=False)
    assert merged.stood_for(conn, [1]) == {}
    merge_observations(conn, 1, [cluster(3, 1)], embed=False)


def test_each_a_little_shorter_is_no_way_either(conn):
    """2 says 1 and 3 says 2, but 1 has twice the words of 3."""
    middle = SHORT + " on foot"
    fill(conn, middle + " when it rains hard", middle, SHORT)
    store(conn, "observations", {n: axis(1) for n in (1, 2, 3)})
    conn.execute("delete from limbic_stale")
    conn.commit()
    merge_observations(conn, 1, [cluster(2, 1)], embed=False)
    with pytest.raises(Refused, match="observation 2 was kept for observation 1"):
        merge_observations(conn, 1, [cluster(3, 2)], embed=False)


def test_what_still_stands_there_need_not_be_said_again(conn):
    fill(conn, SHORT, "Deploys happen before breakfast", WIDE)
    store(conn, "observations", {1: axis(1, 0), 2: axis(1, 0.1)})
    conn.execute("delete from limbic_stale")
    conn.commit()
    merge_observations(conn, 1, [cluster(1, 2)], embed=False)
    fill(conn, "deploys happen before breakfast!", first=9)
    merge_observations(conn, 1, [cluster(3, 1)], embed=False)
    assert [m.id for m in merged.stood_for(conn, [3])[3]] == [1, 2]


def test_an_id_that_is_another_ones_now_stands_for_nothing(conn):
    fill(conn, OTHER, SAME, SAME)
    done = merge_observations(conn, 1, [cluster(3, 2)])
    delete_observations(conn, [3])
    fill(conn, OTHER, first=3)
    assert merged.stood_for(conn, [3]) == {}
    with pytest.raises(DependedOn, match="observation 3 has been given to another row"):
        undo_change(conn, done["change"] + 1)
    undo_change(conn, done["change"])
    assert there(conn) == [1, 2, 3]


def test_stale_and_told_what_changed(conn):
    fill(conn, SAME, SAME, OTHER)
    found = merge_observations(conn, 1, dry_run=True)
    fill(conn, OTHER, first=4)
    with pytest.raises(StaleProposal, match="observation 3, observation 4 came"):
        merge_observations(conn, 1, basis=found["basis"])
    # what was shown and is as it was may go all the same
    merge_observations(conn, 1, found["arguments"]["clusters"], basis=found["basis"])
    assert there(conn) == [1, 3, 4]


_PIECES = ("the deploy runs early", "on monday", "with the old script", "in oslo", "after lunch")


def _other_way_round(conn):
    merge_observations(conn, 1, [cluster(2, 1)])


def _kept_one_rewritten(conn):
    conn.execute("update observations set content = ? where id = 1", [OTHER])
    conn.commit()


def _kept_one_ended(conn):
    end_observation(conn, 1)


@pytest.mark.parametrize(
    ("meanwhile", "said"),
    [
        (_other_way_round, "observation 1 is not there any more, which was kept for 2"),
        (_kept_one_rewritten, "observation 1 does not say any more what 2 says"),
        (_kept_one_ended, "observation 1 does not hold now, and 2 would go"),
    ],
)
def test_undoing_what_undid_a_merge_asks_again_who_says_it(conn, meanwhile, said):
    fill(conn, SAME, SAME + "!")
    done = merge_observations(conn, 1, [cluster(1, 2)])
    undone = undo_change(conn, done["change"])
    meanwhile(conn)
    left = there(conn)
    with pytest.raises(DependedOn, match=said):
        undo_change(conn, undone["change"])
    assert there(conn) == left


def test_undoing_what_undid_a_merge_merges_again(conn):
    fill(conn, SAME, SAME + "!")
    done = merge_observations(conn, 1, [cluster(1, 2)])
    change = done["change"]
    for left in ([1, 2], [1], [1, 2], [1]):
        change = undo_change(conn, change)["change"]
        assert there(conn) == left


_TEXTS = st.builds(
    lambda pieces, end, loud: ((" ".join(pieces)).upper() if loud else " ".join(pieces)) + end,
    st.lists(st.sampled_from(_PIECES), min_size=1, max_size=4),
    st.sampled_from(["", ".", "!"]),
    st.booleans(),
)
_MERGES = st.lists(
    st.one_of(
        st.none(),
        st.integers(0, 6),
        st.tuples(st.integers(1, 9), st.sets(st.integers(1, 9), min_size=1, max_size=3)),
    ),
    min_size=1,
    max_size=7,
)


@pytest.fixture(scope="module")
def playground(tmp_path_factory):
    """One memory for all examples: each of them works in it and takes it back."""
    with closing(connection.connect(tmp_path_factory.mktemp("m") / "m.db", create=True)) as conn:
        schema.init(conn)
        conn.commit()
        yield conn


@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(texts=st.lists(_TEXTS, min_size=3, max_size=9), merges=_MERGES, seed=st.integers(0, 99))
def test_no_sequence_of_merges_loses_a_text(playground, texts, merges, seed):
    conn = playground
    conn.execute("delete from limbic_changes")
    conn.execute("delete from entities")
    conn.execute("delete from embeddings")
    fill(conn, *texts)
    # some have vectors, by which more of them are alike
    for number in range(1, len(texts) + 1):
        if (number * (seed + 1)) % 3:
            near = ((seed * number) % 7) / 10
            store(conn, "observations", {number: axis(1, near)})
    conn.execute("delete from limbic_stale")
    conn.commit()
    started = dict(enumerate(texts, 1))
    changes = []
    for merge in merges:
        count = len(there(conn))
        try:
            if isinstance(merge, int):  # any of them, undoings too
                if changes:
                    undone = undo_change(conn, changes[merge % len(changes)], embed=False)
                    changes.append(undone["change"])
                continue
            asked = None if merge is None else [cluster(merge[0], *merge[1] - {merge[0]})]
            done = merge_observations(conn, 1, asked, embed=False)
        except (BadParameter, UnknownRow, Refused):
            continue
        changes.append(done["change"])
        removed = [n for each in done["arguments"]["clusters"] for n in each["remove"]]
        assert len(there(conn)) == count - len(removed) > 0
    left = there(conn)
    present = {normalise(started[number]) for number in left}
    stands = merged.stood_for(conn, left)
    log = {
        (change, n): each["keep"]
        for change, text in conn.execute(
            "select id, json_extract(after, '$.arguments.clusters') from limbic_changes"
            " where action = 'merge' and undone_by is null"
        )
        for each in json.loads(text)
        for n in each["remove"]
    }
    for number, text in started.items():
        if normalise(text) in present:
            continue
        holders = [
            (kept, each) for kept, some in stands.items() for each in some if each.id == number
        ]
        assert holders, f"{text!r} is nowhere"
        for kept, each in holders:
            assert each.content == text
            if log[each.change, number] == kept:
                continue  # judged, with the vectors of then
            one, two = Observation(kept, 1, started[kept]), Observation(number, 1, text)
            (pair,) = find_pairs([one, two], None, Thresholds())
            assert pair.kind == "duplicate"
            assert len(text) < 2 * len(started[kept])


def test_five_thousand(conn):
    """Not slow where nearly all goes: two writers wait for each other otherwise."""
    import time

    conn.execute("insert into entities(id, name) values (1, 'large')")
    conn.executemany(
        "insert into observations(id, entity_id, content) values (?, 1, ?)",
        [(n, f"{SAME} of number {n % 50}") for n in range(1, 5_001)],
    )
    conn.commit()
    wanted = [cluster(n, *range(n + 50, 5_001, 50)) for n in range(1, 51)]
    started = time.process_time()
    merge_observations(conn, 1, wanted, embed=False)
    assert time.process_time() - started < 4, "takes 0.6 s where nothing else runs"
    assert there(conn) == list(range(1, 51))


def test_ended_meanwhile_is_stale(conn):
    fill(conn, SAME, SAME)
    found = merge_observations(conn, 1, [cluster(1, 2)], dry_run=True)
    end_observation(conn, 1, embed=False)
    with pytest.raises((StaleProposal, Refused), match="observation 1"):
        merge_observations(conn, 1, [cluster(1, 2)], basis=found["basis"])
