"""Which test modules have to do with Datasette: no other can tell one version of it from another.

Such a module, or one of those that it imports here and from the benchmarks, names more of
Datasette than its functions for SQLite and texts, starts a program of it, calls our commands, or
imports a module of the package that itself imports Datasette.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent
ROOT = TESTS.parent
PACKAGE = ROOT / "datasette_limbic"
MEETS = re.compile(
    r"""\b(?:from|import)\s+(?:[\w.]+,\s*)*datasette(?![\w-]|\.utils\b)"""
    r"""|["']datasette["']|\bCliRunner\b|\bmake_datasette\b"""
)
FROM = re.compile(r"^\s*from\s+([\w.]+)\s+import\s+(\([^)]*\)|.+)$", re.M)
IMPORT = re.compile(r"^\s*import\s+(\w[\w., ]*)$", re.M)


@cache
def meets_datasette(path: Path) -> bool:
    """Whether a test module has to do with Datasette."""
    seen, left = {path}, [path]
    while left:
        at = left.pop()
        text = at.read_text("utf-8")
        if MEETS.search(text):
            return True
        # of the package, a module's own lines alone: nearly all of it is reached from anywhere
        if PACKAGE not in at.parents:
            found = set(_imported(text)) - seen
            seen |= found
            left += found
    return False


def _imported(text: str) -> Iterator[Path]:
    """Files of this project that a source names in its imports."""
    names = [name.split()[0] for line in IMPORT.findall(text) for name in line.split(",")]
    for module, given in FROM.findall(text):
        names += [module, *(f"{module}.{name}" for name in re.findall(r"\w+", given))]
    for name in names:
        place = name.replace(".", "/")
        if place != PACKAGE.name:  # which holds the hooks, and is imported with any module of it
            for folder in (TESTS, ROOT):
                for file in (folder / f"{place}.py", folder / place / "__init__.py"):
                    if file.is_file():
                        yield file
