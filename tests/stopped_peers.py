"""``benchmarks.scale`` with peers that never end, to be stopped: a program for its tests.

    python stopped_peers.py FOLDER PEER TOLD

What runs then is written to the file TOLD, a process number in each line, once all of it runs.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from benchmarks import peers, scale
from benchmarks.postgres_server import PostgresServer

TOLD = Path(sys.argv[3])


def tell(*processes: int) -> None:
    unfinished = TOLD.with_suffix(".part")
    unfinished.write_text("\n".join(map(str, processes)))
    unfinished.replace(TOLD)


class Building(peers.Numpy):
    """Waits for a program that it started."""

    name = "building"

    def build(self, rows, ids):
        with subprocess.Popen(["sleep", "1000"]) as sleeping:
            try:
                tell(os.getpid(), sleeping.pid)
                sleeping.wait()
            finally:
                sleeping.kill()


class Deaf(peers.Numpy):
    """Builds with a server, and hears of no signal, as code in C."""

    name = "deaf"

    def __init__(self, folder, memory):
        super().__init__(folder, memory)
        self.server = PostgresServer(folder)

    def build(self, rows, ids):
        self.server.create()
        self.server.start()
        tell(os.getpid(), *self.server.processes())
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        time.sleep(1000)

    def close(self):
        self.server.stop()


class Searching(Deaf):
    """Never answers, while its server runs."""

    name = "searching"

    def build(self, rows, ids):
        self.server.create()

    def open(self, effort):
        self.server.start()
        tell(*self.server.processes())

    def search(self, asked, k):
        time.sleep(1000)


if __name__ == "__main__":
    scale.ALL.update((peer.name, peer) for peer in (Building, Deaf, Searching))
    scale.main([sys.argv[1], "--size", "300", "--peers", f"numpy,{sys.argv[2]}"])
