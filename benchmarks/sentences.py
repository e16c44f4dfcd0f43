"""Sentences of Debian's English documentation, by ``apt-get download``: nothing is installed.

Each sentence is there once. What was downloaded and read stays in a folder.
"""

from __future__ import annotations

import gzip
import json
import random
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from . import apart, progress, prose
from .stopping import whole

# What each is about, without the version, since that becomes part of what is embedded. The order
# decides which package a sentence is of that several have.
PACKAGES = {
    "python3.11-doc": "python",
    "postgresql-doc-15": "postgresql",
    "linux-doc-6.1": "linux",
    "debian-handbook": "debian",
    "debian-policy": "debian policy",
    "developers-reference": "debian developers",
    "libreoffice-help-en-us": "libreoffice",
    "gimp-help-en": "gimp",
    "git-doc": "git",
    "sqlite3-doc": "sqlite",
    "python-django-doc": "django",
    "perl-doc": "perl",
    "octave-doc": "octave",
    "maxima-doc": "maxima",
    "gnuplot-doc": "gnuplot",
    "kicad-doc-en": "kicad",
    "r-doc-html": "r",
    "dict-foldoc": "computing",
    "dict-gcide": "english",
    "fp-docs-3.2.2": "pascal",
    "erlang-doc": "erlang",
    "libboost1.74-doc": "boost",
    "qtbase5-doc-html": "qt",
    "racket-doc": "racket",
    "python-scipy-doc": "scipy",
    "python-pandas-doc": "pandas",
    "openjdk-17-doc": "java",
}

RUN = 100
"""Sentences of one page that stay together when pages are mixed."""

_LARGEST_FILE = 8_000_000
# Other languages, and pages that repeat the first sentence of all others.
_LEFT_OUT = re.compile(r"/(?!en-US/)[a-z]{2}-[A-Z]{2}/|/index-files/|/class-use/|/genindex")


@dataclass(frozen=True)
class Sentence:
    """One sentence, and where it stands."""

    subject: str
    """What its package is about, a value of PACKAGES."""
    heading: str
    """The heading above it, or the name of its page; not unique."""
    text: str


def collect(folder: Path, wanted: int, *, processes: int = 2) -> list[Sentence]:
    """So many distinct sentences, pages mixed, the same each time for the same packages.

    What was read stays in the folder. Raises ValueError where the packages hold fewer, and
    apart.Failed where one cannot be had.
    """
    folder.mkdir(parents=True, exist_ok=True)
    unread = [package for package in PACKAGES if not _kept(folder, package).exists()]
    if unread:
        with progress.counted(f"downloading and reading {len(unread)} packages") as show:
            items = [(folder, package) for package in unread]
            apart.each(_read_package, items, processes=processes, done=show)
    runs: list[list[Sentence]] = []
    seen: set[str] = set()
    with progress.counted("sentences of documentation") as show:
        for number, (package, subject) in enumerate(PACKAGES.items(), 1):
            for page in _pages(_kept(folder, package), subject, seen):
                runs.extend(page[at : at + RUN] for at in range(0, len(page), RUN))
            show(number, len(PACKAGES))
    random.Random(42).shuffle(runs)
    found = [sentence for run in runs for sentence in run]
    if len(found) < wanted:
        raise ValueError(f"the packages hold {len(found):,} sentences, {wanted:,} are wanted")
    return found[:wanted]


def _pages(path: Path, subject: str, seen: set[str]) -> Iterator[list[Sentence]]:
    """Sentences of each page of a package that were not seen before."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            page = []
            for title, text in json.loads(line):
                if (key := text.casefold()) not in seen:
                    seen.add(key)
                    page.append(Sentence(subject, title, text))
            yield page


def _kept(folder: Path, package: str) -> Path:
    """Holds one JSON list of [heading, sentence] for each page of the package."""
    return folder / f"{package}.jsonl.gz"


def _read_package(folder: Path, package: str) -> None:
    with (
        whole(_kept(folder, package)) as unfinished,
        gzip.open(unfinished, "wt", encoding="utf-8", compresslevel=3) as out,
    ):
        for page in _read_files(download(folder, package)):
            if page:
                out.write(json.dumps(page, ensure_ascii=False) + "\n")


def download(folder: Path, package: str) -> Path:
    """The package's file, fetched unless it is there. Raises OSError with what apt-get said."""
    if not (there := sorted(folder.glob(f"{package}_*.deb"))):
        command = ["apt-get", "download", package]
        # moved when whole, as what is read of it
        with tempfile.TemporaryDirectory(dir=folder) as own:
            done = subprocess.run(command, cwd=own, capture_output=True, text=True, check=False)
            there = [file.replace(folder / file.name) for file in Path(own).glob("*.deb")]
        if done.returncode or not there:
            raise OSError(f"apt-get download {package} failed: {done.stderr.strip()}")
    return there[-1]


def _read_files(package: Path) -> Iterator[list[tuple[str, str]]]:
    """(heading, sentence) of each file of a package that can be read, in the package's order.

    Raises OSError where the package is damaged.
    """
    damaged = f"dpkg-deb cannot read {package}: remove the file and run this again"
    command = ["dpkg-deb", "--fsys-tarfile", str(package)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as tar:
        try:
            with tarfile.open(fileobj=tar.stdout, mode="r|") as files:
                yield from _read_tar(files)
        except tarfile.TarError as error:
            raise OSError(damaged) from error
    if tar.returncode:
        raise OSError(damaged)


def _read_tar(files: tarfile.TarFile) -> Iterator[list[tuple[str, str]]]:
    for entry in files:
        path = PurePosixPath(entry.name)
        if path.suffix not in prose.READERS or not entry.isfile() or _LEFT_OUT.search(entry.name):
            continue
        content = files.extractfile(entry)
        if content is None or (entry.size > _LARGEST_FILE and path.suffix != ".dz"):
            continue
        data = content.read()
        if path.suffix == ".dz":
            data = gzip.decompress(data)
        yield prose.sentences_of(data.decode("utf-8", "replace"), path)
