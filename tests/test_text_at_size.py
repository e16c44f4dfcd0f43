"""Full text in a large memory: what a search reads does not grow with how common its words are.

Work is counted in steps of SQLite's machine, never in time.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from empty_memory import empty_memory

from datasette_limbic import (
    connection,
    frequency,
    further,
    schema,
    search,
    statement,
    substrings,
    text,
)
from datasette_limbic.config import Settings
from datasette_limbic.request import parse
from datasette_limbic.statement import Shape

pytestmark = [pytest.mark.slow, pytest.mark.once]

# In the small one every common word is in over 10,000 texts already.
SMALL, LARGE = 26_000, 104_000
NOW = "2026-11-29 12:00:00"


def content(i: int) -> str:
    """Every text holds `the`, `all` and Han; two in five `often`, one in 3,000 `rare`."""
    words = ["the", "all", f"word{i % 5000}"]
    words += ["often"] * (i % 5 < 2) + ["rare"] * (i % 3000 == 0)
    return " ".join(words) + (" 用户在这里" if i % 2 else " 在这里的用户")


def fill(conn: Any, observations: int) -> None:
    with conn:
        schema.drop_triggers(conn)
        conn.executemany(
            "insert into entities(id, name, entity_type) values (?, ?, ?)",
            (
                (i, f"thing of number{i}", "Rare" if i % 400 == 1 else "Note")
                for i in range(1, observations // 10 + 1)
            ),
        )
        conn.executemany(
            "insert into observations(id, entity_id, content) values (?, ?, ?)",
            ((i, 1 + i % (observations // 10), content(i)) for i in range(1, observations + 1)),
        )
        conn.execute("update entities set name = 'all' where id = 77")
        conn.execute("update entities set name = '数据管理' where id = 78")
        conn.execute("update observations set content = '他住在東京' where id = 79")
        schema.fill_indexes(conn)
        conn.execute("delete from limbic_stale")
        schema.create_triggers(conn)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Any]]:
    """The same memory at two sizes."""
    opened = []
    for size in (SMALL, LARGE):
        conn = connection.connect(empty_memory(tmp_path_factory.mktemp("size") / "memory.db"))
        fill(conn, size)
        opened.append(conn)
    yield opened[0], opened[1]
    for conn in opened:
        conn.close()


def steps(conn: Any, query: str, *, vectors: bool, cut: bool = True) -> int:
    """Hundreds of machine steps of the statement's text part."""
    shape = Shape(vectors=vectors, cut=cut, unspaced=bool(text.cjk_runs(query)))
    # as many as the small memory has, that the large one shows whether more are looked at
    reading = replace(statement.NEWEST, ids=SMALL)
    sql = statement.build(replace(shape, reading=reading)).partition("found as (")[0]
    request = parse({"q": query, "mode": "text", "now": NOW}, Settings())
    named = request.explained().named()
    counted = [0]

    def step() -> int:
        counted[0] += 1
        return 0

    conn.set_progress_handler(step, 100)
    try:
        conn.execute(
            sql.rstrip().rstrip(",") + " select count(*) from fts",
            {name: named[name] for name in statement.PARAMETERS},
        ).fetchall()
    finally:
        conn.set_progress_handler(None, 0)
    return counted[0]


@pytest.mark.parametrize(
    "query",
    ["the", "all", "the all", "the-all", "of often", "rare", "的", "用户", "这里的", "all 用户"],
)
@pytest.mark.parametrize("vectors", [True, False])
def test_four_times_the_texts_are_not_four_times_the_work(both, query, vectors):
    few, many = (steps(conn, query, vectors=vectors, cut=False) for conn in both)
    assert few
    assert many < max(2 * few, 300)


def test_a_frequency_is_exact_or_about_right(both):
    conn = both[1]
    assert frequency.frequency(conn, ["rare"]) == LARGE // 3000
    assert frequency.frequency(conn, ["nowhere"]) == 0
    for word in ("the", "all", "often", "在这里的用户"):
        [exact] = conn.execute(
            "select doc from _limbic_fts_vocab where term = ?", [word]
        ).fetchone()
        assert exact / 2 < frequency.frequency(conn, [word]) < exact * 2, word
    assert frequency.frequency(conn, ["the", "rare"]) == LARGE // 3000
    assert frequency.frequency(both[0], ["often"]) > frequency.COUNTED
    with conn:
        conn.execute("update observations set content = content || ' off' where id % 12 = 0")
    try:
        # beside `often`, whose list is longer: counted all the same
        assert frequency.frequency(conn, ["off"]) == LARGE // 12 > 1400
    finally:
        with conn:
            conn.execute(
                "update observations set content = replace(content, ' off', '') where id % 12 = 0"
            )
    [texts] = conn.execute("select count(*) from _limbic_fts_docsize").fetchone()
    assert frequency.texts(conn) == texts == conn.execute("select limbic_frequency()").fetchone()[0]


@pytest.mark.parametrize("seed", range(6))
def test_a_frequency_is_that_of_the_rarest_token_in_any_order(tmp_path: Path, seed: int):
    conn = connection.connect(empty_memory(tmp_path / "memory.db"))
    chance = random.Random(seed)
    words = ["map", "tiles", "til", "tile", "ma", "maps", "z", "a", "ti", "nowhere"]
    texts = [
        " ".join(chance.choices(words[:-1], weights=range(9, 0, -1), k=chance.randint(1, 4)))
        for _ in range(chance.choice((1, 5, 60)))
    ]
    with conn:
        conn.execute("insert into entities(id, name) values (1, '-')")
        conn.executemany(
            "insert into observations(entity_id, content) values (1, ?)", ((t,) for t in texts)
        )
    exact = {word: sum(word in text.split() for text in texts) for word in words}
    for several in itertools.chain(
        itertools.permutations(words, 2), (chance.sample(words, k) for k in (1, 3, 5, 8))
    ):
        least = min(exact[word] for word in several)
        assert frequency.frequency(conn, several) == least, several
        [asked] = conn.execute("select limbic_frequency(?)", ["-".join(several)]).fetchone()
        assert asked == least, several
    conn.close()


def test_a_phrase_that_ends_in_part_of_a_word_is_found(tmp_path: Path):
    conn = connection.connect(empty_memory(tmp_path / "memory.db"))
    with conn:
        conn.executemany(
            "insert into entities(name) values (?)", (["map-tiles"], ["CI/CD"], ["an atlas-api"])
        )
    for query, name in (
        ("map-til", "map-tiles"),
        ("map-ti", "map-tiles"),
        ("CI/C", "CI/CD"),
        ("atlas-ap", "an atlas-api"),
    ):
        found = search.search(conn, query, mode="text", now=NOW)
        assert [row["name"] for row in found["results"]] == [name]
    conn.close()


def test_what_a_transaction_took_back_is_not_remembered(tmp_path: Path):
    conn = connection.connect(empty_memory(tmp_path / "memory.db"))
    with conn:
        conn.execute("insert into entities(id, name) values (1, 'deploy')")

    def asked() -> int:
        return int(conn.execute("select limbic_frequency('deploy')").fetchone()[0])

    said = "insert into observations(entity_id, content) values (1, 'deploy')"
    assert asked() == 1
    conn.execute("begin")
    assert asked() == 1
    conn.execute(said)
    conn.execute("savepoint one")
    conn.execute(said)
    assert asked() == 3
    conn.execute("rollback to one")
    assert asked() == 2
    conn.execute("rollback")
    assert asked() == 1
    conn.close()


def test_a_rare_word_next_to_a_common_one_is_counted(both):
    """Their lists may begin on one page, and its length is then the common one's."""
    conn = both[1]
    with conn:
        conn.execute("insert into observations(entity_id, content) values (1, 'thd alk')")
    try:
        for word in ("thd", "alk"):
            assert frequency.frequency(conn, [word]) == 1
        # all in one segment, as after a merge
        conn.execute("insert into _limbic_fts(_limbic_fts) values ('optimize')")
        for word in ("thd", "alk", "rare"):
            assert frequency.frequency(conn, [word]) == (LARGE // 3000 if word == "rare" else 1)
        assert frequency.frequency(conn, ["the"]) > LARGE / 2
    finally:
        with conn:
            conn.execute("delete from observations where content = 'thd alk'")


def test_the_rarest_word_counts_although_it_is_common(both):
    """Without vectors only: with them, words that are everywhere are no evidence."""
    conn = both[1]
    answer = search.search(conn, "thd the-all", mode="text", now=NOW)
    assert len(answer["results"]) == 10
    rows = conn.execute(
        statement.build(Shape()).partition("found as (")[0].rstrip().rstrip(",")
        + " select count(*) from fts",
        dict.fromkeys(statement.PARAMETERS, "") | {"q": "the-all"},
    ).fetchone()
    assert rows == (0,)


def test_an_entity_is_found_by_its_name_however_common(both):
    answer = search.search(both[1], "all", mode="text", now=NOW)
    [first] = [row for row in answer["results"] if row["name"] == "all"]
    assert first["fts_rank"] == 1
    assert first["coverage"] == text.EXACT_NAME


def test_a_type_that_few_have_fills_the_pool(both):
    answer = search.search(both[1], "often", mode="text", type="Rare", now=NOW)
    assert {row["entityType"] for row in answer["results"]} == {"Rare"}
    assert len(answer["results"]) == 10


OLDEST = 40


@pytest.fixture(scope="module")
def layered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """12,000 entities with the same words; only the oldest 40 are of their type, hold at their
    time, and are not archived."""
    conn = connection.connect(empty_memory(tmp_path_factory.mktemp("layered") / "memory.db"))
    with conn:
        schema.drop_triggers(conn)
        conn.executemany(
            "insert into entities(id, name, entity_type, valid_from, archived_at)"
            " values (?, ?, ?, ?, ?)",
            (
                (
                    i,
                    f"deploy it 管理员在 to{i}",
                    "Old" if i <= OLDEST else "New",
                    None if i <= OLDEST else "2026-01-01",
                    None if i <= OLDEST or i % 2 else "2026-11-01",
                )
                for i in range(1, 12_001)
            ),
        )
        schema.fill_indexes(conn)
        conn.execute("delete from limbic_stale")
        schema.create_triggers(conn)
    yield conn
    conn.close()


@pytest.mark.parametrize(
    "query", ["deploy", "deploy it", "deploy-it", "eplo", "管理员", "管理", "管"]
)
@pytest.mark.parametrize("given", [{"type": "Old"}, {"as_of": "2025-06-30"}])
def test_older_texts_are_found_where_the_newest_do_not_count(layered, query, given):
    answer = search.search(layered, query, mode="text", now=NOW, explain="1", **given)
    assert {row["entityType"] for row in answer["results"]} == {"Old"}
    assert answer["candidates"] == 30
    assert answer["degraded"] is None


def test_older_texts_are_found_where_the_newest_are_archived(layered):
    with layered:
        layered.execute("update entities set archived_at = ? where id > ?", [NOW, OLDEST])
    try:
        answer = search.search(layered, "deploy", mode="text", now=NOW)
        assert answer["candidates"] == 30
        both = search.search(layered, "deploy", mode="text", now=NOW, include_archived="1")
        assert {row["entityType"] for row in both["results"]} == {"New"}
    finally:
        with layered:
            layered.execute("update entities set archived_at = null where id % 2 or id > 0")


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("deploy", "only the newest 5,000 "),
        ("deploy-it", "in the newest 5,000 entities"),
        ("eplo", "only the newest 5,000 "),
        ("管", "only 5,000 "),
    ],
)
def test_an_answer_says_where_not_all_was_looked_at(layered, monkeypatch, query, said):
    reading = replace(statement.FURTHER, texts=5000, ids=5000, parts=5000, places=5000)
    monkeypatch.setattr(further, "FURTHER_OF_TYPE", reading)
    # they did not hold then
    given = {"type": "New", "as_of": "2025-06-30"}
    answer = search.search(layered, query, mode="text", now=NOW, **given)
    assert answer["results"] == []
    assert said in answer["degraded"]
    assert answer["reason"] == "none of the texts that were looked at matches"


@pytest.mark.parametrize("query", ["xqzwv", "to-deploy", "deploy-deploy", "to-xq", "to77-it"])
def test_nothing_is_run_again_where_nothing_was_left_out(layered, monkeypatch, query):
    runs = []
    rows = search._rows
    monkeypatch.setattr(search, "_rows", lambda *given: runs.append(1) or rows(*given))
    answer = search.search(layered, query, mode="text", now=NOW)
    assert (len(runs), answer["degraded"], answer["results"]) == (1, None, [])
    assert answer["reason"] == "nothing in this memory matches"


@pytest.mark.parametrize(
    ("query", "name"),
    [("管理", "数据管理"), ("数据", "数据管理"), ("据", "数据管理"), ("東京", "thing of number80")],
)
def test_one_and_two_characters_are_found_wherever_they_stand(both, query, name):
    for conn in both:
        names = [r["name"] for r in search.search(conn, query, mode="text", now=NOW)["results"]]
        assert names == [name]


def test_short_runs_are_those_that_a_scan_finds(both):
    conn = both[0]
    with conn:
        conn.executemany(
            "insert into observations(entity_id, content) values (1, ?)",
            [[text] for text in ("無", "無無", "無.", "x無", "無無.", "ไทย", "ไท", "무")],
        )
    for run in (
        "東",
        "京",
        "東京",
        "数据",
        "理",
        "住在",
        "無",
        "無無",
        "無理",
        "ไท",
        "ย",
        "ท",
        "무",
    ):
        scanned = conn.execute("select rowid from _limbic_trigram where instr(content, ?)", [run])
        assert set(substrings.holding(conn, [run])[run]) == {row[0] for row in scanned}, run


def test_runs_share_what_is_read(both):
    found = substrings.holding(both[1], ["用户", "東京"], most=1000)
    assert 0 < len(found["用户"]) <= 500
    assert found["東京"] == [79 * 2 + 1]


def test_a_file_without_the_index_of_short_runs_says_so(tmp_path: Path):
    conn = connection.connect(empty_memory(tmp_path / "memory.db"))
    with conn:
        conn.execute("insert into entities(id, name) values (1, '東京タワー')")
        conn.execute("drop view _limbic_last_characters")
        conn.execute("drop table _limbic_trigram_vocab")
    answer = search.search(conn, "東京", mode="text", now=NOW)
    assert answer["results"] == []
    assert "datasette limbic init" in answer["degraded"]
    assert "limbic init" not in str(
        search.search(conn, "東京タワー", mode="text", now=NOW)["degraded"]
    )
    conn.close()
