"""A real ``datasette serve`` on 127.0.0.1, and clients that keep their connection to it."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from datasette_limbic import compat

C = TypeVar("C", bound="Connected")
ROOT = Path(__file__).resolve().parents[1]
STARTS_WITHIN_S = 120
KEPT_S = 3
"""A connection that rested for longer is made anew: the server lets go of it after 5."""


@dataclass
class Running:
    """A server that was started."""

    process: subprocess.Popen[bytes]
    port: int
    started_at: float

    def memory(self) -> tuple[float, float]:
        """MB of private memory, and of pages of files."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
        private, mapped = (int(found[name].split()[0]) / 1024 for name in ("RssAnon", "RssFile"))
        return private, mapped

    def cpu(self) -> float:
        """Seconds of processor time used so far, by all threads."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def server(
    path: Path,
    folder: Path,
    *arguments: str,
    immutable: bool = False,
    config: dict[str, Any] | None = None,
) -> Iterator[Running]:
    """Datasette on the file, with more arguments and a configuration; stopped as by Ctrl-C.

    ``folder`` holds its log meanwhile. Raises RuntimeError with the log where it does not start.
    """
    command = [sys.executable, "-m", "datasette", "serve", *(["-i"] if immutable else [])]
    command += [str(path), "--port", "0", *arguments]
    if config is not None:
        written = folder / "serving.json"
        written.write_text(json.dumps(config))
        command += ["--config" if compat.ONE_POINT_ZERO else "--metadata", str(written)]
    log = folder / "serving.log"
    started_at = time.perf_counter()
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield Running(process, _port(process, log), started_at)
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _port(process: subprocess.Popen[bytes], log: Path) -> int:
    """The port, once uvicorn says that it listens."""
    until = time.monotonic() + STARTS_WITHIN_S
    while time.monotonic() < until:
        said = log.read_text("utf-8", "replace")
        _, mark, rest = said.partition("Uvicorn running on http://127.0.0.1:")
        if mark and " " in rest:
            return int(rest.split()[0])
        if process.poll() is not None:
            raise RuntimeError(f"datasette stopped with {process.returncode}: {said}")
        time.sleep(0.02)
    raise RuntimeError(f"datasette did not start within {STARTS_WITHIN_S} s")


class Connected:
    """One keep-alive connection."""

    def __init__(self, port: int, *, timeout: float = 60) -> None:
        self.http = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
        self.used_at = time.perf_counter()

    def __enter__(self: C) -> C:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def ask(
        self, url: str, posted: Any = None, headers: dict[str, str] | None = None
    ) -> tuple[int, bytes, float]:
        """Status, body and milliseconds of a GET, or of a POST of what is given as JSON."""
        method, body, said = "GET", None, dict(headers or {})
        if posted is not None:
            method, body = "POST", json.dumps(posted).encode()
            said["content-type"] = "application/json"
        if time.perf_counter() - self.used_at > KEPT_S:
            self.http.close()
            self.http.connect()
        started = time.perf_counter()
        self.http.request(method, url, body, said)
        response = self.http.getresponse()
        answer = response.read()
        self.used_at = time.perf_counter()
        return response.status, answer, (self.used_at - started) * 1000

    def get(self, url: str) -> tuple[bytes, float]:
        """Body and milliseconds of a GET. Raises RuntimeError where it is no 200."""
        status, body, ms = self.ask(url)
        if status != 200:
            raise RuntimeError(f"{url} answers {status}: {body[:200]!r}")
        return body, ms


@dataclass
class Done:
    """What several threads did at once."""

    times: int
    seconds: float
    raised: list[Exception]
    """What ended a thread before."""


def at_once(works: Sequence[Callable[[], None]], seconds: float, most: int) -> Done:
    """Do all works at once, each again and again, for so long, or so often in all."""
    done = [0] * len(works)
    raised: list[Exception] = []
    started = time.perf_counter()

    def again(number: int) -> None:
        try:
            while time.perf_counter() - started < seconds and done[number] < most // len(works):
                works[number]()
                done[number] += 1
        except Exception as error:  # whatever it is, it is told
            raised.append(error)

    threads = [threading.Thread(target=again, args=(n,), daemon=True) for n in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Done(sum(done), time.perf_counter() - started, raised)
