"""Who may not see the logs sees nothing of them, and searches and opens all the same."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from datasette.utils.sqlite import sqlite3
from view_helpers import (
    AGENT,
    as_actor,
    base,
    get,
    get_json,
    post,
    post_json,
    recording_datasette,
    rows,
    signals,
    text_of,
)

from datasette_limbic import api, connection, request, schema, serving
from datasette_limbic.config import Settings
from datasette_limbic.search import search

PAGE = Path(__file__).resolve().parents[1] / "docs" / "agents.md"
ROOT = {"id": "root"}
ASKED = "zebra crossing of the geocoder"
LOGS = (schema.ACCESS_LOG, *schema.SEARCH_LOG)


def hiding() -> dict[str, Any]:
    """The configuration that the page for agents shows for hiding the logs."""
    [block] = re.findall(
        r"^<!-- hides the logs -->\n```yaml\n(.*?)^```$", PAGE.read_text(), re.M | re.S
    )
    found: dict[str, Any] = yaml.safe_load(block)
    return {"databases": {"demo": found["databases"]["memory"]}}


def used(path: Path) -> int:
    """Leave a search, an opening and a rating; the id of the entity."""
    conn = connection.connect(path)
    answer = serving.search_semantic(
        conn, ASKED, limit=3, client="zebra-client", actor="zebra-actor"
    )
    found: int = answer["results"][0]["id"]
    serving.open_nodes(conn, ids=[found], search_id=answer["search_id"])
    serving.rate(conn, answer["search_id"], found, "useful")
    conn.close()
    return found


@pytest.fixture
def entity(demo_db: Path) -> int:
    return used(demo_db)


@pytest.mark.parametrize("actor", [None, AGENT])
async def test_hidden_logs_are_hidden_everywhere(
    actor: Any, entity: int, demo_db: Path, make_datasette: Any
) -> None:
    datasette = recording_datasette(make_datasette, demo_db, allow=AGENT, more=hiding())
    await datasette.invoke_startup()
    cookies = as_actor(datasette, actor) if actor else {}
    root = as_actor(datasette, ROOT)
    url = base(demo_db)
    sql = "/demo/-/query.json" if hasattr(datasette, "allowed") else "/demo.json"
    for path in (*(f"/demo/{name}.json" for name in LOGS), f"{sql}?sql=select+1&_shape=array"):
        assert (await get(datasette, path, cookies=cookies)).status_code == 403, path
        assert (await get(datasette, path, cookies=root)).status_code == 200, path
    for path in ("", ".json", "/search?q=geocoder", "/search.json?q=geocoder"):
        response = await get(datasette, url + path, cookies=cookies)
        assert response.status_code == 200, path
        assert "zebra" not in response.text, path
    stored = "/demo/limbic_search.json?q=geocoder&_shape=array"
    assert (await get(datasette, stored, cookies=cookies)).json()
    response = await get(datasette, f"{url}/entity/{entity}", cookies=cookies)
    assert "zebra" not in response.text
    words = text_of(response.text)
    assert "Not shown: this needs the right to view entity_access_log" in words
    assert "Last accesses" not in words
    assert "limbic-chart" not in response.text

    for found in (
        await get_json(datasette, f"{url}/entity/{entity}.json", cookies=cookies),
        (await post_json(datasette, f"{url}/open", {"ids": [entity]}, actor=actor))["entities"][0],
    ):
        shown = found["signals"]
        assert (shown["log"], shown["weeks"], shown["outside_weeks"]) == (None, None, None)
        assert found["counts"]["log"] is None
        assert shown["access_count"] > 0  # of another table
    overview = await get_json(datasette, f"{url}.json", cookies=cookies)
    assert overview["counts"]["accesses"] is None
    kept = overview["signals"]
    assert (kept["searches"], kept["by"], kept["events"]) == (None, None, None)
    assert {k: kept["since_start"]["pruned"][k] for k in ("searches", "ratings", "accesses")} == {
        "searches": None,
        "ratings": None,
        "accesses": None,
    }
    # who may record and not see the logs searches, and rates nothing
    asked = await post_json(datasette, f"{url}/search", {"query": "geocoder"}, actor=actor)
    assert len(asked["results"]) == 10
    rating = {"search_id": "x", "id": entity, "rating": "useful"}
    refused = await post_json(datasette, f"{url}/feedback", rating, status=403, actor=actor)
    assert "view-table on demo/limbic_searches" in refused["error"]
    page = await get(datasette, f"{url}/search?q=geocoder", cookies=cookies)
    assert 'value="useful"' not in page.text
    assert "/feedback" not in page.text


async def test_root_sees_what_is_hidden_from_others(
    entity: int, demo_db: Path, make_datasette: Any
) -> None:
    datasette = recording_datasette(make_datasette, demo_db, more=hiding())
    root = as_actor(datasette, ROOT)
    found = await get_json(datasette, f"{base(demo_db)}/entity/{entity}.json", cookies=root)
    assert ASKED in [row["query"] for row in found["signals"]["log"]]
    assert found["counts"]["log"] == len(
        rows(demo_db, "select 1 from entity_access_log where entity_id = ?", entity)
    )
    overview = await get_json(datasette, f"{base(demo_db)}.json", cookies=root)
    assert overview["counts"]["accesses"] > 0
    assert overview["signals"]["by"][0]["client"] == "zebra-client"


@pytest.mark.parametrize("table", LOGS)
async def test_each_table_of_the_logs_hides_what_comes_from_it_alone(
    table: str, entity: int, demo_db: Path, make_datasette: Any
) -> None:
    more = {"databases": {"demo": {"tables": {table: {"allow": {"id": "root"}}}}}}
    datasette = recording_datasette(make_datasette, demo_db, more=more)
    url = base(demo_db)
    overview = await get_json(datasette, f"{url}.json")
    assert (overview["counts"]["accesses"] is None) is (table == "entity_access_log")
    assert (overview["signals"]["searches"] is None) is (table == "limbic_searches")
    assert (overview["signals"]["events"] is None) is (table == "limbic_feedback")
    assert (await get(datasette, url)).status_code == 200
    detail = await get_json(datasette, f"{url}/entity/{entity}.json")
    assert (detail["signals"]["log"] is None) is (table == "entity_access_log")
    assert (detail["signals"]["events"] is None) is (table == "limbic_feedback")
    # what is recorded does not hang on what may be seen
    before = signals(demo_db)
    await post_json(datasette, f"{url}/search", {"query": "geocoder", "wait": True})
    assert signals(demo_db)["limbic_searches"] == before["limbic_searches"] + 1


def test_what_reads_no_access_log(entity: int, demo_db: Path) -> None:
    conn = connection.connect(demo_db, readonly=True)
    denied: list[str] = []

    def authorize(action: int, table: Any, *_more: Any) -> int:
        if action == sqlite3.SQLITE_READ and table == schema.ACCESS_LOG:
            denied.append(table)
            return sqlite3.SQLITE_DENY
        return sqlite3.SQLITE_OK

    conn.set_authorizer(authorize)
    settings = Settings()
    assert search(conn, request.parse({"q": "geocoder"}, settings), settings=settings)["results"]
    serving.serve_open(conn, ids=[entity], access_log=False)
    assert api.entity_detail(conn, entity, access_log=False)["counts"]["log"] is None
    assert denied == []
    with pytest.raises(sqlite3.DatabaseError):
        api.entity_detail(conn, entity)
    assert denied
    conn.close()


@pytest.mark.parametrize("table", schema.SEARCHED_TABLES)
async def test_a_right_that_is_missing_is_named(
    table: str, demo_db: Path, make_datasette: Any
) -> None:
    more = {"databases": {"demo": {"tables": {table: {"allow": {"id": "root"}}}}}}
    datasette = recording_datasette(make_datasette, demo_db, allow=True, more=more)
    said = f"you are not allowed to see this: it needs view-table on demo/{table}"
    for path in (".json", "/search.json?q=x", "/entity/1.json"):
        assert (await get_json(datasette, base(demo_db) + path, status=403))["error"] == said
    for path, body in (
        ("search", {"query": "x"}),
        ("open", {"ids": [1]}),
        ("feedback", {"search_id": "x", "id": 1, "rating": "useful"}),
    ):
        found = await post_json(datasette, f"{base(demo_db)}/{path}", body, status=403)
        assert found["error"] == said
    for path in ("", "/search?q=x", "/entity/1"):
        response = await get(datasette, base(demo_db) + path)
        assert response.status_code == 403
        assert said in text_of(response.text)


async def test_a_database_that_may_not_be_seen_is_named(demo_db: Path, make_datasette: Any) -> None:
    more = {"databases": {"demo": {"allow": {"id": "root"}}}}
    datasette = recording_datasette(make_datasette, demo_db, allow=True, more=more)
    response = await post(datasette, f"{base(demo_db)}/search", {"query": "x"})
    assert response.status_code == 403
    assert response.json()["error"].endswith("it needs view-database on demo")


async def test_deleting_the_log_of_one_client(demo_db: Path) -> None:
    """The statements of the page for agents take all of it, and nothing of others."""
    used(demo_db)
    conn = connection.connect(demo_db)
    mine = "qué es Atlas, in my words"
    serving.search_semantic(conn, mine, client="coding-agent")
    serving.open_nodes(conn, ["Atlas"], client="coding-agent")
    before = conn.execute("select count(*) from entity_access_log").fetchone()[0]
    own = conn.execute("select count(*) from entity_access_log where query = ?", [mine]).fetchone()
    assert own[0] > 0
    [block] = re.findall(
        r"^<!-- deletes one client -->\n```sql\n(.*?)^```$", PAGE.read_text(), re.M | re.S
    )
    conn.executescript(block)
    left = conn.execute("select distinct client from limbic_searches").fetchall()
    assert [tuple(row) for row in left] == [("zebra-client",)]
    after = conn.execute("select count(*) from entity_access_log").fetchone()[0]
    assert after == before - own[0]
    for name in ("limbic_searches", "limbic_search_candidates", "entity_access_log"):
        cells = [str(cell) for row in conn.execute(f"select * from {name}") for cell in row]
        assert mine not in cells
    asked = "select count(*) from entity_access_log where query = ?"
    assert conn.execute(asked, [ASKED]).fetchone()[0] == 3
    conn.close()
