"""What follows from an action in rare states of a file: pairs and flags, rows that came back
meanwhile, marks of the index, a transaction that SQLite takes back by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from actions_helpers import (
    ARGUMENTS,
    ATLAS,
    BOREALIS,
    EMPTY,
    LIKE,
    TWIN,
    acted_fixture,  # noqa: F401
    acted_master_fixture,  # noqa: F401
    assert_settled,
    differing,
    dump,
    opened,
)

from datasette_limbic.actions.acting import act
from datasette_limbic.actions.kinds import KINDS
from datasette_limbic.actions.rows import TABLES, words
from datasette_limbic.cli.split_children import read_children
from datasette_limbic.config import Settings
from datasette_limbic.errors import DependedOn, NotEmbedded, Refused
from datasette_limbic.insights.approving import approval
from datasette_limbic.sync import sync
from datasette_limbic.views import acting_form

PAIR = (
    "insert or replace into limbic_duplicates(earlier_id, later_id, entity_id, kind, rule, cosine,"
    " containment) values (?, ?, ?, 'duplicate', 'exact', 1.0, 1.0)"
)


def pairs(conn: Any, entity: int) -> list[tuple[int, int]]:
    found = conn.execute(
        "select earlier_id, later_id from limbic_duplicates where entity_id = ? order by 1, 2",
        [entity],
    )
    return [(earlier, later) for earlier, later in found.fetchall()]


@pytest.fixture
def conn(acted: Path) -> Any:
    with opened(acted) as opened_one:
        yield opened_one


@pytest.mark.parametrize(
    ("gone", "flag"),
    [([13], 1), ([14], 1), ([13, 14], 0)],
)
def test_a_flag_stays_while_one_of_its_pairs_does(conn: Any, gone: list[int], flag: int) -> None:
    conn.executemany(PAIR, [(13, 15, LIKE), (14, 15, LIKE)])
    conn.execute("update observations set similarity_flag = 1 where id = 15")
    conn.commit()
    shown = act(conn, "delete", {"observations": gone}, dry_run=True)
    [after] = [row["after"] for row in shown["diff"]["rows"] if row["key"] == [15]] or [{}]
    assert after.get("similarity_flag") == (None if flag else 0)
    act(conn, "delete", {"observations": gone})
    assert conn.execute("select similarity_flag from observations where id = 15").fetchone() == (
        flag,
    )


def test_a_pair_comes_back_with_the_entity_of_its_texts(conn: Any) -> None:
    """Another program had written it down as that of another entity."""
    conn.execute("delete from limbic_duplicates")
    conn.execute(PAIR, [13, 14, BOREALIS])
    conn.commit()
    change = act(conn, "delete", {"observations": [14]})["change"]
    assert (pairs(conn, BOREALIS), pairs(conn, LIKE)) == ([], [])
    act(conn, "undo", {"change": change})
    assert (pairs(conn, BOREALIS), pairs(conn, LIKE)) == ([], [(13, 14)])


def test_what_it_goes_back_to_was_asserted_again(conn: Any) -> None:
    change = act(conn, "merge_entities", {"keep": ATLAS, "others": [TWIN]})["change"]
    conn.execute(
        "insert into relations(id, from_entity, to_entity, relation_type) values (90, ?, ?, 'has')",
        [TWIN, EMPTY],
    )
    conn.commit()
    before = dump(conn)
    with pytest.raises(DependedOn, match="relation 90 says the same now"):
        act(conn, "undo", {"change": change})
    assert differing(before, dump(conn)) == {}


def test_a_finding_that_was_raised_again_does_not_come_back_twice(conn: Any) -> None:
    raised = (
        "insert into limbic_insights(id, key, kind, entity_id, title, body, evidence,"
        " evidence_digest) values (?, 'archive_candidate:x', 'archive_candidate', ?, 't', 'b',"
        " '{}', 'd')"
    )
    split = act(conn, *ARGUMENTS["split"])["change"]
    child = conn.execute("select id from entities where name = 'Atlas: maps'").fetchone()[0]
    conn.execute(raised, [70, child])
    conn.commit()
    undone = act(conn, "undo", {"change": split})["change"]
    found = "select id from limbic_insights where key = 'archive_candidate:x'"
    assert conn.execute(found).fetchall() == []  # it went with the entity that it was about
    conn.execute(raised, [71, ATLAS])
    conn.commit()
    act(conn, "undo", {"change": undone})
    assert conn.execute(found).fetchall() == [(71,)]


@pytest.mark.parametrize("case", ["correct", "delete", "split"])
def test_a_transaction_of_the_caller_that_sqlite_takes_back(conn: Any, case: str) -> None:
    """``raise(rollback)`` does what a full disk may do: all is rolled back, savepoints too."""
    conn.executescript(
        "create trigger full_u before update on observations begin select raise(rollback, 'full');"
        " end; create trigger full_d before delete on observations begin"
        " select raise(rollback, 'full'); end;"
    )
    before = dump(conn)
    conn.execute("begin")
    conn.execute("insert into entities(name) values ('of the caller')")
    with pytest.raises(Refused, match=r"nothing was changed: .*full"):
        act(conn, *ARGUMENTS[case])
    assert not conn.in_transaction
    assert differing(before, dump(conn)) == {}


@pytest.mark.parametrize("embed", [True, False])
def test_what_the_index_still_holds_stays_marked(conn: Any, embed: bool) -> None:
    act(conn, "delete", {"observations": [3]}, embed=embed)
    marked = conn.execute(
        "select item_id from limbic_stale where collection = 'observations'"
    ).fetchall()
    assert marked == ([] if embed else [(3,)])
    sync(conn, reports=False)
    assert_settled(conn)


def test_the_last_vector_that_went_says_how_long_vectors_are(conn: Any) -> None:
    """The model's name is the same; what it gives is another, as when it was replaced."""
    every = [row[0] for row in conn.execute("select id from observations")]
    change = act(conn, "delete", {"observations": every})["change"]
    before = dump(conn)
    with pytest.raises(NotEmbedded, match="16"):
        act(conn, "undo", {"change": change}, settings=Settings(model="bag16"))
    assert differing(before, dump(conn)) == {}
    act(conn, "undo", {"change": change})
    assert_settled(conn)


# what comes from elsewhere ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "expected"), [("", None), (None, None), ("Tool", "Tool"), (" ", " ")]
)
def test_children_of_a_parent_without_a_type(given: Any, expected: Any) -> None:
    """A proposal says "" for them; in a split that is no type, and the parent's is None."""
    child = {"name": "n", "entityType": given, "observations": [{"id": 1, "content": "c"}, 2]}
    [read], rest = read_children({"children": [child], "id": 5})
    assert read == {"name": "n", "entityType": expected, "observations": [1, 2]}
    assert rest == {"id": 5}


@pytest.mark.parametrize(
    ("kind", "entity", "action"),
    [
        ("archive_candidate", {"id": 4}, "archive"),
        ("archive_candidate", None, None),
        ("split", {"id": 4}, None),
    ],
)
def test_what_an_import_brought(kind: str, entity: Any, action: str | None) -> None:
    found = {
        "id": 1, "ours": False, "kind": kind, "entity": entity, "title": "t", "body": "why",
        "action": None, "arguments": None, "facts": {},
    }  # fmt: skip
    assert approval(found).action == action


class _Here:
    def url(self, path: str = "") -> str:
        return f"/m/-/limbic{path}"


def of_form(action: str, *fields: tuple[str, str]) -> dict[str, Any]:
    here: Any = _Here()
    return acting_form.of_form(here, KINDS[action], fields).arguments


def test_a_place_among_children_that_are_not_there_yet() -> None:
    """The observation is in a child without a name, which the split then asks for; never lost."""
    found = of_form("split", ("entity", "1"), ("place.3", "1"), ("place.4", ""))
    assert [child["observations"] for child in found["children"]] == [[3]]


@pytest.mark.parametrize(
    ("index", "value", "said"),
    [
        ("0", "99", r"clusters\.0\.remove is 99: use one of \[2, 3\]"),
        ("0", "x", r"clusters\.0\.remove is 'x': use one of"),
        ("4", "2", r"clusters\.4\.remove: there are 1 clusters"),
        ("0", "", "none would go: tick at least one"),
    ],
)
def test_what_is_ticked_is_of_the_cluster(index: str, value: str, said: str) -> None:
    arguments = '{"entity": 1, "clusters": [{"keep": 1, "remove": [2, 3]}]}'
    with pytest.raises(ValueError, match=said):
        of_form("merge", ("arguments", arguments), (f"clusters.{index}.remove", value))


# words --------------------------------------------------------------------------------------------


def test_each_table_has_words() -> None:
    assert words("entities") == ("entity", "entities")
    assert words("limbic_insights") == (
        "finding of the review queue",
        "findings of the review queue",
    )
    assert words("notes") == ("row of notes", "rows of notes")
    assert len({words(table) for table in TABLES}) == len(TABLES)
