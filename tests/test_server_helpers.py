"""The server of the tests: it leaves no process behind, and answers are its own."""

from __future__ import annotations

import shutil
import subprocess

import pytest
import server_helpers
from server_helpers import Client, Server


@pytest.fixture
def started(monkeypatch):
    """The processes that were started."""
    found = []
    real = subprocess.Popen

    def starting(*args, **kwargs):
        found.append(real(*args, **kwargs))
        return found[-1]

    monkeypatch.setattr(server_helpers.subprocess, "Popen", starting)
    yield found
    for process in found:
        if process.poll() is None:
            process.kill()
            process.wait(10)


def test_two_servers_have_two_ports_and_answer_for_their_own(empty_db, tmp_path):
    second = shutil.copy(empty_db, tmp_path / "second.db")
    with Server(empty_db, tmp_path, "one") as one, Server(second, tmp_path, "two") as two:
        assert one.port != two.port
        assert min(one.port, two.port) > 0
        for server in (one, two):
            with Client(server) as client:
                assert client.get("") == 200


def test_a_server_started_again_in_the_same_log_is_found_at_its_new_port(empty_db, tmp_path):
    ports = []
    for _ in range(2):
        with Server(empty_db, tmp_path) as server, Client(server) as client:
            ports.append(server.port)
            assert client.get("") == 200
    assert server.log().count("Uvicorn running on") == 2
    assert f":{ports[1]} " in server.log().rpartition("Uvicorn running on")[2]


@pytest.mark.parametrize("broken", ["answer", "interrupted", "silent"])
def test_one_that_does_not_come_up_leaves_no_process(
    empty_db, tmp_path, monkeypatch, started, broken
):
    """Whatever ends the wait, Ctrl+C too."""

    def interrupted(*_):
        raise KeyboardInterrupt

    if broken == "answer":
        monkeypatch.setattr(Client, "get", lambda *_: 500)
    elif broken == "interrupted":
        monkeypatch.setattr(Client, "get", interrupted)
    else:
        monkeypatch.setattr(server_helpers, "STARTS_WITHIN_S", 0)
    with pytest.raises((AssertionError, KeyboardInterrupt)), Server(empty_db, tmp_path):
        pytest.fail("it came up")
    [process] = started
    assert process.poll() is not None


def test_one_that_ends_at_once_says_why(tmp_path, started):
    (tmp_path / "no.db").write_text("this is no database at all, whatever its name may be")
    with (
        pytest.raises(AssertionError, match="not a database"),
        Server(tmp_path / "no.db", tmp_path),
    ):
        pytest.fail("it came up")
    assert started[0].poll() is not None
