"""``datasette limbic split``."""

from __future__ import annotations

import json
import shlex
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from cli_helpers import Terminal
from click.testing import CliRunner
from split_helpers import add, placed, texts
from view_helpers import digest, rows

from datasette_limbic import connection
from datasette_limbic.cli import acting, bars, limbic, split, split_children


def run(*args: Any, code: int = 0, stdin: Any = None) -> str:
    result = CliRunner().invoke(limbic, ["split", *[str(arg) for arg in args]], input=stdin)
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result.output


@pytest.fixture
def split_db(path: Path) -> Path:
    with closing(connection.connect(path)) as conn:
        add(conn, "Proyecto Atlas", "Proyecto", texts(30))
        add(conn, "Near", "Tool", texts(18))
        add(conn, "Small\nbut odd", "Tool", ["one\nline"])
        add(conn, "2", "Tool", [])
        add(conn, "77", "Tool", [])
    return path


def test_the_list(split_db: Path) -> None:
    before = digest(split_db)
    lines = run(split_db).splitlines()
    assert [line.split()[0] for line in lines[2:4]] == ["1", "2"]
    assert "Proyecto Atlas" in lines[2]
    assert "30 of 25" in lines[2]
    assert "approaching" in lines[3]
    assert lines[-1].startswith("1 to be split, 1 approaching.")
    body = json.loads(run(split_db, "--json"))
    assert [row["name"] for row in body["candidates"]] == ["Proyecto Atlas", "Near"]
    assert digest(split_db) == before


def test_nothing_to_list(empty_db: Path) -> None:
    assert run(empty_db).startswith("No entity is worth splitting")


def test_one_entity(split_db: Path) -> None:
    before = digest(split_db)
    text = run(split_db, "Proyecto Atlas")
    body = json.loads(run(split_db, "1", "--json"))
    assert placed(body) == list(range(1, 31))
    assert text.startswith("Proyecto Atlas (Proyecto)\n" + body["reason"])
    assert body["summary"] in text
    assert "Topics of words alone: no observation has a vector" in text
    for child in body["children"]:
        assert f"New: {child['name']} (Proyecto), firmness {child['firmness']:.2f}" in text
        assert f"Proyecto Atlas → contiene → {child['name']}" in text
    for number in range(1, 31):
        assert text.count(f" #{number} ") == 1
    assert "Warning: Nothing stays in 'Proyecto Atlas'" in text
    assert "\nNothing has been changed. To do it:\n" in text
    assert body["basis"] in text
    assert f"datasette limbic split {split_db} 1 --json > proposal.json" in text
    assert digest(split_db) == before


def test_what_needs_no_split(split_db: Path) -> None:
    text = run(split_db, "Small\nbut odd")
    assert text.startswith("Small but odd (Tool)\n1 observation is too few")
    assert "Nothing is proposed" in text
    assert "Relations" not in text


def test_digits_are_an_id_before_they_are_a_name(split_db: Path) -> None:
    assert run(split_db, "2").startswith("Near (Tool)")
    assert run(split_db, "77").startswith("77 (Tool)")


def test_an_unknown_name(split_db: Path) -> None:
    text = run(split_db, "proyecto átlas", code=1)
    assert "did you mean 'Proyecto Atlas'?" in text
    assert "no entity with the id 9999" in run(split_db, "9999", code=1)


def test_no_file(tmp_path: Path) -> None:
    assert "does not exist" in run(tmp_path / "none.db", code=1)


def kept(path: Path) -> dict[str, list[int]]:
    """Ids of the observations of Proyecto Atlas by the name of the entity that has them now."""
    found: dict[str, list[int]] = {}
    sql = "select e.name, o.id from observations o join entities e on e.id = o.entity_id"
    for name, number in rows(path, f"{sql} where o.id <= 30 order by 2"):
        found.setdefault(name, []).append(number)
    return found


@pytest.fixture
def proposal(split_db: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(split_db, "1", "--json"))
    return found


def placed_in(proposal: dict[str, Any]) -> dict[str, list[int]]:
    return {
        child["name"]: sorted(row["id"] for row in child["observations"])
        for child in proposal["children"]
    }


def test_what_is_proposed_is_done(split_db: Path, proposal: dict[str, Any]) -> None:
    command = next(
        line for line in run(split_db, "Proyecto Atlas").splitlines() if " --yes --basis " in line
    )
    text = run(*shlex.split(command)[3:])
    assert text.startswith("Split 'Proyecto Atlas': ")
    assert text.rstrip().endswith(f"datasette limbic undo {split_db} 1")
    assert kept(split_db) == placed_in(proposal)


@pytest.mark.parametrize("shape", ["whole", "list", "ids", "bom", "stdin"])
def test_an_edited_proposal(
    split_db: Path, proposal: dict[str, Any], tmp_path: Path, shape: str
) -> None:
    first, *others = proposal["children"]
    stays = [row["id"] for row in first["observations"][:2]]
    first["name"], first["entityType"] = "Atlas, el plano", "Mapa"
    del first["observations"][:2]
    given: Any = proposal
    if shape in ("list", "ids"):
        given = [first, *others]
    if shape == "ids":
        given = [
            {
                "name": child["name"],
                "entityType": child["entityType"],
                "observations": [row["id"] for row in child["observations"]],
            }
            for child in given
        ]
    file = tmp_path / "edited proposal.json"
    file.write_text(json.dumps(given), "utf-8-sig" if shape == "bom" else "utf-8")
    stdin = json.dumps(given) if shape == "stdin" else None
    from_ = "-" if shape == "stdin" else file

    before = digest(split_db)
    text = run(split_db, "1", "--children", from_, stdin=stdin)
    assert "\n  'Atlas, el plano' (Mapa)\n" in text
    assert digest(split_db) == before
    lines = text.splitlines()
    if shape == "stdin":
        assert lines.pop() == "It reads standard input again, so give it the same."
    words = shlex.split(lines[-1])[3:]
    assert words[:4] == [str(split_db), "1", "--children", str(from_)]
    run(*words, stdin=stdin)
    assert kept(split_db) == {"Proyecto Atlas": sorted(stays), **placed_in(proposal)}
    assert rows(split_db, "select entity_type from entities where name = 'Atlas, el plano'") == [
        ("Mapa",)
    ]


@pytest.mark.parametrize("token", ["basis", "digest"])
def test_a_proposal_of_what_was(
    split_db: Path, proposal: dict[str, Any], tmp_path: Path, token: str
) -> None:
    if token == "digest":
        del proposal["basis"]  # the JSON page gives none
    file = tmp_path / "proposal.json"
    file.write_text(json.dumps(proposal))
    run(split_db, "1", "--children", file)
    with closing(connection.connect(split_db)) as conn:
        conn.execute("insert into observations(entity_id, content) values (1, 'one more')")
        conn.commit()
    before = digest(split_db)
    for more in ([], ["--yes"]):
        text = run(split_db, "1", "--children", file, *more, code=1)
        assert "nothing was changed" in text
        assert "not as it was" in text
    assert digest(split_db) == before


def test_a_basis_on_the_command_line_counts_before_that_of_the_file(
    split_db: Path, proposal: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "proposal.json"
    file.write_text(json.dumps({**proposal, "basis": "of another time"}))
    assert "basis is 'of another time'" in run(split_db, "1", "--children", file, code=1)
    run(split_db, "1", "--children", file, "--basis", proposal["basis"])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("[1", "standard input is no JSON"),
        ("", "standard input is no JSON"),
        (b"\xff\xfe", "standard input is no JSON"),
        ("[" * 100_000, "standard input is no JSON"),
        ("{}", "standard input has no list of children"),
        ('{"children": 3}', "standard input has no list of children"),
        ('"text"', "standard input has no list of children"),
        ("[]", "children"),
        ("[3]", "child 1 is 3"),
        ('[{"name": "x"}]', "'x'"),
        ('[{"name": "x", "observations": [{"content": "y"}]}]', "observations of 'x'"),
        ('[{"name": "x", "observations": [1], "entitytype": "T"}]', "unknown key entitytype"),
        ('[{"name": "Near", "observations": [1]}]', "the name 'Near' is taken by entity 2"),
        ('[{"name": "x", "observations": [1, 31]}]', "'Near'"),
        ('[{"name": "x", "observations": [1, 1]}]', "the same id twice"),
        ('{"id": 2, "children": []}', "has a proposal for entity 2, and '1' is entity 1"),
    ],
)
def test_children_that_cannot_be_taken(split_db: Path, given: Any, said: str) -> None:
    before = digest(split_db)
    for more in ([], ["--yes"]):
        text = run(split_db, "1", "--children", "-", *more, code=1, stdin=given)
        assert said in text
        assert text.startswith("Error: ")
        assert text.count("\n") == 1
    assert digest(split_db) == before


def test_a_file_of_children_that_is_not_there(split_db: Path, tmp_path: Path) -> None:
    text = run(split_db, "1", "--children", tmp_path / "none.json", code=1)
    assert "none.json cannot be read: No such file" in text
    run(split_db, "1", "--children", tmp_path, code=2)


def test_a_file_of_children_that_is_too_long(
    split_db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(split_children, "MAX_BYTES", 1024**2)
    file = tmp_path / "long.json"
    file.write_text(" " * (1024**2 + 1))
    assert "long.json is larger than 1 MiB" in run(split_db, "1", "--children", file, code=1)


def test_nothing_to_split(split_db: Path) -> None:
    text = run(split_db, "Small\nbut odd", "--yes", code=1)
    assert "too few to split" in text
    assert json.loads(run(split_db, "3", "--json"))["basis"] is None


def test_a_file_of_an_earlier_version_can_be_looked_at(split_db: Path) -> None:
    with closing(connection.connect(split_db)) as conn:
        conn.execute("alter table limbic_insights drop column judged_before")
    text = run(split_db, "1")
    assert "New: " in text
    assert "Nothing has been changed: the file is of an earlier version" in text
    assert json.loads(run(split_db, "1", "--json"))["basis"] is None
    assert "earlier version" in run(split_db, "1", "--yes", code=1)


def test_a_word_while_topics_are_looked_for(
    split_db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal, said = Terminal(), []
    monkeypatch.setattr("sys.stderr", terminal)
    bars.say("a word")
    assert terminal.getvalue() == "a word\n"
    monkeypatch.undo()
    monkeypatch.setattr(split, "say", said.append)
    monkeypatch.setattr(acting, "say", said.append)
    run(split_db, "1", "--yes")
    assert said == ["Looking for topics …", "Doing it, and embedding what changes …"]
