"""What the reports keep: looked at again where something changed, and nowhere else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import closing

import pytest
from click.testing import CliRunner
from datasette.utils.sqlite import sqlite3
from duplicates_helpers import LONGER, OTHER, SAME, asked, flags, kept, made, marked, pairs, written
from embedding_helpers import blob, store

from datasette_limbic import connection
from datasette_limbic.cli import limbic
from datasette_limbic.errors import NotAMemory
from datasette_limbic.reports import keeping, reading
from datasette_limbic.reports.text_keys import text_key
from datasette_limbic.sync import sync

ROWS = {
    "limbic_duplicates": "earlier_id, later_id, entity_id, kind, rule, cosine, containment,"
    " difference",
    "limbic_topics": "entity_id, topics, diversity, split_score",
    "_limbic_text_keys": "observation_id, entity_id, key",
}


@pytest.fixture(name="path")
def memory(tmp_path):
    return made(tmp_path / "memory.db")


def everything(path):
    """All that is kept, without the dates."""
    return {t: sorted(asked(path, f"select {c} from {t}"), key=repr) for t, c in ROWS.items()}


def state(path):
    with closing(connection.connect(path, readonly=True)) as conn:
        return keeping.state(conn)


def many(path, entities, each=2):
    """So many further entities of duplicates."""
    with closing(connection.connect(path)) as conn:
        for entity in range(10, 10 + entities):
            conn.execute("insert into entities(id, name) values (?, ?)", [entity, f"e{entity}"])
            conn.executemany(
                "insert into observations(entity_id, content) values (?, ?)",
                [(entity, SAME)] * each,
            )
        conn.commit()


def test_only_what_changed(path):
    many(path, 5)
    first = kept(path)
    assert (first.entities, first.observations, first.new_pairs, first.flagged) == (7, 15, 7, 6)
    date = state(path)["computed_at"]
    again = kept(path)
    assert (again.entities, again.new_pairs, again.gone_pairs) == (0, 0, 0)
    assert again.text() == "reports: nothing changed"
    assert state(path)["computed_at"] == date
    written(path, f"update observations set content = '{OTHER}' where entity_id = 12")
    assert state(path)["changed_since"] == 1
    third = kept(path)
    assert (third.entities, third.new_pairs) == (1, 1)
    assert kept(path, full=True).entities == 7
    assert state(path)["computed_at"] > date


def test_nothing_is_written_where_nothing_changed(path):
    kept(path)
    before = path.read_bytes()
    kept(path)
    assert path.read_bytes() == before


def test_the_state(path):
    assert state(path)["computed_at"] is None
    assert state(path)["changed_since"] == 2
    kept(path)
    found = state(path)
    assert (found["entities"], found["observations"], found["changed_since"]) == (2, 5, 0)
    assert found["model"] is None
    assert found["thresholds"] == {"cosine": 0.85, "look": 0.75, "containment": 0.7}
    assert found["settings_changed"] is False


@pytest.mark.parametrize(
    ("statement", "again"),
    [
        (
            "update limbic_settings set value = '0.6' where key = 'containment_threshold'",
            True,
        ),
        ("update limbic_settings set value = '0.9' where key = 'duplicate_threshold'", True),
        ("update limbic_settings set value = '7' where key = 'split_threshold:Sesion'", True),
        ("update limbic_settings set value = '0.5' where key = 'topic_min_silhouette'", True),
        ("update limbic_settings set value = '12' where key = 'stale_days'", False),
        ("update limbic_settings set value = 'often' where key = 'duplicate_threshold'", False),
    ],
)
def test_other_settings(path, statement, again):
    kept(path)
    written(path, statement)
    assert state(path)["settings_changed"] is again
    assert kept(path).entities == (2 if again else 0)
    assert state(path)["settings_changed"] is False


def test_another_threshold_takes_flags_away(path):
    written(
        path, "update observations set content = '" + LONGER.replace(" runs", " was") + "'"
        " where id = 2"
    )  # fmt: skip
    kept(path)
    assert (1, 2, "duplicate") in pairs(path)
    assert flags(path) == {2}
    written(path, "update limbic_settings set value = '1' where key = 'containment_threshold'")
    assert kept(path).unflagged == 1
    assert flags(path) == set()
    assert pairs(path) == {(3, 4, "contradiction")}


def test_vectors_that_come_and_another_model(path):
    kept(path)
    before = everything(path)
    written(path, f"update observations set content = '{OTHER} too' where id = 4")
    kept(path)
    with closing(connection.connect(path)) as conn:
        store(conn, "observations", {3: blob(1, 0), 4: blob(1, 0.1)}, model="bag")
    assert marked(path) == {1}
    found = kept(path)
    assert found.entities == 2  # a model where there was none: everything
    assert state(path)["model"] == "bag"
    written(path, "update embeddings set embedding = x'0000803f00000000' where id = '4'")
    assert marked(path) == {1}
    written(path, "delete from limbic_stale")
    kept(path)
    assert asked(path, "select cosine from limbic_duplicates where later_id = 4") == [(1.0,)]
    written(path, "update collections set model = 'bag2' where name = 'observations'")
    assert state(path)["settings_changed"] is True
    assert kept(path).entities == 2
    written(path, "delete from embeddings where id = '3'")
    assert marked(path) == {1}
    kept(path)
    assert everything(path) != before


def test_a_vector_of_an_earlier_text_does_not_count(path):
    with closing(connection.connect(path)) as conn:
        store(conn, "observations", {3: blob(1, 0), 5: blob(1, 0)})
        batch = reading.read(conn, [1, 2])
        # the hash is of no text, and what triggers marked stands as it was
        assert batch.vectors is None
        assert batch.without_vector == 5
        conn.execute("delete from limbic_stale where collection = 'observations'")
        batch = reading.read(conn, [1, 2])
        assert batch.without_vector == 3
        assert batch.vectors.shape == (5, 2)
        assert [o.id for o in batch.observations] == [1, 2, 3, 4, 5]
        assert list(batch.entities()) == [(1, slice(0, 4)), (2, slice(4, 5))]


@pytest.mark.parametrize(
    "content", ["x'ff00fe'", "12345", "cast(x'61ff62' as text)", "1.5e300", "''", "char(0) || 'a'"]
)
def test_whatever_stands_in_a_text(path, content):
    """Bytes that are no text, numbers: written by any program, read all the same."""
    written(
        path,
        f"update observations set content = {content}, created_at = {content} where id in (1, 2)",
    )
    kept(path)
    assert (1, 2, "duplicate") in pairs(path)
    assert flags(path) == {2}


def test_time_alone_ends_an_observation(path):
    """No trigger fires when the time of valid_to comes."""
    kept(path)
    soon = "strftime('%Y-%m-%d %H:%M:%S', 'now', '+1 hour')"
    written(path, f"update observations set valid_to = {soon} where id = 1")
    kept(path)
    assert flags(path) == {2}
    # the hour passes: all that was noted is an hour older
    trigger = "limbic_report_observations_update"
    (text,) = asked(path, "select sql from sqlite_master where name = ?", trigger)[0]
    written(
        path,
        f"drop trigger {trigger}",
        "update observations set valid_to = datetime(valid_to, '-2 hours')",
        "update limbic_reports set computed_at = datetime(computed_at, '-2 hours')",
        text,
    )
    assert marked(path) == set()
    assert state(path)["changed_since"] == 1
    assert kept(path).entities == 1
    assert flags(path) == set()
    assert state(path)["changed_since"] == 0
    assert kept(path).entities == 0


def test_continued_after_a_kill(path):
    many(path, 30)
    script = (
        "import os, signal, sys\n"
        "from datasette_limbic import connection\n"
        "from datasette_limbic.reports import keeping\n"
        "keeping.AT_ONCE = 4\n"
        "def progress(done, total, stage):\n"
        "    if done >= 12: os.kill(os.getpid(), signal.SIGKILL)\n"
        "keeping.keep(connection.connect(sys.argv[1]), progress=progress)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script, str(path)], timeout=60, check=False)
    assert ended.returncode == -signal.SIGKILL
    left = marked(path)
    assert len(left) == 32 - 12
    # what was done is done, flags and all
    assert len(flags(path)) == len(pairs(path)) - 1 == 11
    assert state(path)["computed_at"] is None
    assert kept(path).entities == 20
    assert len(flags(path)) == 31
    once = everything(path)
    kept(path, full=True)
    assert everything(path) == once


def test_what_changes_meanwhile_is_for_the_next_run(path, monkeypatch):
    """Read, then changed, then written: what was found is of a text that is no more."""
    look = keeping.look

    def looked(conn, ids, *arguments):
        found = look(conn, ids, *arguments)
        written(path, f"update observations set content = content || '!{os.urandom(4).hex()}'"
                " where id = 2")  # fmt: skip
        return found

    monkeypatch.setattr(keeping, "look", looked)
    found = kept(path)
    assert found.pending == 1
    assert "1 changed meanwhile" in found.text()
    assert marked(path) == {1}
    assert pairs(path) == set()
    assert flags(path) == set()
    # the other one was not touched
    assert asked(path, "select entity_id from _limbic_text_keys") == [(2,)]
    monkeypatch.undo()
    written(path, f"update observations set content = '{SAME}' where id = 2")
    kept(path)
    assert (1, 2, "duplicate") in pairs(path)
    assert flags(path) == {2}


def test_a_change_in_between_is_seen_in_the_same_run(path, monkeypatch):
    look, times = keeping.look, []

    def looked(conn, ids, *arguments):
        found = look(conn, ids, *arguments)
        if not times:
            written(path, f"update observations set content = '{OTHER}' where id = 2")
        times.append(ids)
        return found

    monkeypatch.setattr(keeping, "look", looked)
    assert kept(path).pending == 0
    assert times == [[1, 2], [1]]
    assert pairs(path) == {(3, 4, "contradiction")}


def test_pairs_of_another_order_or_entity_that_no_trigger_saw(path):
    """What stands in the way of a new pair, such as after a restore, goes."""
    kept(path)
    written(path, "update limbic_duplicates set earlier_id = 2, later_id = 1 where earlier_id = 1")
    written(path, "update limbic_duplicates set entity_id = 2")
    kept(path, full=True)
    assert pairs(path) == {(1, 2, "duplicate"), (3, 4, "contradiction")}
    assert asked(path, "select distinct entity_id from limbic_duplicates") == [(1,)]
    assert flags(path) == {2}


def test_a_file_that_cannot_be_written(path):
    with (
        closing(connection.connect(path, readonly=True)) as conn,
        pytest.raises(sqlite3.OperationalError, match="readonly"),
    ):
        keeping.keep(conn)


def test_a_file_that_is_locked(path, monkeypatch):
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_S", 0.05)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("begin immediate")
        result = CliRunner().invoke(limbic, ["sync", str(path)])
        assert result.exit_code == 1
        assert "Traceback" not in result.output
        assert path.name in result.output
        assert "lock" in result.output or "busy" in result.output or "another" in result.output
        with closing(connection.connect(path)) as conn, pytest.raises(sqlite3.OperationalError):
            keeping.keep(conn)
        other.execute("rollback")
    assert flags(path) == set()
    kept(path)
    assert flags(path) == {2}


def test_not_a_memory(tmp_path):
    with (
        closing(connection.connect(tmp_path / "new.db", create=True)) as conn,
        pytest.raises(NotAMemory),
    ):
        keeping.keep(conn)


def test_sync_keeps_unless_told_not_to(path, models):
    with closing(connection.connect(path)) as conn:
        assert sync(conn, model="bag", reports=False).reports is None
        assert flags(path) == set()
        found = sync(conn)
        assert found.reports.flagged == 1
        assert found.changed
        assert "1 observation flagged" in found.text()
    assert flags(path) == {2}
    assert state(path)["model"] == "bag"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("Works at Acme Corp", "  works at  ACME Corp.", True),
        ("Works at Acme Corp", "Works at Acme Corps", False),
        ("Café de la plaza", "Café de la plaza", True),
        ("価格は五百円です", "価格は五百円です。", True),
        ("costs 5 % more", "costs 5 more", False),
    ],
)
def test_text_keys(one, other, same):
    assert (text_key(one) == text_key(other)) is same
    assert -(2**63) <= text_key(one) < 2**63


@pytest.mark.parametrize("text", ["", "active", "two words", "🦆🦆🦆", "???", " " * 500 + "a b"])
def test_texts_without_a_key(text):
    assert text_key(text) is None


@pytest.mark.parametrize("text", [" " * 500 + "one two three", "\ud800 one two three"])
def test_texts_with_a_key(text):
    assert text_key(text) is not None
