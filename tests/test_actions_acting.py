"""Acting beside others, on files that cannot be written, with models that fail; and searching
for what changed as soon as the call returns."""

from __future__ import annotations

import json
import shutil
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from actions_helpers import (
    ARGUMENTS,
    BOREALIS,
    TWIN,
    acted_fixture,  # noqa: F401
    acted_master_fixture,  # noqa: F401
    assert_settled,
    differing,
    dump,
    everything,
    opened,
    prepared,
)
from datasette.utils.sqlite import sqlite3
from embedding_helpers import BagModel, registered

from datasette_limbic.actions.acting import Action, act
from datasette_limbic.adding import add_observations
from datasette_limbic.config import Settings
from datasette_limbic.errors import (
    BadParameter,
    LimbicError,
    NotEmbedded,
    NotRecorded,
    NotWritable,
    Refused,
    StaleProposal,
    UnknownEntity,
    UnknownInsight,
    UnknownRow,
)
from datasette_limbic.integrity import check
from datasette_limbic.search import search
from datasette_limbic.sync import sync

ALL = pytest.mark.parametrize("case", ARGUMENTS)
# Correcting twice to one value is among the threads below.
SAYS_WHAT = {
    "split": "is taken by entity", "merge": "there is no observation", "restore": "not archived",
    "delete": "there is no observation", "archive": "was archived already", "end": "ended",
    "end a relation": "ended", "undo": "was undone already", "merge_entities": "archived",
}  # fmt: skip


@ALL
def test_every_vector_is_that_of_its_text_when_the_call_returns(
    acted: Path, case: str, models: Any
) -> None:
    with opened(acted) as conn:
        name, arguments = prepared(conn, case)
        before = dump(conn)
        answer = act(conn, name, arguments)
        assert answer["search"] == {"updated": True, "reason": None}
        assert_settled(conn, models["bag"])
        for _ in range(2):
            again = act(conn, "undo", {"change": answer["change"]})
            assert again["search"] == {"updated": True, "reason": None}
            assert_settled(conn, models["bag"])
            assert differing(dump(conn), before) == {}
            answer = act(conn, "undo", {"change": again["change"]})
            assert_settled(conn, models["bag"])


def names(conn: Any, query: str, **options: Any) -> list[str]:
    return [row["name"] for row in search(conn, query, **options)["results"]]


def test_search_finds_what_changed(acted: Path, models: Any) -> None:
    with opened(acted) as conn:
        for mode in ("text", "semantic"):
            assert "Atlas" in names(conn, "Maps are drawn by hand in Oslo", mode=mode)
        act(conn, *ARGUMENTS["archive"])
        for mode in ("text", "semantic"):
            assert "Atlas" not in names(conn, "Maps drawn Oslo closing", mode=mode)
        act(conn, "undo", {"change": 1})
        act(conn, *ARGUMENTS["split"])
        for mode in ("text", "semantic"):
            assert "Atlas: maps" in names(conn, "Maps are drawn by hand in Oslo", mode=mode)
            assert "Atlas: 予算" in names(conn, "Budgets are kept in a spreadsheet", mode=mode)
        act(conn, "undo", {"change": 3})
        act(conn, "delete", {"observations": [8]})
        assert "Borealis" not in names(conn, "charts of the sea", mode="text")


def test_no_transaction_is_open_while_a_model_works(acted: Path, models: Any) -> None:
    """Others write meanwhile; where they write what it depends on, it is done anew."""
    wrote: list[int] = []
    with opened(acted) as conn, opened(acted) as other:

        def meanwhile(items: list[str]) -> None:
            assert not conn.in_transaction
            other.execute("pragma busy_timeout = 0").fetchone()
            other.execute("update observations set content = content || '!' where id = 8")
            other.execute("update observations set content = content || '!' where id = 3")
            other.commit()
            wrote.append(len(items))
            if len(wrote) == 2:
                models["bag"].before = None

        models["bag"].before = meanwhile
        answer = act(conn, *ARGUMENTS["split"])
        assert answer["search"]["updated"]
        assert len(wrote) == 2
        assert conn.execute("select content from observations where id = 3").fetchone()[0] == (
            "Maps are drawn by hand in Oslo!!"
        )
        stale = set(conn.execute("select collection, item_id from limbic_stale").fetchall())
        assert stale == {("entities", BOREALIS), ("observations", 8)}


def test_others_who_never_stop(acted: Path, models: Any) -> None:
    with opened(acted) as conn, opened(acted) as other:

        def meanwhile(_: list[str]) -> None:
            other.execute("update observations set content = content || '!' where id = 1")
            other.commit()

        models["bag"].before = meanwhile
        with pytest.raises(NotRecorded, match="others wrote 5 times"):
            act(conn, *ARGUMENTS["split"])
        assert conn.execute("select count(*) from limbic_changes").fetchone()[0] == 0


def test_a_stale_proposal_says_what_changed(acted: Path) -> None:
    with opened(acted) as conn, opened(acted) as other:
        shown = act(conn, *ARGUMENTS["split"], dry_run=True)
        other.execute("insert into observations(id, entity_id, content) values (99, 1, 'more')")
        other.execute("update entities set entity_type = 'Thing' where id = 1")
        other.execute("delete from observations where id = 7")
        other.commit()
        before = everything(other)
        with pytest.raises(StaleProposal) as caught:
            act(conn, "split", shown["arguments"], basis=shown["basis"])
        for part in ("type of entity 1 was 'Project' and is 'Thing'", "observation 7 went",
                     "observation 99 came"):  # fmt: skip
            assert part in str(caught.value)
        assert everything(other) == before
        # without a basis it is what it was asked for
        act(conn, "split", shown["arguments"])


@pytest.mark.parametrize("case", SAYS_WHAT)
def test_two_who_approve_the_same(acted: Path, case: str) -> None:
    """One does it; the other is told, and writes nothing."""
    with opened(acted) as one, opened(acted) as two:
        name, arguments = prepared(one, case)
        first, second = (Action(name, arguments) for _ in range(2))
        shown = act(one, name, arguments, dry_run=True)
        second = Action(name, shown["arguments"], basis=shown["basis"])
        for action, conn in ((first, one), (second, two)):
            action.read(conn)
            action.embed()
        assert first.write(one)
        before = everything(one)
        with pytest.raises(Exception, match=SAYS_WHAT[case]):
            second.write(two)
        assert not two.in_transaction
        assert everything(one) == before


@pytest.mark.parametrize("case", ["split", "delete", "correct", "correct an entity", "archive"])
def test_threads_at_once(acted: Path, case: str) -> None:
    """Exactly one of four does it."""
    answers: list[Any] = []
    start = threading.Barrier(4)

    def one() -> None:
        with opened(acted) as conn:
            start.wait(20)
            try:
                answers.append(act(conn, *ARGUMENTS[case], actor="me"))
            except Exception as error:
                answers.append(error)

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    done = [answer for answer in answers if isinstance(answer, dict)]
    assert len(answers) == 4, answers
    assert len(done) == 1, answers
    assert all(isinstance(each, (dict, LimbicError)) for each in answers), answers
    with opened(acted) as conn:
        assert conn.execute("select count(*), min(actor) from limbic_changes").fetchone() == (
            1, "me",
        )  # fmt: skip
        assert_settled(conn)


def test_different_proposals_on_one_entity(acted: Path) -> None:
    with opened(acted) as conn:
        split = act(conn, *ARGUMENTS["split"], dry_run=True)
        delete = act(conn, "delete", {"observations": [3]}, dry_run=True)
        archive = act(conn, *ARGUMENTS["archive"], dry_run=True)
        act(conn, "delete", delete["arguments"], basis=delete["basis"])
        with pytest.raises((StaleProposal, LookupError), match="observation 3"):
            act(conn, "split", split["arguments"], basis=split["basis"])
        with pytest.raises(StaleProposal, match="observation 3 went"):
            act(conn, "archive", archive["arguments"], basis=archive["basis"])
        act(conn, *ARGUMENTS["archive"])
        with pytest.raises(Refused, match="archived"):
            act(conn, "split", split["arguments"], basis=split["basis"])


def test_adding_and_syncing_meanwhile(acted: Path, models: Any) -> None:
    """An adder, a sync and an actor at work on one file for a while: nothing is lost."""
    failures: list[BaseException] = []
    stop = threading.Event()

    def during(work: Any) -> threading.Thread:
        def run() -> None:
            with opened(acted) as conn:
                while not stop.is_set():
                    try:
                        work(conn)
                    except BaseException as error:
                        failures.append(error)
                        return

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    added: list[str] = []

    def sent(what: Any) -> Any:
        """Who is refused because others wrote each time sends it again, as the refusal says."""
        end = time.monotonic() + 60
        while True:
            try:
                return what()
            except NotRecorded as refused:
                if "Send it again" not in str(refused) or time.monotonic() > end:
                    raise

    def add(conn: Any) -> None:
        text = f"fact number {len(added)}"
        rows = [{"id": BOREALIS, "contents": [text]}]
        if sent(partial(add_observations, conn, rows))["results"]:
            added.append(text)

    threads = [during(add), during(sync)]
    try:
        with opened(acted) as conn:
            before = {r[0] for r in conn.execute("select content from observations")}
            for case in ("split", "delete", "archive", "end a relation", "merge"):
                asked = ARGUMENTS[case]
                done = sent(partial(act, conn, *asked))["change"]
                sent(partial(act, conn, "undo", {"change": done}))
            end = time.monotonic() + 60
            while len(added) < 3 and not failures:  # each wants its turn
                assert time.monotonic() < end
                time.sleep(0.02)
    finally:
        stop.set()
        for thread in threads:
            thread.join(60)
    assert failures == []
    with opened(acted) as conn:
        sync(conn)
        assert check(conn).ok
        there = {row[0] for row in conn.execute("select content from observations")}
        assert there == before | set(added)


@ALL
def test_a_model_that_fails(acted: Path, case: str, models: Any) -> None:
    with opened(acted) as conn:
        name, arguments = prepared(conn, case)
        before = everything(conn)

        def fails(_: Any) -> None:
            raise OSError("no route to the model")

        models["bag"].before = fails
        if case in ("correct", "correct an entity"):
            return  # no text changes: no model is needed
        if case == "restore":
            conn.execute("delete from embeddings where id = '2' and collection_id = 1")
            conn.commit()
            before = everything(conn)
        with pytest.raises(NotEmbedded, match="no route to the model"):
            act(conn, name, arguments)
        assert not conn.in_transaction
        assert everything(conn) == before
        # left to sync by the caller's wish, it is done without
        answer = act(conn, name, arguments, embed=False)
        assert answer["search"]["reason"].startswith("not asked for")
        models["bag"].before = None
        sync(conn)
        assert_settled(conn)


def test_models_that_are_others(acted: Path, models: Any) -> None:
    with opened(acted) as conn:
        before = everything(conn)
        for settings, said in (
            (Settings(model="bag16"), "16 dimensions"),
            (Settings(model="broken"), "no model at /elsewhere"),
            (Settings(model="nobody"), "llm knows no embedding model 'nobody'"),
        ):
            with pytest.raises(NotEmbedded, match=said):
                act(conn, *ARGUMENTS["split"], settings=settings)
            assert everything(conn) == before


def test_a_model_that_nobody_has(acted_master: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(acted_master, tmp_path))
    with registered(BagModel("another")), opened(path) as conn:
        before = everything(conn)
        with pytest.raises(NotEmbedded, match="'bag'"):
            act(conn, *ARGUMENTS["split"])
        assert everything(conn) == before


@ALL
def test_without_vectors(acted: Path, case: str) -> None:
    """It goes on, and says what to do."""
    with opened(acted) as conn:
        conn.executescript(
            "delete from embeddings; delete from collections; delete from limbic_indexes;"
            "drop table _limbic_vec_entities; drop table _limbic_vec_observations"
        )
        name, arguments = prepared(conn, case)
        before = dump(conn)
        answer = act(conn, name, arguments)
        assert (
            "no vectors of entities yet: run 'datasette limbic sync'"
            in (answer["search"]["reason"])
        )
        act(conn, "undo", {"change": answer["change"]})
        assert differing(dump(conn), before) == {}
        sync(conn, model="bag")
        assert_settled(conn)


@ALL
def test_without_sqlite_vec(
    acted: Path, case: str, monkeypatch: pytest.MonkeyPatch, models: Any
) -> None:
    """On a connection that cannot load it: vectors are stored, the next sync indexes them."""
    with monkeypatch.context() as patched:
        patched.setattr("datasette_limbic.connection.load_vec", lambda conn: "not here")
        with opened(acted) as conn:
            name, arguments = prepared(conn, case)
            answer = act(conn, name, arguments)
            why = "sqlite-vec is not loaded on this connection"
            assert answer["search"] == {"updated": False, "reason": why}
    with opened(acted) as conn:
        models["bag"].seen.clear()
        sync(conn)
        assert models["bag"].seen == []
        assert_settled(conn)


@ALL
def test_a_file_that_cannot_be_written(acted: Path, case: str) -> None:
    with opened(acted) as conn:
        name, arguments = prepared(conn, case)
        before = everything(conn)
    with opened(acted, readonly=True) as conn:
        shown = act(conn, name, arguments, dry_run=True)
        assert shown["diff"]["rows"]
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            act(conn, name, arguments)
        assert everything(conn) == before


def test_a_locked_file(acted: Path) -> None:
    with opened(acted) as conn, opened(acted) as other:
        conn.execute("pragma busy_timeout = 1").fetchone()
        other.execute("begin immediate")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            act(conn, *ARGUMENTS["split"])
        assert not conn.in_transaction
        assert act(conn, *ARGUMENTS["split"], dry_run=True)["dry_run"]
        other.rollback()
        act(conn, *ARGUMENTS["split"])


def test_a_file_of_an_earlier_version(acted: Path) -> None:
    with opened(acted) as conn:
        conn.execute("alter table limbic_insights drop column judged_before")
        conn.commit()
        before = everything(conn)
        for dry_run in (True, False):
            with pytest.raises(NotWritable, match=r"earlier version.*datasette limbic init"):
                act(conn, *ARGUMENTS["split"], dry_run=dry_run)
        assert everything(conn) == before


@pytest.mark.parametrize("case", [c for c in ARGUMENTS if c not in ("archive", "restore", "undo")])
def test_an_entity_archived_meanwhile(acted: Path, case: str) -> None:
    with opened(acted) as conn, opened(acted) as other:
        name, arguments = ARGUMENTS[case]
        shown = act(conn, name, arguments, dry_run=True)
        other.execute("update entities set archived_at = '2026-01-01 00:00:00'")
        other.commit()
        before = everything(other)
        with pytest.raises(Refused, match="archived"):
            act(conn, name, shown["arguments"], basis=shown["basis"])
        assert everything(other) == before


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_plain_connections_may_act(acted: Path, journal: str) -> None:
    """Rows as ``sqlite3.Row`` and no foreign keys, as on Datasette's own connections."""
    with opened(acted) as conn:
        conn.execute(f"pragma journal_mode = {journal}").fetchone()
        conn.execute("pragma foreign_keys = off")
        conn.row_factory = sqlite3.Row
        for case in ARGUMENTS:
            before = dump(conn)
            if case == "undo":
                continue
            answer = act(conn, *ARGUMENTS[case])
            json.dumps(answer)
            act(conn, "undo", {"change": answer["change"]})
            conn.row_factory = None
            assert differing(dump(conn), before) == {}
            conn.row_factory = sqlite3.Row
        assert conn.row_factory is sqlite3.Row


def test_an_insight_is_approved_with_it(acted: Path) -> None:
    with opened(acted) as conn:
        before = dump(conn)
        answer = act(conn, *ARGUMENTS["split"], insight=1, actor="ana")
        row = conn.execute("select status, judged_by from limbic_insights").fetchone()
        assert row == ("approved", "ana")
        assert conn.execute("select insight_id, actor from limbic_changes").fetchone() == (1, "ana")
        with pytest.raises(Refused, match=r"insight 1 .* was approved by ana"):
            act(conn, *ARGUMENTS["delete"], insight=1)
        with pytest.raises(UnknownInsight, match="no insight 77"):
            act(conn, *ARGUMENTS["delete"], insight=77)
        act(conn, "undo", {"change": answer["change"]})
        assert differing(dump(conn), before) == {}


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("explode", {}, "action is 'explode': use one of split, merge"),
        ("archive", {"entity": 1, "reason": "x", "force": True}, "unknown argument force"),
        ("archive", {"entity": 1 << 70, "reason": "x"}, "entity"),
        ("delete", {"observations": [1 << 70]}, "observations is"),
        ("undo", {"change": 1 << 70}, "change is"),
        ("undo", {"change": 5}, "there is no change 5"),
        ("undo", {}, "change is None"),
    ],
)
def test_what_cannot_be_asked(acted: Path, name: str, arguments: Any, said: str) -> None:
    with opened(acted) as conn:
        before = everything(conn)
        with pytest.raises((BadParameter, LookupError), match=said):
            act(conn, name, arguments)
        assert everything(conn) == before


def test_an_infinity_and_raw_bytes_are_kept(acted: Path) -> None:
    """Any program may write them, and they come back as they were."""
    with opened(acted) as conn:
        conn.execute("update entities set confidence = 9e999, name = cast(x'41ff42' as text)"
                     " where id = 1")  # fmt: skip
        conn.execute("update observations set confidence = -9e999, content ="
                     " cast(x'00ff00' as text) where id in (3, 4)")  # fmt: skip
        conn.commit()
        sync(conn)
        for case in ("split", "delete", "archive", "merge_entities"):
            before = dump(conn)
            answer = act(conn, *ARGUMENTS[case])
            json.dumps(answer, allow_nan=False)
            act(conn, "undo", {"change": answer["change"]})
            assert differing(dump(conn), before) == {}


def demanding(conn: Any, table: str, column: str, *, default: str = "''") -> None:
    """A column of another program's that may not be null, and has no default."""
    text = f" text not null default {default}"
    conn.execute(f"alter table {table} add column {column}{text}")
    conn.execute(f"update {table} set {column} = 'x'")
    conn.execute("pragma writable_schema = on")
    conn.execute(
        "update sqlite_master set sql = replace(sql, ?, ' text not null') where name = ?",
        [text, table],
    )
    conn.execute("pragma writable_schema = reset")
    conn.commit()


@pytest.mark.parametrize(
    ("table", "case"),
    [
        ("relations", "split"),
        ("entity_access", "split"),
        ("entity_access", "merge_entities"),
    ],
)
@pytest.mark.parametrize("dry_run", [True, False])
def test_what_a_file_demands_is_said_beforehand(
    acted: Path, table: str, case: str, dry_run: bool
) -> None:
    with opened(acted) as conn:
        conn.execute(
            f"delete from entity_access where entity_id <> {TWIN} and ? <> 'split'", [case]
        )
        demanding(conn, table, "weight")
        before = everything(conn)
        with pytest.raises(Refused, match=rf"nothing was changed: .* {table}\.weight may not be"):
            act(conn, *ARGUMENTS[case], dry_run=dry_run)
        assert everything(conn) == before


def test_what_comes_back_has_what_is_demanded(acted: Path) -> None:
    """A row as it was has all of its columns, but for those that came since."""
    with opened(acted) as conn:
        demanding(conn, "observations", "mood")
        before = dump(conn)
        change = act(conn, "delete", {"observations": [3]})["change"]
        undone = act(conn, "undo", {"change": change})["change"]
        assert dump(conn) == before
        act(conn, "undo", {"change": undone})
        demanding(conn, "observations", "colour")
        for dry_run in (True, False):
            with pytest.raises(Refused, match=r"observations\.colour may not be empty, and a new"):
                act(conn, "undo", {"change": change}, dry_run=dry_run)


def test_what_is_emptied_may_be_demanded_too(acted: Path) -> None:
    """Restoring leaves archived_at and archived_reason empty."""
    with opened(acted) as conn:
        conn.execute("update entities set archived_reason = coalesce(archived_reason, '')")
        conn.execute("pragma writable_schema = on")
        conn.execute(
            "update sqlite_master set sql = replace(sql, 'archived_reason text',"
            " 'archived_reason text not null') where name = 'entities'"
        )
        conn.execute("pragma writable_schema = reset")
        conn.commit()
        with pytest.raises(Refused, match=r"entities\.archived_reason may not be empty, and this"):
            act(conn, *ARGUMENTS["restore"], dry_run=True)


@pytest.mark.parametrize(
    ("rule", "case", "said"),
    [
        ("create unique index theirs on relations(to_entity, created_at)", "split",
         "UNIQUE constraint failed: relations.to_entity, relations.created_at"),
        ("create trigger theirs before update on observations begin"
         " select raise(abort, 'not today'); end", "end", "not today"),
    ],
)  # fmt: skip
def test_a_rule_of_another_program(acted: Path, rule: str, case: str, said: str) -> None:
    with opened(acted) as conn:
        if "unique" in rule:
            conn.execute("update relations set created_at = id")
        conn.execute(rule)
        conn.commit()
        before = everything(conn)
        # two children: both of the same moment, and both lead to the parent
        with pytest.raises(Refused, match=f"nothing was changed: a rule of this file.*{said}"):
            act(conn, *ARGUMENTS[case])
        assert not conn.in_transaction
        assert everything(conn) == before


GONE = {
    "split": "delete from entities where id = 1",
    "split, observation": "delete from observations where id = 3",
    "merge": "delete from observations where id = 15",
    "delete": "delete from observations where id = 14",
    "archive": "delete from entities where id = 1",
    "restore": "delete from entities where id = 4",
    "end": "delete from observations where id = 1",
    "end a relation": "delete from relations where id = 2",
    "correct": "delete from observations where id = 3",
    "correct an entity": "delete from entities where id = 2",
    "merge_entities": "delete from entities where id = 7",
}


@pytest.mark.parametrize("case", GONE)
def test_what_was_shown_and_is_gone_is_stale(acted: Path, case: str) -> None:
    """It was there when it was shown; without a basis it is unknown, as ever."""
    with opened(acted) as conn:
        name, arguments = ARGUMENTS[case.split(",")[0]]
        shown = act(conn, name, arguments, dry_run=True)
        conn.execute(GONE[case])
        conn.commit()
        before = everything(conn)
        with pytest.raises(StaleProposal, match=r"as it was when it was shown: .*Look at it again"):
            act(conn, name, shown["arguments"], basis=shown["basis"])
        with pytest.raises((UnknownRow, UnknownEntity)):
            act(conn, name, shown["arguments"])
        assert everything(conn) == before
