"""Full text in a large memory: what a search reads does not grow with how common its words are.

Work is counted in steps of SQLite's machine, never in time.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from empty_memory import empty_memory

from datasette_limbic import (
    connection,
    frequency,
    further,
    retrieving,
    schema,
    search,
    statement,
    substrings,
    text,
    text_statement,
)
from datasette_limbic.config import Settings
from datasette_limbic.request import parse
from datasette_limbic.statement import Shape

pytestmark = [pytest.mark.slow, pytest.mark.once]

# In the small one every common word is in over 10,000 texts already.
SMALL, LARGE = 26_000, 104_000
NOW = "2026-11-29 12:00:00"


def frequency_of(conn: Any, tokens: list[str]) -> int:
    [(count, rarest)] = frequency.frequencies(conn, [tokens])
    assert rarest in tokens
    return count


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


def steps_of(conn: Any, run: Callable[[], Any]) -> int:
    """Hundreds of machine steps."""
    counted = [0]

    def step() -> int:
        counted[0] += 1
        return 0

    conn.set_progress_handler(step, 100)
    try:
        run()
    finally:
        conn.set_progress_handler(None, 0)
    return counted[0]


def steps(conn: Any, query: str, *, vectors: bool, cut: bool = True) -> int:
    """Hundreds of machine steps of the statement's text part."""
    shape = Shape(vectors=vectors, cut=cut, unspaced=bool(text.cjk_runs(query)))
    sql = statement.build(shape).partition("found as (")[0]
    request = parse({"q": query, "mode": "text", "now": NOW}, Settings())
    named = request.explained().named()
    return steps_of(
        conn,
        lambda: conn.execute(
            sql.rstrip().rstrip(",") + " select count(*) from fts",
            {name: named[name] for name in statement.PARAMETERS},
        ).fetchall(),
    )


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
    assert frequency_of(conn, ["rare"]) == LARGE // 3000
    assert frequency_of(conn, ["nowhere"]) == 0
    for word in ("the", "all", "often", "在这里的用户"):
        [exact] = conn.execute(
            "select doc from _limbic_fts_vocab where term = ?", [word]
        ).fetchone()
        assert exact / 2 < frequency_of(conn, [word]) < exact * 2, word
    assert frequency_of(conn, ["the", "rare"]) == LARGE // 3000
    assert frequency_of(both[0], ["often"]) > frequency.COUNTED
    with conn:
        conn.execute("update observations set content = content || ' off' where id % 12 = 0")
    try:
        # beside `often`, whose list is longer: counted all the same
        assert frequency_of(conn, ["off"]) == LARGE // 12 > 1400
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
        assert frequency_of(conn, several) == least, several
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
            assert frequency_of(conn, [word]) == 1
        # all in one segment, as after a merge
        conn.execute("insert into _limbic_fts(_limbic_fts) values ('optimize')")
        for word in ("thd", "alk", "rare"):
            assert frequency_of(conn, [word]) == (LARGE // 3000 if word == "rare" else 1)
        assert frequency_of(conn, ["the"]) > LARGE / 2
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


COMMON = 40
"""Words in each of 12,000 texts."""


@pytest.mark.parametrize("query", ["the", "often", "word7 the"])
@pytest.mark.parametrize("entity_type", ["Rare", "Note"])
def test_a_type_takes_no_more_than_a_second_run(both, query, entity_type):
    conn = both[1]

    def work(**given: Any) -> int:
        return steps_of(conn, lambda: search.search(conn, query, mode="text", now=NOW, **given))

    work(), work(type=entity_type)  # what is counted once
    assert work(type=entity_type) < 5 * work() + 500


@pytest.mark.parametrize("query", ["rare", "word7", "rare word7", "ords", "用户"])
@pytest.mark.parametrize("entity_type", ["Rare", "Note"])
@pytest.mark.parametrize("mode", ["text", "hybrid"])
def test_of_a_type_all_is_looked_at_where_the_best_do_not_fill_the_pool(
    both, monkeypatch, query, entity_type, mode
):
    def found() -> list[tuple[int, float]]:
        statement.build.cache_clear()
        answer = search.search(
            both[0], query, mode=mode, type=entity_type, now=NOW, limit=2, explain="1"
        )
        return [(row["id"], row["coverage"]) for row in answer["results"]]

    expected = found()
    monkeypatch.setattr(text_statement, "CUT_PER_CANDIDATE_OF_TYPE", 0)
    few = found()
    monkeypatch.setattr(text_statement, "is_cut", lambda shape: False)
    assert (few, found()) == (expected, expected)
    statement.build.cache_clear()


@pytest.fixture(scope="module")
def many_common(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """12,000 texts of the same 40 words, and one of 200 that 60 of them share."""
    conn = connection.connect(empty_memory(tmp_path_factory.mktemp("common") / "memory.db"))
    with conn:
        schema.drop_triggers(conn)
        said = " ".join(f"w{i}" for i in range(COMMON))
        conn.executemany(
            "insert into entities(id, name) values (?, ?)",
            ((i, f"{said} rare{i % 200} number{i}") for i in range(1, 12_001)),
        )
        # the index of words alone: that of trigrams takes far longer
        conn.execute("insert into _limbic_fts(rowid, name) select id * 2, name from entities")
        conn.execute("delete from limbic_stale")
        schema.create_triggers(conn)
    yield conn
    conn.close()


@pytest.mark.parametrize("joint", [" ", "-"])
def test_many_words_share_what_is_counted(many_common, joint):
    """Four common words use it up: of 40 as many texts are counted, and 200 for each other."""

    def counting(words: int) -> int:
        query = joint.join(f"w{i}" for i in range(words))
        of = frequency.sql_frequencies(many_common, frequency.remembering(many_common))
        return steps_of(many_common, lambda: of(query))

    four, all_of_them = counting(4), counting(COMMON)
    assert four < all_of_them < 2 * four


def test_words_that_are_not_counted_are_common_all_the_same(many_common):
    of = frequency.sql_frequencies(many_common, frequency.remembering(many_common))
    found = json.loads(of(" ".join([*(f"w{i}" for i in range(COMMON)), "rare7", "nowhere"])))
    assert [row[4] for row in found] == [1] * (COMMON + 2)
    assert all(row[1] > 2000 for row in found[:COMMON])
    assert [row[1] for row in found[COMMON:]] == [60, 0]


@pytest.mark.parametrize("tokens", [1, 2, 8])
def test_phrases_share_the_places_that_are_read(many_common, monkeypatch, tokens):
    """64 phrases of common words and a rare one: of 60 texts, in which each part is looked up."""
    monkeypatch.setattr(frequency, "PASSED_OVER", 1)  # as if there were many times the texts
    common = [f"w{i}" for i in range(tokens - 1)]
    query = " ".join("-".join([*common, f"rare{i}"]) for i in range(64))
    sql = statement.build(Shape()).partition("hits as materialized")[0].rstrip().rstrip(",")
    values = dict.fromkeys(statement.PARAMETERS, "") | {"q": query}
    [kept] = many_common.execute(f"{sql} select count(*) from kept", values).fetchone()
    # words alone are kept while texts times words are few
    assert text_statement.MOST_KEPT > 64 * 64 * 60
    assert kept == (64 if tokens == 1 else frequency.MOST_PLACES // (60 * tokens))
    if tokens == 1:
        answer = search.search(many_common, query, mode="text", now=NOW)
        assert len(answer["results"]) == 10


def test_a_phrase_of_common_words_is_looked_for_in_the_newest_texts(many_common):
    """A place is a word of the phrase in a text: 7,500 texts for two words."""
    shape = Shape(vectors=False)
    for query, newest in (("w1-w2", 7_500), ("w1-w2-w3", 5_000), ("w1-rare2", None)):
        values = dict.fromkeys(statement.PARAMETERS, "") | {"q": query}
        _, oldest, _ = many_common.execute(further.oldest_read(shape), values).fetchone()
        assert oldest == (newest and 2 * (12_000 - newest))
    answer = search.search(many_common, "w2-w1", mode="text", now=NOW)
    assert (answer["results"], answer["degraded"]) == ([], None)
    answer = search.search(many_common, "w3-w1-w2", mode="text", now=NOW)
    assert "phrase of such common words" in answer["degraded"]
    assert answer["reason"] == "none of the texts that were looked at matches"


def test_a_phrase_without_texts_leaves_that_of_a_common_one_as_far(many_common):
    def oldest(query: str) -> Any:
        values = dict.fromkeys(statement.PARAMETERS, "") | {"q": query}
        return many_common.execute(further.oldest_read(Shape(vectors=False)), values).fetchone()[1]

    assert oldest("w2-w1 q1-q2-q3-q4-q5-q6-q7-q8") == oldest("w2-w1") == 2 * 4_500


@pytest.mark.parametrize("vectors", [True, False])
def test_a_word_counts_beside_a_phrase_that_is_too_much(many_common, monkeypatch, vectors):
    monkeypatch.setattr(frequency, "PASSED_OVER", 1)
    monkeypatch.setattr(frequency, "MOST_PLACES", 1)
    statement.build.cache_clear()
    sql = statement.build(Shape(vectors=vectors)).partition("hits as materialized")[0]
    values = dict.fromkeys(statement.PARAMETERS, "") | {"q": "w1-number77 rare3"}
    kept = many_common.execute(f"{sql.rstrip().rstrip(',')} select term from kept", values)
    assert '"rare3"' in {row[0] for row in kept}
    statement.build.cache_clear()


def test_a_query_is_text(many_common):
    of = frequency.remembering(many_common)
    for function in (frequency.sql_frequencies(many_common, of), substrings.sql_parts(of)):
        with pytest.raises(TypeError, match="query must be text, not a blob"):
            function(b"w1")


def test_the_second_run_reads_so_many_texts_and_no_more(layered, monkeypatch):
    """As many steps as texts, and nothing is rated that does not count."""

    def reading(texts: int) -> int:
        read = replace(further.FURTHER, texts=texts)
        monkeypatch.setattr(further, "FURTHER", read)
        return steps_of(
            layered,
            lambda: search.search(layered, "deploy", mode="text", now=NOW, as_of="2025-06-30"),
        )

    reading(1)  # counts frequencies, which are remembered
    none, few, many = reading(1), reading(2001), reading(8001)
    assert 3 < (many - none) / (few - none) < 5


@pytest.mark.parametrize(
    "query",
    ["tion" * 500, " ".join(f"{i:03}xyzwvuts" for i in range(64)), 'ab"cdefg"hi', "管理" * 400],
)
def test_parts_of_words_share_how_much_of_them_is_looked_for(layered, query):
    [match] = layered.execute("select limbic_parts(?)", [query]).fetchone()
    looked_for = [part[1:-1].replace('""', '"') for part in match.split(" OR ")]
    assert all(part in query for part in looked_for)
    assert 1 <= len(looked_for) <= substrings.MOST_PARTS
    most = substrings.MOST_CHARACTERS
    assert min(len(query), most) - 4 <= sum(map(len, looked_for)) <= most
    layered.execute(
        "select 1 from _limbic_trigram where _limbic_trigram match ?", [match]
    ).fetchall()


@pytest.mark.parametrize("query", [None, "", "?", "deploy it"])
def test_a_query_of_known_words_has_no_parts_to_look_for(layered, query):
    [match, found] = layered.execute(
        "select limbic_parts(?1), limbic_frequencies(?1)", [query]
    ).fetchone()
    assert match == '""'
    assert bool(json.loads(found or "[]")) == (query == "deploy it")


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
        ("deploy-it", "only, 5,000 places"),
        ("eplo", "only the newest 5,000 "),
        ("管", "only 5,000 "),
    ],
)
def test_an_answer_says_where_not_all_was_looked_at(layered, monkeypatch, query, said):
    reading = replace(text_statement.FURTHER, texts=5000, places=5000, parts=5000, short_runs=5000)
    monkeypatch.setattr(further, "FURTHER", reading)
    of_type = replace(reading, only=text_statement.COUNTS_OF_TYPE)
    monkeypatch.setattr(further, "FURTHER_OF_TYPE", of_type)
    # they did not hold then
    given = {"type": "New", "as_of": "2025-06-30"}
    answer = search.search(layered, query, mode="text", now=NOW, **given)
    assert answer["results"] == []
    assert said in answer["degraded"]
    assert answer["reason"] == "none of the texts that were looked at matches"


@pytest.mark.parametrize("query", ["xqzwv", "to-deploy", "to77-to77", "to-xq", "to77-it"])
def test_nothing_is_run_again_where_nothing_was_left_out(layered, monkeypatch, query):
    runs = []
    rows = retrieving._rows
    monkeypatch.setattr(retrieving, "_rows", lambda *given: runs.append(1) or rows(*given))
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


def made(folder: Path, entities: list[tuple[str, str]], observations: list[tuple[int, str]]) -> Any:
    """A memory of these (name, type) and (entity, text), without vectors."""
    conn = connection.connect(empty_memory(folder / "memory.db"))
    with conn:
        schema.drop_triggers(conn)
        conn.executemany("insert into entities(name, entity_type) values (?, ?)", entities)
        conn.executemany("insert into observations(entity_id, content) values (?, ?)", observations)
        schema.fill_indexes(conn)
        conn.execute("delete from limbic_stale")
        schema.create_triggers(conn)
    return conn


@pytest.mark.parametrize("given", [{}, {"type": "Note"}])
@pytest.mark.parametrize("of_one", [9_000, 11_000, 13_000])
def test_what_one_entity_has_most_of_hides_nobody_in_silence(tmp_path: Path, of_one, given):
    names = [(f"deploy {i}", "Note") for i in range(500)] + [("long", "Note")]
    conn = made(tmp_path, names, [(501, f"deploy {i}") for i in range(of_one)])
    answer = search.search(conn, "deploy", mode="text", now=NOW, **given)
    assert answer["candidates"] == 30 or answer["degraded"]
    assert (answer["candidates"] == 30) == (of_one < 12_000)
    conn.close()


def test_of_a_type_parts_are_rated(tmp_path: Path):
    """They are all looked at in the first run: there is nothing to look at again."""
    both = [(f"one {i}", "Rare") for i in range(20)]
    held = [(i, "数据管理 用户身份" if i > 10 else "数据管理") for i in range(1, 21)]
    conn = made(tmp_path, both + [(f"数据管理 {i}", "Note") for i in range(2_200)], held)
    answer = search.search(conn, "数据管理 用户身份", mode="text", type="Rare", now=NOW)
    assert {row["id"] for row in answer["results"]} == set(range(11, 21))
    assert {row["coverage"] for row in answer["results"]} == {1.0}
    assert (answer["confident"], answer["degraded"]) == (True, None)
    conn.close()


def test_many_places_may_be_few_texts(tmp_path: Path):
    names = [(f"thing {i}", "Old" if i <= 300 else "New") for i in range(1, 601)]
    held = [(i, "的" * 42) for i in range(1, 601)]
    conn = made(tmp_path, names, held)
    for entity_type in ("Old", "New"):
        answer = search.search(conn, "的", mode="text", type=entity_type, now=NOW)
        assert answer["candidates"] == 30 or answer["degraded"]
    conn.close()


def test_beside_vectors_it_is_said_what_was_not_looked_at(tmp_path: Path):
    names = [(f"数据管理 {i}", "Old" if i < 40 else "New") for i in range(4_300)]
    conn = made(tmp_path, names, [])
    request = parse({"q": "数据管理", "type": "Old", "now": NOW}, Settings())
    for by_type in (False, True):
        found = further.needed(conn, request, Shape(by_type=by_type), [])
        assert found is not None
        assert "only the newest 4,000" in found.left_out
    conn.close()


@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16le", "UTF-16be"])
def test_a_frequency_in_any_encoding(tmp_path: Path, encoding):
    path = tmp_path / "memory.db"
    conn = connection.connect(path, create=True)
    conn.execute(f"pragma encoding = '{encoding}'")
    schema.init(conn)
    assert conn.execute("pragma encoding").fetchone() == (encoding,)
    with conn:
        conn.executemany(
            "insert into entities(name) values (?)",
            [(f"ñandú everywhere {i}",) for i in range(20_000)],
        )
        conn.execute("insert into _limbic_fts(_limbic_fts) values ('optimize')")
    for word in ("ñandú", "everywhere"):
        assert frequency._pages(conn, text.fts_tokens(word)) == {text.fts_tokens(word)[0]: 15}
        assert frequency_of(conn, text.fts_tokens(word)) > 10_000
    conn.close()
