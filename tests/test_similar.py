"""Duplicates of one entity and of a whole memory; equal texts elsewhere; names alike."""

from __future__ import annotations

import json
from contextlib import closing

import pytest
from duplicates_helpers import LONGER, OTHER, SAME, flags, kept, made, written
from embedding_helpers import blob, store
from view_helpers import digest

from datasette_limbic import api, connection
from datasette_limbic.errors import BadParameter, NotAMemory, UnknownEntity
from datasette_limbic.reports import similar
from datasette_limbic.reports.across import SHOWN, across_entities
from datasette_limbic.reports.name_clashes import folded, name_clashes


@pytest.fixture(name="path")
def memory(tmp_path):
    return made(tmp_path / "memory.db")


@pytest.fixture(name="conn")
def reader(path):
    with closing(connection.connect(path, readonly=True)) as conn:
        yield conn


def find(path, *arguments, **options):
    """The answer, which is JSON, and leaves the file as it was."""
    before = digest(path)
    with closing(connection.connect(path, readonly=True)) as conn:
        found = api.find_duplicate_observations(conn, *arguments, **options)
    assert digest(path) == before
    json.dumps(found, allow_nan=False)
    return found


def find_all(path, **options):
    before = digest(path)
    with closing(connection.connect(path, readonly=True)) as conn:
        found = api.find_duplicates(conn, **options)
    assert digest(path) == before
    json.dumps(found, allow_nan=False)
    return found


def ids(pairs):
    return [(p["earlier"]["id"], p["later"]["id"]) for p in pairs]


# one entity ------------------------------------------------------------------------------------


def test_pairs_contradictions_and_clusters(path):
    written(path, f"insert into observations(id, entity_id, content) values (6, 1, '{SAME}')")
    found = find(path, 1)
    assert found["entity"] == {
        "id": 1,
        "name": "one",
        "entityType": "Thing",
        "archived_at": None,
    }
    assert found["observations"] == 5
    assert found["thresholds"] == {"cosine": 0.85, "look": 0.75, "containment": 0.7}
    assert found["model"] is None
    assert ids(found["pairs"]) == [(1, 2), (1, 6)]
    first = found["pairs"][0]
    assert (first["rule"], first["cosine"], first["containment"]) == ("exact", None, 1.0)
    assert first["earlier"] == {
        "id": 1,
        "content": SAME,
        "created_at": "2026-01-01 00:00:00",
        "similarity_flag": 0,
    }
    assert ids(found["contradictions"]) == [(3, 4)]
    assert found["contradictions"][0]["difference"] == "status: open / closed"
    assert found["worth_a_look"] == []
    (cluster,) = found["clusters"]
    assert cluster["ids"] == [1, 2, 6]
    assert cluster["survivor"]["id"] == 2  # with its full stop the longest
    assert "longest" in cluster["why"]
    assert found["counts"] == {"pairs": 2, "contradictions": 1, "worth_a_look": 0, "clusters": 1}
    assert find(path, "one") == found


def test_what_is_kept_of_flags_is_shown_and_not_changed(path):
    kept(path)
    assert flags(path) == {2}
    (pair,) = find(path, 1)["pairs"]
    assert (pair["earlier"]["similarity_flag"], pair["later"]["similarity_flag"]) == (0, 1)


def test_without_vectors_words_are_compared(path):
    found = find(path, 1)["similarity"]
    assert (found["computed"], found["without_vector"]) == (False, 4)
    assert "datasette limbic sync" in found["reason"]


def test_some_vectors(path):
    with closing(connection.connect(path)) as conn:
        store(conn, "observations", {3: blob(1, 0), 1: blob(1, 0.1)})
        conn.execute("delete from limbic_stale")
        conn.commit()
    found = find(path, 1)
    assert (found["similarity"]["computed"], found["similarity"]["without_vector"]) == (True, 2)
    assert "2 of 4" in found["similarity"]["reason"]
    assert found["model"] == "bag"
    with closing(connection.connect(path)) as conn:
        store(conn, "observations", {2: blob(1, 0), 4: blob(0, 1)})
        conn.execute("delete from limbic_stale")
        conn.commit()
    assert find(path, 1)["similarity"] == {
        "computed": True,
        "reason": None,
        "without_vector": 0,
    }


def test_thresholds_by_cosine(path):
    """The band between look and threshold, and the strongest first."""
    texts = ["apples ripen slowly", "la cosecha tarda", "winter fruit waits", "zebra crossing near"]
    angles = [0.0, 0.3, 0.9, 0.45]
    with closing(connection.connect(path)) as conn:
        for i, text in enumerate(texts):
            conn.execute(
                "insert into observations(id, entity_id, content) values (?, 2, ?)", [10 + i, text]
            )
        from math import cos, sin

        vectors = {10 + i: blob(cos(a), sin(a)) for i, a in enumerate(angles)}
        store(conn, "observations", vectors)
        conn.execute("delete from limbic_stale")
        conn.commit()
    found = find(path, 2, 0.95, look=0.8)
    assert ids(found["pairs"]) == [(11, 13), (10, 11)]
    assert [round(p["cosine"], 3) for p in found["pairs"]] == [0.989, 0.955]
    assert ids(found["worth_a_look"]) == [(10, 13), (12, 13), (11, 12)]
    assert {p["rule"] for p in found["pairs"]} == {"cosine"}
    wider = find(path, 2, "0.7")
    assert wider["thresholds"]["look"] == wider["thresholds"]["cosine"] == 0.7
    assert wider["worth_a_look"] == []
    assert find(path, 2, 1, look=1)["counts"]["pairs"] == 0
    assert len(find(path, 2, 0)["pairs"]) >= 5


def test_containment_threshold(path):
    was = LONGER.replace(" runs", " was")
    written(path, f"insert into observations(id, entity_id, content) values (6, 2, '{SAME}')")
    written(path, f"insert into observations(id, entity_id, content) values (7, 2, '{was}')")
    (pair,) = find(path, 2)["pairs"]
    assert (pair["rule"], ids([pair])) == ("containment", [(6, 7)])
    assert 0.8 < pair["containment"] < 0.9
    assert find(path, 2, None, 0.9)["pairs"] == []
    assert find(path, 2, containment_threshold="0.86")["thresholds"]["containment"] == 0.86


@pytest.mark.parametrize("name", ["threshold", "containment_threshold", "look"])
@pytest.mark.parametrize("value", [-0.1, 1.01, float("nan"), float("inf"), "abc", "1,5", True, []])
def test_bad_thresholds(conn, name, value):
    with pytest.raises(BadParameter, match=rf"^{name} is .*: use a number from 0 to 1$") as error:
        api.find_duplicate_observations(conn, 1, **{name: value})
    assert repr(value) in str(error.value)


@pytest.mark.parametrize(
    "options", [{"page": 0}, {"page": 1.5}, {"page": "x"}, {"size": 0}, {"size": 5000}]
)
def test_bad_pages(conn, options):
    (name,) = options
    for function in (lambda **o: api.find_duplicate_observations(conn, 1, **o),
                     lambda **o: api.find_duplicates(conn, **o)):  # fmt: skip
        with pytest.raises(BadParameter, match=f"^{name} is "):
            function(**options)


@pytest.mark.parametrize("entity", [99, "nobody", "", "1"])
def test_unknown_entity(conn, entity):
    with pytest.raises(UnknownEntity):
        api.find_duplicate_observations(conn, entity)


def test_not_a_memory(tmp_path):
    with closing(connection.connect(tmp_path / "new.db", create=True)) as conn:
        with pytest.raises(NotAMemory):
            api.find_duplicate_observations(conn, 1)
        with pytest.raises(NotAMemory):
            api.find_duplicates(conn)


@pytest.mark.parametrize(
    ("texts", "duplicates"),
    [
        ([], 0),
        (["one"], 0),
        (["same"] * 40, 39),
        (["word", "WORD", "other"], 1),
        (["🦆", "🦆", "🦆🦆"], 1),
        (["", "", " "], 2),
        (["価格は五百円です", "価格は五百円です。", "ราคาห้าร้อยเยน"], 1),
        (["x" * 100_000, "x" * 100_000], 1),
        (["long text here " * 7000, "another long text " * 6000], None),
    ],
    ids=["none", "one", "identical", "one word", "emoji", "empty", "no spaces", "100 kB", "long"],
)
def test_odd_entities(path, texts, duplicates):
    with closing(connection.connect(path)) as conn:
        conn.execute("insert into entities(id, name) values (3, 'odd')")
        conn.executemany(
            "insert into observations(entity_id, content) values (3, ?)", [(t,) for t in texts]
        )
        conn.commit()
    found = find(path, 3)
    assert found["observations"] == len(texts)
    if duplicates is not None:
        assert found["counts"]["pairs"] == duplicates
    assert kept(path).observations == 5 + len(texts)


def test_paged(path):
    with closing(connection.connect(path)) as conn:
        conn.executemany(
            "insert into observations(entity_id, content) values (2, ?)", [(OTHER,)] * 7
        )
        conn.commit()
    pages = [find(path, 2, page=n, size=3) for n in (1, 2, 3, 4)]
    assert [p["pages"] for p in pages] == [3] * 4
    assert [len(p["pairs"]) for p in pages] == [3, 3, 1, 0]
    assert [len(p["clusters"]) for p in pages] == [1, 0, 0, 0]
    assert len({pair for p in pages for pair in ids(p["pairs"])}) == 7


def test_what_ended_is_left_out(path):
    written(path, "update observations set valid_to = '2020-01-01' where id = 2")
    found = find(path, 1)
    assert (found["observations"], found["pairs"]) == (3, [])


# the whole memory ------------------------------------------------------------------------------


def test_whole_memory(path):
    found = find_all(path)
    assert found["kept"]["fresh"] is True
    assert found["kept"]["changed_since"] == 0
    assert found["counts"] == {"duplicate": 1, "contradiction": 1, "look": 0}
    assert found["rules"] == {
        "duplicate": {"exact": 1},
        "contradiction": {"wording": 1},
        "look": {},
    }
    assert ids(found["pairs"]) == [(1, 2), (3, 4)]
    first, second = found["pairs"]
    assert first["kind"] == "duplicate"
    assert first["entity"] == {"id": 1, "name": "one", "entityType": "Thing"}
    assert first["later"]["content"] == SAME.upper() + "."
    assert second["difference"] == "status: open / closed"
    assert ids(find_all(path, kind="contradiction")["pairs"]) == [(3, 4)]
    assert find_all(path, kind="look")["pairs"] == []


def test_as_kept(path):
    found = find_all(path, fresh=False)
    assert found["kept"]["computed_at"] is None
    assert found["reason"] == "not looked at yet: run 'datasette limbic sync'"
    for unknown in ("pairs", "counts", "rules", "across_entities"):
        assert found[unknown] is None, unknown
    assert found["name_clashes"]["count"] == 0
    assert found["kept"]["changed_since"] == 2
    kept(path)
    found = find_all(path, fresh=False)
    assert ids(found["pairs"]) == [(1, 2), (3, 4)]
    written(path, f"update observations set content = '{OTHER}' where id = 2")
    found = find_all(path, fresh=False)
    assert ids(found["pairs"]) == [(3, 4)]
    assert found["kept"]["changed_since"] == 1
    assert found["kept"]["computed_at"]
    again = find_all(path)
    assert ids(again["pairs"]) == [(3, 4)]
    assert again["across_entities"]["count"] == 1  # 2 and 5, seen without being kept
    assert found["across_entities"]["count"] == 0


def test_a_file_of_before(path):
    with closing(connection.connect(path)) as conn:
        from datasette_limbic import schema
        from datasette_limbic.reports.queries import queries

        schema.drop_triggers(conn)
        for name in queries():
            conn.execute(f"drop view {name}")
        for table in ("duplicates", "reports", "report_pending"):
            conn.execute(f"drop table limbic_{table}")
        conn.execute("drop table _limbic_text_keys")
        conn.execute("insert into entities(name) values ('ONE')")
        conn.commit()
    found = find_all(path, fresh=False)
    assert (found["pairs"], found["across_entities"], found["kept"]) == (None, None, None)
    assert "datasette limbic sync" in found["reason"]
    assert found["name_clashes"]["count"] == 1
    assert ids(find_all(path)["pairs"]) == [(1, 2), (3, 4)]
    assert ids(find(path, 1)["pairs"]) == [(1, 2)]


@pytest.mark.parametrize("kind", ["duplicates", "", "exact", "'; drop table"])
def test_bad_kind(conn, kind):
    with pytest.raises(BadParameter, match=r"^kind is .*use duplicate, contradiction, look"):
        api.find_duplicates(conn, kind=kind)


def test_archived_and_ended_are_left_out(path):
    kept(path)
    written(path, "update entities set archived_at = datetime('now') where id = 1")
    found = find_all(path, fresh=False)
    assert (found["pairs"], sum(found["counts"].values())) == ([], 0)


def test_pages_of_the_whole(path):
    with closing(connection.connect(path)) as conn:
        conn.executemany(
            "insert into observations(entity_id, content) values (2, ?)", [(OTHER,)] * 4
        )
        conn.commit()
    pages = [find_all(path, page=n, size=2) for n in (1, 2, 3, 4)]
    assert [len(p["pairs"]) for p in pages] == [2, 2, 2, 0]
    assert {p["pages"] for p in pages} == {3}
    seen = [pair for p in pages for pair in ids(p["pairs"])]
    assert len(set(seen)) == 6
    assert seen[-1] == (3, 4)  # the exact ones before


# the same text elsewhere -----------------------------------------------------------------------


def add(path, entity, *texts):
    with closing(connection.connect(path)) as conn:
        conn.execute(
            "insert into entities(id, name) values (?, ?) on conflict do nothing",
            [entity, f"e{entity}"],
        )
        conn.executemany(
            "insert into observations(entity_id, content) values (?, ?)",
            [(entity, t) for t in texts],
        )
        conn.commit()


def across(path, **options):
    with closing(connection.connect(path, readonly=True)) as conn:
        return across_entities(conn, **options)


def test_across_entities(path):
    add(path, 3, OTHER.upper() + "!", "only here and nowhere")
    add(path, 4, OTHER, OTHER, SAME, "active")
    add(path, 5, "active")
    kept(path)
    found = across(path)
    assert found["count"] == 2
    first, second = found["groups"]
    assert (first["content"], first["entities"], first["observations"]) == (OTHER, 3, 4)
    assert [m["entity_id"] for m in first["members"]] == [2, 3, 4, 4]
    assert first["members"][0] == {
        "id": 5,
        "entity_id": 2,
        "entity": "two",
        "entityType": "Thing",
        "created_at": "2026-01-01 00:00:00",
    }
    assert (second["entities"], second["observations"]) == (2, 3)
    pages = [across(path, page=n, size=1) for n in (1, 2, 3)]
    assert [p["groups"] for p in pages] == [[first], [second], []]
    assert {p["count"] for p in pages} == {2}


def test_across_entities_in_use(path):
    add(path, 3, OTHER)
    kept(path)
    assert across(path)["count"] == 1
    written(path, "update entities set archived_at = datetime('now') where id = 3")
    assert across(path) == {"count": 0, "pages": 1, "groups": []}
    written(path, "update entities set archived_at = null")
    written(path, "update observations set valid_to = '2020-01-01' where entity_id = 3")
    assert across(path)["count"] == 0


def test_the_same_hash_is_not_the_same_text(path):
    add(path, 3, OTHER)
    add(path, 4, "something else altogether")
    kept(path)
    written(
        path,
        "update _limbic_text_keys set key = (select key from _limbic_text_keys"
        " where observation_id = 5) where entity_id = 4",
    )
    (group,) = across(path)["groups"]
    assert (group["entities"], group["observations"]) == (2, 2)
    assert {m["entity_id"] for m in group["members"]} == {2, 3}
    written(path, "delete from entities where id = 3")
    assert across(path) == {"count": 0, "pages": 1, "groups": []}


def test_many_of_one_text(path):
    for entity in range(3, 33):
        add(path, entity, OTHER)
    kept(path)
    (group,) = across(path)["groups"]
    assert (group["entities"], group["observations"], len(group["members"])) == (31, 31, SHOWN)


# names -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Café Central", "cafe central", True),
        ("Café", "Cafe\u0301", True),
        ("data-team", "Data Team", True),
        ("data_team", "DataTeam", True),
        ("e.g. this", "eg this", True),
        ("Straße", "STRASSE", True),
        ("ﬁle", "file", True),
        ("España", "Espana", True),
        ("Ёлка", "елка", True),
        ("Άλφα", "αλφα", True),
        ("東京", "東京", True),
        ("zero\u200bwidth", "zerowidth", True),
        ("Notepad ++", "notepad++", True),
        ("2026-11-29", "2026.11.29", True),
        ("sprint 1", "Sprint-1", True),
        ("Task 1 2", "Task 1_2", True),
        ("C", "C++", False),
        ("C", "C#", False),
        ("C++", "C#", False),
        ("F#", "F*", False),
        ("5 %", "5", False),
        ("R&D", "RD", False),
        ("Python 1.10", "Python 11.0", False),
        ("Task 1 2", "Task 12", False),
        ("カード", "ガード", False),
        ("कि", "कु", False),
        ("ไกล", "ใกล้", False),
        ("🦆", "🦉", False),
        ("...", "---", False),
        ("...", "", False),
        ("Ana", "Anna", False),
    ],
)
def test_folded(one, other, same):
    assert (folded(one) == folded(other)) is same
    assert (folded(other) == folded(one)) is same


def clashes(path, **options):
    with closing(connection.connect(path, readonly=True)) as conn:
        return name_clashes(conn, **options)


def test_name_clashes(path):
    written(
        path,
        "insert into entities(id, name, entity_type) values (3, 'Two', 'Other'), (4, 'TWO', 'X'),"
        " (5, 'solo', 'X'), (6, 'O-n-e', 'X'), (7, 'old', 'X'), (8, 'OLD', 'X')",
        "update entities set archived_at = '2026-01-01' where id in (3, 7, 8)",
        "update observations set valid_to = '2020-01-01' where id = 4",
    )
    found = clashes(path)
    assert (found["count"], found["pages"]) == (2, 1)
    one, two = found["groups"]
    assert one["entities"] == 2
    assert one["members"][0] == {
        "id": 1,
        "name": "one",
        "entityType": "Thing",
        "archived_at": None,
        "observations": 3,
    }
    # those in use first, most observations first; two archived ones alone are no clash
    assert [(m["id"], m["archived_at"]) for m in two["members"]] == [
        (2, None),
        (4, None),
        (3, "2026-01-01"),
    ]
    assert clashes(path, page=2, size=1)["groups"] == [two]
    assert clashes(path, page=3, size=1) == {"count": 2, "pages": 2, "groups": []}


def test_a_name_of_bytes(path):
    written(path, "insert into entities(name) values (x'4f4e45'), (x'ff')")
    (group,) = clashes(path)["groups"]
    assert {m["id"] for m in group["members"]} >= {1}


# as kept, or compared ---------------------------------------------------------------------------

ASIDE = [
    None,
    "delete from embeddings where id = '2'",
    "update embeddings set embedding = x'00' where id = '2'",
    "insert or ignore into limbic_stale(collection, item_id) values ('observations', 2)",
    "update embeddings set content_hash = x'00' where id = '2';"
    "insert or ignore into limbic_stale(collection, item_id) values ('observations', 2)",
]


def both(path, **options):
    """The answer from what is kept, and that of comparing now."""
    with closing(connection.connect(path, readonly=True)) as conn:
        found = [
            similar.answer(asked, similar.compare(asked))
            for asked in (
                similar.read_alike(conn, 1, fresh=fresh, **options) for fresh in (False, True)
            )
        ]
    return found


@pytest.mark.parametrize("aside", ASIDE)
def test_what_is_kept_answers_as_comparing_does(path, aside):
    written(path, f"insert into observations(id, entity_id, content) values (6, 1, '{LONGER}')")
    with closing(connection.connect(path)) as conn:
        rows = {i: blob(1.0, 0.1 * i) for i in (1, 2, 3, 6)}
        store(conn, "observations", rows)
        if aside:
            conn.executescript(aside)
    kept(path)
    before, now = both(path)
    assert before["kept"]["computed_at"]
    assert now["kept"] is None
    assert now["counts"]["pairs"] >= 2
    assert now["counts"]["contradictions"] == 1
    assert {**before, "kept": None} == now


@pytest.mark.parametrize(
    "change",
    [
        "update observations set content = 'another text' where id = 1",
        "insert into observations(entity_id, content) values (1, 'new')",
        "update observations set valid_to = datetime('now', '-1 second') where id = 1",
        "insert or replace into limbic_settings(key, value) values ('containment_threshold', 0.5)",
        "delete from limbic_reports",
        "update limbic_reports set computed_at = null",
    ],
)
def test_what_has_changed_is_compared(path, change):
    kept(path)
    assert both(path)[0]["kept"]
    written(path, change)
    one, other = both(path)
    assert one == other
    assert one["kept"] is None


def test_time_alone_ends_what_is_kept(path):
    written(path, "update observations set valid_to = datetime('now', '+1 hour') where id = 1")
    kept(path)
    written(path, "update limbic_reports set computed_at = datetime('now', '-2 hours')")
    assert both(path)[0]["kept"]
    written(
        path,
        "drop trigger if exists limbic_report_observations_update",
        "update observations set valid_to = datetime('now', '-1 hour') where id = 1",
        "delete from limbic_report_pending",
    )
    assert both(path)[0]["kept"] is None


@pytest.mark.parametrize(
    "thresholds", [{"threshold": 0.5}, {"containment_threshold": 1}, {"look": 0.1}]
)
def test_other_thresholds_are_compared(path, thresholds):
    kept(path)
    assert both(path, **thresholds)[0]["kept"] is None
    with closing(connection.connect(path, readonly=True)) as conn:
        asked = similar.read_alike(conn, 1, fresh=False)
        # those in force, typed in
        same = {
            "threshold": asked.thresholds.cosine,
            "containment_threshold": asked.thresholds.containment,
        }
    assert both(path, **same)[0]["kept"]
