"""The documentation cannot rot: nothing is undocumented or stale, links lead on, examples run."""

from __future__ import annotations

import contextlib
import doctest
import io
import json
import re
import shlex
import shutil
import sqlite3 as stock_sqlite3
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner
from datasette.app import Datasette
from view_helpers import ONE_POINT_ZERO, as_actor

from datasette_limbic import adding_input, api, connection, request, schema
from datasette_limbic.actions.kinds import KINDS
from datasette_limbic.cli import COMMANDS, limbic
from datasette_limbic.config import Settings
from datasette_limbic.errors import Refused
from datasette_limbic.insights import model as insights_model
from datasette_limbic.sql_functions import FUNCTIONS
from datasette_limbic.views import ROUTES, judging, retuning
from datasette_limbic.views import acting as acting_view
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
POSTED = (
    *("/open", "/feedback", "/observations", "/actions/{name}", "/reflect", "/reviewed"),
    *("/tuning/apply", "/tuning/set", "/tuning/rollback"),
)
# answered to both
BOTH = ("/search", "/review/{id}")
# no page, and so without a twin
PICTURES = ("/graph.svg",)


@pytest.mark.parametrize("pattern", [pattern for pattern, _view in ROUTES[:-1]])
def test_route_is_documented(pattern):
    path = pattern.removeprefix("^").removesuffix("$").removesuffix("/?")
    twin = r"(?P<format>\.json)?"
    if (picture := path.replace("\\", "")).endswith(PICTURES):
        assert picture.replace("(?P<database>[^/]+)", "{database}") in code_of("json-api")
        return
    assert twin in path, "a route without a JSON twin: say here how it is documented"
    path = path.replace(twin, "")
    path = re.sub(r"\(\?P<(\w+)>[^)]*\)", r"{\1}", path)
    assert "(" not in path, path
    code = code_of("json-api")
    if path.endswith((*POSTED, *BOTH)):
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
        (
            "Actions",
            (*acting_view.OPTIONS, *(key for kind in KINDS.values() for key in kind.takes)),
        ),
        ("Review", judging.KEYS),
        ("Tuning", {key for keys in retuning.BODIES.values() for key in keys}),
    ],
)
def test_key_of_a_body_is_documented(heading, keys):
    section = page("json-api").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    known = {*request.ARGUMENTS, *re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)}
    assert set(keys) - known == set()


@pytest.mark.parametrize("name", KINDS)
def test_action_is_documented(name):
    """What it does, an example of it over HTTP, and its place in the table of all."""
    assert f"| [`{name}`](#" in page("acting")
    assert f"\n### {name}\n" in page("json-api") or f"/-/limbic/actions/{name} " in page("json-api")


@pytest.mark.parametrize("kind", insights_model.KINDS)
def test_kind_of_finding_is_documented(kind):
    raised, rests = page("review").split("\n## What is raised again\n")
    assert f"\n| `{kind}` | " in raised
    assert f"\n| `{kind}` | " in rests


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
    same_words(CLOCK.sub("", shown), CLOCK.sub("", result.output))


def same_words(shown: str, printed: str) -> None:
    """The same but for white space, rules of tables, and the last digit of fractions."""
    expected, got = shown.split(), printed.split()
    assert len(expected) == len(got), printed
    for one, other in zip(expected, got, strict=True):
        if re.fullmatch(r"\d+\.\d+", one) and re.fullmatch(r"\d+\.\d+", other):
            assert float(one) == pytest.approx(float(other), abs=0.0015), printed
        elif not set(one) <= {"-"}:
            assert one == other, printed


IN_ORDER = re.compile(r"^<!-- in order -->\n+```\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TYPED = re.compile(r"^\$ (datasette limbic .*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
BASIS = re.compile(r"(?<=--basis )\S+")
# Times of the run, and how many entities nobody has asked for by then.
RUN = re.compile(
    r"20(?:2[7-9]|[3-9]\d)-\d\d-\d\d [\d:]{8}|2026-(?:11-(?:29|30)|12-\d\d) [\d:]{8}"
    r"|to archive:.*|\d+ (?=wait|pending)|(?<=of )\d+(?=, confidence)"
)


@pytest.mark.parametrize(("name", "least"), [("acting", 10), ("review", 8)])
def test_commands_in_order(name, least, demo_db, monkeypatch):
    """Those of a page one after another on one memory, since each builds on what was done."""
    monkeypatch.chdir(demo_db.parent)
    examples = [each for block in IN_ORDER.findall(page(name)) for each in TYPED.findall(block)]
    assert len(examples) >= least
    basis = ""
    for command, shown in examples:
        typed = BASIS.sub(lambda _: basis, command)  # noqa: B023  the last one that was printed
        result = CliRunner().invoke(limbic, shlex.split(typed)[2:])
        assert result.exit_code == (1 if "\nError: " in f"\n{shown}" else 0), result.output
        basis = (BASIS.search(result.output) or [basis])[0]
        same_words(*(RUN.sub("·", BASIS.sub("·", text)) for text in (shown, result.output)))


async def test_who_may_act(demo_db, make_datasette):
    """The block of docs/acting.md: those it names may, others are shown what would be done."""
    block = re.search(r"^<!-- who may -->\n```yaml\n(.*?)^```$", page("acting"), re.M | re.S)[1]
    memory = shutil.copy(demo_db, demo_db.parent / "memory.db")
    parsed = yaml.safe_load(block)
    options: dict[str, Any] = {"config" if ONE_POINT_ZERO else "metadata": parsed}
    if ONE_POINT_ZERO:
        datasette = Datasette([str(memory)], **options)
        datasette.root_enabled = True
    else:
        datasette = make_datasette(memory, **options)
    await datasette.invoke_startup()
    given = {"entity": "Chess puzzles", "reason": "nobody asks for it"}

    async def asked(actor: str | None, **more: Any) -> int:
        response = await datasette.client.post(
            "/memory/-/limbic/actions/archive",
            content=json.dumps({**given, **more}).encode(),
            headers={"content-type": "application/json"},
            cookies=as_actor(datasette, {"id": actor}) if actor else {},
        )
        return int(response.status_code)

    try:
        assert [await asked(who) for who in (None, "luis")] == [403, 403]
        assert [await asked(who, dry_run=True) for who in (None, "luis")] == [200, 200]
        assert await asked("ana") == 200
        given = {"entity": "Bici de Elena", "reason": "sold"}
        assert await asked("root") == 200
    finally:
        for db in datasette.databases.values():
            db.close()
    with contextlib.closing(connection.connect(memory, readonly=True)) as conn:
        log = api.changes_log(conn)["changes"]
    assert [change["actor"] for change in log] == ["root", "ana"]


def test_what_was_removed_can_be_taken_out_for_good(demo_db):
    """As docs/acting.md says: no word of it is left in the file, and it cannot be undone."""
    sql = re.search(r"^<!-- takes out -->\n```sql\n(.*?)^```$", page("acting"), re.M | re.S)[1]
    assert "= 12" in sql
    assert "= 7" in sql
    word = b"capacitivo"
    with contextlib.closing(connection.connect(demo_db)) as conn:
        change = api.delete_observations(conn, [345])["change"]
        insight = conn.execute(
            "insert into limbic_insights(key, kind, title, body, evidence, evidence_digest)"
            " values ('x', 'x', 'capacitivo', '', '{}', '') returning id"
        ).fetchone()[0]
        conn.commit()
    assert word in demo_db.read_bytes()
    with contextlib.closing(stock_sqlite3.connect(demo_db, isolation_level=None)) as other:
        other.executescript(sql.replace("= 12", f"= {change}").replace("= 7", f"= {insight}"))
        other.execute("pragma wal_checkpoint(truncate)")
    assert word not in demo_db.read_bytes()
    with contextlib.closing(connection.connect(demo_db)) as conn:
        with pytest.raises(Refused, match=f"change {change} cannot be undone"):
            api.undo_change(conn, change)
        detail = api.change_detail(conn, change)
        assert not detail["undo"]["possible"]
        assert api.check(conn).ok


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


ANSWER = re.compile(
    r"^<!-- answer(?: afterwards: (/\S+))? -->\n```json\n(.*?)^```$", re.MULTILINE | re.DOTALL
)


def _post_examples() -> list[tuple[str | None, str, str]]:
    """Each answer to a POST on the page with the last command before it, and what a GET answers
    after those (its URL comes first)."""
    text = page("json-api")
    found = []
    for match in ANSWER.finditer(text):
        commands = re.findall(r"^curl [^`]* -d '[^`]*", text[: match.start()], re.M)
        found.append((match[1], commands[-1], match[2]))
    return found


async def test_post_examples(demo_db, make_datasette):
    """In the order of the page, since one search is opened and rated after it."""
    datasette = make_datasette(demo_db)
    if ONE_POINT_ZERO:
        datasette.root_enabled = True
    await datasette.invoke_startup()
    real: dict[str, str] = {}
    examples = _post_examples()
    assert len(examples) >= 20
    answer: dict[str, Any] = {}
    for url, command, documented in examples:
        expected = json.loads(documented)
        if url is not None:
            answer = (await datasette.client.get(url)).json()
            assert shape(expected) == shape(answer)
            continue
        words = shlex.split(command.replace("\\\n", " "))
        given = json.loads(words[words.index("-d") + 1])
        if "search_id" in given:
            given["search_id"] = real[given["search_id"]]
        if "basis" in given:  # that of the dry run before it
            given["basis"] = answer["basis"]
        response = await datasette.client.post(
            words[1].removeprefix("http://127.0.0.1:8001"),
            content=json.dumps(given).encode(),
            headers={"content-type": words[words.index("-H") + 1].removeprefix("content-type: ")},
            cookies=as_actor(datasette, {"id": "root"}),
        )
        answer = response.json()
        assert answer["ok"], answer
        assert shape(expected) == shape(answer)
        for key in ("recorded", "unknown", "rating", "name", "change", "dry_run", "pending"):
            if not isinstance(expected.get(key), dict):  # with times of its own
                assert answer.get(key) == expected.get(key)
        if "results" in expected and "search_id" in expected:
            real[expected["search_id"]] = answer["search_id"]
