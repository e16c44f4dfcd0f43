"""Opening SQLite files, and making a connection ready: sqlite-vec, functions, pragmas."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Any

from datasette.utils.sqlite import sqlite3

from .errors import DatabaseUnusable

log = logging.getLogger("datasette_limbic")

# Of each connection. The map takes a third off a KNN over 100k vectors, and belongs to all
# processes. The cache is the process's own, one for each SQL thread: 2 MB and 64 MB of it were
# equally fast, with and without a map (benchmarks/serving.py), so eight threads get 128 MB.
MMAP_SIZE = 1 << 30
CACHE_KIB = 16384
# A transaction that changed more begins to write before its end, which keeps readers out for the
# rest of it where the file has no WAL.
SPILL_KIB = 65536
BUSY_TIMEOUT_S = 10.0

_said = threading.Event()
# Why sqlite-vec could not be loaded in this process, for messages on connections made earlier.
_reason: str | None = None


def load_vec(conn: sqlite3.Connection) -> str | None:
    """Load sqlite-vec into ``conn``. Returns None when loaded, else the reason in a sentence.

    Extension loading is closed again afterwards, so that SQL of users cannot load anything.
    Never raises: without vectors, text search goes on.
    """
    try:
        conn.execute("select vec_version()").fetchone()
        return None
    except sqlite3.OperationalError:
        log.debug("sqlite-vec not yet on this connection; loading it")
    try:
        import sqlite_vec
    except ImportError:
        return _say("sqlite-vec is not installed: pip install sqlite-vec")
    if not hasattr(conn, "enable_load_extension"):
        return _say(
            "this Python's sqlite3 cannot load extensions, so there is no vector search: "
            "pip install pysqlite3, or use a Python built with loadable extensions"
        )
    try:
        conn.enable_load_extension(True)
        try:
            sqlite_vec.load(conn)
        finally:
            conn.enable_load_extension(False)
    except (sqlite3.Error, OSError) as error:
        return _say(f"sqlite-vec could not be loaded ({error}): pip install -U sqlite-vec")
    return None


def _say(reason: str) -> str:
    """Log the reason once per process, not once per connection."""
    global _reason
    _reason = reason
    if not _said.is_set():
        _said.set()
        log.warning("%s. Text search works without it.", reason)
    return reason


def vec_missing(conn: sqlite3.Connection) -> str | None:
    """None where sqlite-vec is on this connection, else a sentence."""
    try:
        conn.execute("select vec_version()").fetchone()
    except sqlite3.OperationalError as error:
        if "no such function" not in str(error):
            raise
        return _reason or "sqlite-vec is not loaded on this connection"
    return None


def prepare(conn: sqlite3.Connection, settings: Any = None) -> str | None:
    """Make ``conn`` ready for every statement of ours.

    Loads sqlite-vec, registers the SQL functions with the settings' values, sets the page
    cache and the map. Returns the reason why vectors cannot be used, or None.
    """
    from . import embedding, frequency, report_settings, sql_functions, substrings
    from .config import Settings
    from .retrieval import functions, held

    settings = settings or Settings()
    missing = load_vec(conn)
    conn.execute(f"pragma mmap_size={MMAP_SIZE}")
    conn.execute(f"pragma cache_size=-{CACHE_KIB}")
    conn.execute(f"pragma cache_spill=-{SPILL_KIB}")
    embed = embedding.sql_embedder(conn, settings=settings)
    of_terms = frequency.remembering(conn)
    sql_functions.register(
        conn,
        settings=settings,
        embed=embed,
        threshold=report_settings.sql_threshold(conn),
        nearest=functions.sql_nearest(conn, settings, embed),
        hits=functions.sql_hits(conn, settings),
        frequency=frequency.sql_frequency(conn, of_terms),
        frequencies=frequency.sql_frequencies(conn, of_terms),
        parts=substrings.sql_parts(of_terms),
        short_runs=substrings.sql_short_runs(conn),
    )
    held.opened(conn)
    return missing


def connect(
    path: str | Path,
    *,
    readonly: bool = False,
    create: bool = False,
    recover: bool = True,
    settings: Any = None,
) -> sqlite3.Connection:
    """Open a memory database and make it ready.

    ``create`` makes a missing file; without it a missing file is an error. What a killed writer
    had begun is taken back, also for readers alone, unless ``recover`` is False. Raises
    DatabaseUnusable, naming the path and what to do.
    """
    path = Path(path)
    if path.is_dir():
        raise DatabaseUnusable(f"{path} is a directory: give the path of a SQLite file")
    if not create and not path.exists():
        raise DatabaseUnusable(
            f"{path} does not exist: create it with 'datasette limbic init {path}'"
        )
    if create and not path.parent.exists():
        raise DatabaseUnusable(f"the folder {path.parent} does not exist: create it first")
    mode = "ro" if readonly else "rwc" if create else "rw"
    try:
        try:
            conn = _open(path, mode)
        except sqlite3.OperationalError as error:
            if not (readonly and recover and "readonly" in str(error) and _interrupted(path)):
                raise
            # A writer was killed half-way. Whoever opens the file next takes back what it had
            # begun, as SQLite does by itself, but for readers alone.
            _open(path, "rw").close()
            conn = _open(path, mode)
    except sqlite3.DatabaseError as error:
        raise unusable(path, error) from error
    # as Datasette has it: a text that another program wrote wrongly stops nothing
    conn.text_factory = lambda data: str(data, "utf-8", "replace")
    conn.execute("pragma foreign_keys=on")
    try:
        prepare(conn, settings)
    except sqlite3.DatabaseError as error:
        conn.close()
        raise unusable(path, error) from error
    return conn


def _open(path: Path, mode: str) -> sqlite3.Connection:
    conn = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        timeout=BUSY_TIMEOUT_S,
        check_same_thread=False,
    )
    try:
        conn.execute("pragma schema_version").fetchone()
        conn.execute("select count(*) from sqlite_master").fetchone()
    except BaseException:
        conn.close()
        raise
    return conn


def _interrupted(path: Path) -> bool:
    """Whether a journal beside the file may hold what a killed writer had begun."""
    journal = path.with_name(path.name + "-journal")
    return journal.exists() and journal.stat().st_size > 0


def unusable(path: str | Path, error: Exception) -> DatabaseUnusable:
    """The sentence for an error that SQLite raised on the file ``path``."""
    # the system's own errors name the path, which may hold any word, and so does this of SQLite's
    text = (isinstance(error, OSError) and error.strerror) or str(error)
    if "unable to open" in text:
        what = f"{path} cannot be opened: check that its folder is there and may be written"
    elif "not a database" in text:
        what = f"{path} is not a SQLite database: give the path of a SQLite file"
    elif "malformed" in text or "corrupt" in text:
        what = f"{path} is damaged ({text}): restore a copy, or try 'sqlite3 {path} .recover'"
    elif "locked" in text or "busy" in text:
        what = f"{path} is locked by another program: close it, or try again in a moment"
    elif "readonly" in text or "read-only" in text:
        what = f"{path} cannot be written: check the rights of the file and of its folder"
    elif "full" in text or "No space" in text:
        what = f"no room left for {path}: free some disk space; the file is as it was before"
    else:
        what = f"{path} cannot be opened: {text}"
    return DatabaseUnusable(what)


def unreadable(
    path: str | Path, error: Exception, more: str = "look into entity_access and co_occurrences"
) -> str:
    """The sentence for an error of SQLite's while the memory ``path`` was read or written.

    ``more`` says where to find a row that ranking cannot use.
    """
    text = str(error)
    if "user-defined" in text:
        return (
            f"a row of {path} holds a value that ranking cannot use, such as a count that is no "
            f"number: {more}"
        )
    return lacking(path, error) or str(unusable(path, error))


def unwritten(path: str | Path, error: Exception) -> str:
    """The sentence for what kept a row out of the memory ``path``, whose file could be opened."""
    return lacking(path, error) or str(error)


def lacking(path: str | Path, error: Exception) -> str | None:
    """The sentence where an error says that a table or column is missing, else None."""
    text = str(error)
    if any(part in text for part in ("no such table", "no such column", "has no column")):
        return (
            f"{path} lacks part of a memory ({text}): run 'datasette limbic init' on its file "
            "to bring it up to date"
        )
    return None


def is_locked(error: Exception) -> bool:
    """Whether an error means that another program holds the file, so that a later try may do."""
    return isinstance(error, sqlite3.OperationalError) and "locked" in str(error)
