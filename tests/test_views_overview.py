"""The overview page and its JSON."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import unquote_plus

import pytest
from view_helpers import (
    AGENT,
    ONE_POINT_ZERO,
    as_actor,
    base,
    get,
    get_json,
    links,
    post_json,
    recording_datasette,
    text_of,
    write,
)

from datasette_limbic import connection, glance, recorder, serving, times
from datasette_limbic.reports import keeping
from datasette_limbic.status import status
from datasette_limbic.views import tabs


async def test_json_holds_counts_types_vectors_and_parameters(
    demo_db: Path, make_datasette: Any
) -> None:
    body = await get_json(make_datasette(demo_db), base(demo_db) + ".json")
    conn = connection.connect(demo_db, readonly=True)
    for name, sql in {
        "entities": "select count(*) from entities",
        "archived": "select count(*) from entities where archived_at is not null",
        "observations": "select count(*) from observations",
        "relations": "select count(*) from relations",
        "accesses": "select count(*) from entity_access_log",
        "co_occurrences": "select count(*) from co_occurrences",
    }.items():
        assert body["counts"][name] == conn.execute(sql).fetchone()[0], name
    conn.close()
    assert body["counts"]["archived"] == 2
    assert sum(t["count"] for t in body["types"]) == body["counts"]["entities"]
    assert body["vectors"]["usable"] is True
    assert body["vectors"]["in_step"] is True
    assert body["vectors"]["collections"]["entities"]["dimension"] == 512
    assert body["parameters"]["beta_sal"] == 0.5
    assert body["parameters_version"] is None
    assert body["recency"]["recency_half_life_days"] == 180
    assert body["database"] == demo_db.stem
    assert not [key for key in body if key.startswith("_")]


async def test_page_shows_the_same_figures_and_leads_on(demo_db: Path, make_datasette: Any) -> None:
    datasette = make_datasette(demo_db)
    body = await get_json(datasette, base(demo_db) + ".json")
    response = await get(datasette, base(demo_db))
    words = text_of(response.text)
    assert f"Entities {body['counts']['entities']} 2 archived" in words
    assert f"Observations {body['counts']['observations']}" in words
    assert "The vectors are in step with the memory." in words
    assert f'href="{base(demo_db)}/search?type=Persona"' in response.text
    assert f'action="{base(demo_db)}/search"' in response.text
    assert f"<title>Memory: {demo_db.stem}</title>" in response.text
    for name in body["parameters"]:
        assert f"<code>{name}</code>" in response.text


@pytest.mark.parametrize(
    ("table", "shown"),
    [("limbic_import_rejects", False), ("limbic_reviews", True), (None, True)],
)
async def test_imports_are_shown_to_whom_may_see_them(
    table: str | None, shown: bool, demo_db: Path, make_datasette: Any
) -> None:
    only_root = {"databases": {demo_db.stem: {"tables": {table: {"allow": {"id": "root"}}}}}}
    datasette = make_datasette(demo_db, metadata=only_root if table else {})
    url = base(demo_db)
    response = await get(datasette, url)
    assert response.status_code == 200
    assert ("Imports" in text_of(response.text)) is shown
    assert (f"{url}/imports" in links(response.text)) is shown
    assert (await get(datasette, f"{url}/imports")).status_code == (200 if shown else 403)
    for path in ("/search?q=x", "/entity/1"):
        found = links((await get(datasette, url + path)).text)
        assert (f"{url}/imports" in found) is shown, path
    seen = (await get(datasette, url, cookies=as_actor(datasette, {"id": "root"}))).text
    assert links(seen).count(f"{url}/imports") == 2


async def test_trailing_slash_is_the_same_page(demo_db: Path, make_datasette: Any) -> None:
    datasette = make_datasette(demo_db)
    assert (await get(datasette, base(demo_db) + "/")).status_code == 200


async def test_empty_memory_says_so_and_what_to_do(empty_db: Path, make_datasette: Any) -> None:
    datasette = make_datasette(empty_db)
    response = await get(datasette, base(empty_db))
    words = text_of(response.text)
    assert "This memory is empty." in words
    assert f"datasette limbic import memory.jsonl {empty_db.stem}.db" in words
    assert "No entities yet." in words
    assert "The vectors are in step" not in words
    body = await get_json(datasette, base(empty_db) + ".json")
    assert body["counts"]["entities"] == 0
    assert body["types"] == []


async def test_stale_vectors_are_named_with_the_command(demo_db: Path, make_datasette: Any) -> None:
    conn = connection.connect(demo_db)
    conn.execute("insert into entities(name) values ('Something new')")
    conn.commit()
    conn.close()
    datasette = make_datasette(demo_db)
    body = await get_json(datasette, base(demo_db) + ".json")
    assert body["vectors"]["in_step"] is False
    words = text_of((await get(datasette, base(demo_db))).text)
    assert f"not in step with the memory. Run datasette limbic sync {demo_db.stem}.db" in words


async def test_gamma_without_beta_sal_is_warned_about(demo_db: Path, make_datasette: Any) -> None:
    datasette = make_datasette(demo_db, config={"gamma": 0.5})
    body = await get_json(datasette, base(demo_db) + ".json")
    assert "co-occurrence outweighs salience" in body["parameter_warning"]
    page = text_of((await get(datasette, base(demo_db))).text)
    assert "co-occurrence outweighs salience" in page


async def test_applied_parameters_show_with_their_version(
    demo_db: Path, make_datasette: Any
) -> None:
    conn = connection.connect(demo_db)
    conn.execute(
        "insert into limbic_parameters(version, beta_sal, gamma, source) values (7, .75, .02, ?)",
        ["manual"],
    )
    conn.commit()
    conn.close()
    datasette = make_datasette(demo_db)
    body = await get_json(datasette, base(demo_db) + ".json")
    assert (body["parameters"]["beta_sal"], body["parameters_version"]) == (0.75, 7)
    assert "version 7" in text_of((await get(datasette, base(demo_db))).text)


@pytest.mark.parametrize("suffix", ["", ".json"])
async def test_a_database_without_our_tables_is_404(
    suffix: str, tmp_path: Path, make_datasette: Any
) -> None:
    from datasette.utils.sqlite import sqlite3

    path = tmp_path / "other.db"
    conn = sqlite3.connect(path)
    conn.execute("create table t(a)")
    conn.commit()
    conn.close()
    for page in ("", "/search", "/entity/1"):
        response = await get(make_datasette(path), f"/other/-/limbic{page}{suffix}")
        assert response.status_code == 404
        assert "datasette limbic init" in response.text
        assert "/-/limbic/search" not in response.text


VALIDITY = {
    "2020-01-01": 0,
    "2020-01-01 10:00:00": 0,
    "2020-01-01T10:00:00.123Z": 0,
    "2020-01-01 10:00:00+01:00": 0,
    "": 0,
    " ": 0,
    None: 0,
    "1577836800": 1,
    "1577836800000": 1,
    "1577836800.5": 1,
    "-1577836800": 1,
    "2020": 1,
    "2458849.5": 1,
    1577836800: 1,
    2458849.5: 1,
    "2020-01-01 00:00 UTC": 1,
    "2020-01-01T00:00:00+0100": 1,
    "2020-13-40": 1,
    "soon": 1,
    b"\xff": 1,
}


@pytest.mark.parametrize(("value", "counted"), VALIDITY.items(), ids=map(repr, VALIDITY))
@pytest.mark.parametrize("table", ["entities", "observations", "relations"])
async def test_validity_that_sqlite_cannot_read_is_counted(
    table: str, value: Any, counted: int, demo_db: Path, make_datasette: Any
) -> None:
    conn = connection.connect(demo_db)
    first = conn.execute(f"select min(id) from {table} where valid_to is null").fetchone()[0]
    # both columns of one row count once
    for column in ("valid_to", "valid_from"):
        conn.execute(f"update {table} set {column} = ? where id = ?", [value, first])
    conn.commit()
    assert status(conn)["unreadable_validity"] == counted
    conn.close()


async def test_the_overview_shows_it_only_where_there_is_some(
    demo_db: Path, make_datasette: Any
) -> None:
    datasette = make_datasette(demo_db)
    assert (await get_json(datasette, base(demo_db) + ".json"))["unreadable_validity"] == 0
    assert "SQLite cannot read" not in (await get(datasette, base(demo_db))).text
    conn = connection.connect(demo_db)
    conn.execute("update observations set valid_to = '1577836800' where id = 1")
    conn.commit()
    assert (await get_json(datasette, base(demo_db) + ".json"))["unreadable_validity"] == 1
    words = text_of((await get(datasette, base(demo_db))).text)
    assert "1 row with a valid_from or valid_to that SQLite cannot read" in words
    conn.execute("update relations set valid_from = 'soon' where id = 1")
    conn.commit()
    conn.close()
    assert "2 rows with a" in text_of((await get(datasette, base(demo_db))).text)


def used(path: Path) -> None:
    """Three searches of two clients, what was opened from one and rated in two of them."""
    conn = connection.connect(path)
    for client, actor in (("agent-a", "ana"), ("agent-a", "ana"), (None, None)):
        answer = serving.search_semantic(conn, "geocoder", limit=3, client=client, actor=actor)
        first, second, _ = (row["id"] for row in answer["results"])
        if client:
            serving.rate(conn, answer["search_id"], first, "not_useful")
            serving.rate(conn, answer["search_id"], first, "useful")
    serving.open_nodes(conn, ids=[second], search_id=answer["search_id"])
    serving.open_nodes(conn, ids=[second], client="agent-a")  # not opened after a search
    conn.close()


async def test_signals_say_how_much_by_whom_and_how_writing_went(
    demo_db: Path, make_datasette: Any
) -> None:
    used(demo_db)
    config = {"log_retention_days": 90, "baseline_share": 0.1}
    datasette = recording_datasette(make_datasette, demo_db, config=config)
    agent = {"cookies": as_actor(datasette, AGENT)}
    url = base(demo_db)
    await post_json(datasette, f"{url}/search", {"query": "vans", "client": "b", "wait": True})
    found = (await get_json(datasette, url + ".json", **agent))["signals"]
    assert (found["recording"], found["reason"]) == (True, None)
    assert found["searches"]["count"] == 4
    assert found["searches"]["first"] < found["searches"]["last"] <= found["last_access"]
    assert [(e["client"], e["actor"], e["searches"]) for e in found["by"]] == [
        ("agent-a", "ana", 2),
        ("b", "agent", 1),
        (None, None, 1),
    ]
    assert found["events"] == {"opened": 1, "useful": 2, "not_useful": 0}
    assert (found["log_retention_days"], found["baseline_share"]) == (90, 0.1)
    assert (found["since_start"]["written"], found["since_start"]["failed"]) == (1, 0)
    words = text_of((await get(datasette, url, **agent)).text)
    for said in (
        "What you ask this memory by POST is recorded",
        "Searches recorded 4 from 20",
        "Rated useful 2 0 not useful",
        "Written since the start 1 0 waiting, 0 failed",
        "agent-a ana 2 20",
        "unnamed nobody 1 20",
        "Logs are kept for 90 days.",
        "a share of 0.1 is answered by base similarity alone",
    ):
        assert said in words, said
    assert "could not be recorded" not in words


async def test_at_most_ten_callers_the_most_frequent_first(
    empty_db: Path, make_datasette: Any
) -> None:
    insert = """insert into limbic_searches(query, mode, strategy, result_limit, now, parameters,
      client) values ('q', 'text', 'auto', 1, '2026-01-01', '{}', ?)"""
    names = [f"client {n:02}" for n in range(1, 13) for _ in range(n)]
    write(empty_db, *[(insert, [name]) for name in names])
    by = (await get_json(make_datasette(empty_db), base(empty_db) + ".json"))["signals"]["by"]
    assert [(e["client"], e["searches"]) for e in by] == [
        (f"client {n:02}", n) for n in range(12, 2, -1)
    ]


async def test_an_empty_memory_says_how_signals_are_left(
    empty_db: Path, make_datasette: Any
) -> None:
    datasette = make_datasette(empty_db)
    found = (await get_json(datasette, base(empty_db) + ".json"))["signals"]
    assert found["searches"] == {"count": 0, "first": None, "last": None}
    assert (found["by"], found["last_access"]) == ([], None)
    assert found["events"] == {"opened": 0, "useful": 0, "not_useful": 0}
    words = text_of((await get(datasette, base(empty_db))).text)
    assert "No search has been recorded yet." in words
    assert f"POST {base(empty_db)}/search" in words
    assert "Logs are kept for ever." in words
    assert "Nothing that you do here is recorded: this needs the permission limbic-record" in words


async def test_an_immutable_memory_says_that_nothing_is_recorded(
    demo_db: Path, make_datasette: Any
) -> None:
    datasette = recording_datasette(make_datasette, immutables=[str(demo_db)])
    agent = {"cookies": as_actor(datasette, AGENT)}
    found = (await get_json(datasette, base(demo_db) + ".json", **agent))["signals"]
    assert (found["recording"], found["reason"]) == (
        False,
        "the database was opened as immutable",
    )
    words = text_of((await get(datasette, base(demo_db), **agent)).text)
    assert "Nothing that you do here is recorded: the database was opened as immutable." in words


async def test_the_log_is_shown_to_whom_may_see_it_alone(
    demo_db: Path, make_datasette: Any
) -> None:
    used(demo_db)
    root = {"allow": {"id": "root"}}
    for table, keys in {
        "limbic_searches": {"searches", "by"},
        "limbic_feedback": {"events"},
    }.items():
        metadata = {"databases": {demo_db.stem: {"tables": {table: root}}}}
        datasette = make_datasette(demo_db, metadata=metadata)
        found = (await get_json(datasette, base(demo_db) + ".json"))["signals"]
        # `reason` of a visitor who may record nothing is a sentence
        assert {key for key, value in found.items() if value is None} == {
            *keys,
            "log_retention_days",
        }
        page = (await get(datasette, base(demo_db))).text
        assert ("agent-a" in page) is (table != "limbic_searches")
        assert ("Rated useful" in page) is (table != "limbic_feedback")
        signed_in = {"cookies": as_actor(datasette, {"id": "root"})}
        seen = (await get_json(datasette, base(demo_db) + ".json", **signed_in))["signals"]
        assert all(seen[key] for key in keys)
        assert "agent-a" in (await get(datasette, base(demo_db), **signed_in)).text


async def test_failed_writes_are_said_with_the_last_error(
    demo_db: Path, make_datasette: Any
) -> None:
    datasette = recording_datasette(make_datasette, demo_db)
    url = base(demo_db)
    write(demo_db, ("alter table entity_access rename to gone", []))
    # what is asked for has to be readable, so the table is there as a view that takes no rows
    write(demo_db, ("create view entity_access as select * from gone", []))
    answer = await post_json(datasette, f"{url}/search", {"query": "vans", "wait": True})
    assert answer["recorded"]["status"] == "failed"
    run = (await get_json(datasette, url + ".json"))["signals"]["since_start"]
    assert run["failed"] == 1
    assert "entity_access" in run["last_error"]
    words = text_of((await get(datasette, url)).text)
    assert "1 use could not be recorded since this server started, the last one 20" in words
    assert run["last_error"] in words
    await post_json(datasette, f"{url}/search", {"query": "vans", "wait": True})
    assert "2 uses could not be recorded" in text_of((await get(datasette, url)).text)


async def test_what_was_pruned_is_said(demo_db: Path, make_datasette: Any) -> None:
    datasette = make_datasette(demo_db)
    kept = recorder.recorder_for(datasette.get_database(demo_db.stem)).retention
    assert "were deleted" not in (await get(datasette, base(demo_db))).text
    kept.searches, kept.accesses, kept.last_pruned_at = 12, 3456, "2026-11-29 12:00:00.5"
    words = text_of((await get(datasette, base(demo_db))).text)
    assert "12 old searches, 0 openings and ratings of results, 3,456 rows of the" in words
    assert "rows of the access log were deleted, last 2026-11-29" in words
    assert "last 2026-11-29 12:00:00 UTC" in words
    kept.last_error = "<b>disk I/O error"
    page = (await get(datasette, base(demo_db))).text
    assert "Old logs could not be deleted: <bdi>&lt;b&gt;disk I/O error</bdi>." in page


LAST = {
    "2026-11-29 12:00:00": "2026-11-29 12:00:00",
    "2026-11-29T14:00:00+02:00": "2026-11-29 12:00:00",
    "1795953600": "2026-11-29 12:00:00",
    "1795953600000": "2026-11-29 12:00:00",
    "zzz": "2020-01-01 00:00:00",
    "9999": "2020-01-01 00:00:00",
    b"\xff": "2020-01-01 00:00:00",
    b"2026-11-29 12:00:00": "2020-01-01 00:00:00",
    # in the usual spelling, and no such time
    "2026-11-31 10:00:00": "2020-01-01 00:00:00",
    "2026-11-29 29:00:00": "2020-01-01 00:00:00",
    "2026-11-29 10:00:60": "2020-01-01 00:00:00",
    "2026-11-29 24:00:00": "2020-01-01 00:00:00",
    "2026-11-29 17:00:00+05:00": "2026-11-29 12:00:00",
    "2026-11-29 12:00:00.25": "2026-11-29 12:00:00.250",
}


@pytest.mark.parametrize(("value", "expected"), LAST.items(), ids=map(repr, LAST))
async def test_the_last_time_is_the_newest_that_can_be_read(
    value: Any, expected: str, demo_db: Path
) -> None:
    """Of the accesses, of the searches, and of those of each caller."""
    insert = """insert into limbic_searches(query, mode, strategy, result_limit, now, parameters,
      client, created_at) values ('q', 'text', 'auto', 1, '2026-01-01', '{}', ?, ?)"""
    write(
        demo_db,
        ("update entity_access set last_access = '2020-01-01'", []),
        ("update entity_access set last_access = ? where entity_id = 3", [value]),
        (insert, ["a", "2020-01-01"]),
        (insert, ["a", value]),
        (insert, ["b", "2019-12-31T23:00:00-01:00"]),
    )
    with closing(connection.connect(demo_db, readonly=True)) as conn:
        found = status(conn)["signals"]
    assert found["last_access"] == expected
    first = min("2020-01-01 00:00:00", times.to_sql(value) or "unknown")
    assert found["searches"] == {"count": 3, "first": first, "last": expected}
    assert [(each["client"], each["last"]) for each in found["by"]] == [
        ("a", expected),
        ("b", "2020-01-01 00:00:00"),
    ]
    write(
        demo_db,
        ("update entity_access set last_access = 'soon'", []),
        ("update limbic_searches set created_at = 'soon'", []),
    )
    with closing(connection.connect(demo_db, readonly=True)) as conn:
        found = status(conn)["signals"]
    assert found["last_access"] is None
    assert found["searches"] == {"count": 3, "first": None, "last": None}
    assert [each["last"] for each in found["by"]] == [None, None]


async def test_the_last_time_of_a_day_counts_in_whatever_spelling(demo_db: Path) -> None:
    """A T sorts after a space, and a Z after a fraction of a second."""
    for spellings in (
        ["2026-11-29T01:00:00", "2026-11-29 12:00:00"],
        ["2026-11-29T11:59:59Z", "2026-11-29 12:00:00", "2026-11-29T11:59:59.9Z"],
    ):
        write(
            demo_db,
            ("update entity_access set last_access = '2020-01-01'", []),
            *(
                ("update entity_access set last_access = ? where entity_id = ?", [each, number])
                for number, each in enumerate(spellings, 1)
            ),
        )
        with closing(connection.connect(demo_db, readonly=True)) as conn:
            assert status(conn)["signals"]["last_access"] == "2026-11-29 12:00:00"


# -- what needs review --------------------------------------------------------------------------


def kept(path: Path) -> None:
    """The same as the last step of ``datasette limbic sync``."""
    with closing(connection.connect(path)) as conn:
        keeping.keep(conn)


COUNTED = {
    "contradictions": "Contradictions?",
    "flagged_observations": "Flagged observations",
    "split_candidates": "Split candidates",
    "approaching": "Approaching",
    "stale_entities": "Stale entities",
    "large_entities": "Large entities",
    "orphans": "Orphans",
}


async def test_what_needs_review_is_counted_as_its_lists_are(
    demo_db: Path, make_datasette: Any
) -> None:
    kept(demo_db)
    datasette = make_datasette(demo_db)
    url = base(demo_db)
    found = (await get_json(datasette, url + ".json"))["review"]
    report = (await get_json(datasette, url + "/consolidation.json"))["summary"]
    health = await get_json(datasette, url + "/health.json?list=orphans")
    assert found["counts"] == {
        **{name: report[name] for name in COUNTED if name != "orphans"},
        "orphans": health["findings"][0]["count"],
    }
    assert all(found["counts"].values())  # the sample has some of each
    assert found["kept"]["changed_since"] == 0
    assert found["reviewed"] is None
    assert found["review_due"] is True
    page = (await get(datasette, url)).text
    words = text_of(page)
    for name, title in COUNTED.items():
        assert f"{title} {found['counts'][name]} " in words, name
    assert f"Observations were compared {found['kept']['computed_at'][:10]}" in words
    assert "nothing changed since" in words
    for name in COUNTED:
        path = "/health?list=orphans" if name == "orphans" else f"/consolidation#{name}"
        assert url + path in links(page)
        target, _, anchor = path.partition("#")
        there = (await get(datasette, url + target)).text
        assert not anchor or f'id="{anchor}"' in there


async def test_before_the_first_sync_and_after_a_change(demo_db: Path, make_datasette: Any) -> None:
    datasette = make_datasette(demo_db)
    command = f"datasette limbic sync {demo_db.stem}.db"
    write(demo_db, ("delete from limbic_reports", []))
    words = text_of((await get(datasette, base(demo_db))).text)
    assert f"Observations have not been compared yet: {command} does it" in words
    kept(demo_db)
    write(demo_db, ("insert into observations(entity_id, content) values (1, 'new')", []))
    words = text_of((await get(datasette, base(demo_db))).text)
    assert "; 1 entity has changed since: run" in words
    write(demo_db, ("insert into observations(entity_id, content) values (2, 'new')", []))
    words = text_of((await get(datasette, base(demo_db))).text)
    assert "; 2 entities have changed since: run" in words
    write(
        demo_db,
        ("insert or replace into limbic_settings(key, value) values ('look_threshold', '0.7')", []),
    )
    words = text_of((await get(datasette, base(demo_db))).text)
    assert f"the settings or the model changed since: run {command}" in words


@pytest.mark.parametrize(
    ("days", "due"), [(None, True), (0, False), (30.9, False), (31.1, True), (4000, True)]
)
async def test_a_review_is_due_after_a_month(
    days: float | None, due: bool, demo_db: Path, make_datasette: Any
) -> None:
    kept(demo_db)
    if days is not None:
        write(
            demo_db,
            (
                "insert into limbic_reviews(report, reviewed_at, actor)"
                " values ('consolidation', datetime('now', ?), 'ana')",
                [f"-{days * 86400:.0f} seconds"],
            ),
        )
    datasette = make_datasette(demo_db)
    found = (await get_json(datasette, base(demo_db) + ".json"))["review"]
    assert found["review_due"] is due
    assert found["days_since_review"] == (None if days is None else pytest.approx(days, abs=0.01))
    words = text_of((await get(datasette, base(demo_db))).text)
    assert ("once a month is good practice" in words) is due
    if days is None:
        assert "Nobody has marked this as looked through yet" in words
    else:
        assert f"Last looked through {found['reviewed']['at'][:10]}" in words


@pytest.mark.parametrize(
    ("table", "section", "date"),
    [
        ("limbic_duplicates", False, False),
        ("limbic_topics", False, False),
        ("limbic_reviews", True, False),
        ("limbic_searches", True, True),
    ],
)
async def test_nothing_of_it_for_whom_may_not_view_the_tables(
    table: str, section: bool, date: bool, demo_db: Path, make_datasette: Any
) -> None:
    kept(demo_db)
    only_root = {"databases": {demo_db.stem: {"tables": {table: {"allow": {"id": "root"}}}}}}
    datasette = make_datasette(demo_db, metadata=only_root)
    body = await get_json(datasette, base(demo_db) + ".json")
    page = (await get(datasette, base(demo_db))).text
    assert (body["review"] is not None) is section
    assert ("What needs review" in page) is section
    assert ("looked through yet" in page) is date
    assert ((body["review"] or {}).get("review_due") is not None) is date
    root = {"cookies": as_actor(datasette, {"id": "root"})}
    assert (await get_json(datasette, base(demo_db) + ".json", **root))["review"]["review_due"]


TAB_PATHS = {
    "": "Overview",
    "/search": "Search",
    "/graph": "Map",
    "/review": "Review",
    "/consolidation": "Maintenance",
    "/duplicates": "Duplicates",
    "/health": "Health",
    "/changes": "Changes",
    "/tuning": "Tuning",
    "/imports": "Imports",
}


@pytest.mark.parametrize(
    "table",
    ["limbic_parameters", "limbic_topics", "limbic_settings", "limbic_import_rejects", None],
)
async def test_tabs_lead_only_to_pages_that_answer(
    table: str | None, demo_db: Path, make_datasette: Any
) -> None:
    only_root = {"databases": {demo_db.stem: {"tables": {table: {"allow": {"id": "root"}}}}}}
    datasette = make_datasette(demo_db, metadata=only_root if table else {})
    url = base(demo_db)
    status_of = {path: (await get(datasette, url + path)).status_code for path in TAB_PATHS}
    # what is private is left out of the overview, which answers as the menu and search do
    assert status_of[""] == status_of["/search"] == 200
    refused = {code for code in status_of.values() if code != 200}
    assert refused == ({403} if table else set())
    for path in (*(path for path, code in status_of.items() if code == 200), "/entity/1"):
        page = (await get(datasette, url + path)).text
        [nav] = re.findall(r'<nav class="limbic-tabs".*?</nav>', page, re.S)
        answering = [each for each, code in status_of.items() if code == 200]
        assert links(nav) == [url + each for each in answering], path
        assert text_of(nav).split() == [TAB_PATHS[each] for each in answering]
        current = re.findall(r'href="([^"]*)" aria-current="page"', nav)
        assert current == ([url + path] if path in TAB_PATHS else [])


async def test_no_table_is_asked_for_twice_for_the_tabs(
    demo_db: Path, make_datasette: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    async def noted(_datasette: Any, _actor: Any, _database: str, tables: tuple[str, ...]) -> bool:
        asked.extend(tables)
        return "limbic_settings" not in tables

    monkeypatch.setattr("datasette_limbic.views.tabs.compat.may_view", noted)
    found = await tabs.shown(make_datasette(demo_db), None, demo_db.stem)
    names = ["overview", "search", "graph", "health", "changes", "tuning", "imports"]
    assert [tab.name for tab in found] == names
    assert len(asked) == len(set(asked))
    assert "limbic_duplicates" not in asked  # one refusal is enough


async def test_a_file_of_an_earlier_version_still_has_its_overview(
    demo_db: Path, make_datasette: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that could not be migrated, since it is opened read-only."""
    kept(demo_db)
    monkeypatch.setattr("datasette_limbic.schema.has_reports", lambda _conn: False)
    datasette = make_datasette(demo_db)
    found = (await get_json(datasette, base(demo_db) + ".json"))["review"]
    assert found["kept"] is None
    unknown = {name for name, count in found["counts"].items() if count is None}
    assert unknown == {"contradictions", "flagged_observations", "split_candidates", "approaching"}
    words = text_of((await get(datasette, base(demo_db))).text)
    assert "Contradictions? –" in words
    assert "This file was made by an earlier version and keeps no reports" in words


@pytest.mark.parametrize(
    ("table", "hidden"),
    [
        ("limbic_imports", [("counts", "imports")]),
        (
            "limbic_parameters",
            [("parameters",), ("parameters_version",), ("parameter_warning",)],
        ),
        ("limbic_settings", [("settings",), ("review",)]),
    ],
)
async def test_what_a_visitor_may_not_view_is_left_out(
    table: str, hidden: list[tuple[str, ...]], demo_db: Path, make_datasette: Any
) -> None:
    """The overview asks for no more than search does: the menu leads everybody of that to it."""
    only_root = {"databases": {demo_db.stem: {"tables": {table: {"allow": {"id": "root"}}}}}}
    write(
        demo_db,
        (
            "insert into limbic_parameters(version, beta_sal, gamma, source)"
            " values (7, .1, .1, 'manual')",
            [],
        ),
    )
    datasette = make_datasette(demo_db, metadata=only_root)
    root = {"cookies": as_actor(datasette, {"id": "root"})}
    seen = await get_json(datasette, base(demo_db) + ".json", **root)
    body = await get_json(datasette, base(demo_db) + ".json")
    for path in hidden:
        here, there = body, seen
        for key in path:
            here, there = here[key], there[key]
        assert here is None
        assert there is not None, path
    menu = links((await get(datasette, "/")).text)
    assert base(demo_db) in menu
    response = await get(datasette, base(demo_db))
    assert response.status_code == 200
    assert ("needs the right to view limbic_parameters" in text_of(response.text)) is (
        table == "limbic_parameters"
    )


# -- what is in it, and what stands where a part of it fails --------------------------------------


async def test_growth_activity_and_lists_are_shown_as_the_twin_has_them(
    demo_db: Path, make_datasette: Any
) -> None:
    used(demo_db)
    datasette = make_datasette(demo_db)
    url = base(demo_db)
    body = await get_json(datasette, url + ".json")
    html = (await get(datasette, url)).text
    words = text_of(html)
    assert body["errors"] == {}
    periods = body["growth"]["periods"]
    assert periods[-1]["entities_total"] == body["counts"]["entities"]
    for period in periods:
        row = f"{period['from'][:7]} {period['entities']} {period['entities_total']} "
        assert row + f"{period['observations']} {period['observations_total']} " in words
    assert sum(week["searches"] for week in body["activity"]["weeks"]) == 3
    week = body["activity"]["weeks"][-1]
    assert f"{week['week']} {week['accesses']} {week['searched']} {week['opened']} 3 " in words
    for name in ("hubs", "newest", "most_used"):
        assert len(body[name]) == 8
        for each in body[name]:
            assert f"{url}/entity/{each['id']}" in links(html)
    for finding in body["health"]["findings"]:
        assert f"{url}/health?list={finding['name']}" in links(html)
    assert body["health"]["whole"] is True
    report = await get_json(datasette, url + "/health.json")
    assert body["health"]["counts"] == report["counts"]
    # each example is a search that finds what it names, first
    examples = re.search(r'limbic-examples">(.*?)</p>', html, re.S)
    assert examples is not None
    for link in links(examples[1]):
        path, _, query = link.partition("?")
        answer = await get_json(datasette, f"{path}.json?{query}&mode=text")
        [name] = re.findall(r"q=([^&]*)", query)
        assert answer["results"][0]["name"] == unquote_plus(name)
    for svg in re.findall(r'<svg class="limbic-chart".*?</svg>', html, re.S):
        [title], [desc] = (
            re.findall(rf'aria-{a}="([^"]*)"', svg) for a in ("labelledby", "describedby")
        )
        assert f'id="{title}"' in html
        assert f'<desc id="{desc}">' in svg
    assert html.count('class="limbic-chart"') == 4


async def test_a_large_memory_is_looked_through_quickly(
    demo_db: Path, make_datasette: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("datasette_limbic.glance.SMALL", 10)
    datasette = make_datasette(demo_db)
    found = (await get_json(datasette, base(demo_db) + ".json"))["health"]
    assert found["whole"] is False
    assert {each["name"] for each in found["findings"]} <= set(glance.QUICK)
    assert found["looked_for"] == len(glance.QUICK)
    words = text_of((await get(datasette, base(demo_db))).text)
    assert "This memory is large, so only what is quick was looked for here." in words


# what is done to the file → parts that cannot be read then
FAILURES = {
    "alter table limbic_searches rename to gone": {"signals", "activity", "health"},
    "alter table limbic_duplicates rename to gone": {"review", "health"},
    "update limbic_indexes set rejected = 'no json'": {"vectors"},
    "alter table limbic_settings rename column value to gone": {"settings", "review", "health"},
    "drop table limbic_imports": {"counts", "health"},
    "alter table relations rename column to_entity to gone": {"hubs", "health", "review"},
}


@pytest.mark.parametrize("statement", FAILURES)
async def test_a_part_that_fails_says_so_and_the_rest_stands(
    statement: str, demo_db: Path, make_datasette: Any
) -> None:
    # views and triggers of the table stay as they are, and fail too
    write(demo_db, ("pragma legacy_alter_table = on", []), (statement, []))
    datasette = make_datasette(demo_db)
    body = await get_json(datasette, base(demo_db) + ".json")
    failed = set(body["errors"])
    assert failed
    assert failed <= FAILURES[statement]
    assert body["counts"]["entities"] == 65
    for name in failed - {"counts"}:
        assert body[name] is None, name
    response = await get(datasette, base(demo_db))
    assert response.status_code == 200
    words = text_of(response.text)
    assert "What could not be read" in words
    for name, reason in body["errors"].items():
        assert reason
        assert reason in words, name
    assert "Growth" in words
    assert "Elena" in words


async def test_nothing_fails_unseen(
    demo_db: Path, make_datasette: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each part by itself, whatever is wrong with it."""
    parts = {
        "growth": "over_time.growth",
        "activity": "over_time.activity",
        "hubs": "leading.hubs",
        "newest": "leading.newest",
        "most_used": "leading.most_used",
        "health": "health_report",
    }
    datasette = make_datasette(demo_db)
    for name, function in parts.items():
        with monkeypatch.context() as patch:

            def fail(*_: Any, **__: Any) -> None:
                raise ValueError("<b>broken")

            patch.setattr(f"datasette_limbic.glance.{function}", fail)
            body = await get_json(datasette, base(demo_db) + ".json")
            assert body["errors"] == {name: "<b>broken"}
            assert body[name] is None
            html = (await get(datasette, base(demo_db))).text
            assert "&lt;b&gt;broken" in html
            assert "<b>broken" not in html
        write(demo_db, ("update entities set confidence = confidence / 2 where id = 1", []))


@pytest.mark.parametrize("table", ["entity_access_log", "limbic_searches"])
async def test_activity_of_a_log_is_for_whom_may_view_it(
    table: str, demo_db: Path, make_datasette: Any
) -> None:
    used(demo_db)
    only_root = {"databases": {demo_db.stem: {"tables": {table: {"allow": {"id": "root"}}}}}}
    datasette = make_datasette(demo_db, metadata=only_root)
    root = {"cookies": as_actor(datasette, {"id": "root"})}
    keys = {"entity_access_log": "accesses", "limbic_searches": "searches"}
    # whoever may see it first leaves nothing to the others
    for options in (root, {}, root):
        weeks = (await get_json(datasette, base(demo_db) + ".json", **options))["activity"]["weeks"]
        shown = {key for key in keys.values() if weeks[-1][key] is not None}
        assert shown == (set(keys.values()) if options else set(keys.values()) - {keys[table]})
        words = text_of((await get(datasette, base(demo_db), **options)).text)
        title = {"accesses": "found by a search", "searches": "3 searches in 26 weeks"}[keys[table]]
        assert (title in words) is bool(options)


HOSTILE = (
    "<script>alert(1)</script>",
    "x" * 10_000,
    "\u202e right to left",
    "NUL \0 \"quoted' &amp;",
    "   ",
)


async def test_hostile_names_and_types_are_harmless(demo_db: Path, make_datasette: Any) -> None:
    for number, name in enumerate(HOSTILE, 3):
        write(
            demo_db,
            ("update entities set name = ?, entity_type = ? where id = ?", [name, name, number]),
            ("update entities set archived_at = null where id = ?", [number]),
            ("replace into entity_access(entity_id, access_count) values (?, 900)", [number]),
        )
    html = (await get(make_datasette(demo_db), base(demo_db))).text
    assert "<script>alert" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "x" * 500 not in html.replace("type=" + "x" * 10_000, "")
    assert "\0" not in html
    assert "unnamed (#7)" in html
    assert html.count("\u202e") == html.count("<bdi>\u202e") + html.count('\u202e right to left"')
    assert len(html.encode()) < 150_000


def statements(path: Path) -> int:
    found: list[str] = []
    with closing(connection.connect(path, readonly=True)) as conn:
        conn.set_trace_callback(found.append)
        glance.glance(conn)
    # those with two hyphens are parts of others
    return sum(not statement.startswith("--") for statement in found)


def test_the_number_of_statements_does_not_depend_on_the_rows(demo_db: Path) -> None:
    before = statements(demo_db)
    write(
        demo_db,
        (
            "with recursive n(i) as (select 1 union all select i + 1 from n where i < 300)"
            " insert into entities(name, entity_type)"
            " select 'new ' || i, 'Type ' || (i % 90) from n",
            [],
        ),
        (
            "insert into relations(from_entity, to_entity, relation_type)"
            " select e.id, f.id, 'knows' from entities e, entities f"
            " where e.id > 100 and f.id between 100 and 110 and e.id <> f.id",
            [],
        ),
        (
            "insert into observations(entity_id, content)"
            " select id, 'about ' || name from entities",
            [],
        ),
    )
    assert statements(demo_db) <= before


LOGS = ["entity_access_log", "limbic_searches", "limbic_feedback"]


@pytest.mark.parametrize(
    ("broken", "hidden", "said"),
    [
        (["limbic_parameters"], [], {"parameters": "Could not be read."}),
        ([], ["limbic_parameters"], {"parameters": "Not shown: this needs the right"}),
        (["entity_access_log"], [], {"activity": "Could not be read.", "accesses": "–"}),
        ([], ["entity_access_log"], {"accesses": "not shown"}),
        ([], LOGS, {"activity": "Not shown.", "accesses": "not shown"}),
        (["limbic_feedback"], ["limbic_searches"], {}),  # without signals, for whoever may see some
        (["limbic_feedback"], ["entity_access_log"], {"accesses": "not shown"}),
        (["limbic_searches"], LOGS, {"activity": "Not shown.", "accesses": "not shown"}),
    ],
)
async def test_what_cannot_be_read_is_not_called_forbidden(
    broken: list[str],
    hidden: list[str],
    said: dict[str, str],
    demo_db: Path,
    make_datasette: Any,
) -> None:
    for table in broken:
        write(demo_db, (f"alter table {table} rename to gone_{table}", []))
    only_root = {name: {"allow": {"id": "root"}} for name in hidden}
    datasette = make_datasette(demo_db, metadata={"databases": {"demo": {"tables": only_root}}})
    html = (await get(datasette, base(demo_db))).text
    words = {
        "parameters": part_of(html, "limbic-parameters"),
        "activity": part_of(html, "limbic-activity"),
        "accesses": text_of(html).partition("Logged accesses ")[2][:9],
    }
    assert all(words.values())
    for name, text in words.items():
        if name in said:
            assert said[name] in text
        else:
            assert "could not be read" not in text.lower()
            assert "not shown" not in text.lower()
    await get_json(datasette, base(demo_db) + ".json")


def part_of(html: str, heading: str) -> str:
    """The words of one section, by the id of its heading."""
    return text_of(html.partition(f'aria-labelledby="{heading}"')[2].partition("</section>")[0])


async def test_the_name_of_a_database_turns_nothing_around(
    demo_db: Path, make_datasette: Any
) -> None:
    path = demo_db.rename(demo_db.with_name("a\u202eb.db"))
    # for the commands that name the file
    write(path, ("update entities set name = name || '!' where id = 1", []))
    datasette = make_datasette(path)
    await datasette.invoke_startup()
    ours = str(datasette.urls.database(path.stem))
    for url in (f"{ours}/-/limbic", "/", ours):
        html = (await get(datasette, url)).text
        if url.endswith("limbic"):
            shown = html.partition("<main")[2].partition("</main>")[0]
        else:
            shown = html.partition("<section lang=")[2].partition("</section>")[0]
        texts = re.sub(r"<[^>]*>", lambda tag: tag[0] if "bdi" in tag[0] else "", shown)
        assert "\u202e" not in re.sub(r"<bdi>[^<]*</bdi>", "", texts), url
        assert ("\u202e" in texts) is (url != ours and (ONE_POINT_ZERO or "limbic" in url)), url
