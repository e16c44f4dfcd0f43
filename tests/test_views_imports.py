"""The log of imports as pages, and their JSON."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from view_helpers import as_actor, base, digest, get, get_json, links, text_of

from datasette_limbic import connection, import_rejects
from datasette_limbic.importing import rejects
from datasette_limbic.views.import_display import raw, said, took, visible
from datasette_limbic.views.import_warnings import tables

COUNTS: dict[str, Any] = {
    "lines": 23,
    "blank": 1,
    "rejected": 6,
    "rejects": 7,
    "entities": {"lines": 13, "created": 12, "merged": 1},
    "observations": {"in_file": 16, "added": 13, "already_there": 1, "skipped": 2},
    "relations": {"lines": 4, "created": 3, "merged": 0, "reopened": 0, "dangling": 1},
    "warnings": {
        "type_conflicts": [{"line": 21, "name": "Ana", "kept": "Person", "given": "Robot"}],
        "type_conflict_count": 1400,
        "skipped_observations": [{"line": 5, "name": "Null inside", "reason": "an empty text"}],
        "unreadable": [{"field": "createdAt", "value": "yesterday", "count": 3}],
        "unreadable_count": 3,
        "extra_keys": {"relation.weight": 4},
        "replaced_texts": 2,
        "near_equal_names": [["Atlas", "atlas"]],
    },
    "first_rejects": [{"line": 2, "reason": "not shown twice", "raw": "x"}],
}
HOSTILE = "<script>alert(1)</script>\"'&\x00\x1b\u202e" + "x" * 10_000


def log(path: Path, counts: Any = COUNTS, source: Any = "odd.jsonl", *rejects: Any) -> int:
    conn = connection.connect(path)
    number = conn.execute(
        "insert into limbic_imports(source, format, counts, started_at, finished_at)"
        " values (?, 'JSON Lines', ?, '2026-11-29 10:00:00', '2026-11-29 10:02:05')",
        [source, json.dumps(counts) if isinstance(counts, dict) else counts],
    ).lastrowid
    conn.executemany(
        "insert into limbic_import_rejects(import_id, line, reason, raw) values (?, ?, ?, ?)",
        [(number, *reject) for reject in rejects],
    )
    conn.commit()
    conn.close()
    assert number is not None
    return int(number)


# -- the list ---------------------------------------------------------------------------------


async def test_the_log_shows_what_each_import_did(empty_db: Path, make_datasette: Any) -> None:
    log(empty_db, {"entities": {"created": 4}, "rejected": 0, "rejects": 0}, "clean.jsonl")
    number = log(empty_db)
    datasette = make_datasette(empty_db)
    url = base(empty_db) + "/imports"
    page = (await get(datasette, url)).text
    words = text_of(page)
    assert "Imports 2 in the log" in words
    assert "Entities created 16 1 merged" in words
    row = words.split("odd.jsonl")[1].split("clean.jsonl")[0]
    assert "9 left out JSON Lines 2026-11-29 10:00 UTC took 2 min 5 s" in row
    assert "12 created, 1 merged 13 added, 1 already there, 2 skipped 3 created, 1 dangling" in row
    assert row.strip().endswith("6")
    assert "left out" not in words.split("clean.jsonl")[1]
    assert f"{url}/{number}" in links(page)
    assert f"{url}.json" in links(page)
    assert 'aria-current="page">Imports' in page
    body = await get_json(datasette, url + ".json")
    assert [row["source"] for row in body["imports"]] == ["odd.jsonl", "clean.jsonl"]
    assert set(body) == {
        *("ok", "imports", "source", "count", "count_all", "page", "pages", "totals", "left_out"),
    }
    assert not [key for row in body["imports"] for key in row if key.startswith("_")]


async def test_figures_that_are_new_have_their_own_column(
    empty_db: Path, make_datasette: Any
) -> None:
    log(empty_db, {"insights": {"imported": 3, "already_there": 1}, "access": {"added": 0}})
    words = text_of((await get(make_datasette(empty_db), base(empty_db) + "/imports")).text)
    assert "Observations Relations Insights Rejected lines" in words
    assert "1 already there, 3 imported –" in words  # the dash: rejected lines are not known


async def test_many_new_groups_share_a_column(empty_db: Path, make_datasette: Any) -> None:
    log(
        empty_db, {"a": {"added": 3, "rows": 9}, "b": {"added": 4}, "c": {"gone": 5}, "d": {"x": 0}}
    )
    log(empty_db, {"a": {"added": 0}}, "second")
    words = text_of((await get(make_datasette(empty_db), base(empty_db) + "/imports")).text)
    assert "Observations Relations Also Rejected lines" in words
    assert "A: 3 added; B: 4 added; C: 5 gone –" in words
    assert "– – – – –" in words.split("second")[1].split("odd.jsonl")[0]


async def test_both_empty_states(empty_db: Path, make_datasette: Any) -> None:
    datasette = make_datasette(empty_db)
    url = base(empty_db) + "/imports"
    for query in ("", "?source=a.jsonl"):
        words = text_of((await get(datasette, url + query)).text)
        assert "Nothing has been imported yet." in words
        assert f"datasette limbic import memory.jsonl {empty_db.stem}.db" in words
        assert "No import of that name" not in words
    log(empty_db)
    page = (await get(datasette, url + "?source=a.jsonl")).text
    assert "No import of that name." in text_of(page)
    assert "Nothing has been imported" not in text_of(page)
    assert url in links(page)
    assert "All imports 1" in text_of(page)
    body = await get_json(datasette, url + ".json?source=a.jsonl")
    assert (body["imports"], body["count"], body["count_all"]) == ([], 0, 1)


async def test_the_log_is_paged_and_keeps_its_filter(empty_db: Path, make_datasette: Any) -> None:
    for i in range(110):
        log(empty_db, "{}", "a & b.jsonl" if i % 10 else "other")
    datasette = make_datasette(empty_db)
    url = base(empty_db) + "/imports?source=a+%26+b.jsonl"
    first = (await get(datasette, url)).text
    assert "Page 1 of 2" in text_of(first)
    (after,) = [u for u in links(first) if u.startswith("?") and "page=2" in u]
    second = (await get(datasette, base(empty_db) + "/imports" + after)).text
    assert second.count('role="rowheader"') == 49
    assert "No more on this page." in (await get(datasette, url + "&page=9")).text
    assert "?source=a+%26+b.jsonl&page=2" in links((await get(datasette, url + "&page=9")).text)


# -- one import -------------------------------------------------------------------------------


async def test_one_import_shows_figures_warnings_and_rejects(
    empty_db: Path, make_datasette: Any
) -> None:
    rejects = [(line, f"no entity named 'N{line}'", f"raw {line}") for line in range(1, 13)]
    number = log(empty_db, COUNTS, "odd.jsonl", (30, "entity without a name", None), *rejects)
    datasette = make_datasette(empty_db)
    url = f"{base(empty_db)}/imports/{number}"
    page = (await get(datasette, url)).text
    words = unescape(text_of(page))
    assert "15 left out: 6 lines rejected, 2 observations skipped, 1 relation dangling ." in (
        words.replace("dangling.", "dangling .")
    )
    assert "The file lines 23 blank 1 rejected 6 rejects 7" in words
    assert "Observations in file 16 added 13 already there 1 skipped 2" in words
    assert "Entities given two types 1,400" in words
    assert "Line Name Kept Given 21 Ana Person Robot" in words
    assert "Observations skipped 2" in words
    assert "createdAt yesterday 3" in words
    assert (
        "Keys without a place here 1 Their values are not stored. Key Count relation.weight 4"
        in (words)
    )
    assert "Texts with broken characters 2" in words
    assert "Atlas / atlas" in words
    assert "not shown twice" not in words
    assert "Count Reason 12 no entity named … line 1: no entity named 'N1'" in words
    assert "--rejects left-out.jsonl" in words
    assert f"datasette limbic import odd.jsonl {empty_db.stem}.db --create-missing" in words
    found = links(page)
    for expected in (
        f"/{empty_db.stem}/limbic_imports/{number}",
        f"/{empty_db.stem}/limbic_import_rejects/1",
        f"/{empty_db.stem}/limbic_import_rejects?import_id={number}",
        f"/{empty_db.stem}/limbic_import_rejects.csv?import_id={number}&_stream=on",
        "?reason=no+entity+named+%E2%80%A6#limbic-rejects",
    ):
        assert expected in found
    body = await get_json(datasette, url + ".json")
    assert set(body) == {
        *("ok", "import", "reasons", "reason_count", "reason", "rejects", "count", "page", "pages"),
    }
    assert body["import"]["counts"] == COUNTS
    assert set(body["rejects"][0]) == {"id", "line", "reason", "raw"}
    assert set(body["reasons"][0]) == {"reason", "count", "first_line", "example"}


async def test_the_links_lead_to_the_rejects_of_this_import(
    empty_db: Path, make_datasette: Any
) -> None:
    log(empty_db, COUNTS, "other", (1, "of another", "x"))
    number = log(empty_db, COUNTS, "this", (1, "of this", "x"), (2, "of this", "y"))
    datasette = make_datasette(empty_db)
    found = links((await get(datasette, f"{base(empty_db)}/imports/{number}")).text)
    (csv,) = [u for u in found if ".csv" in u]
    lines = (await get(datasette, csv)).text.splitlines()
    assert len(lines) == 3
    assert "of another" not in "".join(lines)
    for link in found:
        if link.startswith(f"/{empty_db.stem}/limbic_"):
            assert (await get(datasette, link)).status_code == 200, link
    closed = make_datasette(empty_db, settings={"allow_csv_stream": False})
    found = links((await get(closed, f"{base(empty_db)}/imports/{number}")).text)
    (csv,) = [u for u in found if ".csv" in u]
    assert (await get(closed, csv)).status_code == 200


async def test_a_restored_import_has_a_page(tmp_path: Path, make_datasette: Any) -> None:
    """Its number is below zero, since those above belong to the file."""
    from importing_helpers import new_memory

    from datasette_limbic.exporting import export_full
    from datasette_limbic.importing import import_files

    plain, path = tmp_path / "plain.jsonl", tmp_path / "copy.db"
    plain.write_text('{"type":"entity","name":"a","entityType":"t","observations":[]}\nbad\n')
    memory = new_memory(tmp_path / "first.db")
    import_files(memory, [plain])
    with (tmp_path / "full.ndjson").open("w") as out:
        export_full(memory, out)
        print("broken\nno entity named 7", file=out)
    memory.close()
    import_files(path, [tmp_path / "full.ndjson"])
    datasette = make_datasette(path)
    url = base(path) + "/imports"
    listed = (await get(datasette, url)).text
    assert {f"{url}/1", f"{url}/-1"} <= set(links(listed))
    body = await get_json(datasette, url + ".json")
    assert [row["id"] for row in body["imports"]] == [1, -1]
    body = await get_json(datasette, f"{url}/-1.json")
    assert body["import"]["id"] == -1
    assert body["import"]["figures"]["rejects"] == 2
    assert [row["raw"] for row in body["rejects"]] == ["broken", "no entity named 7"]
    page = (await get(datasette, f"{url}/-1")).text
    assert "import -1" in text_of(page)
    assert "no entity named 7" in text_of(page)
    found = links(page)
    (csv,) = [u for u in found if ".csv" in u]
    assert len((await get(datasette, csv)).text.splitlines()) == 3
    (row,) = [u for u in found if "/limbic_imports/" in u]
    assert "full.ndjson" in (await get(datasette, row)).text
    for link in found:
        at = link.split("#")[0]
        at = f"{url}/-1{at}" if at.startswith("?") else at
        if at.startswith("/copy/"):
            assert (await get(datasette, at)).status_code == 200, link
        if "reason=" in at:
            assert "2 with the reason" in text_of((await get(datasette, at)).text)


async def test_filter_by_reason_over_pages(empty_db: Path, make_datasette: Any) -> None:
    rejects = [(i, f"no entity named 'N{i}'", f"raw {i}") for i in range(150)]
    number = log(empty_db, COUNTS, "a", *rejects, (1, "entity without a name", "nameless"))
    datasette = make_datasette(empty_db)
    url = f"{base(empty_db)}/imports/{number}"
    (link,) = [u for u in links((await get(datasette, url)).text) if u.startswith("?reason=no")]
    page = (await get(datasette, url + link.split("#")[0])).text
    assert "nameless" not in page
    assert "150 with the reason" in text_of(page)
    (after,) = [u for u in links(page) if "page=2" in u and "#" in u]
    assert "raw 149" in (await get(datasette, url + after.split("#")[0])).text
    none = text_of((await get(datasette, url + "?reason=other")).text)
    assert "No reject in the log has that reason." in none
    beyond = text_of((await get(datasette, url + "?page=9")).text)
    assert "No more on this page." in beyond
    assert "No reject in the log" not in beyond


@pytest.mark.parametrize(
    ("rejects", "kept", "said", "full"),
    [
        (11_401, 10_000, "11,401 were rejected and 10,000 of them are here", True),
        (3, 2, "3 were rejected and 2 of them are here.", False),
        (11_401, 9_999, "11,401 were rejected and 9,999 of them are here.", False),
        (2, 2, None, False),
        (0, 2, None, False),
        (10_000, 10_000, None, False),
    ],
)
async def test_more_rejects_than_the_log_keeps(
    rejects: int, kept: int, said: str | None, full: bool, empty_db: Path, make_datasette: Any
) -> None:
    rows = [(i, "r", "x") for i in range(kept)]
    number = log(empty_db, {"rejects": rejects}, "a", *rows)
    words = text_of(
        (await get(make_datasette(empty_db), f"{base(empty_db)}/imports/{number}")).text
    )
    assert ("were rejected and" in words) is (said is not None)
    assert (said or "") in words
    assert ("The log keeps the first 10,000 of a file." in words) is full


async def test_the_limit_that_the_page_names_is_that_of_an_import() -> None:
    assert import_rejects.MAX_KEPT == rejects.MAX_STORED


async def test_the_card_and_the_marks_of_the_rows_agree(
    empty_db: Path, make_datasette: Any
) -> None:
    kept = [(line, "r", "x") for line in range(5)]
    log(empty_db, {"rejects": 3, "rejected": 2, "relations": {"dangling": 1}}, "a.jsonl")
    log(empty_db, {"rejected": 2, "relations": {"dangling": 9, "skipped": 4}}, "b.jsonl")
    log(empty_db, {"rejects": 1}, "c.jsonl", *kept)
    log(empty_db, "no JSON", "c.jsonl", *kept)
    log(empty_db, {"observations": {"skipped": 2}}, "d.jsonl")
    log(empty_db, {"rejects": 0}, "e.jsonl")
    log(empty_db, {"rejects": 1e300}, "odd.jsonl")
    for i in range(60):
        log(empty_db, {"rejects": i % 2}, "many.jsonl")
    datasette = make_datasette(empty_db)
    url = base(empty_db) + "/imports"
    total = 0
    for name, wanted in (("a", 3), ("b", 15), ("c", 10), ("d", 2), ("e", 0), ("many", 30)):
        body = await get_json(datasette, f"{url}.json?source={name}.jsonl")
        assert body["left_out"] == wanted, name
        total += wanted
        words = text_of((await get(datasette, f"{url}?source={name}.jsonl")).text)
        assert (f"Left out {wanted} with a reason each" in words) is (wanted > 0)
        if body["pages"] == 1:
            assert sum(row["left_out"] for row in body["imports"]) == wanted
    assert (await get_json(datasette, f"{url}.json"))["left_out"] == total
    assert f"Left out {total} with" in text_of((await get(datasette, url)).text)


async def test_an_import_that_left_nothing_out(empty_db: Path, make_datasette: Any) -> None:
    number = log(empty_db, {"rejects": 0, "entities": {"created": 2}})
    words = text_of(
        (await get(make_datasette(empty_db), f"{base(empty_db)}/imports/{number}")).text
    )
    assert "Nothing was left out." in words
    assert "The log holds no rejects of this import." in words
    for absent in ("Warnings", "--rejects", "--create-missing", "Reasons"):
        assert absent not in words


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("memory.jsonl", "import memory.jsonl"),
        ("-rf", "import FILE"),
        ("a b.jsonl", "import FILE"),
        ("$(reboot)", "import FILE"),
        ("a\nb", "import FILE"),
        (b"a", "import a"),
    ],
)
async def test_the_command_names_only_files_that_a_shell_reads_as_one(
    source: Any, shown: str, empty_db: Path, make_datasette: Any
) -> None:
    number = log(empty_db, COUNTS, source, (1, "r", "x"))
    words = text_of(
        (await get(make_datasette(empty_db), f"{base(empty_db)}/imports/{number}")).text
    )
    assert f"datasette limbic {shown} {empty_db.stem}.db" in words


# -- errors and permissions -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "status", "error"),
    [
        ("/imports/999", 404, "no import 999"),
        ("/imports/0", 404, "no import 0"),
        ("/imports/9223372036854775808", 404, "no number of an import"),
        ("/imports/-1", 404, "no import -1"),
        ("/imports/-9223372036854775808", 404, "no import -9223372036854775808"),
        ("/imports/-9223372036854775809", 404, "no number of an import"),
        ("/imports/--1", 404, "no number of an import"),
        ("/imports/-", 404, "no number of an import"),
        ("/imports/odd", 404, "no number of an import"),
        ("/imports/~3Cscript~3E", 404, "no number of an import"),
        ("/imports/1?page=0", 400, "use a whole number from 1"),
        ("/imports/1?page=x", 400, "use a whole number from 1"),
        ("/imports/1?page=999999999999", 400, "use a whole number from 1"),
        ("/imports?page=0", 400, "use a whole number from 1"),
        ("/imports?page=-1", 400, "use a whole number from 1"),
        ("/imports?page=x", 400, "use a whole number from 1"),
        ("/imports?page=999999999999", 400, "use a whole number from 1"),
        ("/imports/1/2", 404, "there is no page"),
    ],
)
async def test_errors(
    path: str, status: int, error: str, empty_db: Path, make_datasette: Any
) -> None:
    log(empty_db)
    datasette = make_datasette(empty_db)
    before = digest(empty_db)
    page, mark, query = path.partition("?")
    body = await get_json(datasette, f"{base(empty_db)}{page}.json{mark}{query}", status=status)
    assert error in body["error"]
    response = await get(datasette, base(empty_db) + path)
    assert response.status_code == status
    assert error in text_of(response.text)
    assert "<script>&#39;" not in response.text
    assert "&#39;<script>" not in response.text
    assert digest(empty_db) == before


async def test_a_database_without_our_tables_is_404(tmp_path: Path, make_datasette: Any) -> None:
    from datasette.utils.sqlite import sqlite3

    path = tmp_path / "other.db"
    conn = sqlite3.connect(path)
    conn.execute("create table t(a)")
    conn.commit()
    conn.close()
    for page in ("/imports", "/imports/1"):
        body = await get_json(make_datasette(path), f"/other/-/limbic{page}.json", status=404)
        assert "datasette limbic init" in body["error"]


@pytest.mark.parametrize("suffix", ["", ".json"])
@pytest.mark.parametrize("path", ["/imports", "/imports/1"])
@pytest.mark.parametrize(
    ("table", "seen"),
    [("limbic_imports", False), ("limbic_import_rejects", False), ("observations", True)],
)
async def test_who_may_see_them(
    table: str, seen: bool, path: str, suffix: str, empty_db: Path, make_datasette: Any
) -> None:
    log(empty_db, COUNTS, "private.jsonl", (1, "r", "private text"))
    only_root = {"databases": {empty_db.stem: {"tables": {table: {"allow": {"id": "root"}}}}}}
    datasette = make_datasette(empty_db, metadata=only_root)
    url = base(empty_db) + path + suffix
    response = await get(datasette, url)
    assert response.status_code == (200 if seen else 403)
    assert ("private" in response.text) is seen
    response = await get(datasette, url, cookies=as_actor(datasette, {"id": "root"}))
    assert response.status_code == 200
    assert "private" in response.text


# -- hostile and unlucky ----------------------------------------------------------------------

ODD_COUNTS: dict[str, Any] = {
    "empty": "{}",
    "no JSON": "nope",
    "a list": "[1]",
    "bytes": b"\x00\xff",
    "a number": 5,
    "deep": "[" * 100_000,
    "deep object": '{"a":' * 300 + "1" + "}" * 300,
    "infinity": '{"entities": {"created": 1e999}, "warnings": {"x": [1e999]}}',
    "not a number": '{"entities": {"created": NaN}}',
    "half a surrogate": '{"\\udc00": 1, "warnings": {"extra_keys": {"\\ud800": "\\udfff"}}}',
    "groups of other types": '{"entities": [1, "a"], "warnings": 7, "relations": null}',
    "warnings of other types": json.dumps(
        {
            "warnings": {
                "type_conflicts": "many",
                "extra_keys": ["a", {"b": 1}, None],
                "skipped_observations": [{"line": 1}, "x", 3, {}],
                "unreadable": {"a": {"b": [1]}},
                "unreadable_count": True,
                "near_equal_names": [[], [1, None], "x"],
                "replaced_texts": "all",
                "novel": [[["deep"]]],
            }
        }
    ),
    "hostile keys": json.dumps({HOSTILE: 1, "g" + HOSTILE: {HOSTILE: 2}}),
    "hostile values": json.dumps({"warnings": {HOSTILE: [{HOSTILE: HOSTILE}]}}),
    "many figures": json.dumps({f"g{i}": {f"k{j}": j for j in range(50)} for i in range(60)}),
}


@pytest.mark.parametrize("counts", ODD_COUNTS.values(), ids=ODD_COUNTS)
async def test_counts_of_any_program_stop_no_page(
    counts: Any, empty_db: Path, make_datasette: Any
) -> None:
    number = log(empty_db, counts, "a", (1, "why", "raw"))
    datasette = make_datasette(empty_db)
    for path in ("/imports", f"/imports/{number}"):
        response = await get(datasette, base(empty_db) + path)
        assert response.status_code == 200, response.text[-800:]
        assert "<script>alert" not in response.text
        assert not re.search("[\x00\x1b\u202e]", response.text)
        assert len(response.text) < 200_000
        await get_json(datasette, base(empty_db) + path + ".json")
    page = text_of((await get(datasette, f"{base(empty_db)}/imports/{number}")).text)
    assert "1 line" in page or "1 reject" in page
    unreadable = "cannot be read" in page
    assert unreadable is (not isinstance(counts, str) or counts[:1] in "[n")


ODD_TEXTS = {"hostile": HOSTILE, "bytes": b"\xff\x00<b>", "a number": 7, "empty": ""}


@pytest.mark.parametrize("text", ODD_TEXTS.values(), ids=ODD_TEXTS)
async def test_texts_of_any_program_are_shown_escaped_and_cut(
    text: Any, empty_db: Path, make_datasette: Any
) -> None:
    number = log(empty_db, COUNTS, text, (text, text, text), (2, "plain", None))
    conn = connection.connect(empty_db)
    conn.execute("update limbic_imports set format = ?, started_at = ?", [text, text])
    conn.commit()
    conn.close()
    datasette = make_datasette(empty_db)
    for path in ("/imports", f"/imports/{number}"):
        response = await get(datasette, base(empty_db) + path)
        assert response.status_code == 200, response.text[-800:]
        assert "<script>alert" not in response.text
        assert "<b>" not in response.text
        assert not re.search("[\x00\x1b\u202e]", response.text)
        assert len(response.text) < 60_000
        await get_json(datasette, base(empty_db) + path + ".json")
    # each reason's link finds its reject
    page = (await get(datasette, f"{base(empty_db)}/imports/{number}")).text
    found = [u for u in links(page) if u.startswith("?reason=")]
    assert len(found) == 2
    for link in found:
        query = link.split("#")[0]
        body = await get_json(datasette, f"{base(empty_db)}/imports/{number}.json{query}")
        assert body["count"] == 1
    # so does the filter by name
    response = await get(datasette, base(empty_db) + "/imports?source=%3Cscript%3E%00%E2%80%AE")
    assert response.status_code == 200
    assert "<script>\x00" not in response.text


async def test_every_link_holds_the_base_url(empty_db: Path, make_datasette: Any) -> None:
    log(empty_db, COUNTS, "a", *[(i, "r", "x") for i in range(150)])
    datasette = make_datasette(empty_db, settings={"base_url": "/memory/"})
    await datasette.invoke_startup()
    for page in ("/imports", "/imports/1", "/imports/1?page=2&reason=r"):
        # the client of 1.0 puts the base URL before each path by itself
        response = await datasette.client.get(base(empty_db) + page)
        if response.status_code == 404:
            response = await datasette.client.get("/memory" + base(empty_db) + page)
        assert response.status_code == 200
        hrefs = [u for u in links(response.text) if u.startswith("/")]
        assert f"/memory{base(empty_db)}/imports" in hrefs
        assert [u for u in hrefs if not u.startswith("/memory/")] == []
        assert [u for u in hrefs if u.startswith("/memory/memory")] == []


async def test_the_overview_leads_to_the_log(demo_db: Path, make_datasette: Any) -> None:
    page = (await get(make_datasette(demo_db), base(demo_db))).text
    assert links(page).count(f"{base(demo_db)}/imports") == 2  # a tab and a figure
    assert "Imports 2 files in the log" in text_of(page)


async def test_a_real_import(demo_db: Path, make_datasette: Any) -> None:
    """What the importer writes now is what the pages read."""
    datasette = make_datasette(demo_db)
    overview = await get_json(datasette, base(demo_db) + ".json")
    body = await get_json(datasette, base(demo_db) + "/imports.json")
    assert body["count"] == overview["counts"]["imports"] == 2
    assert body["totals"]["entities"]["created"] == overview["counts"]["entities"]
    assert body["totals"]["relations"]["created"] == overview["counts"]["relations"]
    assert body["totals"]["observations"]["added"] == overview["counts"]["observations"]
    for row in body["imports"]:
        detail = await get_json(datasette, f"{base(demo_db)}/imports/{row['id']}.json")
        assert {k: v for k, v in detail["import"].items() if k != "counts"} == row


@pytest.mark.parametrize("key", ["imports", "count_all", "totals", "left_out", "rejects_kept"])
def test_keys_of_the_list_are_documented(key: str) -> None:
    text = (Path(__file__).parents[1] / "docs" / "json-api.md").read_text("utf-8")
    assert f"`{key}`" in text.split("\n## Imports\n")[1].split("\n### ")[0]


# -- small functions --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, None),
        (0.0, "under 1 ms"),
        (0.041, "41 ms"),
        (3.44, "3.4 s"),
        (125, "2 min 5 s"),
        (3780, "1 h 3 min"),
        (3_600_000, "1,000 h 0 min"),
    ],
)
def test_took(seconds: float | None, text: str | None) -> None:
    assert took(seconds) == text


@pytest.mark.parametrize(
    ("value", "most", "text"),
    [
        ("a\u202eb\x00", 10, "a\\u202eb\\x00"),
        ("line\nbreak\t", 20, "line\nbreak\t"),
        ("x" * 50, 10, "x" * 9 + "…"),
        (None, 10, ""),
        ("مرحبا 🚀", 20, "مرحبا 🚀"),
        (7, 10, "7"),
    ],
)
def test_visible(value: Any, most: int, text: str) -> None:
    assert visible(value, most) == text


@pytest.mark.parametrize(
    ("value", "text", "more"),
    [
        (None, "", None),
        ("short", "short", None),
        ("x" * 120, "x" * 120, None),
        ("x" * 121, "x" * 118 + "…", "x" * 121),
        ("two\nlines", "two lines", "two\nlines"),
    ],
)
def test_raw(value: Any, text: str, more: str | None) -> None:
    found = raw(value)
    assert (found["text"], found["more"]) == (text, more)


@pytest.mark.parametrize(
    ("group", "text"),
    [
        (None, "–"),
        ({}, "–"),
        (5, "–"),
        ({"lines": 9, "created": 0, "merged": 9}, "9 merged"),
        (
            {"dangling": 1, "novel_figure": 2, "created": 1200},
            "1,200 created, 1 dangling, 2 novel figure",
        ),
    ],
)
def test_said(group: Any, text: str) -> None:
    assert said(group) == text


def test_lists_that_are_new_become_tables() -> None:
    found = tables({"near_equal_names": [["a", "A"]], "entities": {"by_type": {"T": 2}}}, {})
    assert [(t["title"], t["count"], t["rows"]) for t in found] == [
        ("Names that differ in case or accents only", "1", [["a / A"]]),
        ("Entities: by type", "1", [["T", "2"]]),
    ]


def test_long_lists_are_cut_with_what_is_left() -> None:
    (table,) = tables({"warnings": {"novel": [{"line": i} for i in range(1030)]}}, {})
    assert (len(table["rows"]), table["more"], table["count"]) == (20, "1,010", "1,030")
