"""What stands there now, without writing: the same as keeping it would give."""

from __future__ import annotations

import random
import shutil
from contextlib import closing

import numpy
import pytest
from datasette.utils.sqlite import sqlite3
from duplicates_helpers import LONGER, OTHER, SAME, kept, made, written
from embedding_helpers import blob, store
from empty_memory import empty_memory
from view_helpers import digest

from datasette_limbic import connection, schema
from datasette_limbic.errors import NotAMemory
from datasette_limbic.reports import keeping, reading
from datasette_limbic.reports.fresh import fresh
from datasette_limbic.reports.queries import queries

KEPT = {
    "limbic_duplicates": "earlier_id, later_id, entity_id, kind, rule, cosine, containment,"
    " difference",
    "limbic_topics": "entity_id, topics, diversity, split_score",
    "_limbic_text_keys": "observation_id, entity_id, key",
}
SUBJECTS = ["deploy release pipeline server", "oranges valley harvest water", "invoice tax euro"]


@pytest.fixture(name="path")
def memory(tmp_path):
    return made(tmp_path / "memory.db")


def seen(conn):
    """What queries of the reports find in the tables that are kept, without the dates."""
    found = {t: sorted(conn.execute(f"select {c} from {t}"), key=repr) for t, c in KEPT.items()}
    for name in (
        "limbic_similar_observations",
        "limbic_split_candidates",
        "limbic_flagged_observations",
    ):
        without = {"found_at", "computed_at"}
        cursor = conn.execute(f"select * from ({queries()[name]})")
        columns = [c[0] for c in cursor.description]
        found[name] = sorted(
            ([v for c, v in zip(columns, row, strict=True) if c not in without] for row in cursor),
            key=repr,
        )
    return found


def temporary(conn):
    return conn.execute("select name from sqlite_temp_master").fetchall()


def random_text(rng):
    kind = rng.random()
    if kind < 0.2:
        return rng.choice([SAME, SAME.upper(), LONGER, OTHER, "Status: open", "Status: closed"])
    words = rng.choice(SUBJECTS).split()
    return " ".join(rng.choices(words, k=rng.randint(1, 9))) + rng.choice(["", ".", " 5", " 7"])


def random_memory(path, rng):
    """Entities of 0 to 30 observations; some with a vector, some ended."""
    with closing(connection.connect(empty_memory(path))) as conn:
        vectors = {}
        for entity in range(1, 9):
            conn.execute(
                "insert into entities(id, name, entity_type) values (?, ?, ?)",
                [entity, f"entity {entity}", rng.choice(["Sesion", "Thing"])],
            )
            for _ in range(rng.choice([0, 1, 3, 12, 30])):
                ended = rng.choice([None, None, None, "2020-01-01"])
                row = conn.execute(
                    "insert into observations(entity_id, content, valid_to) values (?, ?, ?)",
                    [entity, random_text(rng), ended],
                )
                if rng.random() < 0.8:
                    angle = rng.choice([0, 0.3, 1.5, 3]) + rng.random() / 4
                    vectors[row.lastrowid] = blob(numpy.cos(angle), numpy.sin(angle), 0.1)
        store(conn, "observations", vectors)
        conn.execute("delete from limbic_stale")
        conn.commit()


def random_changes(path, rng):
    ids = f"(select id from observations order by random() limit {rng.randint(1, 6)})"
    changes = [
        f"delete from observations where id in {ids}",
        f"update observations set content = '{SAME}' where id in {ids}",
        f"update observations set entity_id = {rng.randint(1, 8)} where id in {ids}",
        f"update observations set valid_to = '2020-01-01' where id in {ids}",
        f"delete from embeddings where id in {ids}",
        f"update entities set entity_type = 'Sesion' where id = {rng.randint(1, 8)}",
        f"delete from entities where id = {rng.randint(1, 8)}",
        f"update observations set similarity_flag = 0 where id in {ids}",
        f"update observations set similarity_flag = 1 where id in {ids}",
        f"insert into observations(entity_id, content) values ({rng.randint(1, 2)}, '{LONGER}')",
    ]
    written(path, *rng.sample(changes, 3))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_the_same_as_keeping(tmp_path, seed):
    rng = random.Random(seed)
    path = tmp_path / "memory.db"
    random_memory(path, rng)
    for step in range(3):
        before = digest(path)
        with closing(connection.connect(path, readonly=True)) as conn:
            with fresh(conn):
                without_writing = seen(conn)
            assert temporary(conn) == []
        assert digest(path) == before
        copy = tmp_path / f"copy{step}.db"
        shutil.copy(path, copy)
        kept(copy)
        with closing(connection.connect(copy, readonly=True)) as conn:
            assert seen(conn) == without_writing
        kept(copy, full=True)
        with closing(connection.connect(copy, readonly=True)) as conn:
            assert seen(conn) == without_writing
        if step:
            kept(path)
        random_changes(path, rng)
    assert without_writing["limbic_duplicates"]


def test_only_what_changed_is_looked_at(path, monkeypatch):
    kept(path)
    written(path, f"update observations set content = '{OTHER}' where id = 2")
    looked, look = [], keeping.look
    monkeypatch.setattr(
        keeping, "look", lambda conn, ids, *rest: looked.append(ids) or look(conn, ids, *rest)
    )
    calls = []
    with (
        closing(connection.connect(path, readonly=True)) as conn,
        fresh(conn, progress=lambda *args: calls.append(args)),
    ):
        assert conn.execute("select count(*) from limbic_report_pending").fetchone() == (0,)
        assert conn.execute("select count(*) from main.limbic_report_pending").fetchone() == (1,)
    assert looked == [[1]]
    assert calls == [(1, 1, "reports")]


def test_other_settings_are_seen(path):
    """What was kept by other thresholds does not count."""
    was = LONGER.replace(" runs", " was")
    written(path, f"update observations set content = '{was}' where id = 2")
    kept(path)
    written(path, "update limbic_settings set value = '1' where key = 'containment_threshold'")
    with closing(connection.connect(path, readonly=True)) as conn:
        before = conn.execute("select count(*) from limbic_duplicates").fetchone()
        with fresh(conn):
            now = conn.execute("select earlier_id, later_id from limbic_duplicates").fetchall()
    assert before == (2,)
    assert now == [(3, 4)]
    kept(path)
    with closing(connection.connect(path, readonly=True)) as conn:
        after = conn.execute("select earlier_id, later_id from limbic_duplicates").fetchall()
    assert after == now


FLAGS = {
    "an added repetition is flagged": (
        [f"insert into observations(id, entity_id, content) values (6, 1, '{SAME}')"],
        [(2, 1), (6, 1)],
    ),
    "the earlier one ended by itself": (["update observations set valid_to = datetime('now')"], []),
    "a flag that a person took away": (
        [
            "update observations set similarity_flag = 0 where id = 2",
            f"insert into observations(id, entity_id, content) values (6, 1, '{OTHER}')",
        ],
        [],
    ),
    "a flag without a pair": (
        ["update observations set similarity_flag = 1 where id = 5"],
        [(2, 1), (5, None)],
    ),
    "one of them is dated before": (
        ["update observations set created_at = '2000-01-01' where id = 2"],
        [(1, 2)],
    ),
    "other thresholds and a partner that ended unseen": (
        [
            "update limbic_settings set value = '0.9' where key = 'duplicate_threshold'",
            "drop trigger limbic_report_observations_update",
            "update observations set valid_to = '2020-01-01' where id = 1",
        ],
        [],
    ),
}


@pytest.mark.parametrize(("statements", "expected"), FLAGS.values(), ids=list(FLAGS))
def test_flags_are_those_that_keeping_would_leave(path, statements, expected):
    """Neither more nor less, so that counts of duplicates and of flags are of one moment."""
    kept(path)
    written(path, *statements)
    asked = f"select id, similar_to from ({queries()['limbic_flagged_observations']})"
    stored = "select id, similarity_flag from observations order by id"
    with closing(connection.connect(path, readonly=True)) as conn:
        before = conn.execute(stored).fetchall()
        with fresh(conn):
            assert sorted(conn.execute(asked).fetchall()) == expected
        assert conn.execute(stored).fetchall() == before
    kept(path)
    with closing(connection.connect(path, readonly=True)) as conn:
        assert sorted(conn.execute(asked).fetchall()) == expected


def test_gone_after_an_exception(path, monkeypatch):
    with closing(connection.connect(path)) as conn:
        with pytest.raises(ZeroDivisionError), fresh(conn):
            1 / 0  # noqa: B018
        assert temporary(conn) == []
        assert not conn.in_transaction
        monkeypatch.setattr(keeping, "look", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError), fresh(conn):
            pytest.fail("nothing was looked at")
        assert temporary(conn) == []
        assert not conn.in_transaction


def test_a_transaction_of_the_caller_stays_open(path):
    with closing(connection.connect(path)) as conn:
        conn.execute("update observations set kind = 'x' where id = 5")
        with fresh(conn):
            assert conn.in_transaction
        assert conn.in_transaction
        conn.rollback()
        assert conn.execute("select kind from observations where id = 5").fetchone() == (None,)
        assert temporary(conn) == []


def test_others_may_write_meanwhile(path, monkeypatch):
    """No lock is held on the file, neither while it is compared nor while it is read."""
    monkeypatch.setattr(reading, "BATCH", 1)  # an entity at a time
    with (
        closing(connection.connect(path, readonly=True)) as conn,
        closing(sqlite3.connect(path, timeout=0)) as other,
    ):
        texts = []

        def progress(*_):
            texts.append(len(texts))
            other.execute("update observations set kind = ?", [f"p{len(texts)}"])
            other.commit()

        with fresh(conn, progress=progress):
            other.execute("update observations set kind = 'inside'")
            other.commit()
        assert len(texts) == 2


def test_a_file_of_before_there_were_reports(path):
    """Opened for reading alone, it could not be brought up to date, and is looked at anyway."""
    with closing(connection.connect(path)) as conn:
        schema.drop_triggers(conn)
        for name in queries():
            conn.execute(f"drop view if exists {name}")
        for table in ("limbic_duplicates", "limbic_reports", "limbic_report_pending"):
            conn.execute(f"drop table {table}")
        conn.execute("drop table _limbic_text_keys")
        conn.commit()
    with closing(connection.connect(path, readonly=True)) as conn:
        assert not schema.has_reports(conn)
        with fresh(conn):
            found = conn.execute("select earlier_id, later_id, kind from limbic_duplicates")
            assert found.fetchall() == [(1, 2, "duplicate"), (3, 4, "contradiction")]
        assert temporary(conn) == []


def test_not_a_memory(tmp_path):
    with (
        closing(connection.connect(tmp_path / "new.db", create=True)) as conn,
        pytest.raises(NotAMemory),
        fresh(conn),
    ):
        pytest.fail("that is no memory")
