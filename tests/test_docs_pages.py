"""Tutorial, how-to, pages and the explanation of the ranking say what the code does."""

from __future__ import annotations

import re
import shlex
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from babel.messages.pofile import read_po
from click.testing import CliRunner
from datasette.app import Datasette
from view_helpers import ONE_POINT_ZERO, as_actor

from datasette_limbic import health, request, schema, times
from datasette_limbic.api import connect, search
from datasette_limbic.cli import limbic
from datasette_limbic.views import ROUTES, split, tabs

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
IMAGES = DOCS / "images"
NOW = "2026-11-29 12:00:00"
IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")
PNG_HEADER = struct.Struct(">8s4x4sII")
TEXTS = {path: path.read_text("utf-8") for path in (*DOCS.glob("*.md"), ROOT / "README.md")}


def text(name: str) -> str:
    return TEXTS[DOCS / f"{name}.md"]


def rows(table: str) -> list[list[str]]:
    """The cells of the first Markdown table of a text, without its head."""
    lines = re.search(r"(?:^\|.*\n)+", table, re.M)
    assert lines is not None
    return [
        [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        for line in lines[0].splitlines()[2:]
    ]


def code(cell: str) -> tuple[str, ...]:
    return tuple(re.findall(r"`([^`]+)`", cell))


# pictures --------------------------------------------------------------------------------------


def test_every_picture_is_there_used_and_described():
    used = set()
    for path, page in TEXTS.items():
        for said, target in IMAGE.findall(page):
            assert len(said) >= 20, f"{path.name}: {target} needs a text in its place"
            used.add((path.parent / target).resolve())
    there = set(IMAGES.iterdir())
    assert used == there
    assert there


@pytest.mark.parametrize("path", sorted(IMAGES.glob("*")), ids=lambda path: path.name)
def test_pictures_are_small(path):
    signature, chunk, width, height = PNG_HEADER.unpack(path.read_bytes()[:24])
    assert (signature, chunk) == (b"\x89PNG\r\n\x1a\n", b"IHDR")
    assert 300 <= width <= 1200
    assert 100 <= height <= 1000
    assert path.stat().st_size < 120_000
    assert f'"{path.stem}"' in (DOCS / "screenshots.py").read_text("utf-8")


def test_pictures_are_small_together():
    assert sum(path.stat().st_size for path in IMAGES.iterdir()) < 1_000_000


# pages -----------------------------------------------------------------------------------------

RIGHTS = {
    "search": schema.SEARCHED_TABLES,
    "split": split.TABLES,
    "health": health.GRAPH,
    "reports": schema.REPORTED_TABLES,
    "review": tabs.REVIEW_TABLES,
    "changes": tabs.CHANGES_TABLES,
    "tuning": tabs.TUNING_TABLES,
    "imports": tabs.IMPORT_TABLES,
}


# one that only some pages need, of each kind
HIDDEN = (
    "co_occurrences",
    "limbic_topics",
    "limbic_changes",
    "limbic_parameters",
    "limbic_imports",
)


def documented_pages() -> list[list[str]]:
    return rows(text("pages").split("The full map alone")[1])


def test_every_page_is_listed():
    """Each route, but those that answer POST alone."""
    posted = re.compile(r"/(open|feedback|observations|actions/.*|reflect|reviewed|tuning/.+)$")
    known = set()
    for pattern, _view in ROUTES[:-1]:
        path = pattern.removeprefix("^/(?P<database>[^/]+)/-/limbic").removesuffix("$")
        path = path.replace(r"(?P<format>\.json)?", "").replace("/?", "").replace("\\", "")
        path = re.sub(r"\(\?P<(\w+)>[^)]*\)", r"{\1}", path)
        if not posted.search(path):
            known.add(path or "/")
    assert {code(row[1])[0] for row in documented_pages()} == known


async def test_arguments_and_rights_of_pages(demo_db, make_datasette):
    """A page says itself what it takes, and 403 to whoever may not view a table that it needs."""
    setting = "config" if ONE_POINT_ZERO else "metadata"

    def without(table: str) -> Datasette:
        given = {"databases": {demo_db.stem: {"tables": {table: {"allow": False}}}}}
        options: dict[str, Any] = {setting: given}
        return Datasette([str(demo_db)], **options)

    whole = make_datasette(demo_db)
    hidden = {name: without(name) for name in HIDDEN}
    base = f"/{demo_db.stem}/-/limbic"
    for _name, address, takes, rights, _twin in documented_pages():
        path = base + code(address)[0].rstrip("/").replace("{entity}", "4").replace("{id}", "1")
        twin = path if path.endswith(".svg") else f"{path}.json"
        answer = await whole.client.get(f"{twin}?no_such_argument=1")
        if takes == "–":
            assert "takes none" in answer.text, path
        elif not path.endswith("/search"):
            assert answer.status_code == 400, path
            said = answer.json()["error"].partition("takes ")[2]
            assert code(takes) == tuple(said.split(", ")), path
        for table, datasette in hidden.items():
            refused = (await datasette.client.get(twin)).status_code == 403
            assert refused == (table in RIGHTS[rights]), (path, table)


def test_rights_of_pages():
    said: dict[str, tuple[str, ...]] = {}
    for name, tables in rows(text("pages").split("\n## Rights\n")[1]):
        more = re.search(r"those of (\w+)", tables)
        said[name] = (*(said[more[1]] if more else ()), *code(tables))
    assert {name: set(tables) for name, tables in said.items()} == {
        name: set(tables) for name, tables in RIGHTS.items()
    }


def test_arguments_of_a_search():
    table = rows(text("pages").split("\n## Search\n")[1])
    assert {name for row in table for name in code(row[0])} == set(request.ARGUMENTS)


def test_what_is_pressed_is_called_so():
    """Words in bold that one presses or reads on a page are strings of the pages."""
    catalogue = ROOT / "datasette_limbic" / "locale" / "es" / "LC_MESSAGES" / "limbic.po"
    with catalogue.open("rb") as file:
        strings = {
            each.lower()
            for message in read_po(file)
            if message.id
            for each in ([message.id] if isinstance(message.id, str) else message.id)
        }
    bold = re.compile(r"(?<!\*)\*\*([^*]+)\*\*")
    pressed = {
        (name, " ".join(found.split()))
        for name, part in (
            ("tutorial", text("tutorial").split("\n## 4.")[1]),
            ("how-to", text("how-to")),
        )
        for found in bold.findall(part)
    }
    assert len(pressed) > 15
    assert {each for each in pressed if each[1].lower() not in strings} == set()


# the explanation of the ranking ----------------------------------------------------------------

EXPLAINED = ("INC-19 double invoices", "billing-api")


class Ranked:
    """Called, the two entities of the example, each with its figures."""

    def __init__(self, conn: Any) -> None:
        self._conn = conn

    def __call__(self, **arguments: Any) -> list[dict[str, Any]]:
        answer = search(self._conn, "double invoices", now=NOW, explain=True, **arguments)
        self.pool = [*answer["results"], *answer["losers"]]
        found = {row["name"]: row for row in self.pool}
        return [found[name] for name in EXPLAINED]


@pytest.fixture(scope="module")
def ranked(demo_master: Path) -> Iterator[Ranked]:
    conn = connect(str(demo_master), readonly=True)

    yield Ranked(conn)
    conn.close()


def test_the_example_of_the_explanation(ranked):
    worked = rows(text("how-ranking-works").split("<!-- worked -->")[1])
    steps: dict[str, Any] = {
        "base similarity": lambda row: row["scoring"]["base"],
        "× salience": lambda row: 1 + 0.5 * row["scoring"]["importance"],
        "× co-occurrence": lambda row: 1 + 0.01 * row["scoring"]["cooc_boost"],
        "× recency": lambda row: row["scoring"]["temporal_factor"],
        "= limbic score": lambda row: row["limbic_score"],
        "its place in the pool": lambda row: row["scoring"]["limbic_norm"],
        "final score": lambda row: row["final_score"],
    }
    assert worked == [
        [name, *(f"{figure(row):.3f}" for row in ranked())] for name, figure in steps.items()
    ]
    said = " ".join(text("how-ranking-works").split())
    incident, service = ranked()
    for row in (incident, service):
        assert re.search(rf"\b{row['access_count']} times", said)
        idle = times.hours_since(row["last_access"], NOW)
        assert idle is not None
        assert f"last used {idle / 24:.0f} days ago" in said
        assert f"{row['scoring']['cosine_sim']:.3f}" in said
        assert f"{row['scoring']['temporal_factor']:.0%}".replace("%", " %") in said
        product = row["limbic_score"] / (
            row["scoring"]["base"]
            * (1 + 0.5 * row["scoring"]["importance"])
            * (1 + 0.01 * row["scoring"]["cooc_boost"])
            * row["scoring"]["temporal_factor"]
        )
        assert product == pytest.approx(1)
    assert f"one with {max(row['access_count'] for row in ranked.pool)}." in said
    assert f"of all {len(ranked.pool)} candidates" in said
    blended = (incident["scoring"]["base"] + incident["scoring"]["limbic_norm"]) / 2
    assert blended == pytest.approx(incident["final_score"])


def test_what_the_sliders_do_to_it(ranked):
    for cell, _meaning, *scores in rows(text("how-ranking-works").split("<!-- varied -->")[1]):
        name, value = code(cell)[0].split("=")
        varied = ranked(**{name: value if name == "strategy" else float(value)})
        assert scores == [f"{row['final_score']:.3f}" for row in varied], cell


def test_the_example_of_no_confident_match(demo_master):
    conn = connect(str(demo_master), readonly=True)
    answer = search(conn, "best pizza in Naples", now=NOW)
    conn.close()
    first = answer["results"][0]
    said = " ".join(text("how-ranking-works").split())
    assert not answer["confident"]
    assert f"the project *{first['name']}* comes first with {first['final_score']:.3f}" in said
    assert f"The nearest reaches {answer['best_cosine_sim']:.3f}" in said
    assert f"a match needs {answer['confidence_floor']:.3f}" in said


# how to ----------------------------------------------------------------------------------------


def configuration(name: str) -> Any:
    block = re.search(rf"<!-- configuration: {name} -->\n```yaml\n(.*?)```", text("how-to"), re.S)
    assert block is not None
    return yaml.safe_load(block[1])


async def test_how_to_configure(demo_db, tmp_path):
    memory = tmp_path / "memory.db"
    memory.write_bytes(demo_db.read_bytes())
    given = {**configuration("allow"), **configuration("language")}
    datasette = Datasette([str(memory)], **{"config" if ONE_POINT_ZERO else "metadata": given})
    await datasette.invoke_startup()
    path = "/memory/-/limbic/search"
    assert (await datasette.client.get(path)).status_code == 403
    seen = await datasette.client.get(path, cookies=as_actor(datasette, {"id": "ana"}))
    assert seen.status_code == 200
    assert "Búsqueda" in seen.text


def test_how_to_back_up(demo_db, monkeypatch):
    monkeypatch.chdir(demo_db.parent)
    blocks = re.findall(r"<!-- tested in order -->\n```\n(.*?)```", text("how-to"), re.S)
    commands = [line[2:] for block in blocks for line in block.splitlines()]
    assert len(commands) == 4
    for command in commands:
        result = CliRunner().invoke(limbic, shlex.split(command)[2:])
        assert result.exit_code == 0, result.output
    assert Path("backup.ndjson").read_bytes() == Path("again.ndjson").read_bytes()
    assert Path("memory.jsonl").stat().st_size
