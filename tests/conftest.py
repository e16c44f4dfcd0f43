"""Shared fixtures: memories as files, and Datasette on them."""

from __future__ import annotations

import copy
import gc
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from embedding_helpers import conn_fixture, models_fixture, path_fixture  # noqa: F401
from empty_memory import empty_memory
from hypothesis import HealthCheck, settings
from jinja2 import Environment
from jinja2.bccache import Bucket, BytecodeCache
from meeting_datasette import meets_datasette

# llm and Datasette read a user's configuration: tests have one of their own.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# What is fetched once for all runs is kept here: temporary files may be in memory, see below.
os.environ.setdefault("LIMBIC_TESTS_CACHE", tempfile.gettempdir())

SHARED = Path(__file__).resolve().parents[2] / "shared"
NOW = "2026-11-29 12:00:00"
MEMORY = Path("/dev/shm")
BROWSER_TESTS = "tests/e2e/"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--load", action="store_true", help="run the tests marked load too: minutes")
    parser.addoption(
        "--every",
        type=int,
        default=1,
        metavar="N",
        help="of the cases of each test every Nth, from the first: all code, in less time",
    )


def pytest_configure(config: pytest.Config) -> None:
    # In memory, as SQLite waits for a disk at each commit; unless a place is asked for, and where
    # folders of tests that passed are kept, which come to gigabytes. Workers and servers inherit
    # this.
    chosen = config.option.basetemp or "TMPDIR" in os.environ
    if not chosen and config.getini("tmp_path_retention_policy") != "all" and _has_room(MEMORY):
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None  # asked again
    # A busy machine is no mistake of what is tested.
    unhurried = {*settings().suppress_health_check, HealthCheck.too_slow}
    settings.register_profile(
        "unhurried", settings(), deadline=None, suppress_health_check=unhurried
    )
    settings.load_profile("unhurried")
    # Hundreds of programs are started: what one of them compiles serves the next.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if config.getoption("numprocesses", None) and not config.getoption("--load"):
        # workers take all cores: numpy's threads would wait for each other, and busily; under load
        # that is what is tested
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """All tests with a browser on one worker, as each would start servers and a browser.

    By where they are: with pytest 9.2, xdist 3.8 no longer sees its own groups, and says nothing.
    """
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return BROWSER_TESTS if nodeid.startswith(BROWSER_TESTS) else nodeid

    return Scheduling(config, log) if config.getvalue("dist") == "loadgroup" else None


def _has_room(folder: Path) -> bool:
    """Whether files of some gigabytes, programs among them, may be put there."""
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        return False
    programs = not os.statvfs(folder).f_flag & getattr(os, "ST_NOEXEC", 0)
    return programs and shutil.disk_usage(folder).free > 4 << 30


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    # for .ci/run: whether a run in which tests failed went to its end (1)
    cache = getattr(session.config, "cache", None)
    if cache is not None and not hasattr(session.config, "workerinput"):
        cache.set("limbic/ended", int(exitstatus))


def pytest_collection_finish() -> None:
    # Thousands of tests, and all that they import, are there to stay: looking through them at
    # every full collection is a twentieth of the time.
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)  # before -m is looked at
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if not meets_datasette(item.path):
            item.add_marker(pytest.mark.library)
    every, cases = config.getoption("--every"), Counter[tuple[Path, str]]()
    left_out = []
    for item in items:
        test = item.path, getattr(item, "originalname", item.name)
        if cases[test] % every:
            left_out.append(item)
        cases[test] += 1
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]
    # not by -m in addopts: any other -m takes its place
    if not config.getoption("--load"):
        for item in items:
            if item.get_closest_marker("load"):
                item.add_marker(pytest.mark.skip(reason="minutes of load: only with --load"))


@pytest.fixture(scope="session", autouse=True)
def _own_llm_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    before = os.environ.get("LLM_USER_PATH")
    os.environ["LLM_USER_PATH"] = str(tmp_path_factory.mktemp("llm"))
    yield
    if before is None:
        del os.environ["LLM_USER_PATH"]
    else:
        os.environ["LLM_USER_PATH"] = before


@pytest.fixture(scope="session")
def demo_master(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packaged sample memory, imported and synced with the packaged model, once."""
    from datasette_limbic import connection, schema
    from datasette_limbic.importing import import_files
    from datasette_limbic.sync import sync

    path = tmp_path_factory.mktemp("demo") / "demo.db"
    conn = connection.connect(path, create=True)
    schema.init(conn)
    folder = Path(str(resources.files("datasette_limbic") / "demo"))
    import_files(conn, [folder / "memory.jsonl", folder / "history.jsonl"])
    sync(conn)
    conn.close()
    return path


@pytest.fixture
def demo_db(demo_master: Path, tmp_path: Path) -> Path:
    """A copy of the sample memory that a test may do anything to."""
    return Path(shutil.copy(demo_master, tmp_path / "demo.db"))


@pytest.fixture
def empty_db(tmp_path: Path) -> Path:
    """A memory without rows."""
    return empty_memory(tmp_path / "empty.db")


class CompiledOnce(BytecodeCache):
    """Templates compiled for one Datasette serve all later ones of the process.

    By name, file and checksum of the text, so another text is another template. Every Datasette
    has an environment of its own, and would compile all templates of a page anew: a quarter of
    the time of the tests of pages.
    """

    def __init__(self) -> None:
        self.codes: dict[tuple[str, str], Any] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        bucket.code = self.codes.get((bucket.key, bucket.checksum))

    def dump_bytecode(self, bucket: Bucket) -> None:
        self.codes[bucket.key, bucket.checksum] = bucket.code


@pytest.fixture(scope="session", autouse=True)
def _templates_compiled_once() -> Iterator[None]:
    compiled = CompiledOnce()
    init = Environment.__init__

    def cached(self: Environment, *args: Any, **options: Any) -> None:
        init(self, *args, **options)
        # code depends on how an environment was made too: only Datasette's own are served
        if self.is_async and self.bytecode_cache is None:
            self.bytecode_cache = compiled

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Environment, "__init__", cached)
        yield


@pytest.fixture(scope="session", autouse=True)
def _application_made_once() -> Iterator[None]:
    """One application for all requests to a Datasette, as a server has it.

    Its client makes the whole application anew for each request, and reads the metadata of all
    installed packages for that: a fifth of the time of the tests of pages. Other plugins, as some
    tests register, get another application.
    """
    from datasette.app import Datasette
    from datasette.plugins import pm

    make = Datasette.app

    def app(self: Any) -> Any:
        plugins = frozenset(map(id, pm.get_plugins()))
        if getattr(self, "_made_app", (None,))[0] != plugins:
            self._made_app = plugins, make(self)
        return self._made_app[1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Datasette, "app", app)
        yield


@pytest.fixture
def make_datasette() -> Iterator[Callable[..., Any]]:
    """Datasette on files, with plugin configuration where given; closed after the test."""
    from datasette.app import Datasette

    made: list[Datasette] = []

    def make(*paths: Path | str, config: dict[str, Any] | None = None, **kwargs: Any) -> Datasette:
        if config is not None:
            kwargs.setdefault("metadata", {})["plugins"] = {"datasette-limbic": config}
        datasette = Datasette([str(p) for p in paths], **kwargs)
        made.append(datasette)
        return datasette

    yield make
    for datasette in made:
        for db in datasette.databases.values():
            db.close()


@pytest.fixture
def impatient_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections of Datasette's wait 20 ms for a lock, not 5 s."""
    from datasette_limbic import plugin

    prepare = plugin.prepare

    def hasty(conn: Any, database: str, datasette: Any) -> None:
        # before as well: a connection that is made while the file is locked waits at each step
        conn.execute("pragma busy_timeout = 20").fetchone()
        prepare(conn, database, datasette)
        conn.execute("pragma busy_timeout = 20").fetchone()

    monkeypatch.setattr(plugin, "prepare", hasty)


@pytest.fixture(scope="session")
def _found_once() -> dict[Any, Any]:
    return {}


@pytest.fixture
def reports_once(_found_once: dict[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """What a sync finds in the same texts and vectors is found once, then remembered.

    For tests that sync the same memory many times and are about neither topics nor duplicates.
    """
    from datasette_limbic.reports import keeping, topic_rows

    def remember(module: Any, name: str) -> None:
        find = getattr(module, name)

        def found(texts: Any, vectors: Any, *given: Any, **options: Any) -> Any:
            bits = None if vectors is None else (vectors.shape, vectors.tobytes())
            key = (name, tuple(texts), bits, given, tuple(sorted(options.items())))
            if key not in _found_once:
                _found_once[key] = find(texts, vectors, *given, **options)
            return copy.deepcopy(_found_once[key])

        monkeypatch.setattr(module, name, found)

    remember(topic_rows, "analyse_topics")
    remember(keeping, "find_pairs")


@pytest.fixture
def menus_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Menus ask for no rights: for tests of requests that Datasette itself refuses.

    1.0 keeps no answers about rights while it makes such a page, so its menu alone takes 0.2 s.
    Nothing is refused by this, and the views ask for their own rights as ever.
    """
    from datasette_limbic import compat

    async def anybody(*_: Any) -> bool:
        return True

    monkeypatch.setattr(compat, "may_view", anybody)


@pytest.fixture
def shared() -> Path:
    """The folder of files from elsewhere, or a skip where it is absent."""
    if not SHARED.is_dir():
        pytest.skip("the folder of shared files is not beside this checkout")
    return SHARED
