"""A real ``datasette serve`` process, and clients that keep their connection."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from view_helpers import ONE_POINT_ZERO

STARTS_WITHIN_S = 60
# uvicorn's line, once it listens
LISTENS = re.compile(r"Uvicorn running on http://127\.0\.0\.1:([0-9]+)")
STOPS_WITHIN_S = 40
CONFIG = {"permissions": {"limbic-record": True}}


class Server:
    """``datasette serve`` on one file, where everybody may record, or what ``config`` says."""

    def __init__(
        self, path: Path | str, folder: Path, name: str = "server", config: Any = CONFIG
    ) -> None:
        self.path = Path(path)
        self._log = folder / f"{name}.log"
        self._config = folder / f"{name}.json"
        self._config.write_text(json.dumps(config))
        self.process: subprocess.Popen[bytes] | None = None
        self.port = 0

    def __enter__(self) -> Server:
        option = "--config" if ONE_POINT_ZERO else "--metadata"
        with self._log.open("ab") as log:
            started_at = log.tell()
            # port 0: the system chooses one, and no other program can take it in between
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "datasette", "serve", str(self.path)),
                    *("--port", "0", option, str(self._config)),
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            self.port = self._listening(started_at)
            with Client(self) as client:
                assert client.get("") == 200, self.log()
        except BaseException:  # nobody will call __exit__
            self.kill()
            raise
        return self

    def _listening(self, started_at: int) -> int:
        """The port, once the process that was started at that place of its log says it."""
        assert self.process is not None
        ends = time.monotonic() + STARTS_WITHIN_S
        while True:
            said = self._log.read_bytes()[started_at:].decode("utf-8", "replace")
            found = LISTENS.search(said)
            if found:
                return int(found[1])
            assert self.process.poll() is None, self.log()
            assert time.monotonic() < ends, self.log()
            time.sleep(0.05)

    def __exit__(self, *_: object) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()

    def stop(self) -> None:
        """As a supervisor stops it."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(STOPS_WITHIN_S)

    def kill(self) -> None:
        """As a machine that loses power stops it."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(STOPS_WITHIN_S)

    def log(self) -> str:
        return self._log.read_text("utf-8", "replace")

    def search(self, query: str, **arguments: Any) -> dict[str, Any]:
        with Client(self) as client:
            return client.search(query, **arguments)


class Client:
    """One client with one connection that it keeps."""

    def __init__(self, server: Server) -> None:
        self._conn = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        self._base = f"/{server.path.stem}/-/limbic"

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._conn.close()

    def get(self, page: str) -> int:
        """The status."""
        self._conn.request("GET", self._base + page)
        response = self._conn.getresponse()
        response.read()
        return response.status

    def post(self, page: str, body: Any) -> dict[str, Any]:
        """The answer, which must be a 200."""
        self._conn.request(
            "POST",
            f"{self._base}/{page}",
            json.dumps(body),
            {"content-type": "application/json"},
        )
        response = self._conn.getresponse()
        text = response.read().decode("utf-8")
        assert response.status == 200, text
        found: dict[str, Any] = json.loads(text)
        return found

    def search(self, query: str, **arguments: Any) -> dict[str, Any]:
        return self.post("search", {"query": query, "mode": "text", **arguments})
