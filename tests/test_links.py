"""Ways in from Datasette's own pages, and back again."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from view_helpers import (
    ONE_POINT_ZERO,
    as_actor,
    base,
    get,
    get_json,
    links,
    rows,
    text_of,
    write,
)

from datasette_limbic import connection
from datasette_limbic.views import jump

pytestmark = pytest.mark.slow  # the pages are no other on another Python


async def test_menu_leads_to_each_memory_and_to_no_other_database(
    demo_db: Path, empty_db: Path, make_datasette: Any
) -> None:
    datasette = make_datasette(demo_db, empty_db, memory=True)
    for page in ("/", "/_memory", base(demo_db), f"/{demo_db.stem}/entities"):
        found = links((await get(datasette, page)).text)
        assert base(demo_db) in found, page
        assert base(empty_db) in found, page
        assert "/_memory/-/limbic" not in found


async def test_database_page_leads_to_overview_and_search(
    demo_db: Path, make_datasette: Any
) -> None:
    found = links((await get(make_datasette(demo_db), f"/{demo_db.stem}")).text)
    # menu and actions, and on 1.0 the panel
    assert found.count(base(demo_db)) == (3 if ONE_POINT_ZERO else 2)
    assert base(demo_db) + "/search" in found


@pytest.mark.parametrize("table", ["entities", "observations", "relations", "co_occurrences"])
async def test_our_tables_lead_to_search(table: str, demo_db: Path, make_datasette: Any) -> None:
    found = links((await get(make_datasette(demo_db), f"/{demo_db.stem}/{table}?_size=1")).text)
    assert base(demo_db) + "/search" in found


@pytest.mark.parametrize("table", ["limbic_imports", "limbic_import_rejects"])
async def test_the_log_of_imports_leads_to_its_page(
    table: str, demo_db: Path, make_datasette: Any
) -> None:
    conn = connection.connect(demo_db)
    number = conn.execute("select max(id) from limbic_imports").fetchone()[0]
    conn.execute(
        "insert into limbic_import_rejects(id, import_id, line, reason) values (900, ?, 1, 'r')",
        [number],
    )
    conn.commit()
    conn.close()
    datasette = make_datasette(demo_db)
    found = links((await get(datasette, f"/{demo_db.stem}/{table}?_size=1")).text)
    assert base(demo_db) + "/imports" in found
    if ONE_POINT_ZERO:
        row = number if table == "limbic_imports" else 900
        found = links((await get(datasette, f"/{demo_db.stem}/{table}/{row}")).text)
        assert base(demo_db) + f"/imports/{number}" in found


async def test_other_tables_do_not(demo_db: Path, make_datasette: Any) -> None:
    found = links((await get(make_datasette(demo_db), f"/{demo_db.stem}/limbic_settings")).text)
    assert base(demo_db) + "/search" not in found


@pytest.mark.skipif(not ONE_POINT_ZERO, reason="Datasette 0.65 has no row actions")
@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("entities", "id"),
        ("observations", "entity_id"),
        ("relations", "from_entity"),
        ("entity_access", "entity_id"),
        ("entity_access_log", "entity_id"),
        ("co_occurrences", "entity_a_id"),
    ],
)
async def test_rows_lead_to_their_entity(
    table: str, column: str, demo_db: Path, make_datasette: Any
) -> None:
    conn = connection.connect(demo_db, readonly=True)
    key = "entity_a_id || ',' || entity_b_id" if table == "co_occurrences" else None
    key = key or ("entity_id" if table == "entity_access" else "id")
    pk, entity = conn.execute(f"select {key}, {column} from {table} limit 1").fetchone()
    conn.close()
    found = links((await get(make_datasette(demo_db), f"/{demo_db.stem}/{table}/{pk}")).text)
    assert f"{base(demo_db)}/entity/{entity}" in found


async def test_a_log_row_whose_entity_is_gone_leads_nowhere(
    demo_db: Path, make_datasette: Any
) -> None:
    conn = connection.connect(demo_db)
    conn.execute(
        "insert into entity_access_log(id, entity_id, entity_name, accessed_at)"
        " values (99999, null, 'gone', '2026-01-01')"
    )
    conn.commit()
    conn.close()
    response = await get(make_datasette(demo_db), f"/{demo_db.stem}/entity_access_log/99999")
    assert response.status_code == 200
    assert not [u for u in links(response.text) if "/-/limbic/entity" in u]


async def test_names_on_the_table_page_lead_to_us_and_ours_back_to_the_row(
    demo_db: Path, make_datasette: Any
) -> None:
    datasette = make_datasette(demo_db)
    found = links((await get(datasette, f"/{demo_db.stem}/entities?_size=5&_sort=id")).text)
    ours = [u for u in found if "/-/limbic/entity/" in u]
    assert ours == [f"{base(demo_db)}/entity/{i}" for i in range(1, 6)]
    back = links((await get(datasette, ours[2])).text)
    assert f"/{demo_db.stem}/entities/3" in back
    assert (await get(datasette, f"/{demo_db.stem}/entities/3")).status_code == 200


HOSTILE_NAME = "<script>alert(1)</script>\"'&/" + "x" * 10_000


async def test_a_hostile_name_in_a_cell_is_escaped_and_cut(
    demo_db: Path, make_datasette: Any
) -> None:
    conn = connection.connect(demo_db)
    conn.execute("update entities set name = ? where id = 1", [HOSTILE_NAME])
    conn.commit()
    conn.close()
    datasette = make_datasette(demo_db)
    page = (await get(datasette, f"/{demo_db.stem}/entities?_size=3&_sort=id")).text
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    cell = re.search(r'<a href="[^"]*/-/limbic/entity/1"><bdi>([^<]*)</bdi></a>', page)
    assert cell is not None
    assert len(cell.group(1)) < 2200
    assert cell.group(1).endswith("…")


async def test_cells_of_other_tables_and_queries_stay_as_they_are(
    tmp_path: Path, make_datasette: Any
) -> None:
    from datasette.utils.sqlite import sqlite3

    path = tmp_path / "zoo.db"
    conn = sqlite3.connect(path)
    conn.execute("create table entities(id integer primary key, name text)")
    conn.execute("insert into entities values (1, 'Lion')")
    conn.commit()
    conn.close()
    datasette = make_datasette(path)
    for page in ("/zoo", "/zoo/entities", "/zoo/entities/1"):
        response = await get(datasette, page)
        assert response.status_code == 200
        assert "/-/limbic" not in response.text


async def test_no_links_for_who_may_not_look(demo_db: Path, make_datasette: Any) -> None:
    denial = {"tables": {"observations": {"allow": {"id": "root"}}}}
    datasette = make_datasette(demo_db, metadata={"databases": {demo_db.stem: denial}})
    for page in ("/", f"/{demo_db.stem}", f"/{demo_db.stem}/relations?_size=1"):
        assert "/-/limbic" not in " ".join(
            u for u in links((await get(datasette, page)).text) if "entity/" not in u
        )
    root = as_actor(datasette, {"id": "root"})
    assert base(demo_db) in links((await get(datasette, "/", cookies=root)).text)


async def test_links_of_the_search_page_run(demo_db: Path, make_datasette: Any) -> None:
    datasette = make_datasette(demo_db)
    asked = "q=who+fixed+the+geocoder&limit=5&now=2026-11-29+12:00:00&gamma=0.3&strategy=limbic"
    body = await get_json(datasette, f"{base(demo_db)}/search.json?{asked}")
    expected = [row["id"] for row in body["results"]]
    for key in ("sql_url", "stored_query_url"):
        path, _, query = body[key].partition("?")
        response = await get(datasette, f"{path}.json?{query}&_shape=array", follow_redirects=True)
        if response.status_code == 404 or not isinstance(response.json(), list):
            # 1.0 sends /db?sql= to its query page first
            page = await get(datasette, body[key])
            target = page.headers["location"]
            path, _, query = target.partition("?")
            response = await get(datasette, f"{path}.json?{query}&_shape=array")
        rows = response.json()
        assert [row["id"] for row in rows] == expected, key
        for row, result in zip(rows, body["results"], strict=True):
            assert row["final_score"] == pytest.approx(result["final_score"], rel=1e-9)


@pytest.mark.parametrize(
    ("table", "gone"),
    [
        (None, set()),
        ("limbic_topics", {"/consolidation", "/duplicates/3"}),
        ("limbic_settings", {"/consolidation", "/duplicates/3", "/split/3"}),
    ],
)
async def test_maintenance_is_reached_from_the_database_and_from_rows_of_entities(
    table: str | None, gone: set[str], demo_db: Path, make_datasette: Any
) -> None:
    only_root = {"databases": {demo_db.stem: {"tables": {table: {"allow": {"id": "root"}}}}}}
    datasette = make_datasette(demo_db, metadata=only_root if table else {})
    pages = {f"/{demo_db.stem}": {"/search", "/consolidation", "/health"}}
    if ONE_POINT_ZERO:
        pages[f"/{demo_db.stem}/entities/3"] = {"/entity/3", "/duplicates/3", "/split/3"}
    for page, paths in pages.items():
        found = links((await get(datasette, page)).text)
        for path in paths:
            assert (base(demo_db) + path in found) is (path not in gone), path
            code = (await get(datasette, base(demo_db) + path)).status_code
            assert code == (403 if path in gone else 200), path
    if ONE_POINT_ZERO:
        found = links((await get(datasette, f"/{demo_db.stem}/observations/3")).text)
        assert not [link for link in found if "/-/limbic/split/" in link]


@pytest.mark.parametrize("table", ["relations", "entity_access", "co_occurrences", "limbic_topics"])
async def test_no_page_of_ours_links_to_one_that_is_refused(
    table: str, demo_db: Path, make_datasette: Any
) -> None:
    """Every link of every page that a restricted visitor gets leads to a page that they get."""
    write(
        demo_db,
        ("insert into entities(name) values ('alone')", []),
        ("insert into entities(name) values ('the same')", []),
        (
            "insert into observations(entity_id, content) select e.id, 'one two three' from"
            " entities e join (select 1 union all select 2 union all select 3) where"
            " e.name = 'the same'",
            [],
        ),
        ("insert into limbic_settings(key, value) values ('split_threshold:Thing', '2')", []),
    )
    [(same,)] = rows(demo_db, "select id from entities where name = 'the same'")
    only_root = {"databases": {demo_db.stem: {"tables": {table: {"allow": {"id": "root"}}}}}}
    datasette = make_datasette(demo_db, metadata=only_root)
    ours = base(demo_db)
    given = 0
    for path in (
        "",
        "/search",
        "/consolidation",
        "/duplicates",
        "/health",
        "/imports",
        "/imports/1",
        "/entity/3",
        "/split/3",
        f"/split/{same}",
        "/duplicates/3",
    ):
        response = await get(datasette, ours + path)
        if response.status_code != 200:
            assert response.status_code == 403, path
            continue
        given += 1
        for link in {each.partition("#")[0] for each in links(response.text)}:
            if link.startswith(f"/{demo_db.stem}"):
                code = (await get(datasette, link)).status_code
                assert code in (200, 302), (path, link, code)
    assert given >= 3


NAME = "a db.of 'mine' & <b>"


@pytest.fixture
def odd_db(demo_db: Path) -> Path:
    """A memory whose name has to be escaped everywhere."""
    return demo_db.rename(demo_db.with_name(f"{NAME}.db"))


@pytest.mark.skipif(not ONE_POINT_ZERO, reason="Datasette 0.65 has no room for it")
async def test_the_panel_searches_the_memory(odd_db: Path, make_datasette: Any) -> None:
    settings = {"base_url": "/prefix/"}
    datasette = make_datasette(odd_db, settings=settings, memory=True)
    own = str(datasette.urls.database(NAME))
    for page in ("/", own.removeprefix("/prefix")):
        html = (await get(datasette, page)).text
        assert html.count('role="search"') == 1
        assert f'action="{own}/-/limbic/search"' in html
        assert "65 entities, 403 observations." in text_of(html)
        assert "<b>" not in html
        assert "style=" not in html[html.index('<section lang="en"') : html.index("</section>")]
    found = text_of((await get(datasette, "/?_lang=es")).text)
    assert "65 " in found
    assert "limbic-panel" not in (await get(datasette, "/_memory")).text


@pytest.mark.parametrize("broken", ["denied", "unreadable", "no memory"])
async def test_no_panel_and_no_entries_where_there_is_nothing_to_see(
    broken: str, demo_db: Path, make_datasette: Any
) -> None:
    metadata = None
    if broken == "denied":
        denial = {"tables": {"observations": {"allow": {"id": "root"}}}}
        metadata = {"databases": {demo_db.stem: denial}}
    if broken == "no memory":
        write(demo_db, ("alter table entities rename to things", []))
    datasette = make_datasette(demo_db, metadata=metadata)
    if broken == "unreadable":
        await get(datasette, "/")  # a memory, as far as is known
        write(demo_db, ("alter table entities rename to things", []))
    for page in ("/", f"/{demo_db.stem}"):
        response = await get(datasette, page)
        assert response.status_code == 200
        assert "limbic-panel" not in response.text
    if ONE_POINT_ZERO:
        found = await get_json(datasette, "/-/jump?q=elena")
        assert [each for each in found["matches"] if each["type"] == "entity"] == []


@pytest.mark.skipif(not ONE_POINT_ZERO, reason="Datasette 0.65 has no jump menu")
async def test_the_jump_menu_finds_entities_and_memories(
    odd_db: Path, empty_db: Path, make_datasette: Any
) -> None:
    write(odd_db, ("update entities set name = ? where id = 40", [HOSTILE_NAME]))
    datasette = make_datasette(odd_db, empty_db, settings={"base_url": "/prefix/"})

    async def found(typed: str) -> list[tuple[str, str, str]]:
        response = await datasette.client.get("/-/jump", params={"q": typed})
        body = response.json()
        assert response.status_code == 200
        return [
            (each["type"], each["name"], each["url"])
            for each in body["matches"]
            if each["type"] in ("entity", "memory")
        ]

    await datasette.invoke_startup()
    own = str(datasette.urls.database(NAME)) + "/-/limbic"
    [(entity,)] = rows(odd_db, "select id from entities where name = 'Elena Marqués'")
    for typed in ("elena", "Elena Marqués", "marques", "MARQ"):
        assert ("entity", "Elena Marqués", f"{own}/entity/{entity}") in await found(typed), typed
    assert ("entity", HOSTILE_NAME[:200], f"{own}/entity/40") in await found("<script>")
    assert [each for each in await found("") if each[0] == "entity"] == []
    assert {each[2] for each in await found("memory")} >= {own, "/prefix/empty/-/limbic"}
    page = await datasette.client.get(f"{own.removeprefix('/prefix')}/entity/{entity}")
    assert page.status_code == 200


@pytest.mark.skipif(not ONE_POINT_ZERO, reason="Datasette 0.65 has no jump menu")
async def test_names_are_for_whom_may_view_them_also_in_the_jump_menu(
    demo_db: Path, make_datasette: Any
) -> None:
    denial = {"tables": {"entities": {"allow": {"id": "root"}}}}
    datasette = make_datasette(demo_db, metadata={"databases": {demo_db.stem: denial}})
    assert "Elena" not in (await get(datasette, "/-/jump?q=elena")).text
    assert "Memory" not in (await get(datasette, "/-/jump?q=memory")).text
    root = as_actor(datasette, {"id": "root"})
    assert "Elena" in (await get(datasette, "/-/jump?q=elena", cookies=root)).text


@pytest.mark.skipif(not ONE_POINT_ZERO, reason="Datasette 0.65 has no jump menu")
async def test_a_name_that_takes_too_long_leaves_the_menu_as_it_is(
    demo_db: Path, make_datasette: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) from n"
    monkeypatch.setattr(
        "datasette_limbic.views.jump.named", lambda conn, _: conn.execute(endless).fetchall()
    )
    found = await get_json(make_datasette(demo_db), "/-/jump?q=demo")
    assert {"database", "table", "memory"} <= {each["type"] for each in found["matches"]}


@pytest.mark.skipif(not ONE_POINT_ZERO, reason="Datasette 0.65 has no room for it")
@pytest.mark.parametrize("broken", ["status.size", "views.panel.html_of", "views.jump.named"])
async def test_what_goes_wrong_with_ours_takes_no_page_of_datasettes_along(
    broken: str, demo_db: Path, make_datasette: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> Any:
        raise KeyError("not foreseen")

    monkeypatch.setattr(f"datasette_limbic.{broken}", fails)
    datasette = make_datasette(demo_db)
    for url in ("/", f"/{demo_db.stem}"):
        response = await get(datasette, url)
        assert response.status_code == 200
        assert ("limbic-panel" in response.text) is (broken == "views.jump.named")
    found = await get_json(datasette, "/-/jump?q=elena")
    assert any(each["type"] == "entity" for each in found["matches"]) is ("jump" not in broken)


@pytest.mark.skipif(not ONE_POINT_ZERO, reason="Datasette 0.65 has no jump menu")
async def test_many_memories_that_are_slow_share_the_time_of_one(
    demo_db: Path, empty_db: Path, make_datasette: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last one, which is quick, is found whatever those before it take."""
    endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) from n"
    slow = [shutil.copy(empty_db, empty_db.with_name(f"a{i}.db")) for i in range(4)]
    given: list[int] = []

    def read(conn: Any, typed: str) -> Any:
        [(count,)] = conn.execute("select count(*) from entities")
        return jump_named(conn, typed) if count else conn.execute(endless).fetchall()

    def limited(conn: Any, ms: int) -> Any:
        given.append(ms)
        return timelimit(conn, ms)

    jump_named, timelimit = jump.named, jump.sqlite_timelimit
    monkeypatch.setattr(jump, "named", read)
    monkeypatch.setattr(jump, "sqlite_timelimit", limited)
    datasette = make_datasette(*slow, demo_db)
    found = await get_json(datasette, "/-/jump?q=elena")
    assert any(each["type"] == "entity" for each in found["matches"])
    assert len(given) == 5
    assert given[0] <= jump.LIMIT_MS / 5
    assert sum(given) <= jump.LIMIT_MS + 5
