"""The official MCP memory server reads our export back: the real one, run by Node."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from datasette.utils.sqlite import sqlite3
from exporting_helpers import mcp
from importing_helpers import entity, graph, new_memory, relation
from npm_packages import installed

from datasette_limbic.importing import import_files

pytestmark = pytest.mark.slow

VERSIONS = ("2026.8.31", "2025.8.4")
PACKAGE = "@modelcontextprotocol/server-memory"
ANSWER_S = 30


@pytest.fixture(scope="session", params=VERSIONS)
def program(request: pytest.FixtureRequest) -> Path:
    """The server of one version, installed once for all runs, or a skip that says why."""
    return installed(PACKAGE, request.param) / "dist" / "index.js"


class Server:
    """A memory server at work on a file, spoken to over standard input and output."""

    def __init__(self, program: Path, memory: Path) -> None:
        self.process = subprocess.Popen(
            ["node", str(program)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "MEMORY_FILE_PATH": str(memory)},
        )
        self.lines: queue.Queue[bytes] = queue.Queue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self.number = 0
        self.ask(
            "initialize",
            {
                "protocolVersion": "2024-11-05",
                "capabilities": {},
                "clientInfo": {"name": "test", "version": "1"},
            },
        )
        self._send({"method": "notifications/initialized"})

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.lines.put(line)

    def _send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self.number += 1
        self._send({"id": self.number, "method": method, "params": params})
        while True:
            answer = json.loads(self.lines.get(timeout=ANSWER_S))
            if answer.get("id") == self.number:
                assert "error" not in answer, answer
                return dict(answer["result"])

    def call(self, tool: str, **arguments: Any) -> Any:
        result = self.ask("tools/call", {"name": tool, "arguments": arguments})
        text = result["content"][0]["text"]
        assert not result.get("isError"), text
        return json.loads(text)

    def close(self) -> None:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.close()
        self.process.terminate()
        self.process.wait(ANSWER_S)
        self.reader.join(ANSWER_S)
        self.process.stdout.close()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    conn = new_memory(tmp_path / "memory.db")
    yield conn
    conn.close()


def exported(conn: sqlite3.Connection, path: Path) -> Path:
    text, summary = mcp(conn, include_archived=True, include_ended=True)
    assert summary.left_out == {}
    path.write_text(text, "utf-8", newline="\n")
    return path


def same_graph(conn: sqlite3.Connection, answer: dict[str, Any]) -> None:
    """What the server tells is what the database holds: order, repetitions and all."""
    entities = conn.execute("select name, entity_type, id from entities order by id").fetchall()
    said = "select content from observations where entity_id = ? order by id"
    told = [(e["name"], e["entityType"], e["observations"]) for e in answer["entities"]]
    assert told == [
        (name, kind, [content for (content,) in conn.execute(said, [number])])
        for name, kind, number in entities
    ]
    links = Counter((r["from"], r["to"], r["relationType"]) for r in answer["relations"])
    assert links == Counter(graph(conn)[1])


def test_the_sample(program: Path, memory: sqlite3.Connection, tmp_path: Path) -> None:
    import_files(memory, [str(files("datasette_limbic") / "demo" / "memory.jsonl")])
    with Server(program, exported(memory, tmp_path / "out.jsonl")) as server:
        answer = server.call("read_graph")
    assert (len(answer["entities"]), len(answer["relations"])) == (65, 96)
    same_graph(memory, answer)


ODD = [
    entity("plain", "a", "a", "", "a"),
    entity("nothing said"),
    entity(
        "quotes \" \\ / ' `", 'she said "no" \\ C:\\temp\\', "{}", "[]", "null", '{"type":"entity"}'
    ),
    entity("line\nbreak\r\n\ttab", "one\ntwo\r\nthree", "\u2028\u2029\x85\x0b\x0c\x1c\x00\x7f"),
    entity("👩‍👩‍👧 🚀", "𝕳𝖊𝖑𝖑𝖔", "e\u0301 é", "שלום \u202eevil\u202c", "用户身份"),
    entity(" spaces ", " leading", "trailing ", "\ufeffmark", "\ufffe\uffff"),
    entity("", "an entity without a name but ''"),
    entity("PLAIN", "case keeps them apart"),
    entity("__proto__", "constructor", entityType="toString"),
    entity("long", "x" * 300_000, entityType="é" * 500),
    relation("plain", "plain", "is"),
    relation("plain", "line\nbreak\r\n\ttab", 'has "quotes"'),
    relation("👩‍👩‍👧 🚀", "quotes \" \\ / ' `", "\u2028"),
    relation("plain", "PLAIN", "a"),
    relation("plain", "PLAIN", "b"),
]


def test_odd_texts(program: Path, memory: sqlite3.Connection, tmp_path: Path) -> None:
    for row in ODD:
        if row["type"] == "entity":
            sql = "insert into entities(name, entity_type) values (?, ?) returning id"
            (number,) = memory.execute(sql, [row["name"], row["entityType"]]).fetchone()
            memory.executemany(
                "insert into observations(entity_id, content) values (?, ?)",
                [(number, content) for content in row["observations"]],
            )
        else:
            memory.execute(
                "insert into relations(from_entity, to_entity, relation_type)"
                " select f.id, t.id, ? from entities f, entities t where f.name = ? and t.name = ?",
                [row["relationType"], row["from"], row["to"]],
            )
    memory.commit()
    with Server(program, exported(memory, tmp_path / "out.jsonl")) as server:
        answer = server.call("read_graph")
        same_graph(memory, answer)
        found = server.call("open_nodes", names=["line\nbreak\r\n\ttab"])
    assert len(found["entities"]) == 1
    assert len(answer["entities"]) == 10
    assert len(answer["relations"]) == 5


def test_an_empty_memory(program: Path, memory: sqlite3.Connection, tmp_path: Path) -> None:
    with Server(program, exported(memory, tmp_path / "out.jsonl")) as server:
        assert server.call("read_graph") == {"entities": [], "relations": []}


def test_the_server_goes_on_from_our_file(
    program: Path, memory: sqlite3.Connection, tmp_path: Path
) -> None:
    """Import, export, the server writes, import again: nothing is lost on the way."""
    import_files(memory, [str(files("datasette_limbic") / "demo" / "memory.jsonl")])
    path = exported(memory, tmp_path / "out.jsonl")
    first = memory.execute("select name from entities order by id limit 1").fetchone()[0]
    new = {"name": "Neu\u2028\n", "entityType": "Person", "observations": ["likes ☕"]}
    with Server(program, path) as server:
        server.call("create_entities", entities=[new])
        added = {"entityName": first, "contents": ["a further one"]}
        server.call("add_observations", observations=[added])
        link = {"from": new["name"], "to": first, "relationType": "knows"}
        server.call("create_relations", relations=[link])
        answer = server.call("read_graph")
    assert len(answer["entities"]) == 66
    before = len(graph(memory)[0][first])
    summary = import_files(memory, [path])
    assert summary.rejects == 0
    assert summary.total("entities", "created") == 1
    assert summary.total("observations", "added") == 2
    assert summary.total("relations", "created") == 1
    assert len(graph(memory)[0][first]) == before + 1
    same_graph(memory, answer)
    # and what it wrote itself is what we write
    text, _ = mcp(memory, include_archived=True, include_ended=True)
    assert text.rstrip("\n").split("\n") == path.read_text("utf-8").split("\n")
