"""What the overview and the search page say of who brings the candidates."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from markupsafe import escape
from view_helpers import base, get, get_json, text_of, write

from datasette_limbic import connection, i18n
from datasette_limbic.retrieval import building, questions
from datasette_limbic.views import retrieval_display

MEASURED = {"recall": {"10": 0.9912, "30": 0.9761, "300": 0.9449}, "questions": 123}
SETTING = "update limbic_approximate set recall = ?, measured = ?, seconds = 12.3"


@pytest.fixture(scope="module")
def indexed_master(demo_master: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = Path(shutil.copy(demo_master, tmp_path_factory.mktemp("indexed") / "demo.db"))
    with pytest.MonkeyPatch.context() as patch, closing(connection.connect(path)) as conn:
        patch.setattr(questions, "EACH", 3)  # what is told is written below
        building.build(conn)
    write(path, (SETTING, [0.9761, json.dumps(MEASURED)]))
    return path


@pytest.fixture
def indexed(indexed_master: Path, tmp_path: Path) -> Path:
    """The sample memory with an approximate index, of which MEASURED is told."""
    return Path(shutil.copy(indexed_master, tmp_path / "demo.db"))


async def test_an_approximate_index_is_shown_with_its_recall(
    indexed: Path, make_datasette: Any
) -> None:
    datasette = make_datasette(indexed)
    found = (await get_json(datasette, base(indexed) + ".json"))["vectors"]["retrieval"]
    assert (found["retriever"], found["serves"], found["vectors"]) == ("auto", "approximate", 65)
    assert found["approximate"].items() >= {**MEASURED, "state": "ready", "vectors": 65}.items()
    words = text_of((await get(datasette, base(indexed))).text)
    assert "Found by Approximate index retriever: auto" in words
    assert "Recall 97.6% of the nearest 30; of the nearest 10 99.1%" in words
    assert "measured with 123 target 98.0% Vectors in it 65" in words
    assert "in 12 s" in words
    assert "datasette limbic index" not in words  # nothing is to be done

    url = f"{base(indexed)}/search"
    answer = await get_json(datasette, f"{url}.json?q=billing&limit=5")
    assert (answer["retriever"], answer["degraded"]) == ("approximate", None)
    assert answer["recall"] == 0.9761
    # the stored query asks the same retriever
    stored = (await get(datasette, answer["stored_query_url"].replace("?", ".json?", 1))).json()
    ids = [row["id"] if isinstance(row, dict) else row[0] for row in stored["rows"]]
    assert ids == [row["id"] for row in answer["results"]]
    assert not [key for key in answer if key.startswith("_")]
    for asked, said in {
        "q=billing": "nearest found by the approximate index, which finds 97.6% of the nearest",
        "q=billing&_lang=es": "por el índice aproximado, que encuentra el 97,6 % de las",
    }.items():
        words = text_of((await get(datasette, f"{url}?{asked}")).text)
        assert said in words.replace("\N{NO-BREAK SPACE}", " ")


async def test_a_rebuild_that_is_due_is_said(indexed: Path, make_datasette: Any) -> None:
    write(indexed, (SETTING, [0.9, json.dumps(MEASURED)]))
    datasette = make_datasette(indexed)
    said = "he approximate index finds 90.0% of the nearest, short of the 98.0% that were asked for"
    assert f"T{said}" in text_of((await get(datasette, base(indexed))).text)
    found = await get_json(datasette, f"{base(indexed)}/search.json?q=billing")
    assert found["degraded"].startswith(f"t{said}: run 'datasette limbic index FILE")


@pytest.mark.parametrize(
    ("retriever", "worth_from", "hinted"),
    [("auto", 65, True), ("auto", 66, False), ("vec0", 65, False)],
)
async def test_a_large_memory_without_an_index_is_told_the_command(
    retriever: str,
    worth_from: int,
    hinted: bool,
    demo_db: Path,
    make_datasette: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retrieval_display, "WORTH_FROM", worth_from)
    datasette = make_datasette(demo_db, config={"retriever": retriever})
    words = text_of((await get(datasette, base(demo_db))).text)
    assert f"Found by sqlite-vec retriever: {retriever}" in words
    assert (f"datasette limbic index {demo_db.stem}.db" in words) is hinted
    assert "Recall" not in words


async def test_an_index_that_was_begun_is_no_index_yet(demo_db: Path, make_datasette: Any) -> None:
    write(
        demo_db,
        (
            "insert into limbic_approximate(state, dimension, axes, version, trained_on, vectors,"
            " target_recall) values ('filling', 512, 32, 1, 65, 12, 0.98)",
            [],
        ),
    )
    words = text_of((await get(make_datasette(demo_db), base(demo_db))).text)
    assert "An approximate index was begun and has 12 vectors so far." in words
    assert f"datasette limbic index {demo_db.stem}.db goes on" in words
    assert "Found by sqlite-vec" in words
    assert "Recall" not in words


async def test_who_cannot_serve_is_named_and_searched_without(
    demo_db: Path, make_datasette: Any
) -> None:
    datasette = make_datasette(demo_db, config={"retriever": "<script>alert(1)</script>"})
    url = base(demo_db)
    for page in (url, f"{url}/search?q=billing"):
        html = (await get(datasette, page)).text
        assert "<script>alert" not in html
        assert "There is no retriever '<script>alert(1)</script>': use auto" in text_of(
            html.replace("&lt;", "\0").replace("&gt;", "\1").replace("&#39;", "'")
        ).replace("\0", "<").replace("\1", ">")
    found = await get_json(datasette, f"{url}/search.json?q=billing")
    assert (found["retriever"], found["results"] != []) == ("vec0", True)
    assert (await get_json(datasette, f"{url}.json"))["vectors"]["retrieval"]["serves"] == "vec0"
    # nothing is searched by meaning here, so nobody found the nearest
    for asked in ("q=", "q=billing&mode=text"):
        assert (await get_json(datasette, f"{url}/search.json?{asked}"))["retriever"] is None
        assert "nearest found by" not in text_of(
            (await get(datasette, f"{url}/search?{asked}")).text
        )


async def test_a_memory_without_vectors_says_nothing_of_it(
    empty_db: Path, make_datasette: Any
) -> None:
    datasette = make_datasette(empty_db)
    words = text_of((await get(datasette, base(empty_db))).text)
    assert "Collections" not in words
    assert "How the nearest are found" not in words
    found = (await get_json(datasette, base(empty_db) + ".json"))["vectors"]["retrieval"]
    assert (found["serves"], found["vectors"], found["approximate"]) == (None, 0, None)


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ((None, None), None),
        (("vec0", None), "comparing all with sqlite-vec"),
        (("memory", None), "comparing all in memory"),
        (("postgres", None), "PostgreSQL"),
        (("a_plugin", None), "<bdi>a_plugin</bdi>"),
        (("a_plugin", 0.5), "<bdi>a_plugin</bdi>, which finds 50.0% of the nearest"),
        (("approximate", 1.0), "the approximate index, which finds 100.0% of the nearest"),
    ],
)
def test_each_retriever_has_a_name(found: tuple[Any, Any], said: str | None) -> None:
    with i18n.spoken("en"):
        told = retrieval_display.found_by(*found)
    assert (None if told is None else escape(told)) == said
