"""Of a hub a bounded part is read: what is counted up to the bound, and who says so.

Just at the bound all is as ever; one more of each, and figures are those of at least so many.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from view_helpers import base, get, get_json, text_of

from benchmarks import filling
from datasette_limbic import connection, serving
from datasette_limbic.bounds import COUNTED, LOGGED
from datasette_limbic.cli import limbic
from datasette_limbic.config import Settings
from datasette_limbic.entity import entity_detail
from datasette_limbic.graph.neighbourhood import neighbourhood
from datasette_limbic.llm_answers import open_answer
from datasette_limbic.views import entity

pytestmark = [pytest.mark.slow, pytest.mark.once]

NOW = "2026-11-29 12:00:00"
HUB, ENDED, PARTS = 1, 2, 3
OTHERS = 10
"""From here on come the entities around."""
LIVE = 3
"""Relations of ENDED that hold, the last ones that came; what comes up with HUB often."""
OFTEN = 9
BELOW, ABOVE, TWICE = COUNTED, COUNTED + 1, 2 * COUNTED
ALL = {"relations_out", "relations", "valid_relations", "partners", "log", "degree", "events"}


def build(path: Path, size: int) -> None:
    """Hubs of ``size`` relations from here, HUB with as many partners, and accesses and openings
    as much above or below their bound."""
    others = range(OTHERS, OTHERS + size)
    logged = LOGGED + size - COUNTED
    with closing(connection.connect(path, create=True)) as conn, filling.filling(conn):
        conn.executemany(
            "insert into entities(id, name, created_at) values (?, ?, '2024-01-01')",
            [
                *((i, f"hub {i}") for i in (HUB, ENDED, PARTS)),
                *((i, f"other {i}") for i in others),
            ],
        )
        conn.executemany(
            "insert into relations(from_entity, to_entity, relation_type, created_at, valid_to)"
            " values (?, ?, ?, '2026-11-20', ?)",
            [
                (hub, i, kind, end if place < size - LIVE else None)
                for hub, kind, end in (
                    (HUB, "uses", None),
                    (ENDED, "uses", "2020-01-01"),
                    (PARTS, "contiene", None),
                )
                for place, i in enumerate(others)
            ],
        )
        filling.write_pairs(
            conn,
            (
                (HUB, i, OFTEN if place >= size - LIVE else 1, "2026-11-20")
                for place, i in enumerate(others)
            ),
        )
        filling.write_accesses(
            conn,
            ["hub 1"],
            # an old one first, which the latest leave out
            (
                (HUB, "q" if i % 2 else None, f"{2025 + (i > 0)}-11-20 12:00:00")
                for i in range(logged)
            ),
        )
        conn.execute(
            "insert into limbic_searches(id, query, mode, strategy, result_limit, now,"
            " parameters) values (1, 'q', 'text', 'limbic', 10, '2026-11-20', '{}')"
        )
        conn.executemany(
            "insert into limbic_feedback(search_id, entity_id, entity_name, event)"
            " values (1, ?, 'hub 1', 'opened')",
            [(HUB,)] * logged,
        )


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    folder = tmp_path_factory.mktemp("hubs")
    found = {size: folder / f"hubs-{size}.db" for size in (BELOW, ABOVE, TWICE)}
    for size, path in found.items():
        build(path, size)
    return found


@pytest.fixture
def conn(files: dict[int, Path], request: pytest.FixtureRequest) -> Iterator[Any]:
    with closing(connection.connect(files[request.param], readonly=True)) as conn:
        yield conn


def opened(path: Path, *args: str) -> str:
    """What the command prints that opens entities."""
    found = CliRunner().invoke(limbic, ["record", "open", str(path), *args])
    assert found.exit_code == 0, found.output
    return found.output


def page(conn: Any, id: int = HUB, **others: Any) -> dict[str, Any]:
    """All that the page of an entity reads."""
    asked = {
        "now": NOW, "as_of": None, "page": 1, "relations_page": 1, "as_json": True, "log": True,
        "ratings": True, "reports": True, "insights": True, **others,
    }  # fmt: skip
    return entity.read(conn, entity.Asked(id=id, **asked), Settings())


@pytest.mark.parametrize(("conn", "at_least"), [(BELOW, set()), (ABOVE, ALL)], indirect=["conn"])
def test_what_is_counted_up_to_the_bound_says_so(conn: Any, at_least: set[str]) -> None:
    found = page(conn)
    assert set(found["at_least"]) == at_least
    counts = found["counts"]
    assert (counts["relations_out"], counts["relations_in"]) == (COUNTED, 0)
    assert (counts["relations"], counts["valid_relations"]) == (COUNTED, COUNTED)
    assert (counts["partners"], counts["log"]) == (COUNTED, LOGGED)
    assert found["relation_types"]["out"] == [{"relation_type": "uses", "count": COUNTED}]
    assert found["signals"]["events"]["opened"] == LOGGED
    # one is left out: the old one
    weeks, outside = found["signals"]["weeks"], found["signals"]["outside_weeks"]
    old = 0 if at_least else 1
    assert sum(week["accesses"] for week in weeks) == LOGGED - old
    assert sum(week["searched"] for week in weeks) == LOGGED // 2
    assert outside == {"earlier": old, "later": 0, "unreadable": 0}
    assert found["signals"]["counted_from"] == ("2026-11-20 12:00:00" if at_least else None)
    bins = found["timeline"]["bins"]
    assert sum(each["accesses"] for each in bins) == LOGGED
    assert sum(each["relations_begun"] for each in bins) == COUNTED


@pytest.mark.parametrize(("conn", "size"), [(ABOVE, 500), (TWICE, 700)], indirect=["conn"])
def test_who_turns_all_pages_sees_all(conn: Any, size: int) -> None:
    seen, number, found = [], 1, {"relations_pages": 1}
    while number <= found["relations_pages"]:
        found = entity_detail(conn, HUB, now=NOW, relations_page=number, relations_size=size)
        seen += [row["entity_id"] for row in found["relations_out"]]
        number += 1
    there = conn.execute("select count(*) from relations where from_entity = ?", [HUB])
    assert len(seen) == len(set(seen)) == there.fetchone()[0]
    # the last page has counted them all
    assert found["counts"]["relations_out"] == len(seen)
    assert "relations_out" not in found["at_least"]
    assert "valid_relations" in found["at_least"]


@pytest.mark.parametrize("conn", [BELOW, ABOVE, TWICE], indirect=True)
def test_what_holds_comes_before_thousands_that_have_ended(conn: Any) -> None:
    found = page(conn, ENDED)
    assert [row["valid"] for row in found["relations_out"]][: LIVE + 1] == [1] * LIVE + [0]
    assert found["counts"]["valid_relations"] == found["limbic"]["degree"] == LIVE


@pytest.mark.parametrize("conn", [BELOW, ABOVE, TWICE], indirect=True)
def test_what_comes_up_often_comes_first_however_many_seldom_do(conn: Any) -> None:
    found = page(conn)["signals"]["co_occurrences"]
    assert [row["co_count"] for row in found] == [OFTEN] * LIVE + [1] * (len(found) - LIVE)
    drawn = neighbourhood(conn, HUB, limit=LIVE + 1, now=NOW, settings=Settings()).graph
    assert {node.id for node in drawn.nodes} == {HUB, *(row["id"] for row in found[:LIVE])}


@pytest.mark.parametrize(("conn", "at_least"), [(BELOW, False), (ABOVE, True)], indirect=["conn"])
def test_a_picture_leaves_out_at_least_so_many(conn: Any, at_least: bool) -> None:
    for hub in (HUB, PARTS):
        found = neighbourhood(conn, hub, co_occurrence=False, now=NOW, settings=Settings())
        assert found.graph.at_least is at_least
        assert found.graph.left_out == COUNTED + 1 - len(found.graph.nodes)
        assert [kind.count for kind in found.relation_types] == [COUNTED]


READ: dict[str, Callable[[Any, int], Any]] = {
    "page": page,
    "picture": lambda conn, id: neighbourhood(conn, id, now=NOW, settings=Settings()),
}


@pytest.mark.parametrize("hub", [HUB, ENDED, PARTS])
@pytest.mark.parametrize("what", READ)
def test_a_larger_hub_takes_no_more_steps(files: dict[int, Path], what: str, hub: int) -> None:
    taken = []
    for size in (ABOVE, TWICE):
        with closing(connection.connect(files[size], readonly=True)) as conn:
            steps = [0]

            def some(steps: list[int] = steps) -> int:
                steps[0] += 1
                return 0

            conn.set_progress_handler(some, 100)
            READ[what](conn, hub)
            taken.append(steps[0])
    assert taken[1] <= taken[0] * 1.05, taken


@pytest.mark.parametrize(("size", "plus"), [(BELOW, ""), (ABOVE, "+")])
async def test_the_page_and_its_json(
    files: dict[int, Path], make_datasette: Any, size: int, plus: str
) -> None:
    datasette, here = make_datasette(files[size]), base(files[size])
    body = await get_json(datasette, f"{here}/entity/{HUB}.json?now={NOW}")
    assert bool(body["at_least"]) == bool(plus)
    assert body["pages"] == body["relations_pages"] == COUNTED // 100 + bool(plus)
    text = text_of((await get(datasette, f"{here}/entity/{HUB}?now={NOW}")).text)
    for said in (
        f"Relations {COUNTED:,}{plus}",
        f"From here {COUNTED:,}{plus}",
        f"{LOGGED:,}{plus} logged",
        f"Comes up together with {COUNTED:,}{plus}",
        f"Degree {COUNTED:,}{plus}",
        f"opened {LOGGED:,}{plus}",
    ):
        assert f"{said} " in f"{text} ", said
    latest = f"Of its accesses the last {LOGGED:,} are counted, sorted by time as text, since "
    latest += "2026-11-20 "
    assert text.count(latest) == (2 if plus else 0)
    each_way = f"Of its relations the first {COUNTED:,} each way are counted."
    assert text.count(each_way) == (2 if plus else 0)
    dated = text_of((await get(datasette, f"{here}/entity/{HUB}?now={NOW}&as_of=2026-11-25")).text)
    assert f"{COUNTED:,}{plus} of {COUNTED:,}{plus} relations" in dated


@pytest.mark.parametrize("size", [BELOW, ABOVE])
def test_what_is_opened_says_it_too(files: dict[int, Path], tmp_path: Path, size: int) -> None:
    path = Path(shutil.copy(files[size], tmp_path / "hubs.db"))
    found = json.loads(opened(path, "hub 1", "--json"))["entities"][0]
    # one answer has room for twice as many
    assert len(found["relations_out"]) == found["counts"]["relations_out"] == size
    assert not found["cut"]
    assert ("valid_relations" in found["at_least"]) == (size > COUNTED)
    assert "relations_out" not in found["at_least"]


def test_of_several_the_command_and_a_model_hear_of_at_least_so_many(
    files: dict[int, Path], tmp_path: Path
) -> None:
    path = Path(shutil.copy(files[TWICE], tmp_path / "hubs.db"))
    hubs = [f"hub {i}" for i in (HUB, ENDED, PARTS)]
    # the whole pages of a third of the answer that hold the bound
    share = serving.MAX_OPEN_ROWS // len(hubs)
    counted = -(-COUNTED // share) * share
    assert f" {counted:,}+ relations from it and 0 to it" in opened(path, *hubs)
    with closing(connection.connect(path)) as conn:
        answer, _ = serving.serve_open(conn, hubs)
    told = json.loads(open_answer({**answer, "recorded": serving.recorded(None)}, []))["entities"]
    assert [each["more_relations_at_least"] for each in told] == [True] * len(hubs)
