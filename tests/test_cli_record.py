"""``datasette limbic record …``: what POST does, from the command line."""

from __future__ import annotations

import json
import shutil

import pytest
from click.testing import CliRunner
from view_helpers import added, base, post_json, recording_datasette, rows, signals, write

from datasette_limbic import connection
from datasette_limbic.cli import limbic
from datasette_limbic.cli.search import search_command

NOW = "2026-11-29 12:00:00"


def run(*args, code=0):
    result = CliRunner().invoke(limbic, ["record", *[str(a) for a in args]])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.output


def one_sentence(text):
    """An error is one line, and nothing else is printed."""
    assert text.startswith("Error: ")
    assert text.count("\n") == 1
    return text


def searched(path, query="Atlas", *args):
    """Id of a recorded search, and the names of its results."""
    answer = json.loads(run("search", path, query, "--json", *args))
    return answer["search_id"], [each["name"] for each in answer["results"]]


# search ----------------------------------------------------------------------------------------


def test_search_prints_the_table_and_what_was_recorded(demo_db):
    plain = CliRunner().invoke(
        search_command, [str(demo_db), "cola sin broker", "-n", "3", "--now", NOW]
    )
    before = signals(demo_db)
    text = run("search", demo_db, "cola sin broker", "-n", 3, "--now", NOW, "--client", "me")
    [(uid, client, actor, now)] = rows(
        demo_db, "select uid, client, actor, now from limbic_searches"
    )
    assert (client, actor, now) == ("me", None, NOW)
    assert text == plain.output + f"Recorded: 3 accesses, 3 pairs. Search id: {uid}\n"
    [(pool,)] = rows(demo_db, "select count(*) from limbic_search_candidates")
    assert pool > 3
    assert added(before, signals(demo_db)) == {
        "entity_access": 3,
        "entity_access_log": 3,
        "co_occurrences": 3,
        "limbic_searches": 1,
        "limbic_search_candidates": pool,
    }
    assert rows(demo_db, "select distinct query from entity_access_log order by id desc limit 1")[
        0
    ] == ("cola sin broker",)


def test_what_is_searched_ranks_higher_afterwards(demo_db):
    first = json.loads(run("search", demo_db, "deploy", "-n", 1, "--json"))["results"][0]
    second = json.loads(run("search", demo_db, "deploy", "-n", 1, "--json"))["results"][0]
    assert second["name"] == first["name"]
    assert second["access_count"] == first["access_count"] + 1


@pytest.mark.parametrize("query", ["", "  "])
def test_a_search_for_nothing_records_nothing(demo_db, query):
    before = signals(demo_db)
    text = run("search", demo_db, query)
    assert text.endswith("\nNothing was asked, so nothing is recorded.\n")
    assert "Atlas" in text
    assert "Search id" not in text
    assert signals(demo_db) == before


def test_an_answer_that_is_not_confident_is_recorded_unless_told_otherwise(demo_db):
    before = signals(demo_db)
    junk = "quantum chromodynamics lattice"
    text = run("search", demo_db, junk, "--confident-only")
    assert "No confident match. Nearest:" in text
    assert text.splitlines()[-1].startswith("The answer is not confident")
    assert "Search id" not in text
    found = json.loads(run("search", demo_db, junk, "--confident-only", "--json"))
    assert (found["search_id"], found["recorded"]["status"]) == (None, "nothing")
    assert signals(demo_db) == before
    assert "Recorded:" in run("search", demo_db, "double invoices", "--confident-only")
    assert "Recorded:" in run("search", demo_db, junk)


def test_a_type_of_bytes_that_are_no_utf8_is_written_all_the_same(demo_db):
    """Python makes half a surrogate pair of such a byte."""
    answer = json.loads(run("search", demo_db, "Atlas", "--type", "Proy\udcff", "--json"))
    assert (answer["type"], answer["recorded"]["status"]) == ("Proy\ufffd", "done")
    [(kept,)] = rows(demo_db, "select parameters from limbic_searches")
    assert json.loads(kept)["type"] == "Proy\ufffd"


def test_a_search_that_finds_nothing_is_logged(demo_db):
    text = run("search", demo_db, "zzzqqq", "--mode", "text")
    assert "No results" in text
    assert "Recorded: 0 accesses, 0 pairs. Search id: " in text
    assert rows(demo_db, "select query from limbic_searches") == [("zzzqqq",)]


def test_the_options_of_search_are_taken(demo_db):
    given = (
        "--type Decision --beta-sal 0.7 --gamma 0.05 --strategy limbic --recency freshest"
        " --fusion document --mode text --consolidation --include-archived --as-of 2026-01-01"
    )
    run("search", demo_db, "deploy", "--explain", "--now", NOW, *given.split())
    [(parameters, mode)] = rows(demo_db, "select parameters, mode from limbic_searches")
    asked = json.loads(parameters)
    assert mode == "text"
    assert {name: asked[name] for name in ("type", "beta_sal", "gamma", "strategy", "recency")} == {
        "type": "Decision",
        "beta_sal": 0.7,
        "gamma": 0.05,
        "strategy": "limbic",
        "recency": "freshest",
    }
    assert (asked["fusion"], asked["consolidation"], asked["include_archived"]) == (
        "document",
        True,
        True,
    )
    assert asked["as_of"] == "2026-01-01 00:00:00"


def test_record_search_has_every_option_of_search():
    record = limbic.get_command(None, "record").commands["search"]
    own = {option for param in record.params for option in param.opts}
    assert own - {option for param in search_command.params for option in param.opts} == {
        "--client",
        "--confident-only",
    }
    assert own >= {option for param in search_command.params for option in param.opts}


def test_settings_of_the_configuration_count(demo_db, tmp_path):
    config = tmp_path / "metadata.yml"
    config.write_text("plugins:\n  datasette-limbic:\n    limit: 2\n    baseline_share: 1\n")
    answer = json.loads(run("search", demo_db, "Atlas", "--json", "-c", config))
    assert len(answer["results"]) == 2
    assert answer["policy"] == "baseline"
    assert rows(demo_db, "select policy, probability from limbic_searches") == [("baseline", 1.0)]
    name = answer["results"][0]["name"]
    opened = json.loads(run("open", demo_db, name, "--json", "-c", config))
    assert opened["entities"][0]["name"] == name


# the same as over HTTP -------------------------------------------------------------------------


async def test_json_is_the_answer_of_the_api(demo_db, make_datasette, tmp_path):
    (tmp_path / "http").mkdir()
    other = tmp_path / "http" / "demo.db"
    shutil.copy(demo_db, other)
    datasette = recording_datasette(make_datasette, other)
    here = base(other)
    body = {"query": "Atlas", "limit": 3, "now": NOW, "mode": "text", "explain": True, "wait": True}
    theirs = await post_json(datasette, here + "/search", body)
    options = ("-n", 3, "--now", NOW, "--mode", "text", "--explain", "--json")
    ours = json.loads(run("search", demo_db, "Atlas", *options))
    uid, name = ours["search_id"], ours["results"][0]["name"]
    assert len(uid) == len(theirs["search_id"])
    only_there = {"stored_query_url", "sql_url"}  # addresses of a server
    assert without(ours, "search_id", *only_there) == without(theirs, "search_id", *only_there)
    assert ours["recorded"]["status"] == "done"

    body = {"names": [name, "Nobody"], "search_id": theirs["search_id"], "wait": True}
    theirs_opened = await post_json(datasette, here + "/open", body)
    ours_opened = json.loads(run("open", demo_db, name, "Nobody", "--search-id", uid, "--json"))
    assert shape(ours_opened) == shape(theirs_opened)
    assert ours_opened["recorded"] == theirs_opened["recorded"]
    assert ours_opened["unknown"] == ["Nobody"]

    body = {"search_id": theirs["search_id"], "name": name, "rating": "useful"}
    theirs_rated = await post_json(datasette, here + "/feedback", body)
    ours_rated = json.loads(run("feedback", demo_db, uid, name, "useful", "--json"))
    assert without(ours_rated, "search_id") == without(theirs_rated, "search_id")
    assert signals(demo_db) == signals(other)


def without(answer, *names):
    return {key: value for key, value in answer.items() if key not in names}


def shape(value):
    """Keys at every depth; times and scores differ from one moment to the next."""
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    return [shape(item) for item in value] if isinstance(value, list) else type(value)


# open ------------------------------------------------------------------------------------------


def test_open_prints_entities_whole(demo_db):
    uid, [name, *_] = searched(demo_db, "Atlas", "--mode", "text")
    [(entity_id,)] = rows(demo_db, "select id from entities where name = ?", name)
    before = signals(demo_db)
    text = run("open", demo_db, name, "Nobody", "--search-id", uid, "--client", "me")
    for (content,) in rows(
        demo_db, "select content from observations where entity_id = ?", entity_id
    ):
        assert f"  - {content}" in text
    assert f"{name} (" in text
    assert 'Unknown: "Nobody"\n' in text
    assert text.endswith("Recorded: 1 access, 0 pairs, 1 opened from the search.\n")
    assert added(before, signals(demo_db)) == {
        "entity_access": 1,
        "entity_access_log": 1,
        "limbic_feedback": 1,
    }
    assert rows(demo_db, "select entity_id, event, client from limbic_feedback") == [
        (entity_id, "opened", "me")
    ]


def test_open_by_id_and_by_name_at_once(demo_db):
    before = signals(demo_db)
    text = run("open", demo_db, "Atlas", "--id", 1, "--id", 2, "--id", 10**6)
    assert "Unknown: id 1000000\n" in text
    assert "Recorded: 3 accesses, 3 pairs.\n" in text
    assert added(before, signals(demo_db))["co_occurrences"] == 3


def test_open_says_what_an_unknown_name_may_have_been(demo_db):
    text = run("open", demo_db, "ATLAS", code=1)
    assert text == 'Unknown: "ATLAS"\nPerhaps, for "ATLAS": "Atlas"\nThere is nothing to record.\n'


def test_open_of_none_that_is_known_exits_1(demo_db):
    before = signals(demo_db)
    assert 'Unknown: "Nobody", "Nada"' in run("open", demo_db, "Nobody", "Nada", code=1)
    answer = json.loads(run("open", demo_db, "Nobody", "--json", code=1))
    assert answer["unknown"] == ["Nobody"]
    assert answer["recorded"]["status"] == "nothing"
    assert signals(demo_db) == before


def test_a_name_that_begins_with_a_dash(demo_db):
    write(demo_db, ("insert into entities(name) values ('--dry-run')", []))
    assert "--dry-run (Generic" in run("open", demo_db, "--", "--dry-run")
    usage = run("open", demo_db, "-x", code=2)
    assert "No such option" in usage
    uid, _ = searched(demo_db, "--dry-run".strip("-"), "--mode", "text")
    text = run("feedback", demo_db, "--", uid, "--dry-run", "useful")
    assert text == 'Recorded: "--dry-run" is useful for "dry-run".\n'


def test_an_archived_entity_is_opened_and_says_so(demo_db):
    [(name, reason)] = rows(
        demo_db,
        "select name, archived_reason from entities where archived_at is not null limit 1",
    )
    text = run("open", demo_db, name)
    assert f"{name} (" in text.splitlines()[0]
    assert ", archived 20" in text.splitlines()[0]
    if reason:
        assert f"archived because: {reason}" in text
    assert "Recorded: 1 access" in text


def test_facts_that_ended_say_until_when(demo_db):
    write(
        demo_db,
        ("update observations set valid_to = '2026-01-02' where entity_id = 3", []),
        ("update relations set valid_to = '2026-01-03' where from_entity = 3", []),
        ("update relations set valid_to = '2026-01-04' where to_entity = 3", []),
    )
    text = run("open", demo_db, "--id", 3)
    for day in "234":
        assert f"(until 2026-01-0{day})" in text


def test_a_hundred_names_and_one(demo_db):
    names = [f"name {n}" for n in range(101)]
    before = signals(demo_db)
    text = one_sentence(run("open", demo_db, *names, code=1))
    assert "101 entities were asked for: at most 100" in text
    assert "Unknown" in run("open", demo_db, *names[:100], code=1)
    assert signals(demo_db) == before


# As Python hands over bytes of the command line that are no UTF-8.
RAW = "a\udcffb"


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("search", RAW), 0, "Search id: "),
        (("search", "Atlas", "--client", RAW), 0, "Search id: "),
        (("search", "Atlas", "--type", RAW), 0, "no entity has the type 'a\ufffdb'"),
        (("search", "Atlas", "--now", RAW), 1, "now is 'a\\udcffb'"),
        (("search", "Atlas", "--mode", RAW), 2, "'a\\udcffb' is not one of"),
        (("open", RAW), 1, 'Unknown: "a\ufffdb"'),
        (("open", "Atlas", "--client", RAW), 0, "Recorded: 1 access"),
        (("open", "Atlas", "--search-id", RAW), 1, "no logged search has the id 'a\ufffdb'"),
        (("feedback", RAW, "Atlas", "useful"), 1, "no logged search has the id 'a\ufffdb'"),
        (("feedback", "{uid}", RAW, "useful"), 1, "'a\ufffdb' was no candidate"),
        (("feedback", "{uid}", "Atlas", RAW), 1, "rating is 'a\\udcffb'"),
        (("feedback", "{uid}", RAW, RAW, RAW), 1, "which result is rated is not clear"),
        (("feedback", "{uid}", "Atlas", "useful", "--client", RAW), 0, "Recorded: "),
    ],
)
def test_bytes_that_are_no_utf8_are_taken_as_any_other_text(args, code, said, demo_db):
    uid, _ = searched(demo_db)
    command, *rest = (uid if each == "{uid}" else each for each in args)
    assert said in run(command, demo_db, *rest, code=code)


# feedback --------------------------------------------------------------------------------------


@pytest.mark.parametrize("rating", ["useful", "not_useful"])
@pytest.mark.parametrize("by_id", [False, True])
def test_feedback_rates_a_result(demo_db, rating, by_id):
    uid, names = searched(demo_db)
    [(entity_id,)] = rows(demo_db, "select id from entities where name = ?", names[1])
    which = ["--id", entity_id] if by_id else [names[1]]
    text = run("feedback", demo_db, uid, *which, rating, "--client", "me")
    assert text == f'Recorded: "{names[1]}" is {rating.replace("_", " ")} for "Atlas".\n'
    assert rows(demo_db, "select entity_id, event, client from limbic_feedback") == [
        (entity_id, rating, "me")
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{uid}", "Atlas", "good"], "rating is 'good': use one of useful, not_useful"),
        (["nope", "Atlas", "useful"], "no logged search has the id 'nope'"),
        (["{uid}", "Nobody", "useful"], "'Nobody' was no candidate of the search"),
        (["{uid}", "--id", "99999", "useful"], "99999 was no candidate of the search"),
        (["{uid}", "--id", str(2**70), "useful"], "is no id: it is too large"),
        (["{uid}", "useful"], "which result is rated is not clear"),
        (["{uid}", "Atlas", "--id", "1", "useful"], "which result is rated is not clear"),
        (["{uid}", "one", "two", "useful"], "which result is rated is not clear"),
        (["{uid}", "Atlas", "useful", "--client", "x" * 201], "use a name of up to 200"),
    ],
)
def test_feedback_that_cannot_be_taken(demo_db, arguments, message):
    uid, _ = searched(demo_db)
    filled = [each.format(uid=uid) for each in arguments]
    assert message in one_sentence(run("feedback", demo_db, *filled, code=1))
    assert rows(demo_db, "select count(*) from limbic_feedback") == [(0,)]


# what can go wrong -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["search", "{db}", "x", "--limit", "0"], "limit is 0"),
        (["search", "{db}", "x" * 3000], "the query has 3,000 characters"),
        (["search", "{db}", "x", "--client", "x" * 201], "use a name of up to 200"),
        (["open", "{db}"], "nothing to open: give names of entities, or --id ID"),
        (["open", "{db}", "--id", str(-(2**63) - 1)], "is no id: it is too large"),
        (["open", "{db}", "Atlas", "--search-id", "nope"], "no logged search has the id 'nope'"),
    ],
)
def test_what_is_asked_wrongly_records_nothing(demo_db, arguments, message):
    before = signals(demo_db)
    filled = [each.format(db=demo_db) for each in arguments]
    assert message in one_sentence(run(*filled, code=1))
    assert signals(demo_db) == before


COMMANDS = [
    ["search", "{db}", "Atlas", "--mode", "text"],
    ["open", "{db}", "Atlas"],
    ["feedback", "{db}", "{uid}", "Atlas", "useful"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: c[0])
def test_files_that_cannot_be_written(command, demo_db, tmp_path, monkeypatch):
    uid, _ = searched(demo_db)
    before = signals(demo_db)

    def failing(path):
        return one_sentence(run(*[each.format(db=path, uid=uid) for each in command], code=1))

    monkeypatch.setattr(connection, "BUSY_TIMEOUT_S", 0.05)
    holder = connection.connect(demo_db)
    holder.execute("begin immediate")
    assert f"{demo_db} is locked by another program" in failing(demo_db)
    holder.rollback()
    holder.close()

    really = connection._open
    monkeypatch.setattr(connection, "_open", lambda path, mode: really(path, "ro"))
    assert f"{demo_db} cannot be written: check the rights" in failing(demo_db)
    monkeypatch.setattr(connection, "_open", really)
    assert signals(demo_db) == before

    other = tmp_path / "other.db"
    connection.connect(other, create=True).close()
    assert "holds no memory yet: run 'datasette limbic init" in failing(other)
    text = tmp_path / "text.db"
    text.write_text("hello " * 500)
    assert "not a SQLite database" in failing(text)
    assert "does not exist" in failing(tmp_path / "no.db")


@pytest.mark.parametrize("command", ["search", "open", "feedback"])
def test_help_teaches_with_examples(command):
    text = run(command, "--help")
    assert text.count(f"datasette limbic record {command} memory.db") >= 2


def test_the_group_lists_its_commands_in_the_order_of_use():
    text = run("--help")
    assert text.index("  search  ") < text.index("  open  ") < text.index("  feedback  ")
    assert "POST /search, /open and /feedback" in text
