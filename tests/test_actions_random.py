"""Random memories and any sequence of actions: undone in turn, each is as it was before."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from actions_helpers import MODEL, differing, dump, everything, split_finding
from embedding_helpers import BagModel, registered
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from datasette_limbic import connection, schema
from datasette_limbic.actions.acting import act
from datasette_limbic.actions.kinds import KINDS
from datasette_limbic.entity import entity_detail
from datasette_limbic.errors import LimbicError
from datasette_limbic.integrity import check
from datasette_limbic.sync import sync
from datasette_limbic.text import normalise

EXAMPLES = [20, pytest.param(150, marks=pytest.mark.load)]
NAMES = (
    "Atlas", "ATLAS", "Ätlas", "Atlas ", "O'Neill \"x\"", "日本語 東京", "a\x00b", "%_[a]*", "",
    "\U0001f600", "𝔘 ﬁ", "-1", "1", "line\nline", b"\xff\xfe no text", "n" * 600, "ИМЯ",
)  # fmt: skip
TYPES = ("Project", "Thing", "Dominio", "日本", "")
TIMES = (
    None, "2024-01-01 10:00:00", "2024-01-02 10:00:00", "2024-01-03T10:00:00Z", "not a time",
    "2024-02-30", "2099-01-01 00:00:00", "1700000000", "2024-01-01 10:00:00.5", "",
)  # fmt: skip
ENDS = (None, None, None, "2024-06-01 00:00:00", "2099-01-01 00:00:00", "never", "2020-01-01")
CONFIDENCES = (1.0, 1.0, 0.5, 0.0, 1, 0.1 + 0.2, float("inf"))
TEXTS = (
    "maple cedar willow birch poplar", "Maple cedar, willow birch poplar!",
    "maple cedar willow birch poplar and then many further things said once by nobody at all",
    "the office opens at eight on mondays", "the office opens at nine on mondays",
    "the office does not open at eight on mondays", "", "x", "x ", "東京は日本の首都", "a\x00b c",
    b"raw \xff\xfe bytes", "emoji \U0001f600 text", "NANVEC here", "ZEROVEC there", "w " * 2500,
)  # fmt: skip
KINDS_OF = (None, None, "fact", "plan")
LINKS = ("uses", "contiene", "parte_de", "knows")


@pytest.fixture(name="empty", scope="module")
def empty_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("random") / "empty.db"
    with closing(connection.connect(path, create=True)) as conn:
        schema.init(conn)
        # another program's columns go along with each row
        conn.execute("alter table observations add column theirs")
        conn.execute('alter table entities add column "th""eirs" default \'x\'')
        conn.commit()
    return path


@contextmanager
def memory(empty: Path, rng: random.Random) -> Iterator[Any]:
    """A random memory, synced; the connection enforces foreign keys or does not."""
    with tempfile.TemporaryDirectory() as folder, registered(BagModel(MODEL)):
        path = Path(shutil.copy(empty, folder))
        with closing(connection.connect(path)) as conn:
            conn.execute(f"pragma foreign_keys = {rng.choice(('on', 'off'))}")
            with schema.guarded(conn, "test"):
                fill(conn, rng)
            conn.commit()
            if rng.random() < 0.9:
                sync(conn, model=MODEL)
            for _ in range(rng.randrange(3)):  # a person took flags away, and set others
                conn.execute(
                    "update observations set similarity_flag = ? where id % 3 = ?",
                    [rng.randrange(2), rng.randrange(3)],
                )
            conn.commit()
            yield conn


def text(value: Any) -> tuple[str, Any]:
    """How to bind what is no UTF-8 as text."""
    return ("cast(? as text)", value) if isinstance(value, bytes) else ("?", value)


def fill(conn: Any, rng: random.Random) -> None:
    pick = rng.choice
    names = rng.sample(NAMES, rng.randint(2, 6))
    contents = rng.sample(TEXTS, rng.choice((2, 4, len(TEXTS))))
    for number, name in enumerate(names, 1):
        bound, value = text(name)
        archived = pick((None, None, None, "2024-05-05 05:05:05"))
        conn.execute(
            "insert into entities(id, name, entity_type, created_at, updated_at, last_activity_at,"
            " archived_at, archived_reason, confidence, valid_from, valid_to)"
            f" values (?, {bound}, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                number, value, pick(TYPES), pick(TIMES), pick(TIMES), pick(TIMES), archived,
                archived and "why", pick(CONFIDENCES), pick(ENDS), pick(ENDS),
            ],
        )  # fmt: skip
    ids = range(1, len(names) + 1)
    count = rng.randint(0, 14)
    for number in rng.sample(range(1, 40), count):
        bound, value = text(pick(contents))
        conn.execute(
            "insert into observations(id, entity_id, content, created_at, kind, confidence,"
            " valid_from, valid_to, supersedes, theirs)"
            f" values (?, ?, {bound}, ?, ?, ?, ?, ?, ?, ?)",
            [
                number, pick(ids), value, pick(TIMES), pick(KINDS_OF), pick(CONFIDENCES),
                pick(ENDS), pick(ENDS), None, pick((None, 1, 1.5, "t", b"\x00\xff")),
            ],
        )  # fmt: skip
    there = [row[0] for row in conn.execute("select id from observations order by id")]
    for number in there:
        if rng.random() < 0.3:
            older = pick(there)
            conn.execute("update observations set supersedes = ? where id = ?", [older, number])
    for _ in range(rng.randrange(10)):
        conn.execute(
            "insert or ignore into relations(from_entity, to_entity, relation_type, created_at,"
            " valid_from, valid_to, context) values (?, ?, ?, ?, ?, ?, ?)",
            [pick(ids), pick(ids), pick(LINKS), pick(TIMES), pick(ENDS), pick(ENDS), pick(TIMES)],
        )
    for entity in ids:
        if rng.random() < 0.6:
            conn.execute(
                "insert into entity_access values (?, ?, ?)",
                [entity, pick((0, 1, 5, 1000)), pick(TIMES) or "2024-01-01 00:00:00"],
            )
        if rng.random() < 0.4:
            split_finding(conn, entity, "Split it", about=pick((entity, None)))
        if rng.random() < 0.4:
            conn.execute(
                "insert into entity_access_log(entity_id, entity_name) values (?, 'n')", [entity]
            )
            conn.execute(
                "insert into limbic_feedback(entity_id, entity_name, event)"
                " values (?, 'n', 'opened')",
                [entity],
            )
    for _ in range(rng.randrange(4)):
        pair = sorted(rng.sample(list(ids), 2))
        conn.execute(
            "insert or ignore into co_occurrences values (?, ?, ?, ?)",
            [*pair, pick((1, 7)), pick(TIMES) or ""],
        )


def asked(conn: Any, rng: random.Random) -> tuple[str, dict[str, Any]]:
    """Some action that may or may not be possible."""
    entities = [row[0] for row in conn.execute("select id from entities order by id")]
    observations = [row[0] for row in conn.execute("select id from observations order by id")]
    relations = [row[0] for row in conn.execute("select id from relations order by id")]
    entity = rng.choice(entities)
    alike = conn.execute(
        "select entity_id, later_id from limbic_duplicates where kind = 'duplicate'"
    )
    if pairs := alike.fetchall():
        entity = rng.choice((entity, rng.choice(pairs)[0]))
    own = [
        row[0] for row in conn.execute("select id from observations where entity_id = ?", [entity])
    ]
    rng.shuffle(own)
    name = rng.choice([each for each in KINDS if each != "undo"])
    if name == "split":
        at = rng.randint(0, len(own))
        children = [
            {"name": f"part {rng.randrange(99)}", "observations": some}
            for some in (own[:at][::2], own[:at][1::2])
            if some
        ]
        return name, {"entity": entity, "children": children}
    if name == "merge":
        if rng.random() < 0.5:
            return name, {"entity": entity}
        return name, {"entity": entity, "clusters": [{"keep": own[:1], "remove": own[1:2]}]} | (
            {"clusters": [{"keep": own[0], "remove": own[1:3]}]} if own else {}
        )
    if name == "delete":
        return name, {"observations": rng.sample(observations, min(len(observations), 3))}
    if name == "archive":
        return name, {"entity": entity, "reason": rng.choice(("old", "日本", "a\x00b"))}
    if name == "restore":
        return name, {"entity": entity}
    if name == "end":
        what, ids = rng.choice((("observation", observations), ("relation", relations)))
        return name, {what: rng.choice(ids or [0]), "at": rng.choice((None, "2024-04-04"))}
    if name == "correct":
        what, ids = rng.choice((("observation", observations), ("entity", entities)))
        return name, {what: rng.choice(ids or [0]), "confidence": rng.choice((0, 0.25, 1.0))}
    assert name == "merge_entities"
    return name, {"keep": entity, "others": rng.sample(entities, rng.randint(1, 2))}


def findings(conn: Any) -> dict[str, int]:
    """What ``check`` finds, with how often."""
    return {result.name: result.count for result in check(conn).findings}


def marks(conn: Any) -> list[tuple[Any, ...]]:
    return conn.execute("select collection, item_id from limbic_stale").fetchall()


def refused(
    conn: Any, name: str, arguments: dict[str, Any], insight: int | None = None
) -> LimbicError | dict[str, Any]:
    """What was answered; where it was an error, nothing was written."""
    before = everything(conn)
    try:
        shown = act(conn, name, arguments, dry_run=True, insight=insight)
    except LimbicError as error:
        with pytest.raises(type(error)):
            act(conn, name, arguments, insight=insight)
        assert everything(conn) == before
        return error
    assert everything(conn) == before
    done = act(conn, name, shown["arguments"], basis=shown["basis"], insight=insight)
    assert done["diff"]["counts"] == shown["diff"]["counts"]
    return done


def insight_for(conn: Any, rng: random.Random, name: str, arguments: dict[str, Any]) -> int | None:
    """A finding that this may answer; now and then one that it does not."""
    found = conn.execute("select id, key from limbic_insights").fetchall()
    fits = [number for number, key in found if key == f"{name}:{arguments.get('entity')}"]
    if rng.random() < 0.05:
        fits = [number for number, _ in found]
    return rng.choice(fits) if fits else None


def importances(conn: Any) -> dict[int, tuple[float, float]]:
    """Importance and temporal factor of each entity."""
    found = {}
    for (number,) in conn.execute("select id from entities").fetchall():
        limbic = entity_detail(conn, number, now="2026-11-30 12:00:00")["limbic"]
        found[number] = (limbic["importance"] or 0.0, limbic["temporal_factor"] or 0.0)
    return found


def assert_no_more(
    now: dict[int, tuple[float, float]], before: dict[int, tuple[float, float]], parent: int
) -> None:
    """Nothing is more important, or fresher, than it was; a child than its parent was."""
    for number, factors in now.items():
        was = before.get(number, before[parent])
        assert all(f <= w + 1e-12 for f, w in zip(factors, was, strict=True)), number


def one(empty: Path, rng: random.Random, length: int, done_at_all: Counter[str]) -> None:
    """So many actions on a random memory, then back, forth and back again."""
    with memory(empty, rng) as conn:
        has_vectors = conn.execute("select count(*) from embeddings").fetchone()[0] > 0
        found, marked = findings(conn), marks(conn)
        states, done = [dump(conn)], []
        for _ in range(length):
            name, arguments = asked(conn, rng)
            standing = importances(conn)
            insight = insight_for(conn, rng, name, arguments)
            answer = refused(conn, name, arguments, insight)
            note(f"{name} {arguments} for {insight}: {answer}")
            if isinstance(answer, LimbicError):
                continue
            if insight is not None:
                (judged,) = conn.execute(
                    "select key, status from limbic_insights where id = ?", [insight]
                ).fetchall()
                assert judged == (f"{name}:{arguments['entity']}", "approved")
                done_at_all["approved"] += 1
            if name == "split":
                assert_no_more(importances(conn), standing, arguments["entity"])
            done_at_all[name] += 1
            done.append(answer["change"])
            states.append(dump(conn))
            if has_vectors:
                assert marks(conn) == marked
        # back, forth again by undoing what was undone, and back once more
        forth = []
        for at in reversed(range(len(done))):
            forth.append(act(conn, "undo", {"change": done[at]})["change"])
            assert differing(dump(conn), states[at]) == {}
        back = []
        for at, change in enumerate(reversed(forth), 1):
            back.append(act(conn, "undo", {"change": change})["change"])
            assert differing(dump(conn), states[at]) == {}
        for at, change in reversed(list(enumerate(back))):
            act(conn, "undo", {"change": change})
            assert differing(dump(conn), states[at]) == {}
        if has_vectors:
            assert marks(conn) == marked
            assert findings(conn) == found


@pytest.mark.slow
@pytest.mark.parametrize("examples", EXAMPLES)
def test_actions_and_their_undoing(empty: Path, examples: int) -> None:
    done: Counter[str] = Counter()

    @settings(
        max_examples=examples, deadline=None, database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )  # fmt: skip
    @given(st.randoms(use_true_random=True), st.integers(1, 5))
    def run(rng: random.Random, length: int) -> None:
        one(empty, rng, length, done)

    run()
    assert examples < 100 or set(done) == {*KINDS, "approved"} - {"undo"}, done


@pytest.mark.parametrize("examples", EXAMPLES)
def test_merges_lose_no_text(empty: Path, examples: int) -> None:
    """However they follow on each other, some observation is left that was judged to say it."""
    counts: Counter[str] = Counter()

    @settings(
        max_examples=examples, deadline=None, database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )  # fmt: skip
    @given(st.randoms(use_true_random=True))
    def run(rng: random.Random) -> None:
        with memory(empty, rng) as conn:
            held = [
                rng.choice(
                    (text, text.upper(), f"{text} !", f"{text} today", text.replace("8", "9"))
                )
                for text in rng.choices(
                    ("maple cedar willow birch", "opens at 8 on mondays", "地図 8 東京"), k=7
                )
            ]
            conn.executemany(
                "insert into observations(id, entity_id, content) values (?, 1, ?)",
                enumerate(held, 100),
            )
            conn.execute("update entities set archived_at = null where id = 1")
            conn.commit()
            if rng.random() < 0.7:
                sync(conn, model=MODEL)
            texts = dict(conn.execute("select id, content from observations").fetchall())
            kept: dict[int, int] = {}
            for _ in range(8):
                keep, *remove = rng.sample(range(100, 107), rng.choice((2, 2, 3)))
                try:
                    act(conn, "merge",
                        {"entity": 1, "clusters": [{"keep": keep, "remove": remove}]})  # fmt: skip
                except LimbicError as error:
                    counts[type(error).__name__] += 1
                    continue
                counts["done"] += 1
                kept |= dict.fromkeys(remove, keep)
            left = dict(conn.execute("select id, content from observations").fetchall())
            assert texts.keys() - left.keys() == kept.keys()
            for number, content in texts.items():
                stands = number
                while stands in kept:
                    stands = kept[stands]
                assert stands in left
                assert len(normalise(left[stands])) >= len(normalise(content)) / 2
            # eight is not nine: neither may be taken for the other
            first, last = (" ".join(map(str, each.values())).lower() for each in (texts, left))
            assert all((f"at {n} on" in first) == (f"at {n} on" in last) for n in (8, 9))

    run()
    assert counts["done"], counts
