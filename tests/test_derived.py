"""What is made of other tables is seen by whoever may view those, on Datasette's own pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from datasette.utils.sqlite import sqlite3
from view_helpers import ONE_POINT_ZERO, as_actor, base, get, recording_datasette

from datasette_limbic import connection, derived, schema
from datasette_limbic.reports.queries import queries

pytestmark = pytest.mark.slow  # the pages are no other on another Python

ROOT = {"id": "root"}
MARK = "zyxwmark"
VIEWS = (*queries(), "entity_snapshots", "_limbic_last_characters")
KEPT = ("limbic_topics", "limbic_duplicates", "limbic_insights", "limbic_changes")
GRAPH = ("entities", "observations", "relations")


def there(path: Path, kinds: tuple[str, ...] = ("table", "view")) -> list[str]:
    with sqlite3.connect(path) as conn:
        found = conn.execute("select name, type from sqlite_master").fetchall()
    conn.close()
    return [name for name, kind in found if kind in kinds]


def denying(make_datasette: Any, path: Path, *tables: str, more: Any = None, **kwargs: Any) -> Any:
    denied = {name: {"allow": {"id": "root"}} for name in tables}
    tables_of = {"databases": {path.stem: {"tables": {**denied, **(more or {})}}}}
    made = recording_datasette(make_datasette, path, more=tables_of, **kwargs)
    if ONE_POINT_ZERO:
        made.root_enabled = True
    return made


def newest(name: str) -> str:
    """Its rows as JSON, those of ``mark`` among them."""
    return f"/demo/{name}.json?_size=max&_shape=array" + "&_sort_desc=id" * (name in GRAPH)


def mark(path: Path) -> None:
    """Words of its own in every table of the graph, and in all that is made of them."""
    conn = connection.connect(path)
    with conn:
        conn.execute(f"insert into entities(name, entity_type) values ('{MARK}', '{MARK}')")
        entity = conn.execute("select max(id) from entities").fetchone()[0]
        conn.executemany(
            "insert into observations(entity_id, content, similarity_flag) values (?, ?, 1)",
            [(entity, f"{MARK} {number}") for number in range(25)],
        )
        one, two = (
            row[0]
            for row in conn.execute(
                "select id from observations where entity_id = ? order by id limit 2", [entity]
            )
        )
        conn.execute(
            "insert into limbic_duplicates(earlier_id, later_id, entity_id, kind, rule, difference)"
            " values (?, ?, ?, 'contradiction', 'exact', ?)",
            [one, two, entity, MARK],
        )
        conn.execute(
            "insert into limbic_topics(entity_id, topics, diversity, split_score)"
            " values (?, ?, 0.5, 1)",
            [entity, f'[{{"label": "{MARK}"}}]'],
        )
        conn.execute(
            "insert into limbic_insights(key, kind, entity_id, title, body, evidence,"
            " evidence_digest) values ('x', 'split', ?1, ?2, ?2, ?2, 'x')",
            [entity, MARK],
        )
        conn.execute(
            "insert into limbic_changes(action, entity_id, entity_name, summary, before, after)"
            " values ('delete', ?1, ?2, ?2, ?2, ?2)",
            [entity, MARK],
        )
        conn.execute(
            "insert into relations(from_entity, to_entity, relation_type, valid_to)"
            f" values (?, 1, '{MARK}', '2020-01-01 00:00:00')",
            [entity],
        )
    conn.close()


def test_each_view_is_made_of_what_it_reads(demo_db: Path) -> None:
    """As SQLite's authorizer sees it: a view that is not known, or reads more, fails here."""
    views = there(demo_db, ("view",))
    conn = connection.connect(demo_db, readonly=True)
    tables = set(there(demo_db, ("table",)))
    for view in views:
        read: set[str] = set()

        def note(action: int, table: Any, *_: Any, read: set[str] = read) -> int:
            if action == sqlite3.SQLITE_READ and table in tables:
                read.add(table)
            return sqlite3.SQLITE_OK

        conn.set_authorizer(note)
        conn.execute(f"select * from {view}").fetchall()
        assert read == set(derived.made_of(view)), view
    conn.close()
    assert set(views) == set(VIEWS)


def test_layers_are_made_of_layers_before(demo_db: Path) -> None:
    tables = set(there(demo_db, ("table", "view")))
    known: set[str] = set()
    for layer in derived.layers():
        assert set(layer) <= tables | set(derived.layers()[0])
        for name, needed in layer.items():
            assert needed, name
            for table in needed:
                assert table in tables
                assert table in known or not derived.made_of(table), (name, table)
        known |= set(layer)


@pytest.mark.parametrize("denied", GRAPH)
async def test_no_table_or_view_says_what_may_not_be_seen(
    denied: str, demo_db: Path, make_datasette: Any
) -> None:
    """Every table and view of the file, each as JSON: none has words of a table that is denied."""
    mark(demo_db)
    datasette = denying(make_datasette, demo_db, denied)
    await datasette.invoke_startup()
    root = as_actor(datasette, ROOT)
    said, refused = [], set()
    for name in there(demo_db):
        url = newest(name)
        response = await get(datasette, url)
        if response.status_code == 403:
            refused.add(name)
            if name in VIEWS or name in KEPT:
                found = await get(datasette, url, cookies=root)
                assert found.status_code == 200, name
        elif MARK in response.text:
            said.append(name)
    # words of the others may be seen where those may
    assert denied in refused
    for name in said:
        assert denied not in derived.made_of(name), name
    assert refused >= {name for name in VIEWS if denied in derived.made_of(name)}


async def test_what_holds_words_of_observations_is_known(
    demo_db: Path, make_datasette: Any
) -> None:
    """Whatever has the mark once nothing is denied is in the graph, or known to be made of it."""
    mark(demo_db)
    datasette = denying(make_datasette, demo_db)
    found = []
    for name in there(demo_db):
        response = await get(datasette, newest(name))
        if MARK in response.text:
            found.append(name)
    assert {*GRAPH, *KEPT} <= set(found)
    assert [name for name in found if name not in GRAPH and not derived.made_of(name)] == []


@pytest.mark.parametrize("name", [*VIEWS, *KEPT])
async def test_every_form_of_a_page_is_refused(
    name: str, demo_db: Path, make_datasette: Any
) -> None:
    mark(demo_db)
    datasette = denying(make_datasette, demo_db, *GRAPH, more={name: {"allow": True}})
    await datasette.invoke_startup()
    root = as_actor(datasette, ROOT)
    with sqlite3.connect(demo_db) as conn:
        column = conn.execute(f"select * from {name}").description[0][0]
        key = conn.execute(f"select * from {name}").fetchone()
    conn.close()
    url = f"/demo/{name}"
    paths = [
        url,
        f"{url}.json",
        f"{url}.csv",
        f"{url}.csv?_stream=on",
        f"{url}.json?_facet={column}",
    ]
    if name in KEPT:
        row = ",".join(str(value) for value in key[: 2 if name == "limbic_duplicates" else 1])
        paths += [f"{url}/{row}", f"{url}/{row}.json"]
    for path in paths:
        assert (await get(datasette, path)).status_code == 403, path
        assert (await get(datasette, path, cookies=root)).status_code == 200, path
    assert (await get(datasette, f"/demo/{name.upper()}.json")).status_code != 200
    home = await get(datasette, "/demo.json")
    listed = [each["name"] for kind in ("tables", "views") for each in home.json()[kind]]
    assert name not in listed
    listed = [
        e["name"]
        for k in ("tables", "views")
        for e in (await get(datasette, "/demo.json", cookies=root)).json()[k]
    ]
    assert name in listed


async def test_a_kept_table_that_is_denied_denies_its_view(
    demo_db: Path, make_datasette: Any
) -> None:
    datasette = denying(make_datasette, demo_db, "limbic_duplicates")
    for name, status in (
        ("limbic_similar_observations", 403),
        ("limbic_flagged_observations", 403),
        ("limbic_orphans", 200),
        ("limbic_topics", 200),
    ):
        assert (await get(datasette, f"/demo/{name}.json")).status_code == status, name


async def test_without_denials_all_may_be_seen(demo_db: Path, make_datasette: Any) -> None:
    datasette = denying(make_datasette, demo_db)
    for name in (*VIEWS, *KEPT):
        assert (await get(datasette, f"/demo/{name}.json")).status_code == 200, name


async def test_other_databases_keep_their_rules(
    demo_db: Path, tmp_path: Path, make_datasette: Any
) -> None:
    """A file that is no memory may have a view of the same name."""
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as conn:
        conn.execute("create table entities(id integer primary key, name text)")
        conn.execute("create view limbic_orphans as select * from entities")
    conn.close()
    more = {
        "databases": {
            name: {"tables": {"entities": {"allow": {"id": "root"}}}} for name in ("other", "demo")
        }
    }
    datasette = recording_datasette(make_datasette, demo_db, other, more=more)
    assert (await get(datasette, "/other/limbic_orphans.json")).status_code == 200
    assert (await get(datasette, "/demo/limbic_orphans.json")).status_code == 403
    assert (await get(datasette, f"{base(demo_db)}.json")).status_code == 403


def test_the_names_of_a_table_in_any_case() -> None:
    assert derived.made_of("LIMBIC_Orphans") == derived.made_of("limbic_orphans") != ()
    assert [name for name in schema.CORE_TABLES if derived.made_of(name)] == []
