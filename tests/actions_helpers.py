"""Small memories to act on, dumps of them, and one case of each action."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from datasette.utils.sqlite import sqlite3
from embedding_helpers import BagModel, registered

from datasette_limbic import connection, schema
from datasette_limbic.actions.acting import act
from datasette_limbic.actions.rows import exactly
from datasette_limbic.insights.model import digest_of, text_digest, text_of
from datasette_limbic.integrity import check
from datasette_limbic.sync import sync

MODEL = "bag"
# What an action leaves behind by design: its log, ids that were given out, and marks of what is
# worked out anew. ``limbic_stale`` is looked at by itself.
LEFT_OUT = frozenset(
    (
        "limbic_changes", "sqlite_sequence", "sqlite_stat1", "sqlite_stat4", "limbic_stale",
        "limbic_report_pending", "limbic_reports", "_limbic_text_keys", "limbic_indexes",
    )
)  # fmt: skip

ATLAS, BOREALIS, ODD, ARCHIVED, UNDATED, EMPTY, TWIN, LIKE = range(1, 9)
_ENTITIES = (
    (ATLAS, "Atlas", "Project", "2024-01-01 10:00:00", None, None),
    (BOREALIS, "Borealis", "Project", "2024-02-01 10:00:00", None, None),
    (ODD, 'Casa "ñ" 日本\n\x01 %', "It's", "2024-03-01T10:00:00Z", None, None),
    (ARCHIVED, "Delta", "Project", "2023-01-01 10:00:00", "2024-06-01 10:00:00", "finished"),
    (UNDATED, "Echo", "Thing", None, None, None),
    (EMPTY, "Foxtrot", "Thing", "2024-04-01 10:00:00", None, None),
    (TWIN, "ATLAS", "Project", "2023-12-01 10:00:00", None, None),
    (LIKE, "Gamma", "Thing", "2024-05-01 10:00:00", None, None),
)
# id, entity, content, created_at, kind, confidence, valid_from, valid_to, supersedes
_OBSERVATIONS = (
    (1, ATLAS, "The closing runs on the first working day at seven", "2024-01-02 09:00:00",
     None, 1.0, None, None, None),
    (2, ATLAS, "the closing runs on the first working day at seven", "2024-01-03 09:00:00",
     "fact", 0.8, None, None, None),
    (3, ATLAS, "Maps are drawn by hand in Oslo", "2024-01-04 09:00:00",
     None, 1.0, None, None, None),
    (4, ATLAS, "Maps were drawn in Bergen before", "2024-01-05 09:00:00",
     None, 0.5, None, "2024-02-01 00:00:00", None),
    (5, ATLAS, "Budgets are kept in a spreadsheet", None, None, 1.0, None, None, 4),
    (6, ATLAS, "Budgets will move to a database", "2024-01-06 09:00:00",
     "plan", 1.0, "2099-01-01 00:00:00", None, 5),
    (7, ATLAS, "地図 \x00 東京 the closing runs on the first working day at seven o'clock sharp",
     "2024-01-07 09:00:00", None, 1.0, None, None, 6),
    (8, BOREALIS, "Borealis draws charts of the sea", "2024-02-02 09:00:00",
     None, 1.0, None, None, None),
    (9, TWIN, "Maps are drawn by hand in Oslo", "2023-12-02 09:00:00",
     None, 1.0, None, None, None),
    (10, TWIN, "Atlas has a twin with another spelling", "2023-12-03 09:00:00",
     None, 1.0, None, None, 3),
    (11, ARCHIVED, "Delta was a river project", "2023-01-02 09:00:00",
     None, 1.0, None, None, None),
    (12, UNDATED, "Nobody knows when this was", None, None, 1.0, "2020-01-01 00:00:00", None, None),
    (13, LIKE, "Everything about gamma rays and detectors", "2024-05-02 09:00:00",
     None, 1.0, None, None, None),
    (14, LIKE, "Everything about gamma rays and detectors", "2024-05-03 09:00:00",
     None, 1.0, None, None, None),
    (15, LIKE, "everything about Gamma rays and detectors", "2024-05-04 09:00:00",
     None, 1.0, None, None, 14),
)  # fmt: skip
# id, from, to, type, valid_to
_RELATIONS = (
    (1, ATLAS, BOREALIS, "uses", None),
    (2, BOREALIS, ATLAS, "used by", None),
    (3, ODD, ATLAS, "knows", None),
    (4, ATLAS, ATLAS, "is", None),
    (5, UNDATED, ATLAS, "was near", "2024-01-01 00:00:00"),
    (6, TWIN, BOREALIS, "uses", None),
    (7, TWIN, EMPTY, "has", None),
    (8, ATLAS, TWIN, "like", None),
    (9, ARCHIVED, ATLAS, "fed", None),
    (10, BOREALIS, ARCHIVED, "followed", None),
)

ARGUMENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "split": (
        "split",
        {
            "entity": ATLAS,
            "children": [
                {"name": "Atlas: maps", "observations": [3, 4, 2]},
                {"name": "Atlas: 予算", "entityType": "Ledger", "observations": [5, 6]},
            ],
        },
    ),
    "merge": ("merge", {"entity": LIKE, "clusters": [{"keep": 14, "remove": [13, 15]}]}),
    "delete": ("delete", {"observations": [2, 1, 4, 6, 14]}),
    "archive": ("archive", {"entity": ATLAS, "reason": "done"}),
    "restore": ("restore", {"entity": ARCHIVED}),
    "end": ("end", {"observation": 1, "at": "2024-07-01"}),
    "end a relation": ("end", {"relation": 2}),
    "correct": ("correct", {"observation": 3, "confidence": 0.25}),
    "correct an entity": ("correct", {"entity": BOREALIS, "confidence": 0}),
    "merge_entities": ("merge_entities", {"keep": ATLAS, "others": [TWIN, ODD]}),
    "undo": ("undo", {"change": 1}),
}
"""By a name of the case: the action and its arguments, for the memory of ``build``."""


def build(path: Path, *, journal: str = "delete") -> None:
    """A memory of ``_ENTITIES``, embedded with the model ``bag``, with all that may hang on one."""
    with closing(connection.connect(path, create=True)) as conn, registered(BagModel(MODEL)):
        conn.execute(f"pragma journal_mode = {journal}").fetchone()
        schema.init(conn)
        conn.executemany(
            "insert into entities(id, name, entity_type, created_at, archived_at, archived_reason,"
            " updated_at, last_activity_at) values (?1, ?2, ?3, ?4, ?5, ?6, ?4, ?4)",
            _ENTITIES,
        )
        conn.executemany(
            "insert into observations(id, entity_id, content, created_at, kind, confidence,"
            " valid_from, valid_to, supersedes) values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            _OBSERVATIONS,
        )
        conn.executemany(
            "insert into relations(id, from_entity, to_entity, relation_type, valid_to,"
            " created_at) values (?, ?, ?, ?, ?, '2024-01-01 00:00:00')",
            _RELATIONS,
        )
        conn.executescript(
            f"""
            update entities set last_activity_at = null, updated_at = null where id = {UNDATED};
            insert into entity_access values ({ATLAS}, 9, '2024-06-01 00:00:00'),
              ({TWIN}, 4, '2024-07-01 00:00:00'), ({BOREALIS}, 1, '2024-05-01 00:00:00');
            insert into entity_access_log(entity_id, entity_name, query, accessed_at)
              values ({ATLAS}, 'Atlas', 'maps', '2024-06-01 00:00:00');
            insert into co_occurrences values ({ATLAS}, {BOREALIS}, 3, '2024-06-01 00:00:00'),
              ({ATLAS}, {TWIN}, 2, '2024-06-02 00:00:00');
            insert into limbic_feedback(entity_id, entity_name, event)
              values ({ATLAS}, 'Atlas', 'useful');
            """
        )
        split_finding(conn, ATLAS, "Split Atlas")
        sync(conn, model=MODEL)
        # a person took a flag away, and set one that no pair stands for
        conn.execute("update observations set similarity_flag = id = 8 where id in (8, 15)")
        conn.commit()
        assert check(conn).ok, [found.as_dict() for found in check(conn).findings]


@pytest.fixture(scope="session", name="acted_master")
def acted_master_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The memory of ``build``, once."""
    path = tmp_path_factory.mktemp("actions") / "memory.db"
    build(path)
    return path


@pytest.fixture(name="acted")
def acted_fixture(acted_master: Path, tmp_path: Path, models: Any) -> Path:
    """A copy of the memory of ``build`` to act on; its model is ``models["bag"]``."""
    return Path(shutil.copy(acted_master, tmp_path / "acted.db"))


@contextmanager
def opened(path: Path, **options: Any) -> Iterator[Any]:
    """A connection to a memory, closed afterwards."""
    with closing(connection.connect(path, **options)) as conn:
        yield conn


def tables(conn: Any) -> list[str]:
    """Every table but virtual ones, the tables behind those among them."""
    return [
        row[0]
        for row in conn.execute(
            "select name from sqlite_master where type = 'table' and sql not like"
            " 'create virtual%' order by name"
        )
    ]


def everything(conn: Any) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of all tables, those of the text index and of vec0 too: another of these and
    something was written."""
    with exactly(conn):
        return {t: conn.execute(f"select * from [{t}]").fetchall() for t in tables(conn)}


def dump(conn: Any) -> dict[str, list[str]]:
    """What a memory holds, row by row, but for ``LEFT_OUT``; each value with its type.

    Of the indexes what they say, not how they are laid out.
    """
    found: dict[str, list[str]] = {}
    with exactly(conn):
        for table in tables(conn):
            if table in LEFT_OUT or table.startswith(("_limbic_fts", "_limbic_trigram")):
                continue
            if table.startswith("_limbic_vec"):
                continue
            columns = "*" if table != "embeddings" else "collection_id, id, embedding, content_hash"
            rows = conn.execute(f"select {columns} from [{table}]")
            found[table] = sorted(map(repr, rows))
        for table, columns in (
            ("_limbic_fts", "rowid, name, content"),
            ("_limbic_trigram", "rowid, content"),
            ("_limbic_vec_entities", "entity_id, embedding, archived, entity_type"),
            ("_limbic_vec_observations", "observation_id, embedding, entity_id"),
        ):
            if conn.execute("select 1 from sqlite_master where name = ?", [table]).fetchone():
                rows = conn.execute(f"select {columns} from {table}")
                found[table] = sorted(map(repr, rows))
    return found


def differing(one: dict[str, list[str]], other: dict[str, list[str]]) -> dict[str, Any]:
    """What two dumps have apart, for a failing test to show."""
    return {
        table: (
            [row for row in one.get(table, []) if row not in other.get(table, [])],
            [row for row in other.get(table, []) if row not in one.get(table, [])],
        )
        for table in {**one, **other}
        if one.get(table) != other.get(table)
    }


def prepared(conn: Any, case: str) -> tuple[str, dict[str, Any]]:
    """The action of a case and its arguments; what is to be undone is done first."""
    name, arguments = ARGUMENTS[case]
    if name == "undo":
        act(conn, *ARGUMENTS["delete"])
    return name, arguments


def assert_settled(conn: Any, model: BagModel | None = None) -> None:
    """Nothing is left to sync: no mark, each vector that of its text, the indexes in line."""
    if model is not None:
        model.seen.clear()
    assert conn.execute("select * from limbic_stale").fetchall() == []
    assert conn.execute("select * from _limbic_guard").fetchall() == []
    done = sync(conn, full=True, reports=False)
    assert [(p.embedded, p.pruned, p.rebuilt) for p in done.collections] == [(0, 0, False)] * 2
    assert (done.text_added, done.text_removed) == (0, 0)
    assert model is None or model.seen == []
    found = check(conn)
    assert found.ok, [result.as_dict() for result in found.findings]


class Faulty(sqlite3.Connection):
    """A connection on which the n-th statement fails, before or after it was carried out."""

    steps: list[str] | None = None
    """What was done since ``watch``."""
    fails_at: int | None = None
    error: BaseException = sqlite3.OperationalError("disk I/O error")
    is_after = False

    def watch(
        self, fails_at: int | None, error: BaseException | None = None, is_after: bool = False
    ) -> None:
        """Count from here on; the statement ``fails_at`` (1 is the first) fails with ``error``."""
        self.steps, self.fails_at, self.is_after = [], fails_at, is_after
        if error is not None:
            self.error = error

    def _step(self, method: Any, *args: Any) -> Any:
        if self.steps is None:
            return method(*args)
        self.steps.append(str(args[0]) if args else "commit")
        fails = len(self.steps) == self.fails_at
        if fails and not self.is_after:
            raise self.error
        found = method(*args)
        if fails:
            raise self.error
        return found

    def execute(self, *args: Any) -> Any:
        return self._step(super().execute, *args)

    def executemany(self, *args: Any) -> Any:
        return self._step(super().executemany, *args)

    def commit(self) -> None:
        self._step(super().commit)


@contextmanager
def faulty(path: Path, made: type[Faulty] = Faulty) -> Iterator[Faulty]:
    """A ``Faulty`` connection to a memory, made ready as any other."""
    with closing(sqlite3.connect(path, factory=made)) as conn:
        conn.text_factory = lambda data: str(data, "utf-8", "replace")
        conn.execute("pragma foreign_keys = on")
        connection.prepare(conn)
        yield conn


def split_finding(
    conn: Any, entity: int, title: str, *, about: int | None = None, id: int | None = None
) -> None:
    """A finding of ours in the review queue: this entity, as it stands, is to be split."""
    texts = conn.execute(
        "select id, cast(content as blob) from observations where entity_id = ?"
        " and (valid_to is null or valid_to = '' or valid_to > datetime('now'))",
        [entity],
    ).fetchall()
    material = {
        "entity": entity,
        "observations": {str(number): text_digest(text_of(text)) for number, text in texts},
        "topics": [],
    }
    evidence = {
        "facts": {},
        "action": "split",
        "arguments": {"entity": entity},
        "material": material,
    }
    conn.execute(
        "insert into limbic_insights(id, key, kind, entity_id, title, body, evidence,"
        " evidence_digest) values (?, ?, 'split', ?, ?, '', ?, ?)",
        [
            id,
            f"split:{entity}",
            about or entity,
            title,
            json.dumps(evidence),
            digest_of(material),
        ],
    )
