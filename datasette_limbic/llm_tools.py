"""Tools for models that ``llm`` runs: ``llm -T 'Memory("memory.db")' "who runs billing?"``.

The names and docstrings of the tools are what a model reads. ``llm`` imports this module at each
start, so everything else is imported by the call that needs it. Annotations are real ones here:
``llm tools list`` prints them.
"""

import inspect
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import click
import llm

from .errors import BadParameter, DatabaseUnusable, UnknownEntity, UnknownSearch

VARIABLE = "LIMBIC_MEMORY"
DEFAULT_LIMIT = 5
MAX_LIMIT = 20
# A model waits for the answer: a lock that lasts longer costs the signals, never the answer.
WRITE_TIMEOUT_MS = 2_000
# Observations come 100 a page; of a longer entity the newest of these are read.
_LAST_PAGES = 2


class CannotStart(click.ClickException, BadParameter):
    """The toolbox was set up wrongly; ``llm`` prints this as one sentence, without a traceback."""


class Memory(llm.Toolbox):  # type: ignore[no-untyped-call]
    """The memory in a SQLite file: search it, open entities, rate what helped.

    ``path`` is the file, by default the one that the environment variable LIMBIC_MEMORY names.
    ``client`` is who asks, for the log. With ``record`` False nothing is written. ``limit`` is
    the most results that one search returns. ``config`` is the metadata.yml or datasette.yaml
    whose settings of the plugin count here too. Raises CannotStart.
    """

    def __init__(
        self,
        path: str | None = None,
        client: str = "llm",
        record: bool = True,
        limit: int = MAX_LIMIT,
        config: str | None = None,
    ) -> None:
        from .config import MAX_LIMIT as MOST
        from .config import flag, number
        from .serving import client_name

        path = path or os.environ.get(VARIABLE)
        if not path:
            raise CannotStart(
                f'which memory? Write Memory("memory.db"), or set {VARIABLE} to the path of one'
            )
        self._path = Path(path).expanduser()
        if not self._path.is_file():
            raise CannotStart(
                f"{self._path} is no file: create a memory with "
                f"'datasette limbic import memory.jsonl {self._path}', or correct the path"
            )
        try:
            self._client = client_name(client)
            self._record = flag("record", record)
            self._limit = int(number("limit", limit, 1, MOST, whole=True))
            self._settings = self._read_settings(config)
        except BadParameter as error:
            raise CannotStart(str(error)) from error
        # llm keeps the arguments as JSON, and a program may have given a Path
        self._config.update(
            {k: os.fspath(v) for k, v in self._config.items() if isinstance(v, os.PathLike)}
        )

    def search(self, query: str, limit: int = DEFAULT_LIMIT, type: str = "") -> str:
        """Search your long-term memory of people, projects, decisions and facts.

        Call this before you answer anything that may depend on what was said, decided or learnt
        earlier, and before you say that you do not know. Ask in plain words, in any language; a
        whole question works as well as a name. type narrows it to one entityType, spelled
        exactly as in earlier results.

        Returns JSON: results, best first, each with name, entityType, final_score, why it ranks
        there and the observations that fit best. If confident is false, nothing in the memory
        seems to be about the question: say so instead of guessing.

        Next: call open with the names that you use and this search_id to read them whole, then
        rate with what helped.
        """
        from . import llm_answers, serving
        from .config import MAX_LIMIT as MOST
        from .config import number

        given: Any = limit  # a model may make text of it, or null
        given = DEFAULT_LIMIT if given in (None, "") else given
        asked = int(number("limit", given, 1, MOST, whole=True))
        notes = []
        if asked > self._limit:
            notes.append(f"This memory returns at most {self._limit} results.")
        with self._opened() as (conn, reason):
            answer = serving.search_semantic(
                conn,
                query,
                min(asked, self._limit),
                type=type,
                settings=self._settings,
                client=self._client,
                why_not=reason,
                on_failure=self._failed,
            )
        return llm_answers.search_answer(answer, notes)

    def open(self, names: list[str], search_id: str = "") -> str:
        """Read entities of the memory whole: all they say, and what they are linked to.

        Call this for the search results that you are about to use, with their exact names and
        the search_id of that search: it tells the memory what was worth opening. Also follow
        relations with it, by the names that they show.

        Returns JSON: entities with their observations and relations. What is marked as ended is
        no longer true, and what is archived was put away: do not present either as current.
        Names that are not in the memory come back in unknown.

        Next: answer from what you read, then call rate.
        """
        from . import llm_answers, serving

        wanted = [names] if isinstance(names, str) else list(names)
        with self._opened() as (conn, reason):

            def opened(found_by: str | None) -> dict[str, Any]:
                return serving.open_nodes(
                    conn,
                    [llm_answers.plain(name) for name in wanted],
                    settings=self._settings,
                    search_id=found_by,
                    client=self._client,
                    why_not=reason,
                    on_failure=self._failed,
                )

            notes = []
            try:
                answer = opened(llm_answers.plain(search_id) if search_id and not reason else None)
            except UnknownSearch as error:
                notes.append(f"Not counted as opened from a search: {error}.")
                answer = opened(None)
            for found in answer["entities"]:
                found["observations"] = self._newest(conn, found)
        return llm_answers.open_answer(answer, notes)

    def rate(self, search_id: str, name: str, rating: Literal["useful", "not_useful"]) -> str:
        """Tell the memory whether a search result helped, so that it ranks better next time.

        Call this once you have answered: useful for each result that your answer rests on,
        not_useful for one that ranked high and misled. name and search_id are those of the
        search. The last rating of a result counts.

        Returns JSON with what was rated, or says why nothing was recorded.
        """
        from . import llm_answers, serving

        rated = None
        with self._opened() as (conn, reason):
            if reason is None:
                rated = serving.rate(
                    conn,
                    llm_answers.plain(search_id),
                    llm_answers.plain(name),
                    rating,
                    client=self._client,
                )
        return llm_answers.rate_answer(rated, reason)

    @contextmanager
    def _opened(self) -> Iterator[tuple[Any, str | None]]:
        """A connection for one call, and why nothing can be recorded on it, or None.

        One for each call, since ``llm`` may call tools from any thread.
        """
        from datasette.utils.sqlite import sqlite3

        from . import connection, schema

        reason = None
        if not self._record:
            reason = "this tool was started with record=False"
        elif self._path.exists() and not os.access(self._path, os.W_OK):
            reason = "the file is read-only"
        conn = connection.connect(self._path, readonly=bool(reason), settings=self._settings)
        try:
            conn.execute(f"pragma busy_timeout={WRITE_TIMEOUT_MS}")
            schema.require_memory(conn, str(self._path))
            yield conn, reason
        except sqlite3.Error as error:
            raise DatabaseUnusable(connection.unreadable(self._path, error)) from error
        finally:
            conn.close()

    def _newest(self, conn: Any, found: dict[str, Any]) -> list[dict[str, Any]]:
        """The observations of an opened entity, in their order; of a long one the newest."""
        from .entity import PAGE, entity_detail

        there: int = found["counts"]["observations"]
        if len(found["observations"]) >= there:
            return list(found["observations"][-_LAST_PAGES * PAGE :])
        # longer than what one answer opens: its end was not read yet
        last = -(-there // PAGE)
        try:
            return [
                each
                for page in range(max(1, last - _LAST_PAGES + 1), last + 1)
                for each in entity_detail(
                    conn, found["id"], settings=self._settings, now=found["now"], page=page
                )["observations"]
            ]
        except UnknownEntity:  # deleted since: what was read of it is still the answer
            return list(found["observations"])

    def _failed(self, error: Exception) -> str:
        """Why something was not recorded, in a sentence; the answer is not lost."""
        from datasette.utils.sqlite import sqlite3

        from . import connection

        if isinstance(error, sqlite3.Error):
            return connection.unreadable(self._path, error)
        return str(error) or type(error).__name__

    def _read_settings(self, config: str | None) -> Any:
        from .config import Settings

        if config is None:
            return Settings()
        from .cli.common import read_settings

        file = Path(config).expanduser()
        if not file.is_file():
            raise BadParameter(f"config is {config!r:.200}, which is no file: give its path")
        return read_settings(file, self._path.stem)


for _tool in (Memory.search, Memory.open, Memory.rate):
    # llm sends docstrings as they stand in the source, indented
    _tool.__doc__ = inspect.cleandoc(_tool.__doc__ or "")


@llm.hookimpl
def register_tools(register: Any) -> None:
    """Make the toolbox known to ``llm`` as ``Memory``."""
    register(Memory)
