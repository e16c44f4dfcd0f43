"""Looking leaves no trace: no GET of any route changes a byte of the file, or tries to."""

from __future__ import annotations

import hashlib
import re
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from datasette import hookimpl
from datasette.plugins import pm
from datasette.utils.sqlite import sqlite3
from view_helpers import ONE_POINT_ZERO, as_actor

from datasette_limbic import connection, search_log, serving
from datasette_limbic.actions.acting import act
from datasette_limbic.insights.reflecting import reflect
from datasette_limbic.search import LIMBIC
from datasette_limbic.views import ROUTES

pytestmark = pytest.mark.slow  # the pages are no other on another Python

SEARCH = "search?q=who+fixed+the+geocoder"
# Every route by what follows /{database}/-/limbic in its pattern: paths with arguments. {uid} is
# a logged search and {id} one of its results. Where a route takes POST alone, GET is refused.
SAMPLES: dict[str, list[str]] = {
    r"{format}/?": ["", "{json}", "/", "?now=2026-01-01", "{json}?unknown=1"],
    r"/search{format}": [
        "/search",
        "/search{json}",
        "/search?q=",
        "/search{json}?q=Atlas&limit=3",
        "/" + SEARCH,
        "/search{json}?q=who+fixed+the+geocoder&explain=1",
        *(f"/{SEARCH}&mode={mode}&explain=1" for mode in ("hybrid", "text", "semantic")),
        *(f"/search{{json}}?q=Atlas&strategy={s}" for s in ("auto", "semantic_first", "nope")),
        "/" + SEARCH + "&recency=activity&consolidation=1&fusion=union&expansion_factor=7",
        "/" + SEARCH + "&type=Person&include_archived=1&as_of=2026-01-01&now=2026-06-01",
        "/" + SEARCH + "&beta_sal=0.9&gamma=0.05&lambda_hourly=0.001&rrf_k=10&cooc_cap=2",
        "/" + SEARCH + "&search_id={uid}",
        "/" + SEARCH + "&search_id=unknown",
        "/search?q=geocoder&limit=0",
        "/search?q=geocoder&limit=100",
        "/search{json}?q=" + "x" * 3000,
        "/search?q=%F0%9F%A6%86+%22+*+(+OR+NEAR",
        "/search{json}?q=Atlas&wait=1&client=me&record=1",
    ],
    r"/open{format}": ["/open", "/open{json}", "/open?names=Atlas&ids={id}&search_id={uid}"],
    r"/feedback{format}": [
        "/feedback",
        "/feedback{json}?search_id={uid}&id={id}&rating=useful",
    ],
    r"/observations{format}": ["/observations", "/observations{json}?observations=%5B%5D"],
    r"/entity/(?P<entity>[^/.]+){format}": [
        "/entity/{id}",
        "/entity/{id}{json}",
        "/entity/{id}?page=2",
        "/entity/{id}?now=2026-06-01",
        "/entity/{id}?now=never",
        "/entity/{id}?search_id={uid}",
        "/entity/{id}?as_of=2025-06-30&page=2&relations_page=2&change=observation-1",
        "/entity/{id}{json}?as_of=never",
        "/entity/999999",
        "/entity/Atlas{json}",
    ],
    r"/entity/(?P<entity>[^/.]+)/graph{format}": [
        "/entity/{id}/graph",
        "/entity/{id}/graph{json}",
        "/entity/{id}/graph?hops=2&relation=uses&archived=0&co_occurrence=0&limit=20&now=2026-06-01",
        "/entity/{id}/graph{json}?hops=3",
        "/entity/999999/graph",
        "/entity/Atlas/graph{json}",
    ],
    r"/graph{format}": [
        "/graph",
        "/graph{json}",
        "/graph?community={id}&level=2",
        "/graph{json}?community=999999",
        "/graph?level=x",
    ],
    r"/graph\.svg": ["/graph.svg", "/graph.svg?unknown=1"],
    r"/split/(?P<entity>[^/.]+){format}": [
        "/split/{id}",
        "/split/{id}{json}",
        "/split/{id}?by_hand=1&insight=1",
        "/split/{id}?insight=one",
        "/split/999999{json}",
        "/split/Atlas",
    ],
    r"/duplicates{format}": [
        "/duplicates",
        "/duplicates{json}",
        "/duplicates?kind=contradiction&page=2",
        "/duplicates?kind=nothing",
    ],
    r"/duplicates/(?P<entity>[^/.]+){format}": [
        "/duplicates/{id}",
        "/duplicates/{id}{json}",
        "/duplicates/{id}?threshold=0.3&containment_threshold=0.2&look=0.1&page=2",
        "/duplicates/{id}?threshold=2",
        "/duplicates/999999",
        "/duplicates/Atlas{json}",
    ],
    r"/consolidation{format}": [
        "/consolidation",
        "/consolidation{json}",
        "/consolidation?stale_days=0.5&now=2026-06-01",
        "/consolidation{json}?stale_days=never",
        "/consolidation?list=stale_entities&page=2&size=5",
        "/consolidation{json}?list=nothing",
    ],
    r"/health{format}": [
        "/health",
        "/health{json}",
        "/health?list=orphans&page=2",
        "/health{json}?list=unreadable_times",
        "/health?list=nothing",
        "/health?page=2",
    ],
    r"/actions/(?P<name>[^/.]+){format}": [
        "/actions/archive",
        "/actions/split{json}?entity={id}&approve=1",
        "/actions/nothing",
    ],
    r"/changes{format}": [
        "/changes",
        "/changes{json}",
        "/changes?entity={id}&action=archive&actor=me",
        "/changes?page=2",
        "/changes{json}?page=0",
    ],
    r"/changes/(?P<id>[^/.]+){format}": [
        "/changes/1",
        "/changes/1{json}",
        "/changes/1?done=1&return=/entity/{id}",
        "/changes/2",
        "/changes/999{json}",
        "/changes/x",
    ],
    r"/review{format}": [
        "/review",
        "/review{json}",
        "/review?kind=split&status=all&entity={id}&page=2",
        "/review?looked=1.0.0.0&judged=1",
        "/review{json}?status=nothing",
        "/review?entity=Nobody",
    ],
    r"/review/(?P<id>[^/.]+){format}": [
        *(f"/review/{i}" for i in range(1, 9)),
        "/review/1{json}",
        "/review/1?done=1",
        "/review/1?keep=5&observation=7&reason=x&at=2026-01-01",
        "/review/999{json}",
        "/review/x",
    ],
    r"/reflect{format}": ["/reflect", "/reflect{json}"],
    r"/reviewed{format}": ["/reviewed", "/reviewed{json}"],
    r"/tuning{format}": [
        "/tuning",
        "/tuning{json}",
        "/tuning?k=3&gamma_range=0.01:0.1:3&beta_sal_range=0.5,1&done=1",
        "/tuning{json}?gamma_range=x",
    ],
    r"/tuning/apply{format}": ["/tuning/apply", "/tuning/apply{json}?beta_sal=1&gamma=0.1"],
    r"/tuning/set{format}": ["/tuning/set?gamma=1", "/tuning/set{json}"],
    r"/tuning/rollback{format}": ["/tuning/rollback", "/tuning/rollback{json}?to=0"],
    r"/imports{format}": [
        "/imports",
        "/imports{json}",
        "/imports?page=2",
        "/imports{json}?source=nowhere",
    ],
    r"/imports/(?P<id>[^/.]+){format}": [
        "/imports/1",
        "/imports/1{json}",
        "/imports/1?page=2&reason=x",
        "/imports/999",
        "/imports/-1{json}",
        "/imports/x",
    ],
    r"/(?P<unknown>.*?[^/]){format}": ["/nothing", "/nothing{json}", "/entity/1/more"],
}
# Pages of Datasette's own on which the plugin's hooks take part.
OTHERS = [
    "",
    "/limbic_search?q=geocoder&limit=3",
    "/entities?_facet=entity_type",
    "/entities/{id}",
    "/entity_access_log",
    "/limbic_searches",
    "/limbic_search_candidates?_search=x",
    "/limbic_feedback{json}",
]
# Methods by which a server may be looked at.
METHODS = ("GET", "HEAD", "OPTIONS")
WRITES = {
    getattr(sqlite3, name): name
    for name in dir(sqlite3)
    if re.match(
        r"SQLITE_(INSERT|UPDATE|DELETE|ALTER|DROP|CREATE|REINDEX|ANALYZE|ATTACH|DETACH)", name
    )
    and "TEMP" not in name
}
# What one may ask a pragma for without giving it a value that is kept in the file.
ASKING = {"table_info", "table_xinfo", "index_list", "index_info", "index_xinfo"}
ASKING |= {"foreign_key_list", "table_list", "function_list", "module_list"}
OWN = {
    "mmap_size",
    "cache_size",
    "query_only",
    "foreign_keys",
    "busy_timeout",
    "recursive_triggers",
}


def route_key(pattern: str) -> str:
    """The pattern of a route without what all of them share."""
    found = re.fullmatch(r"\^/\(\?P<database>\[\^/\]\+\)/-/limbic(.*)\$", pattern)
    if found is None:
        return pattern
    return found[1].replace(r"(?P<format>\.json)?", "{format}")


def paths() -> list[str]:
    return ["/-/limbic" + path for group in SAMPLES.values() for path in group] + OTHERS


def test_every_route_has_samples():
    """A new route is to be looked at as well."""
    assert {route_key(pattern) for pattern, _ in ROUTES} == set(SAMPLES)


@pytest.mark.parametrize(("pattern", "view"), ROUTES, ids=[route_key(p) for p, _ in ROUTES])
def test_the_samples_lead_to_their_route(pattern, view):
    """Each of them is answered by this route, and no earlier one."""
    for path in SAMPLES[route_key(pattern)]:
        url = "/demo/-/limbic" + path.format(json=".json", uid="u", id=1).partition("?")[0]
        first = next(found for other, found in ROUTES if re.match(other, url))
        assert first is view, url
    if "{format}" in route_key(pattern):
        assert any("{json}" in path for path in SAMPLES[route_key(pattern)])


@pytest.fixture(scope="module")
def used_master(demo_master: Path, tmp_path_factory) -> tuple[Path, str, int]:
    """The sample memory after some use: logged searches, opened and rated results."""
    path = Path(shutil.copy(demo_master, tmp_path_factory.mktemp("used") / "demo.db"))
    with closing(connection.connect(path)) as conn:
        for query in ("who fixed the geocoder", "Atlas", "geocoder"):
            answer = serving.search_semantic(conn, query, 5, mode="text", client="me")
        uid = answer["search_id"]
        entity = answer["results"][0]["id"]
        serving.open_nodes(conn, ids=[entity], search_id=uid)
        serving.rate(conn, uid, entity, search_log.USEFUL)
        act(conn, "archive", {"entity": entity, "reason": "done"})
        act(conn, "undo", {"change": 1})
        assert reflect(conn, keep=False)["pending"] > 8
        assert answer["policy"] == LIMBIC
        # nothing half-written may be left for the first reader
        assert conn.execute("select count(*) from limbic_feedback").fetchone() == (2,)
    return path, uid, entity


@pytest.fixture
def used(used_master, tmp_path) -> tuple[Path, str, int]:
    path, uid, entity = used_master
    return Path(shutil.copy(path, tmp_path / "demo.db")), uid, entity


def filled(path: str, uid: str, entity: int) -> str:
    return "/demo" + path.format(json=".json", uid=uid, id=entity)


def beside(path: Path) -> dict[str, str]:
    """SHA-256 of the file and of everything that stands beside it."""
    return {
        each.name: hashlib.sha256(each.read_bytes()).hexdigest()
        for each in sorted(path.parent.iterdir())
    }


async def look(datasette: Any, urls: list[str], methods=METHODS, *, anybody=True) -> dict[int, int]:
    """Look at all of them as root, and as anybody by GET; how often each status came."""
    await datasette.invoke_startup()
    came: dict[int, int] = {}
    actors = [(as_actor(datasette, {"id": "root"}), methods)]
    for cookies, by in [*actors, ({}, ("GET",))] if anybody else actors:
        for url in urls:
            for method in by:
                response = await datasette.client.request(method, url, cookies=cookies)
                came[response.status_code] = came.get(response.status_code, 0) + 1
                assert response.status_code < 500, (method, url, response.text[:500])
    return came


async def push(datasette: Any, urls: list[str], uid: str, entity: int) -> dict[int, int]:
    """Try to change something at each path of ours, as anybody; how often each status came.

    The bodies are such that whoever may would do something with them.
    """
    bodies: dict[str, dict[str, Any]] = {
        "/open": {"ids": [entity], "wait": True},
        "/search": {"query": "Atlas", "wait": True},
        "/feedback": {"search_id": uid, "id": entity, "rating": "useful", "wait": True},
        "/actions/archive": {"entity": entity, "reason": "done"},
        "/review/1": {"decision": "dismiss"},
        "/tuning/set": {"gamma": 0.1},
    }
    headers = {"content-type": "application/json"}
    came: dict[int, int] = {}
    for url in dict.fromkeys(url.partition("?")[0] for url in urls):
        body = bodies.get(url.partition("/-/limbic")[2].removesuffix(".json"), {})
        for method in ("POST", "PUT", "DELETE"):
            response = await datasette.client.request(method, url, json=body, headers=headers)
            came[response.status_code] = came.get(response.status_code, 0) + 1
            assert response.status_code < 500, (method, url, response.text[:500])
    return came


def opened(make_datasette: Any, path: Path, **options: Any) -> Any:
    datasette = make_datasette(path, **options)
    if ONE_POINT_ZERO:
        datasette.root_enabled = True
    return datasette


def no_writing(monkeypatch: pytest.MonkeyPatch, db: Any) -> list[str]:
    """Let every way to the write connection fail; says which ones were tried."""
    tried: list[str] = []

    def refused(name: str) -> Any:
        async def refuse(*arguments: Any, **options: Any) -> None:
            tried.append(name)
            raise AssertionError(f"{name} was called")

        return refuse

    names = [name for name in dir(db) if name.startswith("execute_write")]
    assert "execute_write_fn" in names
    for name in names:
        monkeypatch.setattr(db, name, refused(name))
    return tried


async def test_no_byte_changes(used, make_datasette, monkeypatch):
    path, uid, entity = used
    before = beside(path)
    assert list(before) == ["demo.db"]
    datasette = opened(make_datasette, path)
    tried = no_writing(monkeypatch, datasette.get_database("demo"))
    urls = [filled(each, uid, entity) for each in paths()]
    came = await look(datasette, urls)
    pushed = await push(datasette, [url for url in urls if "/-/limbic" in url], uid, entity)
    assert tried == []
    assert beside(path) == before  # nothing is left beside it either
    # they were really answered, refused where POST is wanted, and told what is wrong
    assert came[200] > 50
    assert {400, 404, 405} <= set(came)
    # and what writes was really there, and said no
    assert pushed[403] > 10


async def test_no_byte_of_a_wal_changes(used, make_datasette, monkeypatch):
    path, uid, entity = used
    # held open, so that what was written last stays in the log beside the file
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        assert writer.execute("pragma journal_mode = wal").fetchone() == ("wal",)
        writer.execute("update entities set archived_reason = 'kept' where id = ?", [entity])
        before = beside(path)
        assert set(before) == {"demo.db", "demo.db-wal", "demo.db-shm"}
        assert path.with_name("demo.db-wal").stat().st_size > 0
        datasette = opened(make_datasette, path)
        tried = no_writing(monkeypatch, datasette.get_database("demo"))
        await look(
            datasette, [filled(each, uid, entity) for each in paths()], ("GET",), anybody=False
        )
        assert tried == []
        after = beside(path)
        # the index of the log says who reads; it is memory that readers share, and no content
        for found in (before, after):
            del found["demo.db-shm"]
        assert after == before


async def test_a_search_with_cors_or_a_json_body_is_still_a_look(used, make_datasette, monkeypatch):
    path, uid, entity = used
    before = beside(path)
    datasette = opened(make_datasette, path, cors=True)
    tried = no_writing(monkeypatch, datasette.get_database("demo"))
    await look(datasette, [filled(f"/-/limbic{p}", uid, entity) for p in SAMPLES["/open{format}"]])
    for page in ("search", "open", "feedback"):
        response = await datasette.client.request(
            "GET",
            f"/demo/-/limbic/{page}",
            content=b'{"query": "Atlas", "names": ["Atlas"], "wait": true}',
            headers={"content-type": "application/json", "x-http-method-override": "POST"},
            cookies=as_actor(datasette, {"id": "root"}),
        )
        assert response.status_code == (200 if page == "search" else 405)
    assert tried == []
    assert beside(path) == before


class Denying:
    """A plugin that lets every connection to the memory deny writes, and keeps what was tried."""

    __name__ = "denies-writes"  # 0.65 asks plugins for it

    def __init__(self) -> None:
        self.tried: list[tuple[Any, ...]] = []
        self.asked = 0
        self.connections = 0

    @hookimpl(trylast=True)
    def prepare_connection(self, conn: Any, database: str) -> None:
        if database == "demo":
            self.connections += 1
            conn.set_authorizer(self.authorize)

    def authorize(self, action: int, first: Any, second: Any, where: Any, _: Any) -> int:
        self.asked += 1
        # tables of the connection's own are in "temp", and no part of the file
        writes = action in WRITES and where != "temp"
        if action == sqlite3.SQLITE_PRAGMA:
            writes = second is not None and where != "temp" and first not in ASKING | OWN
        if writes:
            self.tried.append((WRITES.get(action, "pragma"), first, second, where))
            return sqlite3.SQLITE_DENY
        return sqlite3.SQLITE_OK


@pytest.fixture
def denying():
    plugin = Denying()
    pm.register(plugin, name="denies-writes")
    yield plugin
    pm.unregister(plugin)


async def test_through_connections_that_deny_writes(used, make_datasette, denying):
    path, uid, entity = used
    before = beside(path)
    datasette = opened(make_datasette, path)
    urls = [filled(each, uid, entity) for each in paths()]
    came = await look(datasette, urls, ("GET",), anybody=False)
    assert denying.tried == []
    assert denying.connections > 0
    assert denying.asked > 1000
    assert came[200] > 40
    assert beside(path) == before


async def test_the_denial_would_be_noticed(used, make_datasette, denying):
    """What these tests look for, when it happens: a POST writes."""
    path, _, entity = used
    before = beside(path)
    datasette = opened(make_datasette, path)
    await datasette.invoke_startup()
    request: dict[str, Any] = {
        "headers": {"content-type": "application/json"},
        "cookies": as_actor(datasette, {"id": "root"}),
    }
    body = b'{"ids": [%d], "wait": true}' % entity
    response = await datasette.client.post("/demo/-/limbic/open", content=body, **request)
    assert response.json()["recorded"]["status"] == "failed"
    assert ("SQLITE_INSERT", "entity_access_log", None, "main") in denying.tried
    assert beside(path) == before
