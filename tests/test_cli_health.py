"""``datasette limbic health``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from health_helpers import OVER, change, healthy_memory, many_orphans, relate
from view_helpers import digest

from datasette_limbic import health
from datasette_limbic.cli import limbic


def run(*args: Any) -> Any:
    return CliRunner().invoke(limbic, ["health", *map(str, args)])


def test_text(demo_db: Path) -> None:
    before = digest(demo_db)
    result = run(demo_db)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0] == (
        "attention: archived entities without which live ones fall apart: 1 [archived_bridges]"
    )
    assert "name 'Tandem 2025', entity type 'Proyecto', only link yes, joins 58" in lines[1]
    assert "54: 'Logística y rutas', 'Vida personal', 'Atlas' | 4: 'Kenji Mori'" in lines[1]
    assert "    names 'Café Central' | 'Cafe Central', entities 2, observations 6" in lines
    assert "0 broken, 5 want a look, 1 worth knowing" in lines
    assert lines[-1].endswith(f"that take longer: datasette limbic check {demo_db}")
    assert digest(demo_db) == before


def test_json_is_the_report(demo_db: Path) -> None:
    result = run(demo_db, "--json", "--size", 3)
    assert result.exit_code == 0
    found = json.loads(result.output)
    assert [f["name"] for f in found["findings"]][:2] == ["archived_bridges", "name_clashes"]
    assert {f["name"] for f in found["findings"]} == set(health.names())
    assert max(len(f["rows"]) for f in found["findings"]) == 3


def test_all_is_well(tmp_path: Path) -> None:
    result = run(healthy_memory(tmp_path / "well.db"))
    assert result.exit_code == 0
    assert result.output.startswith("not found: rows that point to something that is gone; ")
    assert "0 broken, 0 want a look, 0 worth knowing" in result.output


def test_broken_is_still_exit_code_0_and_says_what_repairs_it(demo_db: Path) -> None:
    change(
        demo_db,
        "update entities set created_at = 'last week' where id = 3",
        "update observations set content = 'new' where id = 1",
    )
    result = run(demo_db)
    assert result.exit_code == 0
    assert result.output.startswith("broken: times that cannot be read: 1 [unreadable_times]\n")
    assert "    update entities set created_at = null where created_at = 'last week';" in (
        result.output.splitlines()
    )
    assert f"    datasette limbic sync {demo_db}\n" in result.output


def test_a_list_by_the_page(demo_db: Path) -> None:
    change(demo_db, many_orphans(40))
    assert "    … --list orphans shows all" in run(demo_db).output
    names: list[str] = []
    for page in (1, 2, 3):
        result = run(demo_db, "--list", "orphans", "--page", page)
        assert f"    page {page} of 3" in result.output
        names += [
            line.split("'")[1] for line in result.output.splitlines() if "name 'Lonely" in line
        ]
    assert sorted(names) == sorted(f"Lonely {i}" for i in range(40))


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--list", "nothing"), "nothing"),
        (("--page", "2"), "say of which list"),
        (("--size", "0"), "size"),
    ],
)
def test_bad_options(args: tuple[str, ...], says: str, demo_db: Path) -> None:
    result = run(demo_db, *args)
    assert result.exit_code == 1
    assert says in result.output
    assert result.output.startswith("Error: ")


def test_no_file(tmp_path: Path) -> None:
    result = run(tmp_path / "none.db")
    assert result.exit_code == 1
    assert "none.db" in result.output
    assert not (tmp_path / "none.db").exists()


def test_what_could_not_be_looked_at_is_said(demo_db: Path) -> None:
    change(demo_db, "update collections set model = 'acme/unheard'")
    assert (
        "not looked at: observations longer than the model embeds: how much of a text the model "
        "'acme/unheard' embeds is not known"
    ) in run(demo_db).output


def test_the_models_bound_and_shares(demo_db: Path) -> None:
    change(
        demo_db,
        ("insert into observations(entity_id, content) values (3, ?)", ["word " * 3200]),
        lambda c: relate(c, 3, 4, "replaced", valid_to=OVER),
    )
    output = run(demo_db).output
    assert "characters 16,000, share left out 50%" in output
    assert "(limbic-multilingual embeds the first 8,000 characters)" in output
