"""Hostile and unlucky input: each ends in a clear message and the right status, never a 500.

And looking leaves no trace: whatever is asked, the bytes of the file stay as they were.
"""

from __future__ import annotations

import shutil
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from datasette.utils.sqlite import sqlite3
from view_helpers import ONE_POINT_ZERO, base, digest, get, get_json, links, text_of

from datasette_limbic import connection, schema
from datasette_limbic.config import MAX_QUERY
from datasette_limbic.sync import sync

# minutes in all: CI runs these on both lines, and leaves them out on further Pythons
pytestmark = pytest.mark.slow

QUERIES = {
    "empty": "",
    "blank": " \t\n ",
    "emoji": "🚀😀👨‍👩‍👧",
    "right-to-left": "שלום עולם مرحبا",
    "right-to-left mark": "\u202eevil\u202c",
    "cjk": "用户身份 東京",
    "combining": "e\u0301" * 200,
    "and": "AND",
    "or": "OR NOT AND",
    "near": "NEAR(",
    "near whole": 'NEAR("a" "b", 5)',
    "star": "*",
    "prefix": "pael*",
    "caret": "^name",
    "column": "name:x {name content}: y",
    "minus": "-paella",
    "plus": "a + b",
    "quote": '"',
    "quotes": 'say "hi',
    "single": "it's don't '",
    "nul": "\x00",
    "nul inside": "pa\x00ella",
    "control": "".join(map(chr, range(1, 32))),
    "injection": "'; drop table entities; --",
    "injection 2": "x') union select 1,2,3,4,5 --",
    "script": "<script>alert(1)</script>",
    "img": "<img src=x onerror=alert(1)>",
    "attribute": '" autofocus onfocus="alert(1)',
    "template": "{{ 7777 * 7777 }} {% raise %}",
    "percent": "100 % %s %(x)s",
    "braces": "{0} {q}",
    "path": "../../etc/passwd",
    "longest": "x" * 2048,
    "many words": "word " * 400,
    "only stop words": "the of and la que",
    "not a character": "\ufffe\uffff",
}


@pytest.fixture(autouse=True)
def quick_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A locked file is noticed at once instead of after five seconds."""
    from datasette_limbic import plugin

    prepare = plugin.prepare

    def impatient(conn: Any, database: str, datasette: Any) -> None:
        conn.execute("pragma busy_timeout = 30")
        prepare(conn, database, datasette)

    monkeypatch.setattr(plugin, "prepare", impatient)


async def both(
    datasette: Any, path: str, query: str = "", status: int = 200
) -> tuple[str, dict[str, Any]]:
    """A page and its JSON twin, both with the expected status."""
    body = await get_json(datasette, f"{path}.json?{query}", status=status)
    response = await get(datasette, f"{path}?{query}")
    assert response.status_code == status, response.text[:300]
    assert response.headers["content-type"].startswith("text/html")
    assert "Traceback" not in response.text
    if status != 200:
        assert "limbic-bad" in response.text  # our page, not Datasette's
        shown = text_of(response.text).split("Powered by")[0]
        assert len(shown) < 4000
    return response.text, body


async def test_queries(demo_db: Path, make_datasette: Any) -> None:
    datasette = make_datasette(demo_db)
    before = digest(demo_db)
    for name, query in QUERIES.items():
        page, body = await both(datasette, base(demo_db) + "/search", "q=" + quote(query))
        assert len(body["results"]) > 0, name
        assert body["degraded"] is None, (name, body["degraded"])
        assert body["query"] == query.replace("\x00", " ").strip(), name
        main = page.split("<h1>")[1]
        assert "<script>alert" not in main
        assert "<img" not in main
        assert " onfocus=" not in main.replace("&#34; autofocus onfocus=", "")
        assert "60481729" not in main
    assert digest(demo_db) == before


async def test_queries_run_the_same_in_each_mode(demo_db: Path, make_datasette: Any) -> None:
    datasette = make_datasette(demo_db)
    for mode in ("text", "semantic"):
        for query in QUERIES.values():
            await get_json(
                datasette, f"{base(demo_db)}/search.json?mode={mode}&q={quote(query)}&explain=1"
            )


async def test_queries_through_the_stored_query(demo_db: Path, make_datasette: Any) -> None:
    datasette = make_datasette(demo_db)
    before = digest(demo_db)
    for name, query in QUERIES.items():
        url = f"/{demo_db.stem}/limbic_search.json?_shape=array&q={quote(query)}"
        response = await get(datasette, url)
        assert response.status_code == 200, (name, response.text[:300])
        assert isinstance(response.json(), list), name
    assert digest(demo_db) == before


@pytest.mark.parametrize("encoded", ["%ED%A0%80", "%ED%B0%80x", "%FF%FE", "%C3", "%", "%zz", "%00"])
async def test_broken_percent_encodings(encoded: str, demo_db: Path, make_datasette: Any) -> None:
    datasette = make_datasette(demo_db)
    await both(datasette, base(demo_db) + "/search", f"q={encoded}")
    for argument in ("type", "as_of", "strategy"):
        status = 200 if argument == "type" else 400
        await both(datasette, base(demo_db) + "/search", f"q=a&{argument}=x{encoded}", status)


async def test_a_long_query_is_refused_with_both_lengths(
    demo_db: Path, make_datasette: Any
) -> None:
    datasette = make_datasette(demo_db)
    page, body = await both(datasette, base(demo_db) + "/search", "q=" + "x" * 10_240, 400)
    assert body["error"] == "the query has 10,240 characters: at most 2,048 are searched for"
    assert "The query has 10,240 characters" in page
    assert "x" * 300 not in page


LONG = "9" * 5000
BAD_ARGUMENTS = {
    "limit=0": "limit",
    "limit=-1": "limit",
    "limit=1000000000": "limit",
    "limit=ten": "limit",
    "limit=1.5": "limit",
    "limit=nan": "limit",
    "limit=inf": "limit",
    "limit=" + LONG: "limit",
    "limit=1;drop": "limit",
    "strategy=best": "strategy",
    "strategy=AUTO": "strategy",
    "mode=magic": "mode",
    "recency=never": "recency",
    "fusion=cold": "fusion",
    "fusion=" + LONG: "fusion",
    "now=yesterday": "now",
    "now=2026-02-30": "now",
    "now=" + LONG: "now",
    "as_of=soon": "as_of",
    "as_of='; drop": "as_of",
    "explain=maybe": "explain",
    "include_archived=2": "include_archived",
    "consolidation=x": "consolidation",
    "expansion_factor=0": "expansion_factor",
    "expansion_factor=1e9": "expansion_factor",
    "gamma=x": "gamma",
    "gamma=-1": "gamma",
    "gamma=nan": "gamma",
    "gamma=1e308": "gamma",
    "beta_sal=inf": "beta_sal",
    "d_max=0": "d_max",
    "lambda_hourly=-1": "lambda_hourly",
    "rrf_k=-1": "rrf_k",
    "temporal_floor=2": "temporal_floor",
    "unknown_temporal=7": "unknown_temporal",
    "cooc_cap=x": "cooc_cap",
    "colour=red": "colour",
    "limitt=3": "limitt",
    "<script>=1": "<script>",
    LONG + "=1": "99999",
}


async def test_bad_arguments_are_400_and_named(demo_db: Path, make_datasette: Any) -> None:
    datasette = make_datasette(demo_db)
    before = digest(demo_db)
    for arguments, named in BAD_ARGUMENTS.items():
        page, body = await both(datasette, base(demo_db) + "/search", f"q=paella&{arguments}", 400)
        assert named in body["error"], arguments
        assert len(body["error"]) < 1000, arguments[:40]
        assert "-inf" not in body["error"], arguments
        assert "<script>=" not in page
        assert base(demo_db) + "/search?q=paella" in links(page)
    assert digest(demo_db) == before


async def test_odd_but_good_arguments(demo_db: Path, make_datasette: Any) -> None:
    datasette = make_datasette(demo_db)
    for arguments in (
        "limit=100&expansion_factor=40&explain=1",
        "now=0001-01-01",
        "now=9999-12-31",
        "now=1700000000",
        "as_of=2025-06-30T10:00:00%2B02:00",
        "gamma=0&beta_sal=0",
        "gamma=10&beta_sal=10",
        "rrf_k=0",
        "lambda_hourly=0",
        "cooc_cap=0",
        "_shape=array",
        "limit=&strategy=&mode=&now=&as_of=&type=",
    ):
        await both(datasette, base(demo_db) + "/search", f"q=vans&{arguments}")


async def test_unknown_types_find_nothing_and_say_so(demo_db: Path, make_datasette: Any) -> None:
    datasette = make_datasette(demo_db)
    for value in ("Nope", "' or 1=1 --", "<b>", "\x00", "x" * 10_000, "persona", "😀"):
        page, body = await both(
            datasette, base(demo_db) + "/search", f"q=paella&type={quote(value)}"
        )
        assert body["results"] == []
        assert "no entity has the type" in body["reason"]
        assert len(body["reason"]) < 300
        assert "<b>" not in page.split("<h1>")[1]


ENTITIES = {
    "0": "no entity with the id 0",
    "999999": "no entity with the id 999999",
    "9223372036854775807": "no entity with the id",
    "9223372036854775808": "is no entity id",
    "1" + "0" * 30: "is no entity id",
    "0" * 25 + "9" * 30: "is no entity id",
    LONG: "is no entity id",
    "-1": "is no entity id",
    "Atlas": "is no entity id",
    "1 or 1=1": "is no entity id",
    "²": "is no entity id",
    "%00": "is no entity id",
    "%ED%A0%80": "is no entity id",
    "~3Cscript~3Ealert(1)": "is no entity id",
}


async def test_unknown_entities_are_404(demo_db: Path, make_datasette: Any) -> None:
    datasette = make_datasette(demo_db)
    before = digest(demo_db)
    for entity, said in ENTITIES.items():
        page, body = await both(
            datasette, f"{base(demo_db)}/entity/{quote(entity, safe='%~()')}", "", 404
        )
        assert said in body["error"]
        assert len(body["error"]) < 300
        assert "<script>alert" not in page
    assert digest(demo_db) == before


PATHS = {
    "/nope": "nope",
    "/nope.json": "nope",
    "/entity": "entity",
    "/entity/": "entity",
    "/entity/1.5": "entity/1.5",
    "/entity/1/more": "entity/1/more",
    "/search/more": "search/more",
    "/search.csv": "search.csv",
    "/%00": "%00",
    "/~3Cscript~3Ealert(1)": "<script>alert(1)",
    "/" + LONG: "9" * 50,
}


async def test_paths_that_lead_nowhere_say_what_there_is(
    demo_db: Path, make_datasette: Any
) -> None:
    datasette = make_datasette(demo_db)
    for path, named in PATHS.items():
        response = await get(datasette, base(demo_db) + path, follow_redirects=True)
        assert response.status_code == 404, path[:30]
        assert "<script>alert" not in response.text, path[:30]
        if path.endswith(".json"):
            said = response.json()["error"]
            assert response.json()["ok"] is False
        else:
            said = unescape(text_of(response.text))
            assert "limbic-bad" in response.text, path[:30]
        if "<" not in named:  # text_of takes tags away, which were escaped
            assert named in said, path[:30]
        assert f"{base(demo_db)}/search" in said, path[:30]
        assert len(said) < 4000, path[:30]


async def test_pages_of_an_entity(demo_db: Path, make_datasette: Any) -> None:
    datasette = make_datasette(demo_db)
    for value in ("0", "-1", "x", "1.5", "9" * 30, LONG, "000000000" + "9" * 30, "٣", "%00"):
        _, body = await both(datasette, base(demo_db) + "/entity/1", f"page={value}", 400)
        assert body["error"].startswith("page is ")
        assert len(body["error"]) < 120
    for value in ("yesterday", LONG, "%00"):
        _, body = await both(datasette, base(demo_db) + "/entity/1", f"now={value}", 400)
        assert body["error"].startswith("now is ")
    await both(datasette, base(demo_db) + "/entity/1", "page=10000000")
    _, body = await both(datasette, base(demo_db) + "/entity/1", "foo=1", 400)
    assert body["error"].startswith("unknown argument foo: ")


# -- names ------------------------------------------------------------------------------------

NAMES = {
    "quotes": "a \"quoted\" 'name' `x`",
    "slashes": "a/b\\c/../..?x#y&z=%41~2F",
    "html": "<script>alert('name')</script><b>bold</b>",
    "attribute": '"><img src=x onerror=alert(1)>',
    "template": "{{ 7*7 }}{% if %}",
    "long": "n" * 10_000,
    "long words": "word " * 2000,
    "emoji": "🚀 👨‍👩‍👧",
    "nul": "nul\x00byte",
    "control": "tab\tnew\nline\r\x0b\x1b[31m",
    "rtl": "\u202eabc",
    "blank": " ",
    "nothing": "",
    "combining": "Z" + "\u0301" * 300,
}


@pytest.fixture(scope="module")
def named_master(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A memory in which every text is hostile."""
    path = tmp_path_factory.mktemp("named") / "named.db"
    conn = connection.connect(path, create=True)
    schema.init(conn)
    for number, text in enumerate(NAMES.values(), 1):
        conn.execute(
            "insert into entities(id, name, entity_type, archived_reason) values (?, ?, ?, ?)",
            [number, text, text or "Generic", text],
        )
        conn.execute(
            "insert into observations(entity_id, content, kind) values (?, ?, ?)",
            [number, text, text],
        )
        conn.execute(
            "insert into entity_access_log(entity_id, entity_name, query, accessed_at)"
            " values (?, ?, ?, '2026-01-01 00:00:00')",
            [number, text, text],
        )
        conn.execute("insert into entity_access values (?, 3, '2026-01-01 00:00:00')", [number])
    for number, text in enumerate(NAMES.values(), 1):
        conn.execute(
            "insert into relations(from_entity, to_entity, relation_type) values (?, ?, ?)",
            [number, number % len(NAMES) + 1, text or "r"],
        )
    conn.execute(
        "insert into co_occurrences select 1, id, 2, '2026-01-01' from entities where id > 1"
    )
    conn.commit()
    sync(conn)
    conn.close()
    return path


async def test_names(named_master: Path, tmp_path: Path, make_datasette: Any) -> None:
    path = Path(shutil.copy(named_master, tmp_path / "named.db"))
    before = digest(path)
    datasette = make_datasette(path)
    pages = [""] + [f"/entity/{number}" for number in range(1, len(NAMES) + 1)]
    for page in pages:
        html, body = await both(datasette, base(path) + page)
        main = html.split("<h1")[1]
        for tag in ("<script>alert", "<img", "<b>bold"):
            assert tag not in main
        if page:
            assert body["name"] == list(NAMES.values())[int(page.rsplit("/", 1)[1]) - 1]
    for text in ("", "script", "n" * 300, "quoted", "nul byte"):
        html, _ = await both(datasette, base(path) + "/search", f"q={text}&explain=1&limit=3")
        for tag in ("<script>alert", "<img", "<b>bold"):
            assert tag not in html.split("<h1")[1]
        assert "n" * 3000 not in text_of(html.split("<h1")[1])
    for name in NAMES.values():
        await both(datasette, base(path) + "/search", "q=" + quote(name[:2000]))
        await both(datasette, base(path) + "/search", "q=x&type=" + quote(name))
    assert digest(path) == before


async def test_links_with_hostile_names_lead_where_they_say(
    named_master: Path, tmp_path: Path, make_datasette: Any
) -> None:
    path = Path(shutil.copy(named_master, tmp_path / "named.db"))
    datasette = make_datasette(path)
    for page in ("", "/search", "/entity/2"):
        html = (await get(datasette, base(path) + page)).text
        ours = {u for u in links(html) if "/-/limbic" in u}
        assert ours
        for url in ours:
            response = await get(datasette, url)
            # a logged query may be longer than is searched for
            asked = parse_qs(urlsplit(url).query).get("q", [""])[0]
            assert response.status_code == (400 if len(asked) > MAX_QUERY else 200), url[:200]


@pytest.mark.parametrize(
    "stem", ["it's", 'quo"te', "a b&c", "ünïcödé", "<b>", "100%", "dot.ted", "~2F", "表"]
)
async def test_names_of_databases(
    stem: str, demo_db: Path, tmp_path: Path, make_datasette: Any
) -> None:
    from datasette.utils import tilde_encode

    path = Path(shutil.copy(demo_db, tmp_path / f"{stem}.db"))
    datasette = make_datasette(path)
    url = f"/{tilde_encode(stem)}/-/limbic"
    html, _ = await both(datasette, url)
    assert "<b>" not in html.split("<h1>")[1].split("<dl")[0]
    html, body = await both(datasette, url + "/search", "q=paella")
    assert url + "/entity/40" in links(html)
    assert (await get(datasette, body["stored_query_url"])).status_code == 200
    response = await get(datasette, body["sql_url"], follow_redirects=True)
    assert response.status_code == 200
    await both(datasette, url + "/entity/1")


# -- files ------------------------------------------------------------------------------------

PAGES = ("", "/search", "/entity/1")


async def answers(datasette: Any, path: Path) -> None:
    for page in PAGES:
        await both(datasette, base(path) + page, "q=paella" if "search" in page else "")


async def test_read_only_file_and_folder(demo_db: Path, make_datasette: Any) -> None:
    demo_db.chmod(0o444)
    demo_db.parent.chmod(0o555)
    try:
        before = digest(demo_db)
        await answers(make_datasette(demo_db), demo_db)
        assert digest(demo_db) == before
    finally:
        demo_db.parent.chmod(0o755)


async def test_immutable(demo_db: Path, make_datasette: Any) -> None:
    before = digest(demo_db)
    datasette = make_datasette(immutables=[str(demo_db)])
    await answers(datasette, demo_db)
    rows = await get(datasette, f"/{demo_db.stem}/limbic_search.json?q=paella&_shape=array")
    assert rows.json()
    assert digest(demo_db) == before
    assert [p.name for p in demo_db.parent.iterdir()] == [demo_db.name]


async def test_no_file_appears_beside_the_memory(demo_db: Path, make_datasette: Any) -> None:
    datasette = make_datasette(demo_db)
    before = digest(demo_db)
    for page in (*PAGES, "/search?q=a&explain=1&limit=100", "/search?q=a&mode=text", "/entity/0"):
        path, _, query = page.partition("?")
        for url in (f"{path}?{query}", f"{path}.json?{query}"):
            await get(datasette, base(demo_db) + url)
            assert digest(demo_db) == before, url
    for url in ("", "/entities", "/limbic_search?q=x", "/entities/1"):
        await get(datasette, f"/{demo_db.stem}{url}")
        assert digest(demo_db) == before, url
    assert [p.name for p in demo_db.parent.iterdir()] == [demo_db.name]


async def test_wal_with_an_open_writer(demo_db: Path, make_datasette: Any) -> None:
    writer = sqlite3.connect(demo_db)
    try:
        writer.execute("pragma journal_mode = wal")
        writer.execute("insert into entities(id, name) values (900, 'Committed')")
        writer.commit()
        writer.execute("begin immediate")
        writer.execute("insert into entities(id, name) values (901, 'Not committed')")
        files = [demo_db, demo_db.with_name(demo_db.name + "-wal")]
        before = digest(*files)
        datasette = make_datasette(demo_db)
        await answers(datasette, demo_db)
        await get_json(datasette, f"{base(demo_db)}/entity/900.json")
        await get_json(datasette, f"{base(demo_db)}/entity/901.json", status=404)
        assert digest(*files) == before
    finally:
        writer.rollback()
        writer.close()


async def test_locked_by_another_writer(demo_db: Path, make_datasette: Any) -> None:
    datasette = make_datasette(demo_db)
    await answers(datasette, demo_db)
    before = digest(demo_db)
    writer = sqlite3.connect(demo_db)
    try:
        writer.execute("begin exclusive")
        for page in PAGES:
            html, body = await both(datasette, base(demo_db) + page, "", 503)
            assert "is locked by another program" in body["error"]
            assert "This memory cannot be read now" in html
    finally:
        writer.rollback()
        writer.close()
    await answers(datasette, demo_db)
    assert digest(demo_db) == before


async def test_a_reader_does_not_stop_us_nor_we_a_writer(
    demo_db: Path, make_datasette: Any
) -> None:
    datasette = make_datasette(demo_db)
    await answers(datasette, demo_db)
    writer = sqlite3.connect(demo_db, timeout=1)
    writer.execute("update entities set updated_at = '2026-11-29 00:00:00' where id = 1")
    writer.commit()
    writer.close()
    await answers(datasette, demo_db)


async def test_corrupt_pages(demo_db: Path, make_datasette: Any) -> None:
    size = demo_db.stat().st_size
    conn = sqlite3.connect(demo_db)
    page_size = conn.execute("pragma page_size").fetchone()[0]
    roots = [
        row[0]
        for row in conn.execute(
            "select rootpage from sqlite_master where name in ('entities', 'observations',"
            " 'relations', 'entity_access')"
        )
    ]
    conn.close()
    data = bytearray(demo_db.read_bytes())
    for root in roots:
        start = (root - 1) * page_size
        data[start : start + page_size] = bytes((i * 131) % 251 for i in range(page_size))
    demo_db.write_bytes(data)
    assert demo_db.stat().st_size == size
    before = digest(demo_db)
    datasette = make_datasette(demo_db)
    html, body = await both(datasette, base(demo_db), "")
    assert "malformed" in body["errors"]["hubs"]
    assert "What could not be read" in html
    for page in PAGES[1:]:
        html, body = await both(datasette, base(demo_db) + page, "", 503)
        assert "is damaged" in body["error"]
        assert ".recover" in html
    assert (await get(datasette, "/-/versions.json")).status_code == 200
    assert digest(demo_db) == before


@pytest.mark.parametrize("kept", [0.3, 0.5, 0.95])
async def test_truncated_file(kept: float, demo_db: Path, make_datasette: Any) -> None:
    data = demo_db.read_bytes()
    demo_db.write_bytes(data[: int(len(data) * kept)])
    before = digest(demo_db)
    datasette = make_datasette(demo_db)
    if ONE_POINT_ZERO:
        # this line of Datasette does not start on such a file, whatever its plugins
        with pytest.raises(sqlite3.DatabaseError, match="malformed"):
            await datasette.invoke_startup()
        return
    for page in PAGES:
        _, body = await both(datasette, base(demo_db) + page, "", 503)
        assert "is damaged" in body["error"]
    assert digest(demo_db) == before


async def test_a_memory_whose_index_is_damaged_goes_on_with_text(
    demo_db: Path, make_datasette: Any
) -> None:
    conn = connection.connect(demo_db)
    table = conn.execute(
        "select name from sqlite_master where name like '_limbic_vec_entities_vector_chunks%'"
    ).fetchone()[0]
    conn.execute(f"update {table} set vectors = zeroblob(3)")
    conn.commit()
    conn.close()
    datasette = make_datasette(demo_db)
    html, body = await both(datasette, base(demo_db) + "/search", "q=paella")
    assert body["results"]
    assert "only text was searched" in body["degraded"]
    assert "nly text was searched" in html


async def test_missing_tables(demo_db: Path, make_datasette: Any) -> None:
    conn = connection.connect(demo_db)
    conn.execute("drop table co_occurrences")
    conn.execute("drop table entity_access_log")
    conn.commit()
    conn.close()
    datasette = make_datasette(demo_db)
    # of the overview each part stands alone
    html, body = await both(datasette, base(demo_db), "")
    assert "no such table" in body["errors"]["activity"]
    assert body["counts"]["accesses"] is None
    assert body["counts"]["entities"] > 0
    assert "What could not be read" in html
    for page in PAGES[1:]:
        _, body = await both(datasette, base(demo_db) + page, "", 503)
        assert "no such table" in body["error"]
        assert "datasette limbic init" in body["error"]


async def test_the_file_is_gone(demo_db: Path, make_datasette: Any) -> None:
    from datasette.database import Database

    datasette = make_datasette(demo_db)
    await datasette.invoke_startup()
    gone = demo_db.with_name("gone.db")
    datasette.add_database(Database(datasette, path=str(gone)), name="gone")
    for page in PAGES:
        _, body = await both(datasette, base(gone) + page, "", 503)
        assert "cannot be opened" in body["error"]
    assert not gone.exists()
    await answers(datasette, demo_db)


async def test_many_at_once(demo_db: Path, make_datasette: Any) -> None:
    import asyncio

    datasette = make_datasette(demo_db)
    await datasette.invoke_startup()
    before = digest(demo_db)
    urls = [f"{base(demo_db)}/search.json?q={q}&now=2026-11-29" for q in ("vans", "paella") * 15]
    found = await asyncio.gather(*[datasette.client.get(url) for url in urls])
    assert {r.status_code for r in found} == {200}
    assert len({r.text for r in found}) == 2
    assert digest(demo_db) == before
