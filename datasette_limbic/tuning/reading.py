"""The log of searches out of SQLite, in a few queries whatever its length, as arrays.

SQLite keeps any value in any column, and any program may have written here. A search of which
something cannot be read is left out and counted by the reason; it never spoils the others.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from datasette.utils.sqlite import sqlite3

from .. import scoring, times
from ..exporting.transaction import reading
from ..scoring import Parameters
from ..search import BASELINE, LIMBIC
from ..signal_figures import EVENTS
from ..text import fold
from . import rerank
from .labels import NO_SEARCH, POLICY, Feedback, LabelPolicy, label
from .log import NONE, SOURCES, STRATEGY_NAMES, Bools, Ints, Log
from .ranges import HIGHEST

Progress = Callable[[int, int], None]
CHUNK = 50_000
"""Candidates between two steps of the progress."""
# Why a search is left out: words that stand after a number of searches.
NO_QUERY = "without a query"
BAD_TIME = "with an unreadable time"
BAD_PARAMETERS = "with unreadable parameters"
BAD_STRATEGY = "with an unknown strategy"
BAD_LIMIT = "with an unreadable limit"
LEAST_CHANCE = 1e-6
"""No order is served more seldom than that; less is a mistake, and its inverse would be all."""
BAD_SERVING = "with an unreadable policy or probability"
NO_POOL = "without candidates"
BAD_FACTORS = "with missing, unreadable or infinite factors"
BAD_RANKS = "with ranks that are no order of their candidates"

_LAST = (1 << 63) - 1
_HIGHEST = np.array(HIGHEST)
_SEARCHES = """select id, query, strategy, result_limit, parameters, parameters_version, policy,
treatment, probability, client, actor, created_at from limbic_searches where id <= ?"""


# Texts and blobs stand behind all numbers, and so does infinity.
_FIGURE = "iif({0} < 9e999, {0}, 9e999)"
_TEMPORAL = """case when temporal_factor < 9e999 then temporal_factor
when temporal_factor is not null then 9e999 end"""
_WHOLE = "iif(typeof({0}) = 'integer', {0}, 0)"
_CANDIDATES = f"""select search_id, {_WHOLE.format("entity_id")}, {_WHOLE.format("baseline_rank")},
{_WHOLE.format("treatment_rank")}, iif(typeof(entity_id) = 'integer',
{_FIGURE.format("base")}, 9e999), {_FIGURE.format("importance")}, {_TEMPORAL},
{_FIGURE.format("cooc_boost")}
from limbic_search_candidates where search_id <= ? and typeof(search_id) = 'integer'
order by search_id, entity_id"""
_ROW = np.dtype(
    [
        *((name, np.int64) for name in ("search", "entity", "baseline", "limbic")),
        *((name, np.float64) for name in ("base", "importance", "temporal", "cooc")),
    ]
)
# An entity that was deleted since has its name alone, as the search showed it.
_FEEDBACK = """select search_id, entity, event, client, actor, created_at from (
  select f.id, search_id, event, client, actor, created_at, coalesce(
    (select entity_id from limbic_search_candidates c
      where c.search_id = f.search_id and c.entity_id = f.entity_id),
    (select entity_id from limbic_search_candidates c
      where c.search_id = f.search_id and c.entity_name = f.entity_name limit 1),
    f.entity_id) as entity
  from limbic_feedback f)
where typeof(entity) = 'integer' order by id"""


class _Search(NamedTuple):
    """A search that can be read."""

    at: float
    id: int
    query: str
    client: str | None
    strategy: int
    limit: int
    beta_sal: float
    gamma: float
    unknown_temporal: float
    limbic: bool
    baseline_share: float
    version: int


def read(
    conn: sqlite3.Connection,
    *,
    policy: LabelPolicy = POLICY,
    until: int | None = None,
    progress: Progress | None = None,
) -> Log:
    """The logged searches with labels, of one state of the database. Reads only.

    ``until`` is the row id of the last search that counts. ``progress(done, total)`` counts
    searches. What is left out stands in ``Log.left_out``. Raises NotAMemory and sqlite3.Error.
    """
    last = _LAST if until is None else until
    with reading(conn, lambda data: str(data, "utf-8", "replace")):
        left_out: Counter[str] = Counter()
        searches = _searches(conn, last, left_out)
        log = _pools(conn, last, searches, left_out, progress)
        feedback = _feedback(conn)
    return label(log, feedback, policy)


def _searches(conn: sqlite3.Connection, last: int, left_out: Counter[str]) -> list[_Search]:
    """Those that can be read, by time and then by id."""
    read_search = _Reader(conn)
    found: list[_Search] = []
    for row in conn.execute(_SEARCHES, [last]):
        search = read_search(*row)
        if isinstance(search, str):
            left_out[search] += 1
        else:
            found.append(search)
    return sorted(found)


class _Reader:
    """Rows of limbic_searches, one by one; what repeats in them is read once."""

    def __init__(self, conn: sqlite3.Connection) -> None:
        self._folded: dict[str, str] = {}
        self._parameters: dict[Any, Parameters | None] = {}
        self._versions: dict[Any, tuple[Any, Any]] = {}
        self._since = math.inf
        for version, beta_sal, gamma, at in conn.execute(
            "select version, beta_sal, gamma, created_at from limbic_parameters"
        ):
            self._versions[version] = beta_sal, gamma
            moment = times.parse_time(at)
            self._since = min(self._since, -math.inf if moment is None else moment)

    def __call__(
        self,
        id_: int,
        query: Any,
        strategy: Any,
        limit: Any,
        parameters: Any,
        version: Any,
        policy: Any,
        treatment: Any,
        probability: Any,
        client: Any,
        actor: Any,
        created_at: Any,
    ) -> _Search | str:
        """The search, or why it cannot be read."""
        at = times.parse_time(created_at)
        if at is None:
            return BAD_TIME
        asked = self._fold(_text(query) or "")
        if not asked:
            return NO_QUERY
        if strategy not in STRATEGY_NAMES:
            return BAD_STRATEGY
        if not isinstance(limit, int) or limit < 1:
            return BAD_LIMIT
        chance = probability if isinstance(probability, (int, float)) else 0.0
        if policy not in (LIMBIC, BASELINE) or treatment != (policy == LIMBIC):
            return BAD_SERVING
        if not LEAST_CHANCE <= chance <= 1:
            return BAD_SERVING
        used = self._used(parameters)
        if used is None:
            return BAD_PARAMETERS
        return _Search(
            at=at,
            id=id_,
            query=asked,
            client=_text(client) or _text(actor),
            strategy=STRATEGY_NAMES.index(strategy),
            limit=limit,
            beta_sal=float(used.beta_sal),
            gamma=float(used.gamma),
            unknown_temporal=float(used.unknown_temporal),
            limbic=policy == LIMBIC,
            baseline_share=1.0 - chance if policy == LIMBIC else float(chance),
            version=self._version(version, used, at),
        )

    def _fold(self, query: str) -> str:
        found = self._folded.get(query)
        if found is None:
            found = " ".join(fold(query.replace("\x00", " ")).split())
            self._folded[query] = found
        return found

    def _used(self, text: Any) -> Parameters | None:
        """What ranked; None where that cannot be read. Most searches have the very same text."""
        if text not in self._parameters:
            self._parameters[text] = _parameters(text)
        return self._parameters[text]

    def _version(self, version: Any, used: Parameters, at: float) -> int:
        """As in ``Log.version``: the version where its values ranked, 0 before the first one."""
        if version is None:
            return 0 if at < self._since else -1
        same = self._versions.get(version) == (used.beta_sal, used.gamma)
        return version if same and isinstance(version, int) else -1


def _parameters(text: Any) -> Parameters | None:
    try:
        given = json.loads(text)
        unknown = given.get("unknown_temporal", scoring.UNKNOWN_TEMPORAL)
        return Parameters(
            beta_sal=given["beta_sal"], gamma=given["gamma"], unknown_temporal=unknown
        )
    # no JSON, or of another kind, or deeper than Python reads
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return None


def _text(value: Any) -> str | None:
    """Whatever stands where a text belongs; None where nothing does."""
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    return None if value is None or value == "" else str(value)


def _pools(
    conn: sqlite3.Connection,
    last: int,
    searches: list[_Search],
    left_out: Counter[str],
    progress: Progress | None,
) -> Log:
    """The searches with their candidates, without labels."""
    table = np.array([each.id for each in searches], np.int64)
    found = _candidates(conn, last, np.sort(table), progress)
    begin = np.searchsorted(found["search"], table, side="left")
    sizes = np.searchsorted(found["search"], table, side="right") - begin
    there = sizes > 0
    left_out[NO_POOL] += int((~there).sum())
    searches = [each for each, has in zip(searches, there.tolist(), strict=True) if has]
    begin, sizes = begin[there], sizes[there]
    start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    rows = np.arange(start[-1]) + np.repeat(begin - start[:-1], sizes)

    def column(name: str, kind: Any) -> Any:
        return np.array([getattr(each, name) for each in searches], kind)

    temporal = found["temporal"][rows]
    unknown = np.repeat(column("unknown_temporal", np.float64), sizes)
    log = Log(
        id=column("id", np.int64),
        query=tuple(each.query for each in searches),
        client=tuple(each.client for each in searches),
        at=column("at", np.float64),
        strategy=column("strategy", np.int64),
        limit=column("limit", np.int64),
        beta_sal=column("beta_sal", np.float64),
        gamma=column("gamma", np.float64),
        limbic=column("limbic", np.bool_),
        baseline_share=column("baseline_share", np.float64),
        version=column("version", np.int64),
        start=start,
        entity=found["entity"][rows],
        base=found["base"][rows],
        importance=found["importance"][rows],
        temporal=np.where(np.isnan(temporal), unknown, temporal),
        cooc=found["cooc"][rows],
        baseline_rank=found["baseline"][rows],
        limbic_rank=found["limbic"][rows],
        gain=np.full(len(rows), np.nan),
        source=np.full(len(rows), NONE),
        chance=np.zeros(len(rows)),
    )
    finite = np.isfinite(log.base) & np.isfinite(log.importance)
    finite &= np.isfinite(log.temporal) & np.isfinite(log.cooc)
    # finite ones too large to be multiplied are no factors either
    with np.errstate(over="ignore", invalid="ignore"):
        finite &= np.isfinite(
            rerank.limbic_scores(
                log.base, log.importance, log.temporal, log.cooc, _HIGHEST, _HIGHEST
            )
        )
    whole = _all(log, finite)
    ordered = _all(log, _in_order(log, log.baseline_rank) & _in_order(log, log.limbic_rank))
    left_out[BAD_FACTORS] += int((~whole).sum())
    left_out[BAD_RANKS] += int((whole & ~ordered).sum())
    kept = log.select(whole & ordered)
    return replace(kept, left_out={reason: count for reason, count in left_out.items() if count})


def _candidates(
    conn: sqlite3.Connection, last: int, ids: Ints, progress: Progress | None
) -> npt.NDArray[Any]:
    """Of type _ROW, in order of search and entity; NaN is a temporal factor that is not known, and
    infinity what cannot be read."""
    cursor = conn.execute(_CANDIDATES, [last])
    parts = [np.zeros(0, _ROW)]
    # a list of so many tuples would take twice as long
    while len(chunk := np.fromiter(islice(cursor, CHUNK), _ROW)):
        parts.append(chunk)
        if progress is not None and len(ids):
            progress(int(np.searchsorted(ids, chunk["search"][-1], side="right")), len(ids))
    if progress is not None and len(ids):
        progress(len(ids), len(ids))
    return np.concatenate(parts)


def _all(log: Log, good: Bools) -> Bools:
    """(n,) whether all candidates of a search are good."""
    found: Bools = np.bincount(log.of[~good], minlength=len(log)) == 0
    return found


def _in_order(log: Log, rank: Ints) -> Bools:
    """(N,) false for at least one candidate of each search whose ranks are not 1 to m."""
    order = np.lexsort((rank, log.of))
    expected = np.arange(len(rank)) - log.start[:-1][log.of] + 1
    found: Bools = rank[order] == expected
    return found


def _feedback(conn: sqlite3.Connection) -> Feedback:
    """All events that can be read, in the order in which they were written."""
    kinds = {name: index for index, name in enumerate(SOURCES) if name in EVENTS}
    rows = [row for row in conn.execute(_FEEDBACK) if row[2] in kinds]
    moments = [times.parse_time(row[5]) for row in rows]
    return Feedback(
        search=np.array(
            [row[0] if isinstance(row[0], int) else NO_SEARCH for row in rows], np.int64
        ),
        entity=np.array([row[1] for row in rows], np.int64),
        event=np.array([kinds[row[2]] for row in rows], np.int64),
        at=np.array([math.nan if moment is None else moment for moment in moments]),
        client=tuple(_text(row[3]) or _text(row[4]) for row in rows),
    )
