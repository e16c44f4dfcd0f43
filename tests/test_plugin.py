"""What the plugin does to Datasette itself: start-up, stored query, hidden tables."""

from __future__ import annotations

import json
import logging
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from view_helpers import ONE_POINT_ZERO, base, digest, get, get_json, text_of

from datasette_limbic import connection, plugin, schema, statement
from datasette_limbic.sync import sync


async def stored(datasette: Any, path: Path, query: str) -> list[dict[str, Any]]:
    url = f"/{path.stem}/limbic_search.json?{query}&_shape=array"
    response = await get(datasette, url)
    assert response.status_code == 200, response.text[:300]
    rows: list[dict[str, Any]] = response.json()
    return rows


@pytest.mark.parametrize(
    "asked",
    [
        "q=paella",
        "q=who+fixed+the+geocoder&limit=5",
        "q=vans&strategy=limbic&gamma=0.4",
        "q=PostgreSQL&type=Decision",
        "q=Kafka&include_archived=1",
        "q=invoices&recency=activity&beta_sal=1.2",
        "q=%E6%9D%B1%E4%BA%AC",
    ],
)
async def test_stored_query_gives_the_rows_of_the_json(
    asked: str, demo_db: Path, make_datasette: Any
) -> None:
    datasette = make_datasette(demo_db)
    asked += "&now=2026-11-29+12:00:00"
    body = await get_json(datasette, f"{base(demo_db)}/search.json?{asked}")
    rows = await stored(datasette, demo_db, asked)
    assert [row["id"] for row in rows] == [row["id"] for row in body["results"]]
    for row, result in zip(rows, body["results"], strict=True):
        assert (row["knn_rank"], row["fts_rank"]) == (result["knn_rank"], result["fts_rank"])
        for key in ("final_score", "limbic_score", "rrf_score"):
            assert row[key] == pytest.approx(result[key], rel=1e-9), key


async def test_stored_query_page_has_our_parameters_in_our_order(
    demo_db: Path, make_datasette: Any
) -> None:
    import re

    response = await get(make_datasette(demo_db), f"/{demo_db.stem}/limbic_search")
    assert response.status_code == 200
    names = re.findall(r'<input type="text" id="qp\d+" name="(\w+)"', response.text)
    names = names or re.findall(r'name="(\w+)"[^>]*value', response.text)
    assert [n for n in names if n in statement.PARAMETERS] == list(statement.PARAMETERS)


async def test_stored_query_without_a_query_gives_no_error(
    demo_db: Path, make_datasette: Any
) -> None:
    assert await stored(make_datasette(demo_db), demo_db, "q=") == []


async def test_stored_query_on_an_empty_memory(empty_db: Path, make_datasette: Any) -> None:
    assert await stored(make_datasette(empty_db), empty_db, "q=x") == []


async def test_stored_query_follows_the_first_sync(
    demo_db: Path, tmp_path: Path, make_datasette: Any
) -> None:
    path = tmp_path / "growing.db"
    conn = connection.connect(path, create=True)
    schema.init(conn)
    datasette = make_datasette(path)
    assert await stored(datasette, path, "q=tram") == []
    conn.execute("insert into entities(name) values ('Tram'), ('Bus'), ('Boat')")
    conn.commit()
    sync(conn)
    conn.close()
    body = await get_json(datasette, f"{base(path)}/search.json?q=tram")
    rows = await stored(datasette, path, "q=tram")
    assert len(rows) == 3  # by meaning, not by word alone
    assert [row["id"] for row in rows] == [row["id"] for row in body["results"]]


async def test_a_memory_made_while_datasette_runs(tmp_path: Path, make_datasette: Any) -> None:
    from datasette.utils.sqlite import sqlite3

    path = tmp_path / "late.db"
    sqlite3.connect(path).close()
    datasette = make_datasette(path)
    await get_json(datasette, f"{base(path)}.json", status=404)
    conn = connection.connect(path)
    schema.init(conn)
    conn.close()
    await get_json(datasette, f"{base(path)}.json")
    body = await get_json(datasette, f"{base(path)}/search.json?q=x")
    assert body["stored_query_url"] is None  # no vectors: degraded
    assert (await get(datasette, f"/{path.stem}/limbic_search?q=x")).status_code == 200
    assert base(path) in (await get(datasette, "/")).text


async def test_index_tables_are_hidden(demo_db: Path, make_datasette: Any) -> None:
    datasette = make_datasette(demo_db)
    response = await get(datasette, f"/{demo_db.stem}.json?_extra=tables")
    tables = {t["name"]: t["hidden"] for t in response.json()["tables"]}
    shown = {name for name, hidden in tables.items() if not hidden}
    assert set(schema.CORE_TABLES) <= shown
    # 1.0 has no way for a plugin to hide sqlite_sequence
    odd = {name for name in shown if name.startswith(("_", "sqlite_"))}
    assert odd <= ({"sqlite_sequence"} if ONE_POINT_ZERO else set())
    assert [name for name in tables if name.startswith("_limbic_vec")]


async def test_hiding_spares_other_databases_and_the_users_metadata(
    demo_db: Path, empty_db: Path, make_datasette: Any
) -> None:
    metadata = {
        "databases": {
            demo_db.stem: {"description": "Mine", "tables": {"relations": {"title": "R"}}}
        }
    }
    datasette = make_datasette(demo_db, empty_db, metadata=metadata)
    page = (await get(datasette, f"/{demo_db.stem}")).text
    assert "Mine" in page
    assert "R" in text_of((await get(datasette, f"/{demo_db.stem}/relations?_size=1")).text)
    assert (await get(datasette, f"/{empty_db.stem}/entities")).status_code == 200


async def test_several_databases_keep_to_themselves(
    demo_db: Path, empty_db: Path, make_datasette: Any
) -> None:
    other = Path(shutil.copy(demo_db, demo_db.with_name("two words & é.db")))
    conn = connection.connect(other)
    conn.execute("update entities set name = 'Second Atlas' where id = 3")
    conn.commit()
    conn.close()
    datasette = make_datasette(demo_db, other, empty_db)
    from datasette.utils import tilde_encode

    url = f"/{tilde_encode(other.stem)}/-/limbic"
    assert (await get_json(datasette, f"{url}/entity/3.json"))["name"] == "Second Atlas"
    assert (await get_json(datasette, f"{base(demo_db)}/entity/3.json"))["name"] == "Atlas"
    page = (await get(datasette, f"{url}/search?q=atlas")).text
    assert f'href="{url}/entity/3"' in page
    assert f"{base(demo_db)}/entity" not in page
    body = await get_json(datasette, f"{url}/search.json?q=atlas")
    assert body["stored_query_url"].startswith(f"/{tilde_encode(other.stem)}/limbic_search?")
    assert (await get(datasette, body["stored_query_url"])).status_code == 200


async def test_settings_of_one_database_are_its_own(
    demo_db: Path, empty_db: Path, make_datasette: Any
) -> None:
    metadata = {
        "plugins": {"datasette-limbic": {"limit": 7}},
        "databases": {demo_db.stem: {"plugins": {"datasette-limbic": {"limit": 2}}}},
    }
    datasette = make_datasette(demo_db, empty_db, metadata=metadata)
    first = await get_json(datasette, f"{base(demo_db)}/search.json")
    second = await get_json(datasette, f"{base(empty_db)}/search.json")
    assert (first["limit"], second["limit"]) == (2, 7)


BROKEN = {
    "unknown key": ({"gama": 0.1}, "gama"),
    "out of range": ({"gamma": -3}, "gamma"),
    "not a number": ({"limit": "ten"}, "limit"),
    "no such choice": ({"strategy": "best"}, "strategy"),
    "a list for a choice": ({"strategy": ["limbic"]}, "strategy"),
    "a mapping for text": ({"query_prefix": {"a": 1}}, "query_prefix"),
    "a number for a model": ({"model": 5}, "model"),
    "not a list": ({"exempt_types": "Domain"}, "exempt_types"),
    "a list of lists": ({"exempt_types": [["Domain"]]}, "exempt_types"),
    "a number for a list": ({"exempt_types": 5}, "exempt_types"),
    "not a mapping": ({"half_life_days_by_type": [1]}, "half_life_days_by_type"),
    "a value in a mapping": ({"half_life_days_by_type": {"A": "x"}}, "half_life_days_by_type.A"),
    "text for a floor": ({"confidence_floor": "low"}, "confidence_floor"),
    "text for a weight": ({"beta_sal": "much"}, "beta_sal"),
    "no mapping at all": ("on", "datasette-limbic"),
    "a list of settings": (["limit"], "datasette-limbic"),
}


@pytest.mark.parametrize(("config", "named"), BROKEN.values(), ids=BROKEN)
async def test_broken_configuration_stops_the_start_in_one_sentence(
    config: Any, named: str, empty_db: Path, make_datasette: Any
) -> None:
    from datasette.utils import StartupError

    datasette = make_datasette(empty_db, config=config)
    with pytest.raises(StartupError) as caught:
        await datasette.invoke_startup()
    message = str(caught.value)
    assert named in message
    assert "datasette-limbic" in message
    assert "\n" not in message
    assert len(message) < 1200


def test_broken_configuration_on_the_command_line(empty_db: Path, tmp_path: Path) -> None:
    config = tmp_path / "metadata.json"
    config.write_text(json.dumps({"plugins": {"datasette-limbic": {"gamma": "lots"}}}))
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "datasette",
            "serve",
            str(empty_db),
            "-m",
            str(config),
            "--get",
            "/",
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert "gamma" in done.stderr
    assert "lots" in done.stderr


async def test_sqlite_vec_that_cannot_be_loaded(
    demo_db: Path, make_datasette: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    reason = "sqlite-vec is not installed: pip install sqlite-vec"
    monkeypatch.setattr(connection, "load_vec", lambda conn: reason)
    monkeypatch.setattr(connection, "_reason", reason, raising=False)
    before = digest(demo_db)
    datasette = make_datasette(demo_db)
    body = await get_json(datasette, f"{base(demo_db)}/search.json?q=paella")
    assert body["results"]
    assert "only text was searched" in body["degraded"]
    assert {way for row in body["results"] for way in row["matched_by"]} == {"fts"}
    words = text_of((await get(datasette, f"{base(demo_db)}/search?q=paella")).text)
    assert "sqlite-vec" in words.lower()
    assert "so only text was searched" in words
    words = text_of((await get(datasette, base(demo_db))).text)
    assert "Search uses text alone: sqlite-vec" in words
    rows = await stored(datasette, demo_db, "q=paella")
    assert [row["id"] for row in rows] == [row["id"] for row in body["results"]]
    assert (await get(datasette, f"{base(demo_db)}/entity/1")).status_code == 200
    assert (await get(datasette, f"/{demo_db.stem}")).status_code == 200
    assert digest(demo_db) == before


async def test_a_file_that_cannot_be_read_costs_no_other_page(
    demo_db: Path, make_datasette: Any, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    from datasette.utils.sqlite import sqlite3

    def broken(conn: Any) -> bool:
        raise sqlite3.OperationalError("database is locked")

    monkeypatch.setattr(schema, "is_memory", broken)
    datasette = make_datasette(demo_db)
    with caplog.at_level(logging.WARNING, "datasette_limbic"):
        assert (await get(datasette, "/")).status_code == 200
        assert await plugin.memories(datasette) == []
    assert "locked by another program" in caplog.text


async def test_start_does_not_import_what_is_heavy() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import datasette_limbic.plugin, datasette_limbic.views, sys;"
            "print([m for m in ('sklearn', 'llm', 'torch', 'networkx')"
            " if m in sys.modules])",
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.strip() == "[]"


def test_lines_of_datasette() -> None:
    from datasette_limbic import compat

    assert compat.ONE_POINT_ZERO is ONE_POINT_ZERO
