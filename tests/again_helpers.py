"""A small world that can be written as a source of any format, again and again."""

from __future__ import annotations

import tempfile
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from datasette.utils.sqlite import sqlite3
from importing_helpers import dump, entity, new_memory, one, relation, write_lines
from mcp_v2_helpers import LOOSE, T1, T2, make

from datasette_limbic import connection
from datasette_limbic.exporting import export_full
from datasette_limbic.importing import import_files
from datasette_limbic.importing.summary import FileSummary, ImportSummary

JSONL, MCP, ENGRAMA, FULL = "jsonl", "mcp", "engrama", "full"
FORMATS = (JSONL, MCP, ENGRAMA, FULL)
ENVELOPE = {"engrama_export": 1, "version": "0.18.1", "exported_at": "2026-11-29T19:39:08+00:00"}


@dataclass
class Fact:
    ended: str | None = None
    flag: int = 0


@dataclass
class Thing:
    kind: str = "T"
    texts: dict[str, Fact] = field(default_factory=dict)
    archived: str | None = None
    valid_to: str | None = None


@dataclass
class World:
    """What a source says now; ``write`` puts it into the file at ``path``."""

    format: str
    path: Path
    things: dict[str, Thing] = field(default_factory=dict)
    links: dict[tuple[str, str, str], str | None] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    pairs: dict[tuple[str, str], int] = field(default_factory=dict)
    days: dict[tuple[str, str], int] = field(default_factory=dict)

    def add(self, name: str, *texts: str, **more: Any) -> Thing:
        thing = self.things.setdefault(name, Thing(**more))
        thing.texts.update((text, Fact()) for text in texts)
        return thing

    def said(self, text: str) -> str:
        """The text as it comes in here."""
        return f"{key_of(text)}: {text}" if self.format == ENGRAMA else text

    def write(self) -> Path:
        getattr(self, f"_{self.format}")()
        return self.path

    def _jsonl(self) -> None:
        rows: list[Any] = []
        for name, thing in self.things.items():
            observations = [
                text
                if fact == Fact()
                else {"text": text, "validTo": fact.ended, "similarityFlag": fact.flag}
                for text, fact in thing.texts.items()
            ]
            given = {"archivedAt": thing.archived, "validTo": thing.valid_to}
            given = {key: value for key, value in given.items() if value}
            rows.append(entity(name, *observations, **{"entityType": thing.kind, **given}))
        for (source, target, kind), ended in self.links.items():
            rows.append(relation(source, target, kind, **({"validTo": ended} if ended else {})))
        write_lines(self.path, *rows)

    def _engrama(self) -> None:
        rows: list[Any] = [ENVELOPE]
        for name, thing in self.things.items():
            properties = {key_of(text): text for text in thing.texts}
            if thing.archived:
                properties |= {"status": "archived", "archived_at": thing.archived}
            if thing.valid_to:
                properties["valid_to"] = thing.valid_to
            rows.append(node(name, thing.kind, **properties))
        for source, target, kind in self.links:
            rows.append(
                {"type": "relation", "from_label": self.things[source].kind, "from_key": "name"}
                | {"from_value": source, "rel_type": kind, "to_key": "name", "to_value": target}
                | {"to_label": self.things[target].kind}
            )
        write_lines(self.path, *rows)

    def _ids(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.things, 1)}

    def _mcp(self) -> None:
        self.path.unlink(missing_ok=True)
        ids, rows = self._ids(), {}
        rows["entities"] = [
            {"id": ids[name], "name": name, "entity_type": thing.kind, "created_at": T1}
            | {"updated_at": thing.archived, "status": "archivado" if thing.archived else "activo"}
            for name, thing in self.things.items()
        ]
        rows["observations"] = [
            {"entity_id": ids[name], "content": text, "created_at": T1, "kind": "generic"}
            | {"superseded_at": fact.ended, "similarity_flag": fact.flag}
            for name, thing in self.things.items()
            for text, fact in thing.texts.items()
        ]
        rows["relations"] = [
            {"from_entity": ids[source], "to_entity": ids[target], "relation_type": kind}
            | {"created_at": T1, "active": int(not ended), "ended_at": ended}
            for (source, target, kind), ended in self.links.items()
        ]
        rows["entity_access"] = [
            {"entity_id": ids[name], "access_count": count, "last_access": T2}
            for name, count in self.counts.items()
        ]
        rows["entity_access_log"] = [
            {"entity_id": ids[name], "access_date": day, "access_count": count}
            for (name, day), count in self.days.items()
        ]
        rows["co_occurrences"] = [
            {"entity_a_id": ids[a], "entity_b_id": ids[b], "co_count": count, "last_co": T2}
            for (a, b), count in self.pairs.items()
        ]
        make(self.path, rows, LOOSE)

    def _full(self) -> None:
        other = self.path.with_suffix(".db")
        other.unlink(missing_ok=True)
        with closing(fresh_memory(other)) as conn:
            ids = self._ids()
            for name, thing in self.things.items():
                conn.execute(
                    "insert into entities(id, name, entity_type, archived_at, valid_to,"
                    " created_at, updated_at, last_activity_at) values (?, ?, ?, ?, ?, ?, ?, ?)",
                    [ids[name], name, thing.kind, thing.archived, thing.valid_to, T1, T1, T1],
                )
                conn.executemany(
                    "insert into observations(entity_id, content, created_at, valid_to,"
                    " similarity_flag) values (?, ?, ?, ?, ?)",
                    [(ids[name], text, T1, f.ended, f.flag) for text, f in thing.texts.items()],
                )
            conn.executemany(
                "insert into relations(from_entity, to_entity, relation_type, created_at, valid_to)"
                " values (?, ?, ?, ?, ?)",
                [(ids[a], ids[b], kind, T1, end) for (a, b, kind), end in self.links.items()],
            )
            conn.executemany(
                "insert into entity_access values (?, ?, ?)",
                [(ids[name], count, T2) for name, count in self.counts.items()],
            )
            conn.executemany(
                "insert into co_occurrences values (?, ?, ?, ?)",
                [(*sorted((ids[a], ids[b])), count, T2) for (a, b), count in self.pairs.items()],
            )
            # the triggers took the time of today
            conn.execute("update entities set last_activity_at = ?1, updated_at = ?1", [T1])
            conn.commit()
            write_full(conn, self.path)


@cache
def _empty_memory() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "memory.db"
        new_memory(path).close()
        return path.read_bytes()


def fresh_memory(path: Path) -> sqlite3.Connection:
    """A new memory, made once and copied, that does not wait for the disk."""
    path.write_bytes(_empty_memory())
    conn = connection.connect(path)
    conn.execute("pragma synchronous=off")
    return conn


def node(key: str, label: str = "T", **properties: Any) -> dict[str, Any]:
    row = {"type": "node", "label": label, "key_field": "name", "key_value": key}
    return {**row, "properties": {"name": key, **properties}}


def key_of(text: str) -> str:
    """The property of a text; each has its own, so that none replaces another."""
    return "p" + "".join(c for c in text if c.isalnum())


def write_full(conn: sqlite3.Connection, path: Path, **options: Any) -> Path:
    with path.open("w", encoding="utf-8", newline="") as out:
        export_full(conn, out, **options)
    return path


def run(conn: Any, *paths: Path | World, **options: Any) -> ImportSummary:
    """Import, with what holds for every import checked."""
    files = [path.write() if isinstance(path, World) else path for path in paths]
    summary = import_files(conn, files, **options)
    assert summary.lines_add_up()
    assert not conn.in_transaction
    assert one(conn, "select count(*) from sqlite_temp_master") == 0
    return summary


def first(conn: Any, *paths: Path | World, **options: Any) -> FileSummary:
    """The same, of one file."""
    return run(conn, *paths, **options).files[0]


def unchanged(conn: Any, *paths: Path | World, same: bool = True, **options: Any) -> ImportSummary:
    """Import once more what was imported just before: nothing may change.

    Where the source is not the ``same``, all but what is known of sources is compared.
    """
    conn.execute("delete from limbic_stale")  # as a sync does
    conn.commit()
    before = _dump(conn, same)
    summary = run(conn, *paths, **options)
    assert [file.changed for file in summary.files] == [False] * len(summary.files)
    assert _dump(conn, same) == before
    return summary


def _dump(conn: Any, sources: bool) -> list[str]:
    return [row for row in dump(conn) if sources or not row.startswith("_limbic_source")]


def do(conn: Any, sql: str, *arguments: Any) -> None:
    """What a person does here."""
    conn.execute(sql, arguments)
    conn.commit()


def texts(conn: Any, name: str) -> dict[str, str | None]:
    """The observations of an entity, and when they ended."""
    return dict(
        conn.execute(
            "select content, o.valid_to from observations o join entities e on e.id = entity_id"
            " where name = ? order by o.id",
            [name],
        ).fetchall()
    )


def entity_of(conn: Any, name: str, column: str = "entity_type") -> Any:
    return one(conn, f"select {column} from entities where name = ?", name)


def end_of(conn: Any, source: str, target: str, kind: str = "uses") -> Any:
    """When a relation ended; 'none' where there is none."""
    row = conn.execute(
        "select r.valid_to from relations r join entities f on f.id = from_entity"
        " join entities t on t.id = to_entity"
        " where f.name = ? and t.name = ? and relation_type = ?",
        [source, target, kind],
    ).fetchone()
    return "none" if row is None else row[0]
