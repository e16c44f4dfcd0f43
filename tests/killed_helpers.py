"""Processes that act on a memory and are killed: ``python killed_helpers.py`` makes them.

It reads lines of JSON, ``{"path", "cases", "at"}``, and for each forks a process that acts: the
cases one after another, each undone again, for ever; or the first of them alone, killed when
``at`` of its statements were carried out. It answers with a line when that process is at work,
and with one when it is gone. Forking from one that has everything loaded takes milliseconds.
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def _say(**answer: Any) -> None:
    os.write(1, (json.dumps(answer) + "\n").encode())


def _small(conn: Any) -> None:
    """With a cache of a few pages, a transaction is in the file long before its commit."""
    conn.execute("pragma cache_size = 4")
    conn.execute("pragma cache_spill = 4")
    conn.execute("pragma mmap_size = 0").fetchone()
    conn.execute("pragma synchronous = off")


def _act(path: Path, cases: list[str], at: int | None) -> None:
    from actions_helpers import ARGUMENTS, Faulty, faulty, opened, prepared

    from datasette_limbic.actions.acting import act

    if at is not None:

        class Killed(Faulty):
            def _step(self, method: Any, *args: Any) -> Any:
                if self.steps is not None and len(self.steps) == at:
                    os.kill(os.getpid(), signal.SIGKILL)
                return super()._step(method, *args)

        with faulty(path, Killed) as conn:
            _small(conn)
            name, arguments = prepared(conn, cases[0])
            conn.watch(None)
            _say(pid=os.getpid())
            act(conn, name, arguments)
        return
    with opened(path) as conn:
        _small(conn)
        _say(pid=os.getpid())
        for case in itertools.cycle(cases):
            act(conn, "undo", {"change": act(conn, *ARGUMENTS[case])["change"]})


def main() -> None:
    """Fork as asked until the input ends."""
    from actions_helpers import MODEL
    from embedding_helpers import BagModel, registered

    with registered(BagModel(MODEL)):
        for line in sys.stdin:
            asked = json.loads(line)
            pid = os.fork()
            if pid == 0:
                status = 1
                try:
                    _act(Path(asked["path"]), asked["cases"], asked["at"])
                    status = 0
                finally:
                    os._exit(status)
            _, status = os.waitpid(pid, 0)
            _say(gone=os.waitstatus_to_exitcode(status))


class Killing:
    """The process that makes them, as a test talks to it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def start(self, path: Path, cases: list[str], at: int | None = None) -> int:
        """A process that acts on ``path``; returns its id once it is at work."""
        assert self.process.stdin is not None
        asked = {"path": str(path), "cases": cases, "at": at}
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        return int(self._answer()["pid"])

    def ended(self) -> int:
        """Its exit code, -9 where it was killed; waits for it."""
        return int(self._answer()["gone"])


@contextmanager
def killing() -> Iterator[Killing]:
    """A process that forks those that get killed."""
    with subprocess.Popen(
        [sys.executable, __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent,
    ) as process:
        try:
            yield Killing(process)
        finally:
            process.kill()


if __name__ == "__main__":
    main()
