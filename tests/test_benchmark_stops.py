"""A benchmark that is stopped says one line, and leaves no process, server or folder behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy
import pytest
from postgres_helpers import programs
from retrieval_helpers import clustered, memory

from benchmarks import apart, corpus, scale, scale_apart, server, synsets, wordnet

PROGRAM = Path(__file__).with_name("stopped_peers.py")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What a run would make of WordNet, as it stays for the next."""
    made = tmp_path / "bench-data"
    made.mkdir()
    rows = clustered(300, 512)
    memory(made / "wordnet-300.db", rows, model="limbic-multilingual")
    numpy.save(made / "queries-small.npy", rows[:6])
    (made / "queries-small.json").write_text(json.dumps([f"entity {n}" for n in range(6)]))
    return made


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A folder for temporary files of a short name: PostgreSQL's socket has at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="l", dir="/tmp") as name:
        yield Path(name)


def runs(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"  # ended, whatever its parent makes of it


def within(seconds: float, met) -> bool:
    until = time.monotonic() + seconds
    while not (found := met()) and time.monotonic() < until:
        time.sleep(0.05)
    return bool(found)


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="processes are told by Linux")
@pytest.mark.parametrize(
    ("peer", "number", "everybody", "code"),
    [
        ("building", signal.SIGINT, True, 130),  # Ctrl-C reaches all processes of a terminal
        ("building", signal.SIGTERM, False, 1),
        ("deaf", signal.SIGTERM, False, 1),
        ("searching", signal.SIGINT, True, 130),
    ],
)
def test_a_run_that_is_stopped_leaves_nothing(
    peer, number, everybody, code, folder, tmp_path, temporary
):
    if peer != "building":
        programs()  # skips where there is no PostgreSQL
    told = tmp_path / "told"
    with subprocess.Popen(
        [sys.executable, str(PROGRAM), str(folder), peer, str(told)],
        env={**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": str(PROGRAM.parents[1])},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert within(120, lambda: told.exists() or process.poll() is not None)
        assert process.poll() is None, process.stderr.read()
        others = [int(line) for line in told.read_text().split()]
        assert all(map(runs, others))
        assert any(temporary.iterdir())
        (os.killpg if everybody else os.kill)(process.pid, number)
        _, said = process.communicate(timeout=120)
    assert process.returncode == code, said
    after = said.rpartition(f"{peer}: ")[2].splitlines()[1:]
    assert after == ["", f"Stopped. The same command goes on with what is in {folder}."]
    assert within(5, lambda: not any(map(runs, others)))
    assert not any(temporary.iterdir())
    assert sorted(file.name for file in folder.iterdir()) == [
        "queries-small.json",
        "queries-small.npy",
        "wordnet-300.db",
    ]


def double(number: int) -> int:
    return 2 * number


def unpicklable(number: int) -> object:
    return lambda: number


def kill_itself() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_functions_are_called_apart_and_answer_in_their_order():
    seen = []
    items = [(number,) for number in range(5)]
    found = apart.each(double, items, processes=2, done=lambda *at: seen.append(at))
    assert found == [0, 2, 4, 6, 8]
    assert seen == [(n, 5) for n in range(1, 6)]
    assert apart.call(os.getpid) != os.getpid()


def test_what_fails_apart_is_told_in_a_sentence():
    with pytest.raises(apart.Failed, match="ValueError: invalid literal"):
        apart.call(int, "no number")
    with pytest.raises(apart.Failed, match="unpicklable"):
        apart.call(unpicklable, 1)
    with pytest.raises(apart.Failed, match="killed"):
        apart.call(kill_itself)


def test_without_wordnet_it_ends_before_anything_is_installed(tmp_path, monkeypatch):
    monkeypatch.setattr(synsets.require, "__defaults__", (tmp_path,))
    before = signal.getsignal(signal.SIGTERM), tempfile.gettempdir()
    with pytest.raises(SystemExit, match="install Debian's package wordnet-base") as stopped:
        scale.main([str(tmp_path), "--size", "300", "--absent"])
    assert "\n" not in str(stopped.value)
    assert (signal.getsignal(signal.SIGTERM), tempfile.gettempdir()) == before


@pytest.mark.parametrize(("names", "size"), [("numpy,approximate", 300), (None, 1_000_000)])
def test_peers_that_are_ours_lack_nothing(names, size):
    assert scale._absent(scale._names(names, size)) == []


def test_what_a_peer_lacks_is_named(monkeypatch):
    monkeypatch.setattr(scale.ALL["chromadb"], "modules", ("no_such_package_here",))
    assert scale._absent(["numpy", "chromadb"]) == ["no_such_package_here"]
    assert "no_such_package_here" in scale._absent(scale._names(None, 117_659))


def test_a_small_memory_is_asked_for_what_wordnet_holds_alone(tmp_path, monkeypatch):
    rows = [corpus.Row("dog (noun 1)", "noun.animal", ("a member of the genus Canis",))]
    said = ["a merchant carried heavy barrels across frozen rivers"]
    read = corpus.Corpus([], [], ["every kernel module exports symbols that modules require"])
    monkeypatch.setattr(corpus, "wordnet", lambda: corpus.Corpus(rows, [], said))
    monkeypatch.setattr(corpus, "documentation", lambda folder: read)
    monkeypatch.setattr(wordnet, "SHORT_QUERIES", 3)
    small, whole, large = (
        [query.text for query in wordnet.queries(tmp_path, size)]
        for size in (corpus.WORDNET - 1, corpus.WORDNET, corpus.LARGEST)
    )
    assert small[:1] == said
    assert not any("kernel" in text for text in small)
    assert whole == large
    assert whole[:2] == said + read.heldout


@pytest.mark.parametrize("size", [300, corpus.WORDNET])
@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("at", ["texts", "texts are whole", "vectors", "vectors are whole"])
def test_queries_are_whole_wherever_writing_them_is_stopped(at, kept, size, tmp_path, monkeypatch):
    """Also those that replace others; then the next run reads, or makes them anew."""
    rows = numpy.eye(3, 512, dtype="f4")
    others = [wordnet.Query(f"other {n}", row.tobytes()) for n, row in enumerate(rows[:2])]
    found = [wordnet.Query(f"query {n}", row.tobytes()) for n, row in enumerate(rows)]
    path = tmp_path / ("queries.npy" if size == corpus.WORDNET else "queries-small.npy")
    if kept:
        wordnet.write_queries(others, path)

    def half_written(self, *_):
        with self.open("wb") if isinstance(self, Path) else nullcontext(self) as file:
            file.write(b"[")
        raise KeyboardInterrupt

    def replaced(self, target, replace=Path.replace):
        replace(self, target)
        if Path(target).suffix == (".json" if at.startswith("texts") else ".npy"):
            raise KeyboardInterrupt

    patched = {
        "texts": (Path, "write_text", half_written),
        "vectors": (numpy, "save", half_written),
    }
    with monkeypatch.context() as patch:
        patch.setattr(*patched.get(at, (Path, "replace", replaced)))
        with pytest.raises(KeyboardInterrupt):
            wordnet.write_queries(found, path)
    assert not list(tmp_path.glob("*.part*"))
    asked = []
    monkeypatch.setattr(wordnet, "queries", lambda *given: asked.append(given) or found)
    read = scale._asked(tmp_path, size)
    assert [each.text for each in read] == [each.text for each in found]
    assert bool(asked) == (at != "vectors are whole")


@pytest.mark.slow
def test_requests_are_measured_on_a_server_of_their_own():
    (row,) = scale_apart.requests(repeats=1)
    assert row["p50 ms"] > 0


def test_a_connection_that_rested_is_made_anew_before_the_server_lets_go_of_it():
    closed = []

    class Answers(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 0.2  # of rest

        def do_GET(self):
            self.send_response(200)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def finish(self):
            super().finish()
            closed.append(self.path)

        def log_message(self, *_):
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as listening:
        threading.Thread(target=listening.serve_forever).start()
        try:
            with server.Connected(listening.server_port) as client:
                assert client.get("/first")[0] == b"ok"
                assert within(30, lambda: closed)
                client.used_at -= server.KEPT_S
                assert client.get("/second")[0] == b"ok"
        finally:
            listening.shutdown()
