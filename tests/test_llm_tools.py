"""The toolbox as llm runs it: with a model that calls the tools that its prompt names."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import llm
import pytest
from click.testing import CliRunner
from datasette.utils.sqlite import sqlite3
from llm.cli import cli
from view_helpers import digest

from datasette_limbic import connection, entity, llm_answers, llm_tools, recording, serving
from datasette_limbic.errors import BadParameter, LimbicError, UnknownSearch
from datasette_limbic.llm_tools import Memory

QUESTION = "who fixed the geocoder"


def run(spec: str, *calls: tuple[str, dict[str, Any]], options: tuple[str, ...] = ()) -> list[str]:
    """What each of the tool calls returned, in a run of ``llm`` with the model ``echo``."""
    prompt = json.dumps(
        {"prompt": "go", "tool_calls": [{"name": f"Memory_{n}", "arguments": a} for n, a in calls]}
    )
    tool = ("-T", spec) if spec else ()
    result = CliRunner().invoke(
        cli, ["-m", "echo", *tool, *options, prompt], catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    return outputs(result.stdout)


def outputs(stdout: str) -> list[str]:
    """The tool results that the model ``echo`` printed last."""
    decoder, found, rest = json.JSONDecoder(), {}, stdout.strip()
    while rest:
        found, end = decoder.raw_decode(rest)
        rest = rest[end:].strip()
    return [each["output"] for each in found["tool_results"]]


def rows(path: Path, sql: str) -> list[tuple[Any, ...]]:
    with closing(connection.connect(path, readonly=True)) as conn:
        return [tuple(row) for row in conn.execute(sql)]


def change(path: Path, *statements: str) -> None:
    with closing(connection.connect(path)) as conn:
        for statement in statements:
            conn.execute(statement)
        conn.commit()


def signals(path: Path) -> dict[str, int]:
    """How many of each kind there are, and the sums of the counts."""
    names = ("entity_access_log", "limbic_searches", "limbic_feedback")
    found = {name: rows(path, f"select count(*) from {name}")[0][0] for name in names}
    found["access"] = rows(path, "select total(access_count) from entity_access")[0][0]
    found["pairs"] = rows(path, "select total(co_count) from co_occurrences")[0][0]
    return found


# llm's own view --------------------------------------------------------------------------------


def test_llm_lists_the_tools():
    result = CliRunner().invoke(cli, ["tools", "list", "--json"], catch_exceptions=False)
    [toolbox] = [t for t in json.loads(result.stdout)["toolboxes"] if t["name"] == "Memory"]
    found = {tool["name"]: tool for tool in toolbox["tools"]}
    assert set(found) == {"Memory_search", "Memory_open", "Memory_rate"}
    required = {name: tool["arguments"].get("required") for name, tool in found.items()}
    assert required == {
        "Memory_search": ["query"],
        "Memory_open": ["names"],
        "Memory_rate": ["search_id", "name", "rating"],
    }
    rating = found["Memory_rate"]["arguments"]["properties"]["rating"]
    assert rating["enum"] == ["useful", "not_useful"]
    for tool in found.values():
        assert "\n    " not in tool["description"]  # a model pays for indentation
        assert "Call this" in tool["description"]


def test_a_run_leaves_signals(demo_db):
    before = signals(demo_db)
    access = dict(rows(demo_db, "select entity_id, access_count from entity_access"))
    spec = f"Memory({json.dumps(str(demo_db))})"
    [found] = run(spec, ("search", {"query": QUESTION, "limit": 3}))
    answer = json.loads(found)
    assert answer["recorded"] == "yes"
    assert answer["confident"] is True
    names = [each["name"] for each in answer["results"]]
    assert len(names) == 3
    assert "geocoder" in names
    after = signals(demo_db)
    assert {k: after[k] - before[k] for k in after} == {
        "entity_access_log": 3,
        "limbic_searches": 1,
        "limbic_feedback": 0,
        "access": 3,
        "pairs": 3,
    }
    for entity_id, count in rows(
        demo_db,
        "select entity_id, access_count from entity_access join entities e on e.id = entity_id"
        f" where e.name in ({','.join(repr(n) for n in names)})",
    ):
        assert count == access.get(entity_id, 0) + 1
    assert rows(demo_db, "select uid, query, client, result_limit from limbic_searches") == [
        (answer["search_id"], QUESTION, "llm", 3)
    ]

    # the toolbox of the conversation is still there when it goes on
    opened, rated = run(
        "",
        ("open", {"names": ["geocoder", "Nobody"], "search_id": answer["search_id"]}),
        (
            "rate",
            {"search_id": answer["search_id"], "name": "geocoder", "rating": "useful"},
        ),
        options=("-c",),
    )
    assert json.loads(opened)["unknown"] == ["Nobody"]
    assert [each["name"] for each in json.loads(opened)["entities"]] == ["geocoder"]
    assert json.loads(rated) == {
        "name": "geocoder",
        "rating": "useful",
        "query": QUESTION,
        "recorded": "yes",
    }
    assert rows(demo_db, "select entity_name, event, client from limbic_feedback order by id") == [
        ("geocoder", "opened", "llm"),
        ("geocoder", "useful", "llm"),
    ]
    assert signals(demo_db)["access"] == after["access"] + 1


def test_several_calls_at_once_and_one_that_fails(demo_db):
    spec = json.dumps({"path": str(demo_db), "client": "billing-bot"})
    searched, failed, opened, wrong = run(
        f"Memory({spec})",
        ("search", {"query": "¿quién lleva la facturación? 🤖", "limit": "2"}),
        ("rate", {"search_id": "nope", "name": "Atlas", "rating": "useful"}),
        ("open", {"names": ["Inés Romero"]}),
        ("search", {"query": "x", "limit": 0}),
    )
    assert len(json.loads(searched)["results"]) == 2
    assert failed.startswith("Error: no logged search has the id 'nope': use the search_id")
    assert json.loads(opened)["entities"][0]["name"] == "Inés Romero"
    assert wrong == "Error: limit is 0: use a whole number from 1 to 100"
    assert rows(demo_db, "select query, client from limbic_searches") == [
        ("¿quién lleva la facturación? 🤖", "billing-bot")
    ]


def test_in_a_process_of_its_own(demo_db, tmp_path):
    """The installed command, its entry point, and the default path."""
    call = {"name": "Memory_search", "arguments": {"query": QUESTION}}
    result = subprocess.run(
        [
            *(sys.executable, "-m", "llm", "-m", "echo", "-T", "Memory"),
            json.dumps({"prompt": "go", "tool_calls": [call]}),
        ],
        env={**os.environ, "LIMBIC_MEMORY": str(demo_db), "LLM_USER_PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    [found] = outputs(result.stdout)
    assert json.loads(found)["recorded"] == "yes"
    assert signals(demo_db)["limbic_searches"] == 1


def test_async_models_run_the_same_tools(demo_db):
    call = {"name": "Memory_search", "arguments": {"query": QUESTION, "limit": 2}}

    async def chain() -> str:
        model = llm.get_async_model("echo")
        prompt = json.dumps({"prompt": "go", "tool_calls": [call, call]})
        return await model.chain(prompt, tools=[Memory(str(demo_db))]).text()

    first, second = outputs(asyncio.run(chain()))
    assert json.loads(first)["search_id"] != json.loads(second)["search_id"]
    assert signals(demo_db)["limbic_searches"] == 2


def test_threads_share_a_toolbox(demo_db):
    before = signals(demo_db)
    memory = Memory(str(demo_db))
    found: list[dict[str, Any]] = []

    def ask() -> None:
        for _ in range(4):
            found.append(json.loads(memory.search(QUESTION, limit=4)))

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [each["recorded"] for each in found] == ["yes"] * 24
    after = signals(demo_db)
    assert after["access"] - before["access"] == 24 * 4
    assert after["limbic_searches"] == 24


# setting it up ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("Memory", 'which memory? Write Memory("memory.db"), or set LIMBIC_MEMORY'),
        ('Memory("")', "which memory?"),
        ('Memory("missing.db")', "missing.db is no file: create a memory with"),
        ('Memory(".")', ". is no file"),
        ('Memory(path="demo.db", limit=0)', "limit is 0: use a whole number from 1 to 100"),
        ('Memory(path="demo.db", record="perhaps")', "record is 'perhaps': use 1 or 0"),
        ('Memory(path="demo.db", client=5)', "client is 5: use a name"),
        ('Memory(path="demo.db", config="no.yml")', "config is 'no.yml', which is no file"),
    ],
)
def test_a_wrong_set_up_is_one_sentence(spec, said, demo_db, monkeypatch):
    monkeypatch.chdir(demo_db.parent)
    monkeypatch.delenv(llm_tools.VARIABLE, raising=False)
    result = CliRunner().invoke(cli, ["-m", "echo", "-T", spec, "hi"])
    assert result.exit_code == 1
    assert result.output.startswith(f"Error: {said}")
    assert result.output.count("\n") == 1


def test_a_wrong_set_up_in_a_program(tmp_path):
    with pytest.raises(BadParameter, match="is no file"):
        Memory(str(tmp_path / "missing.db"))


def test_the_path_may_name_the_home_folder(demo_db, monkeypatch):
    monkeypatch.setenv("HOME", str(demo_db.parent))
    monkeypatch.setenv("USERPROFILE", str(demo_db.parent))
    assert json.loads(Memory("~/demo.db").search(QUESTION))["results"]


def test_a_path_object_can_be_logged(demo_db):
    memory = Memory(demo_db)
    assert json.loads(json.dumps(memory._config))["path"] == str(demo_db)


def test_settings_of_the_server_count(demo_db):
    config = demo_db.with_name("metadata.yml")
    config.write_text("plugins:\n  datasette-limbic:\n    mode: text\n", "utf-8")
    whole = json.loads(Memory(str(demo_db)).search(QUESTION))
    text = json.loads(Memory(str(demo_db), config=str(config)).search(QUESTION))
    assert any("similar in meaning" in each["why"] for each in whole["results"])
    assert not any("similar in meaning" in each["why"] for each in text["results"])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"no database at all", "is not a SQLite database"),
        (b"", "holds no memory yet: run 'datasette limbic init"),
    ],
)
def test_a_file_that_is_no_memory(content, said, tmp_path):
    path = tmp_path / "other.db"
    path.write_bytes(content)
    for call in (
        lambda m: m.search("x"),
        lambda m: m.open(["x"]),
        lambda m: m.rate("a", "x", "useful"),
    ):
        with pytest.raises(LimbicError, match=said) as caught:
            call(Memory(str(path)))
        assert str(path) in str(caught.value)


def test_a_memory_of_an_older_version_answers(demo_db):
    change(demo_db, "drop index limbic_searches_uid", "alter table limbic_searches drop column uid")
    answer = json.loads(Memory(str(demo_db)).search(QUESTION))
    assert answer["results"]
    assert "search_id" not in answer
    assert answer["recorded"].startswith("no: ")
    assert "datasette limbic init" in answer["recorded"]


# where nothing can be recorded -----------------------------------------------------------------


def all_three(memory: Memory) -> list[dict[str, Any]]:
    return [
        json.loads(memory.search(QUESTION)),
        json.loads(memory.open(["geocoder"], "0123456789abcdef")),
        json.loads(memory.rate("0123456789abcdef", "geocoder", "useful")),
    ]


def test_without_recording_nothing_changes(demo_db):
    before = digest(demo_db)
    for answer in all_three(Memory(str(demo_db), record=False)):
        assert answer["recorded"] == "no: this tool was started with record=False"
        assert "search_id" not in answer
    assert digest(demo_db) == before
    assert [p.name for p in demo_db.parent.iterdir()] == ["demo.db"]


def test_a_read_only_file_answers(demo_db, monkeypatch):
    before = digest(demo_db)
    monkeypatch.setattr(llm_tools.os, "access", lambda path, mode: False)
    searched, opened, rated = all_three(Memory(str(demo_db)))
    assert searched["results"]
    assert opened["entities"]
    assert {a["recorded"] for a in (searched, opened, rated)} == {"no: the file is read-only"}
    assert digest(demo_db) == before


def test_a_locked_memory_answers(demo_db, monkeypatch):
    monkeypatch.setattr(llm_tools, "WRITE_TIMEOUT_MS", 50)
    memory = Memory(str(demo_db))
    uid = json.loads(memory.search(QUESTION))["search_id"]
    before = signals(demo_db)
    with closing(connection.connect(demo_db)) as other:
        other.execute("begin immediate")
        searched = json.loads(memory.search(QUESTION))
        opened = json.loads(memory.open(["geocoder"], uid))
        with pytest.raises(LimbicError, match=r"is locked by another program: .* try again"):
            memory.rate(uid, "geocoder", "useful")
        other.rollback()
    assert searched["results"]
    assert "search_id" not in searched
    assert opened["entities"]
    for answer in (searched, opened):
        assert "is locked by another program" in answer["recorded"]
    assert signals(demo_db) == before
    assert json.loads(memory.rate(uid, "geocoder", "useful"))["recorded"] == "yes"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OverflowError("Python int too large to convert to SQLite INTEGER"), "no: Python int too"),
        (ValueError(), "no: ValueError"),
        (sqlite3.OperationalError("disk I/O error"), "no: "),
    ],
)
@pytest.mark.parametrize("part", ["add_access", "add_co_occurrences"])
def test_what_could_not_be_written_is_said_and_the_answer_comes(
    part, error, said, demo_db, monkeypatch
):
    """Of whatever kind the error: it spoils the one Recording, and raises nothing by itself."""
    memory = Memory(str(demo_db))
    uid = json.loads(memory.search(QUESTION))["search_id"]
    before = signals(demo_db)

    def fail(*args: Any) -> int:
        raise error

    monkeypatch.setattr(recording.signals, part, fail)
    searched = json.loads(memory.search(QUESTION))
    opened = json.loads(memory.open(["geocoder", "Atlas"], uid))
    assert searched["results"]
    assert "search_id" not in searched  # nothing could be tied to it
    assert len(opened["entities"]) == 2
    for answer in (searched, opened):
        assert answer["recorded"].startswith(said)
        assert str(error) in answer["recorded"]
    assert signals(demo_db) == before


def test_a_lock_is_waited_for_no_longer_than_a_model_waits(demo_db):
    memory = Memory(str(demo_db))
    with closing(connection.connect(demo_db)) as other:
        other.execute("begin immediate")
        start = time.monotonic()
        answer = json.loads(memory.search(QUESTION))
        took = time.monotonic() - start
        other.rollback()
    assert "is locked by another program" in answer["recorded"]
    assert 1 < took < 15


# what comes back -------------------------------------------------------------------------------


def test_nothing_about_it_is_said(demo_db):
    answer = json.loads(Memory(str(demo_db)).search("quantum chromodynamics lattice"))
    assert answer["confident"] is False
    assert answer["note"].startswith("Nothing in this memory seems to be about this.")
    assert "note" not in json.loads(Memory(str(demo_db)).search(QUESTION))


@pytest.mark.parametrize(
    ("query", "type", "note"),
    [
        (QUESTION, "Nonsense", "Nothing found: no entity has the type 'Nonsense'."),
    ],
)
def test_nothing_found_is_said(query, type, note, demo_db):
    answer = json.loads(Memory(str(demo_db)).search(query, type=type))
    assert (answer["results"], answer["note"]) == ([], note)


def test_an_empty_memory_says_so(empty_db):
    answer = json.loads(Memory(str(empty_db)).search(QUESTION))
    assert answer["note"].startswith("Nothing found: this memory is empty")
    assert "no vectors yet" in answer["note"]


def test_an_empty_query_lists_and_records_nothing(demo_db):
    answer = json.loads(Memory(str(demo_db)).search(""))
    assert len(answer["results"]) == 5
    assert answer["recorded"] == "no: nothing was asked, so nothing is recorded"


def test_the_most_results_are_set_by_whoever_starts_it(demo_db):
    answer = json.loads(Memory(str(demo_db), limit=2).search(QUESTION, limit=50))
    assert len(answer["results"]) == 2
    assert answer["note"] == "This memory returns at most 2 results."
    assert rows(demo_db, "select result_limit from limbic_searches") == [(2,)]


def test_what_has_ended_or_was_archived_is_marked(demo_db):
    [(atlas,)] = rows(demo_db, "select id from entities where name = 'Atlas'")
    [(geocoder,)] = rows(demo_db, "select id from entities where name = 'geocoder'")
    change(
        demo_db,
        f"update entities set archived_at = '2026-01-02 03:04:05', archived_reason = 'sold'"
        f" where id = {geocoder}",
        f"update entities set valid_to = '2026-02-03T00:00:00Z' where id = {geocoder}",
        f"update observations set valid_to = '2025-01-01' where entity_id = {geocoder}"
        " and content like '%no guarda%'",
        f"update observations set valid_to = '2999-01-01' where entity_id = {geocoder}"
        " and content like 'Turns%'",
        f"update relations set valid_to = '2025-05-05' where from_entity = {atlas}"
        f" and to_entity = {geocoder}",
    )
    memory = Memory(str(demo_db))
    opened = json.loads(memory.open(["geocoder", "Atlas"]))["entities"]
    found, other = opened
    assert found["archived"] == "2026-01-02 03:04:05: sold"
    assert found["ended"] == "2026-02-03 00:00:00"
    marked = [text for text in found["observations"] if text.startswith("[")]
    assert marked == [
        "[ended 2025-01-01 00:00:00, no longer true] "
        "El geocoder no guarda en caché las direcciones de los clientes."
    ]
    # a relation that has ended, and one to what is archived
    ended = "[ended 2025-05-05 00:00:00, no longer true] "
    assert f"{ended}Atlas → uses → this (Proyecto)" in found["relations"]
    assert f"{ended}uses → geocoder (Servicio)" in other["relations"]
    assert "archived" not in other
    archived = json.loads(memory.open(["INC-12 geocoder outage"]))["entities"][0]["relations"]
    assert "[archived] caused_by → geocoder (Servicio)" in archived


def test_long_entities_keep_within_the_budget(empty_db):
    with closing(connection.connect(empty_db)) as conn:
        conn.execute("insert into entities(id, name, entity_type) values (1, 'Depot', 'Place')")
        conn.executemany(
            "insert into observations(entity_id, content) values (1, ?)",
            [(f"Line {n} of the long history of this depot. " + "x" * 200,) for n in range(450)],
        )
        conn.execute(
            "update observations set content = 'The turnstile code is 4711. ' || content"
            " where id = 301"
        )
        conn.commit()
    memory = Memory(str(empty_db))
    said = memory.search("turnstile code depot")
    [result] = json.loads(said)["results"]
    assert len(said) < llm_answers.SEARCH_CHARS * 1.1
    assert any("4711" in text for text in result["observations"])
    assert len(result["observations"]) + result["more_observations"] == 450
    said = memory.open(["Depot"])
    [entity] = json.loads(said)["entities"]
    assert len(said) < llm_answers.OPEN_CHARS * 1.1
    assert entity["observations"][-1].startswith("Line 449 ")  # the newest
    assert len(entity["observations"]) > 20
    assert len(entity["observations"]) + entity["more_observations"] == 450


@pytest.mark.parametrize(("number", "read"), [(99, 1), (100, 1), (201, 1), (450, 1), (700, 3)])
def test_an_entity_is_read_once_unless_it_was_cut(number, read, empty_db, monkeypatch):
    """The newest are shown, also of more than one answer holds."""
    with closing(connection.connect(empty_db)) as conn:
        conn.execute("insert into entities(id, name) values (1, 'Depot')")
        conn.executemany(
            "insert into observations(entity_id, content) values (1, ?)",
            [(f"Line {n}",) for n in range(number)],
        )
        conn.commit()
    monkeypatch.setattr(serving, "MAX_OPEN_ROWS", 500)
    calls: list[Any] = []

    def detail(*args: Any, **kwargs: Any) -> dict[str, Any]:
        calls.append(kwargs)
        return whole(*args, **kwargs)

    whole = entity.entity_detail
    monkeypatch.setattr(entity, "entity_detail", detail)
    [found] = json.loads(Memory(str(empty_db)).open(["Depot"]))["entities"]
    assert len(calls) == read
    shown = found["observations"]
    assert shown == [f"Line {n}" for n in range(number - len(shown), number)]
    assert 100 <= len(shown) <= 200 or len(shown) == number
    assert len(shown) + found.get("more_observations", 0) == number


def test_a_long_entity_that_is_deleted_meanwhile_is_still_answered(demo_db, monkeypatch):
    monkeypatch.setattr(serving, "MAX_OPEN_ROWS", 1)
    monkeypatch.setattr(entity, "PAGE", 2)
    record = serving.recording.write_all

    def write_and_delete(conn: Any, entries: Any) -> Any:
        done = record(conn, entries)
        conn.execute("pragma foreign_keys=on")
        conn.execute("delete from entities where name = 'geocoder'")
        conn.commit()
        return done

    monkeypatch.setattr(serving.recording, "write_all", write_and_delete)
    answer = json.loads(Memory(str(demo_db)).open(["geocoder"]))
    assert [len(each["observations"]) for each in answer["entities"]] == [2]
    assert answer["recorded"] == "yes"
    assert rows(demo_db, "select count(*) from entities where name = 'geocoder'") == [(0,)]


@pytest.mark.parametrize("value", ["\ud800", "a\udfffb"])
def test_half_a_letter_is_taken_as_any_other_text(value, demo_db):
    """A model's JSON can hold half a surrogate pair, which neither UTF-8 nor SQLite can."""
    memory = Memory(str(demo_db), client=value)
    cleaned = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert json.loads(memory.search(value))["recorded"] == "yes"
    assert rows(demo_db, "select query, client from limbic_searches") == [(cleaned, cleaned)]
    answer = json.loads(memory.search("atlas", type=value))
    assert answer["note"] == f"Nothing found: no entity has the type {cleaned!r}."
    assert json.loads(memory.open([value], value))["unknown"] == [cleaned]
    with pytest.raises(UnknownSearch):
        memory.rate(value, value, "useful")


def test_one_huge_observation_is_cut(empty_db):
    change(
        empty_db,
        "insert into entities(id, name, entity_type) values (1, 'Depot', 'Place')",
        "insert into observations(entity_id, content)"
        " values (1, 'depot ' || replace(hex(zeroblob(50000)), '00', 'word '))",
    )
    memory = Memory(str(empty_db))
    [found] = json.loads(memory.search("depot"))["results"][0]["observations"]
    assert (len(found), found[-1]) == (llm_answers.SHORT, "…")
    [found] = json.loads(memory.open(["Depot"]))["entities"][0]["observations"]
    assert (len(found), found[-1]) == (llm_answers.LONG, "…")


def test_bytes_and_numbers_in_text_columns_are_shown(demo_db):
    change(
        demo_db,
        "update entities set entity_type = x'ff41' where name = 'geocoder'",
        "update observations set content = x'c3a9ff' where content like 'Turns addresses%'",
    )
    memory = Memory(str(demo_db))
    [entity] = json.loads(memory.open(["geocoder"]))["entities"]
    assert entity["entityType"] == "�A"
    assert entity["observations"][0] == "é�"
    assert json.loads(memory.search(QUESTION))["results"]


@pytest.mark.parametrize(
    ("names", "opened", "unknown"),
    [
        ("geocoder", ["geocoder"], []),  # models do that
        (["geocoder", "geocoder"], ["geocoder"], []),
        (["Nobody", "Atlas", "\ud800"], ["Atlas"], ["Nobody", "\ufffd"]),
        (["Nobody"], [], ["Nobody"]),
        ([7], [], ["7"]),
    ],
)
def test_names_as_models_write_them(names, opened, unknown, demo_db):
    answer = json.loads(Memory(str(demo_db)).open(names))
    assert [each["name"] for each in answer["entities"]] == opened
    assert answer["unknown"] == unknown
    assert ("note" in answer) == bool(unknown)
    assert answer["recorded"] == ("yes" if opened else "no: there is nothing to record")


@pytest.mark.parametrize("names", [[], [str(n) for n in range(10_000)]])
def test_too_few_or_too_many_names(names, demo_db):
    with pytest.raises(BadParameter, match=r"nothing to open|at most 100 are opened at once"):
        Memory(str(demo_db)).open(names)


def test_a_search_id_that_is_unknown_spoils_no_answer(demo_db):
    answer = json.loads(Memory(str(demo_db)).open(["geocoder"], "\ud800nope"))
    assert answer["entities"]
    assert answer["note"].startswith("Not counted as opened from a search: no logged search")
    assert answer["recorded"] == "yes"
    # who opened it is kept, but as no result of a search
    opened = "select search_id, entity_name, event from limbic_feedback"
    assert rows(demo_db, opened) == [(None, "geocoder", "opened")]


@pytest.mark.parametrize(
    ("name", "rating", "error"),
    [
        ("Nobody", "useful", UnknownSearch),
        ("geocoder", "good", BadParameter),
    ],
)
def test_ratings_that_cannot_be(name, rating, error, demo_db):
    memory = Memory(str(demo_db))
    uid = json.loads(memory.search(QUESTION))["search_id"]
    with pytest.raises(error, match=r"'Nobody' was no candidate|rating is 'good'"):
        memory.rate(uid, name, rating)
    assert signals(demo_db)["limbic_feedback"] == 0
