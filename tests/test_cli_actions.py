"""The commands that act: archive, restore, delete, merge, split, end, correct, undo, changes."""

from __future__ import annotations

import getpass
import json
import re
import shlex
import shutil
import subprocess
from contextlib import closing
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from datasette.utils.sqlite import sqlite3
from embedding_helpers import fill_and_sync
from view_helpers import digest, rows

from datasette_limbic import connection, decay, serving
from datasette_limbic.actions import described, log
from datasette_limbic.actions.acting import act
from datasette_limbic.actions.kinds import KINDS
from datasette_limbic.cli import acting, limbic
from datasette_limbic.cli.printing import as_json, line, printable, shell_word
from datasette_limbic.entity import entity_detail
from datasette_limbic.importing import import_files
from datasette_limbic.reports.review import mark_reviewed, review

HOSTILE = "red\x1b[31m \u202eder\nline\x9b"
OBEYED = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\u2028]")
LONG_AGO = "2025-02-03 04:05:06"
TEXTS = (
    (1, "The build of Atlas runs on Tuesday at noon"),
    (1, "the build of Atlas runs on Tuesday at noon."),
    (1, "Maps are drawn with a library of our own"),
    (1, "Nobody has looked at the tiles since spring"),
    (2, "Beta is the test stage"),
    (3, "ATLAS has a page in the wiki"),
)


@pytest.fixture
def memory(path: Path) -> Path:
    """Entities 1 Atlas (observations 1 to 4), 2 Beta (5), 3 ATLAS (6), 4 Old, archived, 5 named
    "2", 6 hostile, 7 -dash; relation 1 from Atlas to Beta."""
    with closing(connection.connect(path)) as conn:
        conn.executemany(
            "insert into entities(name, entity_type) values (?, 'Proyecto')",
            [(name,) for name in ("Atlas", "Beta", "ATLAS", "Old", "2", HOSTILE, "-dash")],
        )
        conn.execute(
            "update entities set archived_at = '2025-01-01 10:00:00', archived_reason = 'done'"
            " where id = 4"
        )
        conn.executemany("insert into observations(entity_id, content) values (?, ?)", TEXTS)
        conn.execute(
            "insert into relations(from_entity, to_entity, relation_type) values (1, 2, 'uses')"
        )
        # so that what counts as activity changes these in whatever second it happens
        conn.execute("update entities set updated_at = ?1, last_activity_at = ?1", [LONG_AGO])
        conn.commit()
    return path


def invoke(*args: Any, code: int = 0, stdin: str | None = None) -> Result:
    result = CliRunner().invoke(limbic, [str(arg) for arg in args], input=stdin)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result


def run(*args: Any, code: int = 0, stdin: str | None = None) -> str:
    return invoke(*args, code=code, stdin=stdin).output


def refused(*args: Any, stdin: str | None = None) -> str:
    """The sentence with which it is refused."""
    text = run(*args, code=1, stdin=stdin)
    assert text.startswith("Error: ")
    assert text.count("\n") == 1, text
    return text


def children(folder: Path) -> Path:
    made = folder / "children.json"
    made.write_text('[{"name": "Atlas: maps", "observations": [3, {"id": 4}]}]', "utf-8")
    return made


# name of the action: the words of the command, how it begins to say what it would do, a query and
# its answer once it is done
CASES: dict[str, tuple[list[str], str, str, list[tuple[Any, ...]]]] = {
    "archive": (
        ["archive", "Atlas", "--reason", "it's done"],
        "Archive 'Atlas': it's done\n",
        "select archived_reason from entities where archived_at is not null order by id",
        [("it's done",), ("done",)],
    ),
    "restore": (
        ["restore", "Old"],
        "Restore 'Old'",
        "select archived_at, archived_reason from entities where id = 4",
        [(None, None)],
    ),
    "delete": (
        ["delete", "3", "5"],
        "Delete 2 observations of 'Atlas', 'Beta'\nWarning: 'Beta' is left without observations\n",
        "select id from observations order by id",
        [(1,), (2,), (4,), (6,)],
    ),
    "merge": (
        ["merge", "Atlas", "--keep", "2", "--remove", "1"],
        "Merge 1 observation of 'Atlas' into observation 2",
        "select id from observations where entity_id = 1 order by id",
        [(2,), (3,), (4,)],
    ),
    "end": (
        ["end", "--observation", "3", "--at", "2026-03-01"],
        "End observation 3 of 'Atlas' at 2026-03-01",
        "select id from observations where valid_to = '2026-03-01 00:00:00'",
        [(3,)],
    ),
    "correct": (
        ["correct", "--entity", "Atlas", "--confidence", "0.25"],
        "Correct the confidence of 'Atlas' from 1 to 0.25\n",
        "select id from entities where confidence = 0.25",
        [(1,)],
    ),
    "merge_entities": (
        ["merge-entities", "Atlas", "ATLAS"],
        "Merge 'ATLAS' into 'Atlas'",
        "select entity_id from observations where id = 6",
        [(1,)],
    ),
    "split": (
        ["split", "Atlas", "--children", "children.json"],
        "Split 'Atlas': 'Atlas: maps' takes 2 of its 4 observations\n",
        "select o.id, e.name from observations o join entities e on e.id = o.entity_id"
        " where e.name = 'Atlas: maps' order by o.id",
        [(3, "Atlas: maps"), (4, "Atlas: maps")],
    ),
}
NAMES = list(CASES)


def words(name: str, memory: Path) -> list[str]:
    """The command line of a case on this file, without ``--yes``."""
    command, *rest = CASES[name][0]
    made = str(children(memory.parent))
    return [command, str(memory), *[made if word == "children.json" else word for word in rest]]


def state(path: Path) -> list[Any]:
    """What the facts of a memory are."""
    return [
        rows(path, f"select * from {table} order by id")
        for table in ("entities", "observations", "relations")
    ]


def test_every_action_has_a_case() -> None:
    assert {*CASES, "undo"} == set(KINDS)


@pytest.mark.parametrize("name", NAMES)
def test_a_dry_run_shows_and_changes_nothing(
    memory: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, opened = digest(memory), []
    connect = connection.connect

    def noting(path: Any, **kwargs: Any) -> Any:
        opened.append(kwargs["readonly"])
        return connect(path, **kwargs)

    monkeypatch.setattr(connection, "connect", noting)
    text = run(*words(name, memory))
    assert text.startswith(CASES[name][1])
    *_, nothing, command = text.splitlines()
    assert nothing == "Nothing has been changed. To do it:"
    assert command.startswith("  datasette limbic ")
    again = run(*words(name, memory), "--dry-run")
    assert re.sub(r"'\d{4}-\S+ \S+'", "", again) == re.sub(r"'\d{4}-\S+ \S+'", "", text)
    assert json.loads(run(*words(name, memory), "--json"))["dry_run"] is True
    assert opened == [True] * 3
    assert digest(memory) == before


@pytest.mark.parametrize("name", NAMES)
def test_the_command_that_it_prints_does_it(memory: Path, name: str) -> None:
    command = run(*words(name, memory)).splitlines()[-1]
    given = shlex.split(command)
    assert given[:2] == ["datasette", "limbic"]
    assert "--yes" in given
    assert "--basis" in given
    text = run(*given[2:])
    assert text.startswith(CASES[name][1])
    assert text.endswith(f"\nDone: change 1. To take it back: datasette limbic undo {memory} 1\n")
    assert rows(memory, CASES[name][2]) == CASES[name][3]
    assert rows(memory, "select id, action from limbic_changes") == [(1, name)]


@pytest.mark.parametrize("name", NAMES)
def test_undo_takes_it_back(memory: Path, name: str) -> None:
    before = state(memory)
    run(*words(name, memory), "--yes")
    done = state(memory)
    assert done != before
    held = digest(memory)
    text = run("undo", memory, 1)
    assert text.startswith(f"Undo change 1 ({name}")
    assert digest(memory) == held
    assert run(*shlex.split(text.splitlines()[-1])[2:]).endswith(f"undo {memory} 2\n")
    assert state(memory) == before
    run("undo", memory, 2, "--yes")
    assert state(memory) == done
    assert "was undone already" in refused("undo", memory, 2)


@pytest.mark.parametrize("name", NAMES)
def test_json_is_the_answer_of_the_library(memory: Path, name: str, tmp_path: Path) -> None:
    other = Path(shutil.copy(memory, tmp_path / "other.db"))
    shown = json.loads(run(*words(name, memory), "--json"))
    done = json.loads(run(*words(name, memory), "--yes", "--json", "--basis", shown["basis"]))
    with closing(connection.connect(other)) as conn:
        expected = act(conn, name, shown["arguments"], basis=shown["basis"])
    at = re.compile(r'"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"')
    assert at.sub("", json.dumps(done)) == at.sub("", json.dumps(expected))
    assert (done["dry_run"], done["change"]) == (False, 1)


TYPE = "the type of entity {} was 'Proyecto' and is 'Other'"
OF_ATLAS = "observation 1, observation 2, observation 3, observation 4 changed"
# name of the action: all that is said where every entity has another type and every observation
# another text
CHANGED = {
    "archive": [TYPE.format(1), OF_ATLAS],
    "restore": [TYPE.format(4)],
    "delete": [TYPE.format(1), TYPE.format(2), "observation 3, observation 5 changed"],
    "merge": [TYPE.format(1), "observation 2, observation 1 changed"],
    "end": [TYPE.format(1), "observation 3 changed"],
    "correct": [TYPE.format(1)],
    "merge_entities": [TYPE.format(1), TYPE.format(3), OF_ATLAS, "observation 6 changed"],
    "split": [TYPE.format(1), OF_ATLAS],
}


@pytest.mark.parametrize("name", NAMES)
def test_a_proposal_that_is_out_of_date(memory: Path, name: str) -> None:
    basis = json.loads(run(*words(name, memory), "--json"))["basis"]
    with closing(connection.connect(memory)) as conn:
        conn.execute("update entities set entity_type = 'Other'")
        conn.execute("update observations set content = content || '!'")
        conn.commit()
    before = digest(memory)
    for more in (["--yes"], []):
        text = refused(*words(name, memory), "--basis", basis, *more)
        assert "not as it was when it was shown" in text
        for sentence in CHANGED[name]:
            assert f"{sentence};" in text or f"{sentence}. Look at it again" in text
    assert digest(memory) == before


@pytest.mark.parametrize("name", NAMES)
def test_a_locked_file(memory: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_S", 0.02)
    before = digest(memory)
    with closing(sqlite3.connect(memory)) as other:
        other.execute("begin immediate")
        assert "is locked by another program" in refused(*words(name, memory), "--yes")
        run(*words(name, memory))  # looking at it waits for nobody
        other.rollback()
    assert digest(memory) == before


@pytest.mark.parametrize("name", NAMES)
def test_a_file_that_cannot_be_written(
    memory: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, connect = digest(memory), connection.connect
    monkeypatch.setattr(
        connection, "connect", lambda path, **kwargs: connect(path, **{**kwargs, "readonly": True})
    )
    assert "cannot be written: check the rights" in refused(*words(name, memory), "--yes")
    assert digest(memory) == before


@pytest.mark.parametrize("name", NAMES)
def test_files_that_are_no_memory(tmp_path: Path, memory: Path, name: str) -> None:
    command, _, *rest = words(name, memory)
    assert "does not exist" in refused(command, tmp_path / "none.db", *rest)
    text = tmp_path / "text.db"
    text.write_text("hello " * 500)
    assert "not a SQLite database" in refused(command, text, *rest)
    with closing(sqlite3.connect(tmp_path / "empty.db")) as conn:
        conn.execute("create table notes(id integer primary key)")
    assert "datasette limbic init" in refused(command, tmp_path / "empty.db", *rest, "--yes")


def test_a_file_of_an_earlier_version(memory: Path) -> None:
    with closing(sqlite3.connect(memory)) as conn:
        conn.execute("alter table limbic_insights drop column judged_before")
    assert "of an earlier version" in refused("archive", memory, "Atlas", "--reason", "x")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["archive", "Atlas", "--reason", " "], "reason is missing"),
        (["archive", "Atlás", "--reason", "x"], "did you mean 'Atlas'"),
        (["archive", "Old", "--reason", "x"], "'Old' was archived already"),
        (["archive", "999", "--reason", "x"], "no entity with the id 999"),
        (["archive", "9" * 5000, "--reason", "x"], "no entity with the name '9999"),
        (["restore", "Atlas"], "'Atlas' is not archived"),
        (["delete", "3", "99"], "there is no observation 99"),
        (["delete", "3", "3"], "the same id twice: 3"),
        (["delete", "9" * 30], "use an id"),
        (["merge", "Atlas", "--keep", "1"], "--keep is given without --remove"),
        (["merge", "Atlas", "--remove", "1"], "--remove is given without --keep"),
        (["merge", "Atlas", "--keep", "1", "--remove", "1"], "observation 1"),
        (["merge", "Atlas", "--keep", "1", "--remove", "5"], "'Beta'"),
        (["merge", "Beta"], "'Beta' has no duplicates"),
        (["end"], "--observation and --relation are both missing"),
        (["end", "--observation", "1", "--relation", "1"], "are both given"),
        (["end", "--relation", "7"], "there is no relation 7"),
        (["end", "--observation", "1", "--at", "someday"], "someday"),
        (["correct", "--confidence", "0.5"], "--entity and --observation are both missing"),
        (["correct", "--confidence", "0.5", "--entity", "1", "--observation", "1"], "both given"),
        (["correct", "--confidence", "nan", "--observation", "1"], "confidence is nan"),
        (["correct", "--confidence", "1.5", "--observation", "1"], "confidence is 1.5"),
        (["correct", "--confidence", "1", "--observation", "88"], "there is no observation 88"),
        (["merge-entities", "Atlas", "Atlas"], "Atlas"),
        (["merge-entities", "Atlas", "Old"], "archived"),
        (["merge-entities", "Atlas", "Nobody"], "no entity with the name 'Nobody'"),
        (["undo", "1"], "there is no change 1"),
        (["undo", "9" * 30], "use an id"),
        (["changes", "1"], "there is no change 1"),
        (["changes", "1", "--actor", "ana"], "1 is one change: leave out"),
        (["changes", "--page", "0"], "page"),
        (["split", "--yes"], "which entity is to be split?"),
        (["split", "--children", "-"], "which entity is to be split?"),
        (["archive", "Atlas", "--reason", "x", "--yes", "--dry-run"], "both given"),
        (["archive", "Atlas", "--reason", "x", "--basis", "abc"], "none of a proposal"),
    ],
)
def test_bad_input_ends_in_one_sentence(memory: Path, given: list[str], said: str) -> None:
    before = digest(memory)
    command, *rest = given
    assert said in refused(command, memory, *rest)
    if not command.startswith("changes") and "--yes" not in rest:
        assert said in refused(command, memory, *rest, "--yes")
    assert digest(memory) == before


@pytest.mark.parametrize("given", [["delete", "x"], ["archive", "Atlas"], ["undo"], ["delete"]])
def test_what_click_itself_refuses(memory: Path, given: list[str]) -> None:
    command, *rest = given
    assert "Usage: " in run(command, memory, *rest, code=2)


def test_digits_are_an_id_before_they_are_a_name(memory: Path) -> None:
    assert run("archive", memory, "2", "--reason", "x").startswith("Archive 'Beta'")
    with closing(connection.connect(memory)) as conn:
        conn.execute("update entities set name = '77' where id = 5")
        conn.commit()
    assert run("archive", memory, "77", "--reason", "x").startswith("Archive '77'")
    assert run("merge-entities", memory, "77", "2").startswith("Merge 'Beta' into '77'")


def test_a_name_that_begins_with_a_dash(memory: Path) -> None:
    text = run("archive", memory, "--reason", "-x", "--", "-dash")
    given = shlex.split(text.splitlines()[-1])[2:]
    assert given[-3:] == ["--", str(memory), "-dash"]
    run(*given)
    assert rows(memory, "select archived_reason from entities where id = 7") == [("-x",)]


def test_no_control_character_reaches_the_terminal(memory: Path) -> None:
    reason = "why\x1b]0;title\x07\n\u2028not"
    given = ["archive", memory, HOSTILE, "--reason", reason, "--actor", "an\x1ba"]
    texts = [run(*given), run(*given, "--json"), run(*given, "--yes"), run(*given, code=1)]
    texts += [run("changes", memory), run("changes", memory, 1), run("changes", memory, "--json")]
    texts += [run("changes", memory, 1, "--json"), run("undo", memory, 1)]
    texts += [run("undo", memory, 1, "--yes", "--actor", "an\x1ba"), run("undo", memory, 1, code=1)]
    texts += [run("archive", memory, HOSTILE + "!", "--reason", "x", code=1)]
    for text in texts:
        assert not OBEYED.search(text), text
    assert "\\x1b[31m" in texts[0]
    assert rows(memory, "select entity_name, actor from limbic_changes where id = 1") == [
        (HOSTILE, "an\x1ba")
    ]
    kept = json.loads(texts[7])["diff"]["rows"][0]["after"]["archived_reason"]
    assert kept == reason


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
@pytest.mark.parametrize(
    "word",
    ["plain", "two words", "it's", "$HOME `ls` \\", HOSTILE + "7'\\", "caf\udce9", "\x7f\t1", ""],
)
def test_words_for_a_shell(word: str) -> None:
    quoted = shell_word(word)
    assert not re.search("[\x00-\x1f\x7f-\x9f\u202e]", quoted)
    said = subprocess.run(
        ["bash", "-c", f"printf %s {quoted}"], capture_output=True, check=True, timeout=10
    )
    assert said.stdout == word.encode("utf-8", "surrogateescape")


def test_texts_for_a_terminal() -> None:
    assert printable("a\x1b[1m\nb\u202e\x9b\ud800") == "a\\x1b[1m\nb\\u202e\\x9b\\ud800"
    assert line(" a\n\x1b b ", 4) == "a \\x1b…"
    value = {"a\x9b": ["\x00\x7f\u2028é\ud800"]}
    assert json.loads(as_json(value)) == value
    assert as_json(value).isprintable() is False  # the newlines of its layout
    assert not OBEYED.search(as_json(value))
    assert "é" in as_json(value)


def actor_of(memory: Path) -> Any:
    return rows(memory, "select actor from limbic_changes order by id desc limit 1")[0][0]


def test_who_did_it(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "maria")
    run("delete", memory, 1, "--yes")
    assert actor_of(memory) == "maria"
    run("delete", memory, 2, "--yes", "--actor", " ana ")
    assert actor_of(memory) == "ana"
    for number, empty in ((3, ""), (4, " ")):  # none is given: the user, as help says
        run("delete", memory, number, "--yes", "--actor", empty)
        assert actor_of(memory) == "maria"
    run("delete", memory, 5, "--yes", "--actor", "a" * 300)
    assert actor_of(memory) == "a" * serving.MAX_CLIENT  # as over HTTP

    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found: 4242")

    monkeypatch.setattr(getpass, "getuser", nobody)
    run("delete", memory, 6, "--yes", "--actor", "")
    assert actor_of(memory) is None
    assert re.search(r" –  +delete ", run("changes", memory))


def test_options_go_along_into_the_command(memory: Path, tmp_path: Path) -> None:
    config = tmp_path / "my metadata.yml"
    config.write_text("plugins: {datasette-limbic: {gamma: 0.5}}")
    given = ["delete", memory, 1, "-c", config, "--actor", "ana", "--no-embed"]
    words = shlex.split(run(*given, "--dry-run").splitlines()[-1])[2:]
    assert words[:3] == ["delete", str(memory), "1"]
    assert " ".join(words).count("--") == 5
    for option in (["--config", str(config)], ["--actor", "ana"], ["--no-embed"], ["--yes"]):
        place = words.index(option[0])
        assert words[place : place + len(option)] == option
    assert words[-2] == "--basis"
    last = run(*words).splitlines()[-1]
    assert shlex.split(last.partition("back: ")[2])[-2:] == ["--config", str(config)]


def test_a_very_long_basis_is_left_out(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acting, "MAX_BASIS", 10)
    *_, command, note = run("delete", memory, 1).splitlines()
    assert command.endswith("--yes")
    assert re.fullmatch(r"The basis of \d+ characters is left out\. .*", note)


def test_long_diffs_are_cut_and_counted(memory: Path) -> None:
    with closing(connection.connect(memory)) as conn:
        conn.executemany(
            "insert into observations(entity_id, content) values (2, ?)",
            [(f"fact {n}" + "x" * 300,) for n in range(60)],
        )
        conn.commit()
    ids = [row[0] for row in rows(memory, "select id from observations where entity_id = 2")]
    text = run("delete", memory, *ids)
    assert "\nRemoved: 61 observations of 'Beta'\n" in text
    assert text.count("\n  #") == 50
    assert "\n  … and 11 more: --json has them all\n" in text
    assert max(map(len, text.splitlines()[:-1])) < 130


def test_rows_are_named(memory: Path) -> None:
    text = run(*words("split", memory))
    assert "\nCreated: 1 entity\n  'Atlas: maps' (Proyecto)\n" in text
    assert "\nMoved: 2 observations from 'Atlas' to 'Atlas: maps'\n  #3 Maps are" in text
    assert "\n  'Atlas' → contiene → 'Atlas: maps'\n" in text
    assert "\n  'Atlas: maps' → parte_de → 'Atlas'\n" in text
    text = run("merge-entities", memory, "ATLAS", "Atlas")
    assert "\n  #1 'Atlas' → uses → 'Beta', now 'ATLAS' → uses → 'Beta'\n" in text
    assert "  #1 'Atlas' (Proyecto)  [archived_at none → '20" in text
    text = run(*words("merge", memory))
    assert "  #1 The build of Atlas runs on Tuesday at noon\n    said by #2 the build" in text
    text = run("end", memory, "--relation", 1, "--at", "2026-03-01")
    assert "\n  #1 'Atlas' → uses → 'Beta'  [valid_to none → '2026-03-01 00:00:00']\n" in text
    text = run(*words("split", memory), "--yes")
    assert "\nMoved: 2 observations from 'Atlas' to 'Atlas: maps'\n  #3 Maps are" in text
    assert text.split("\n\nNot found")[0].split("Moved: ")[1] in run("changes", memory, 1)
    run("end", memory, "--relation", 1, "--yes")
    assert "\n  #1 'Atlas' → uses → 'Beta'  [valid_to none → '20" in run("changes", memory, 2)


def test_what_is_done_is_never_said_to_have_failed(
    memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(*_: Any) -> Any:
        raise sqlite3.OperationalError("database is locked")

    monkeypatch.setattr(described, "described", locked)
    text = run("delete", memory, 1, "--yes")
    assert f"What it did: datasette limbic changes {memory} 1\n" in text
    assert "\nDone: change 1." in text
    assert "locked by another program" in refused("delete", memory, 2)


def test_search_follows_at_once_or_at_the_next_sync(path: Path, models: dict[str, Any]) -> None:
    with closing(connection.connect(path)) as conn:
        fill_and_sync(conn, 3)
    stale = "select count(*) from limbic_stale"
    text = run("delete", path, 1, "--yes")
    assert "Not found by meaning yet" not in text
    assert rows(path, stale) == [(0,)]
    models["bag"].seen.clear()
    text = run("delete", path, 3, "--yes", "--no-embed")
    assert "Not found by meaning yet: not asked for: run 'datasette limbic sync'" in text
    assert rows(path, stale) != [(0,)]
    assert models["bag"].seen == []


def test_a_model_that_fails(path: Path, models: dict[str, Any]) -> None:
    with closing(connection.connect(path)) as conn:
        fill_and_sync(conn, 3)

    def fails(_: Any) -> None:
        raise OSError("out of memory")

    models["bag"].before = fails
    before = digest(path)
    text = refused("delete", path, 1, "--yes")
    assert "out of memory" in text
    assert "--no-embed" in text
    assert digest(path) == before


def test_changes_of_a_memory_without_any(memory: Path) -> None:
    before = digest(memory)
    assert run("changes", memory).startswith("Nothing has been changed yet")
    assert json.loads(run("changes", memory, "--json"))["changes"] == []
    assert digest(memory) == before


def test_the_log_of_changes(memory: Path) -> None:
    run("delete", memory, 3, "--yes", "--actor", "ana")
    run("archive", memory, "Beta", "--reason", "x", "--yes", "--actor", "bob")
    run("undo", memory, 1, "--yes", "--actor", "bob")
    before = digest(memory)
    table = run("changes", memory).splitlines()
    assert [row.split()[0] for row in table[2:5]] == ["3", "2", "1"]
    assert table[4].rstrip().endswith("undone by 3")
    with closing(connection.connect(memory, readonly=True)) as conn:
        assert json.loads(run("changes", memory, "--json")) == log.changes_log(conn)
        assert json.loads(run("changes", memory, 1, "--json")) == log.change_detail(conn, 1)

    def listed(*given: Any) -> list[int]:
        found = json.loads(run("changes", memory, *given, "--json"))
        return [row["id"] for row in found["changes"]]

    assert listed("--action", "delete") == [1]
    assert listed("--actor", "bob") == [3, 2]
    assert listed("--entity", "Beta") == listed("--entity", "2") == [2]
    assert listed("--size", 2, "--page", 2) == [1]
    assert "Page 2 of 2" in run("changes", memory, "--size", 2, "--page", 2)
    assert run("changes", memory, "--actor", "zoe") == "No change of 3 is such a one.\n"
    one = run("changes", memory, 1)
    assert "\nUndone by change 3.\n" in one
    assert "\nRemoved: 1 observation of 'Atlas'\n  #3 Maps" in one
    assert "It cannot be undone now: change 1 was undone already" in one
    two = run("changes", memory, 2)
    assert two.startswith("Change 2, 20")
    assert two.splitlines()[-1] == f"To take it back: datasette limbic undo {memory} 2"
    assert digest(memory) == before


def test_the_report_is_marked_as_looked_through(memory: Path) -> None:
    text = run("report", memory, "--reviewed", "--actor", "ana")
    assert re.fullmatch(r"Marked as looked through by ana, 20\S+ \S+ UTC\.\n", text)
    with closing(connection.connect(memory)) as conn:
        found = review(conn)
        assert found["reviewed"]["by"] == "ana"
        assert found["review_due"] is False
        assert review(conn, now="2099-01-01")["review_due"] is True
        marked = mark_reviewed(conn)
        assert marked["by"] is None
        assert marked["at"] >= found["reviewed"]["at"]
        assert review(conn)["reviewed"] == marked
        assert not conn.in_transaction
    body = json.loads(run("report", memory, "--reviewed", "--json"))
    assert body["reviewed"]["by"] == acting.by(None)
    assert rows(memory, "select distinct report from limbic_reviews") == [("consolidation",)]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--reviewed", "--list", "large_entities"], "goes without --list"),
        (["--reviewed", "--keep", "--page", "1"], "goes without --page and --keep"),
        (["--actor", "ana"], "give --reviewed too"),
    ],
)
def test_what_goes_not_with_reviewed(memory: Path, given: list[str], said: str) -> None:
    before = digest(memory)
    assert said in refused("report", memory, *given)
    assert digest(memory) == before


def test_a_report_that_cannot_be_marked(memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_S", 0.02)
    with closing(sqlite3.connect(memory)) as other:
        other.execute("begin immediate")
        assert "is locked by another program" in refused("report", memory, "--reviewed")
        other.rollback()
    with closing(sqlite3.connect(memory)) as other:
        other.execute("drop table limbic_reviews")
    assert "datasette limbic init" in refused("report", memory, "--reviewed")


@pytest.fixture
def aged(path: Path) -> Path:
    """The packaged sample memory, without vectors."""
    folder = Path(str(resources.files("datasette_limbic") / "demo"))
    with closing(connection.connect(path)) as conn:
        import_files(conn, [folder / "memory.jsonl", folder / "history.jsonl"])
    return path


def test_decay_says_what_recency_would_be(aged: Path, tmp_path: Path) -> None:
    before = digest(aged)
    result = invoke(
        "decay", aged, "--rate", "0.5", "--min-confidence", "0.9", "--max-age", "1", "--label",
        "Concept", "--dry-run",
    )  # fmt: skip
    assert "kept for one minor version" in result.stderr
    assert "--recency activity" in result.stderr
    assert digest(aged) == before
    config = tmp_path / "metadata.yml"
    config.write_text(
        "plugins: {datasette-limbic: {recency_half_life_days: 0.01, insight_half_life_days: 0.01,"
        " exempt_types: []}}"
    )
    counts = [
        int(line.split()[0]) for line in invoke("decay", aged, "-c", config).stdout.splitlines()
    ]
    live = rows(aged, "select count(*) from entities where archived_at is null")[0][0]
    assert counts == [0, 0, 0, live, 0]


def test_decay_counts_recency_as_an_entity_has_it(aged: Path) -> None:
    now = "2026-11-29 12:00:00"
    with closing(connection.connect(aged)) as conn:
        conn.executemany(
            "insert into relations(from_entity, to_entity, relation_type, valid_to)"
            " select from_entity, to_entity, ?1, ?2 from relations where id <= 20"
            " union all select to_entity, from_entity, ?1, ?2 from relations where id <= 20"
            " union all select id, id, ?1, ?2 from entities union all select 1, id, ?1, ?2"
            " from entities where id > 40 and ?1 in ('contiene', 'ended')",
            [("more", None), ("contiene", None), ("ended", "2026-01-01"), ("later", "2027-01-01")],
        )
        # a relation is activity, which would make all of them as recent as can be
        conn.execute("update entities set last_activity_at = created_at")
        conn.commit()
    with closing(connection.connect(aged, readonly=True)) as conn:
        found = dict(conn.execute(decay.SCORES, {"now": now}).fetchall())
        assert len(found) == 63
        for number, score in found.items():
            shown = entity_detail(conn, number, now=now)["limbic"]["temporal_score"]
            assert score == pytest.approx(shown, abs=1e-9), number
        assert sum(count for _, count in decay.recency_report(conn, now=now)) == 63
        assert decay.recency_report(conn, now=now) != decay.recency_report(conn, now="2099-01-01")
        with pytest.raises(ValueError, match="'someday'"):
            decay.recency_report(conn, now="someday")


@pytest.mark.parametrize("name", [*(CASES[n][0][0] for n in NAMES), "undo"])
def test_help_teaches(name: str) -> None:
    text = run(name, "--help")
    assert f"  datasette limbic {name} memory.db" in text
    assert "--yes" in text
    assert "Without --yes" in " ".join(text.split())
    for option in ("--dry-run", "--json", "--actor", "--basis", "--no-embed", "--config"):
        assert option in text
