"""The documentation cannot rot: nothing is undocumented or stale, links lead on, examples run."""

from __future__ import annotations

import contextlib
import doctest
import io
import json
import re
import shlex
import sqlite3 as stock_sqlite3
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from view_helpers import ONE_POINT_ZERO, as_actor

from datasette_limbic import adding_input, api, connection, request, schema
from datasette_limbic.cli import COMMANDS, limbic
from datasette_limbic.config import Settings
from datasette_limbic.sql_functions import FUNCTIONS
from datasette_limbic.views import ROUTES
from datasette_limbic.views import open as open_view
from datasette_limbic.views import search as search_view
from datasette_limbic.views.feedback import BODY as FEEDBACK
from datasette_limbic.views.observations import BODY as OBSERVATIONS

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
FENCE = re.compile(r"^(```+|~~~+).*?^\1[ \t]*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")


def page(name: str) -> str:
    return (DOCS / f"{name}.md").read_text("utf-8")


def code_of(name: str) -> set[str]:
    """Everything in `backticks` on a page."""
    return set(re.findall(r"`([^`\n]+)`", FENCE.sub("", page(name))))


def test_there_are_pages():
    assert len(PAGES) >= 23


# nothing is undocumented -----------------------------------------------------------------------


def _all_commands() -> dict[str, click.Command]:
    """Every command by what is typed for it, those of a group among them: "record open"."""
    found: dict[str, click.Command] = {}
    for name in COMMANDS:
        command = limbic.get_command(click.Context(limbic), name)
        assert command is not None
        found[name] = command
        if isinstance(command, click.Group):
            found |= {f"{name} {below}": each for below, each in command.commands.items()}
    return found


def _options() -> list[tuple[str, str]]:
    return [
        (name, option)
        for name, command in _all_commands().items()
        for param in command.params
        if isinstance(param, click.Option)
        for option in param.opts
    ]


def _command_heading(name: str) -> str:
    return f"\n{'###' if ' ' in name else '##'} datasette limbic {name}\n"


@pytest.mark.parametrize("name", _all_commands())
def test_command_is_documented(name):
    assert _command_heading(name) in page("cli")


@pytest.mark.parametrize(("name", "option"), _options())
def test_option_is_documented(name, option):
    section = page("cli").split(_command_heading(name))[1].split("\n##")[0]
    assert re.search(rf"(?<![\w-]){re.escape(option)}(?![\w-])", section)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.name)
def test_sql_function_is_documented(function):
    signature = function.signature.replace("]]]", "]] ]")  # cog takes three for an end mark
    assert f"| `{signature}` |" in page("sql-functions")


@pytest.mark.parametrize("name", [f.name for f in fields(Settings)])
def test_setting_is_documented(name):
    assert f"| `{name}` |" in page("settings")


def test_limbic_settings_keys_are_documented(demo_db):
    conn = connection.connect(demo_db, readonly=True)
    keys = [row[0] for row in conn.execute("select key from limbic_settings")]
    conn.close()
    assert keys
    assert [key for key in keys if f"| `{key}` |" not in page("settings")] == []


# answered to POST alone: they have no page, and so no address of a twin
POSTED = ("/open", "/feedback", "/observations")


@pytest.mark.parametrize("pattern", [pattern for pattern, _view in ROUTES[:-1]])
def test_route_is_documented(pattern):
    path = pattern.removeprefix("^").removesuffix("$").removesuffix("/?")
    twin = r"(?P<format>\.json)?"
    assert twin in path, "a route without a JSON twin: say here how it is documented"
    path = path.replace(twin, "")
    path = re.sub(r"\(\?P<(\w+)>[^)]*\)", r"{\1}", path)
    assert "(" not in path, path
    code = code_of("json-api")
    if path.endswith((*POSTED, "/search")):
        assert f"POST {path}" in code
    if not path.endswith(POSTED):
        assert path in code
        assert f"{path}.json" in code


@pytest.mark.parametrize(
    ("heading", "keys"),
    [
        ("Search and record", search_view.BODY),
        ("Open", open_view.BODY),
        ("Feedback", FEEDBACK),
        ("Add observations", (*OBSERVATIONS, *adding_input._ITEM, *adding_input._CONTENT)),
    ],
)
def test_key_of_a_body_is_documented(heading, keys):
    section = page("json-api").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    known = {*request.ARGUMENTS, *re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)}
    assert set(keys) - known == set()


@pytest.mark.parametrize("name", request.ARGUMENTS)
def test_search_argument_is_documented(name):
    assert f"| `{name}` |" in page("json-api")


def test_tables_and_triggers_are_documented(demo_db):
    conn = connection.connect(demo_db, readonly=True)
    found = conn.execute(
        "select name, type, sql from sqlite_master where type in ('table', 'view', 'trigger')"
    ).fetchall()
    conn.close()
    virtual = [name for name, _, sql in found if (sql or "").lower().startswith("create virtual")]
    names = {
        name
        for name, _, _ in found
        if not name.startswith("sqlite_")
        and (name in virtual or not any(name.startswith(f"{v}_") for v in virtual))
    }
    made = "\n".join(schema.statements("tables", "views", "reports", "report_views"))
    written = re.findall(
        r"^create (?:virtual )?(?:table|view)(?: if not exists)? (\w+)", made, re.MULTILINE
    )
    assert len(written) > 30
    assert (names | set(written)) - code_of("tables") == set()


@pytest.mark.parametrize("name", api.__all__)
def test_public_name_is_documented(name):
    assert re.search(rf"^### {name}\b", page("python-api"), re.MULTILINE)


# nothing is stale ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", [p for p in PAGES if "[[[cog" in p.read_text("utf-8")], ids=lambda p: p.name
)
def test_generated_parts_are_in_step(path, monkeypatch):
    cog = pytest.importorskip("cogapp")
    monkeypatch.setenv("COLUMNS", "80")
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        code = cog.Cog().main(["cog", "--check", "--diff", str(path)])
    assert code == 0, f"run 'make docs'\n{out.getvalue()}"


# links -----------------------------------------------------------------------------------------


def anchors(text: str) -> set[str]:
    """Anchors of a page's headings, as GitHub makes them."""
    found: set[str] = set()
    for heading in re.findall(r"^#{1,6} +(.+?) *#*$", FENCE.sub("", text), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip()
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        number, unique = 0, slug
        while unique in found:
            number += 1
            unique = f"{slug}-{number}"
        found.add(unique)
    return found


@pytest.mark.parametrize("path", [*PAGES, ROOT / "README.md"], ids=lambda p: p.name)
def test_links_lead_somewhere(path):
    text = FENCE.sub("", path.read_text("utf-8"))
    broken = []
    for target in LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        there = (path.parent / file).resolve() if file else path
        if not there.exists() or (anchor and anchor not in anchors(there.read_text("utf-8"))):
            broken.append(target)
    assert broken == []


def test_every_page_is_on_the_map():
    targets = set(LINK.findall(page("index")))
    assert {p.name for p in PAGES} - {"index.md"} <= targets


# examples run ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "least"), [("python-api", 30), ("signals", 10)])
def test_python_examples(name, least, demo_db, monkeypatch):
    monkeypatch.chdir(demo_db.parent)
    source = "\n".join(re.findall(r"^```pycon\n(.*?)^```$", page(name), re.M | re.S))
    assert source.count(">>>") > least
    test = doctest.DocTestParser().get_doctest(source, {}, f"docs/{name}.md", None, 0)
    out = io.StringIO()
    results = doctest.DocTestRunner().run(test, out=out.write)
    conn = test.globs.get("conn")
    if conn is not None:
        conn.close()
    assert results.failed == 0, out.getvalue()


def _marked(mark: str, language: str) -> list[Any]:
    pattern = re.compile(rf"^<!-- {mark} -->\n+```{language}\n(.*?)^```$", re.M | re.S)
    return [
        pytest.param(*match.groups(), id=f"{path.stem}-{number}")
        for path in PAGES
        for number, match in enumerate(pattern.finditer(path.read_text("utf-8")), 1)
    ]


def _statements(sql: str) -> list[str]:
    found, pending = [], ""
    for line in sql.splitlines(keepends=True):
        pending += line
        if stock_sqlite3.complete_statement(pending):
            found.append(pending)
            pending = ""
    return [*found, pending] if pending.strip() else found


@pytest.mark.parametrize("sql", _marked("tested", "sql"))
def test_sql_examples(sql, demo_db):
    conn = connection.connect(demo_db)
    try:
        for statement in _statements(sql):
            rows = conn.execute(statement).fetchall()
            if statement.lstrip().lower().startswith(("select", "with")):
                assert rows, f"finds nothing in the sample memory: {statement}"
    finally:
        conn.close()


def test_the_worked_example(demo_db):
    sql = next(m.values[0] for m in _marked("tested", "sql") if m.id == "scoring-1")
    conn = connection.connect(demo_db, readonly=True)
    assert tuple(conn.execute(sql).fetchone()) == (0.9067,)
    conn.close()


COMMAND = re.compile(
    r"^\$ (datasette limbic (?:search|status|report|duplicates|split|health) demo\.db.*)\n"
    r"((?:(?!\$ |```).*\n)*)",
    re.MULTILINE,
)
# what of status goes by the clock, and it takes no other
CLOCK = re.compile(r"(?<=compared )\S+ \S+(?= \(UTC\))|\d+ stale entit(?:y|ies)")


def _commands() -> list[Any]:
    return [
        pytest.param(*match.groups(), id=f"{path.stem}-{number}")
        for path in PAGES
        for number, match in enumerate(COMMAND.finditer(path.read_text("utf-8")), 1)
    ]


@pytest.mark.parametrize(("command", "shown"), _commands())
def test_command_examples(command, shown, demo_db, monkeypatch):
    monkeypatch.chdir(demo_db.parent)
    result = CliRunner().invoke(limbic, shlex.split(command)[2:])
    assert result.exit_code == 0, result.output
    expected, got = (CLOCK.sub("", text).split() for text in (shown, result.output))
    assert len(expected) == len(got), result.output
    for one, other in zip(expected, got, strict=True):
        if re.fullmatch(r"\d+\.\d+", one) and re.fullmatch(r"\d+\.\d+", other):
            assert float(one) == pytest.approx(float(other), abs=0.0015), result.output
        elif not set(one) <= {"-"}:
            assert one == other, result.output


def shape(value: Any) -> Any:
    """Keys and, of lists, the shape of the first element; values do not matter."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value and isinstance(value[0], (dict, list)) else []
    return "…"


@pytest.mark.parametrize(("url", "documented"), _marked(r"answer: (/\S+)", "json"))
async def test_json_examples(url, documented, demo_db, make_datasette):
    datasette = make_datasette(demo_db)
    answer = (await datasette.client.get(url)).json()
    assert shape(json.loads(documented)) == shape(answer)


def _post_examples() -> list[tuple[str, str]]:
    """Of each answer to a POST on the page: the last command before it, and the answer."""
    pieces = page("json-api").split("\n<!-- answer -->\n```json\n")
    commands = [re.findall(r"^curl [^`]* -d '[^`]*", piece, re.M)[-1] for piece in pieces[:-1]]
    return list(zip(commands, [piece.split("\n```")[0] for piece in pieces[1:]], strict=True))


async def test_post_examples(demo_db, make_datasette):
    """In the order of the page, since one search is opened and rated after it."""
    datasette = make_datasette(demo_db)
    if ONE_POINT_ZERO:
        datasette.root_enabled = True
    await datasette.invoke_startup()
    real: dict[str, str] = {}
    examples = _post_examples()
    assert len(examples) >= 4
    for command, documented in examples:
        words = shlex.split(command.replace("\\\n", " "))
        given = json.loads(words[words.index("-d") + 1])
        if "search_id" in given:
            given["search_id"] = real[given["search_id"]]
        response = await datasette.client.post(
            words[1].removeprefix("http://127.0.0.1:8001"),
            content=json.dumps(given).encode(),
            headers={"content-type": words[words.index("-H") + 1].removeprefix("content-type: ")},
            cookies=as_actor(datasette, {"id": "root"}),
        )
        answer, expected = response.json(), json.loads(documented)
        assert answer["ok"], answer
        assert shape(expected) == shape(answer)
        for key in ("recorded", "unknown", "rating", "name"):
            assert answer.get(key) == expected.get(key)
        if "results" in expected and "search_id" in expected:
            real[expected["search_id"]] = answer["search_id"]
