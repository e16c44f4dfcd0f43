"""What agents ask for: search and open, with what each answer leaves behind.

``serve_search`` and ``serve_open`` read alone and say what to record; Datasette writes that
after the answer. ``search_semantic``, ``open_nodes`` and ``rate`` do both at once, for the
command line, ``llm`` and programs. The names are the document's.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, fields
from typing import Any

from datasette.utils.sqlite import sqlite3

from . import entity, recording, schema, search, search_log, times
from .config import MAX_LIMIT, Settings, choice
from .errors import BadParameter, UnknownEntity
from .recording import Recorded, Recording
from .request import Request, applied_parameters, parse
from .scoring import Parameters
from .search import BASELINE, LIMBIC
from .search_log import LoggedSearch
from .text import storable

MAX_OPEN = MAX_LIMIT
# Observations and relations of each kind that one answer holds, so that it fits into memory.
MAX_OPEN_ROWS = 10_000
MAX_CLIENT = 200
# Arguments that choose a ranking: who gives one of them takes no part in comparing rankings.
_RANKING = frozenset(
    ("strategy", "recency", "fusion", "consolidation", *(f.name for f in fields(Parameters)))
)
# What kept an answer from being recorded → the sentence that the answer says of it.
OnFailure = Callable[[Exception], str]
NOTHING_ASKED = "nothing was asked, so nothing is recorded"
NOT_CONFIDENT = "the answer is not confident, and only confident ones were to be recorded"
NOTHING_FOUND = "there is nothing to record"


def serve_search(
    conn: sqlite3.Connection,
    query: Request,
    *,
    settings: Settings,
    sql_link: Callable[[str], str] | None = None,
    record: bool = True,
    chosen: frozenset[str] = frozenset(),
    confident_only: bool = False,
    client: str | None = None,
    actor: str | None = None,
) -> tuple[dict[str, Any], Recording | None]:
    """Answer a search, and say what is to be recorded. Reads only.

    With ``record`` False this is ``search.search``. Where the setting ``baseline_share`` is above
    0, that share of the recorded searches is served in the order of base similarity; the answer
    says so in ``policy``, and the log knows the probability. A caller who chose a strategy or a
    parameter (``chosen`` names the arguments that were given) gets what was asked for. With
    ``confident_only`` an answer that is not confident is not recorded.
    """
    pool = search.rank(conn, query, settings=settings)
    recorded = record and bool(query.query)
    share = settings.baseline_share if recorded and not chosen & _RANKING else 0.0
    policy = BASELINE if random.random() < share else LIMBIC
    answer = search.answer(conn, pool, settings=settings, sql_link=sql_link, policy=policy)
    if recorded and confident_only and not answer["confident"]:
        if policy == BASELINE:  # which is served where it is recorded alone
            answer = search.answer(conn, pool, settings=settings, sql_link=sql_link)
        return answer, None
    if not recorded:
        return answer, None
    ids = tuple(row["id"] for row in answer["results"])
    logged = search_log.logged(
        pool,
        uid=search_log.new_uid(),
        policy=policy,
        probability=share if policy == BASELINE else 1 - share,
        applied=applied_parameters(conn),
        client=client,
        actor=actor,
    )
    return answer, Recording(
        ids, times.now_sql(), query=query.query, search=logged, client=client, actor=actor
    )


def unrecorded(answer: Mapping[str, Any]) -> str:
    """Why a search that may be recorded came without a Recording, of its answer."""
    return NOT_CONFIDENT if answer["query"] else NOTHING_ASKED


def serve_open(
    conn: sqlite3.Connection,
    names: Iterable[str] = (),
    *,
    ids: Iterable[int] = (),
    settings: Settings | None = None,
    search_id: str | None = None,
    candidates: frozenset[int] | None = None,
    client: str | None = None,
    actor: str | None = None,
    now: str | None = None,
    access_log: bool = True,
) -> tuple[dict[str, Any], Recording | None]:
    """Entities whole, by exact name or id, and what is to be recorded. Reads only.

    Each once, in the order given: ``entity.entity_detail`` without its paging. MAX_OPEN_ROWS are
    shared out evenly; where a list of an entity holds more than its share, ``cut`` is true and
    ``counts`` says how many there are. ``unknown`` of the answer names what is not there, and
    ``suggestions`` the names that differ from an unknown one in case, accents and points alone.
    Archived ones are answered too, and say so. ``search_id`` is the search that they were found
    by, ``candidates`` the ids of its pool where it is not in the log yet. ``access_log`` as in
    ``entity_detail``. Raises BadParameter for more than MAX_OPEN.
    """
    schema.require_memory(conn)
    wanted: list[int | str] = [*dict.fromkeys(names), *dict.fromkeys(ids)]
    if not wanted:
        raise BadParameter('nothing to open: give names, as in {"names": ["Atlas"]}, or ids')
    if len(wanted) > MAX_OPEN:
        raise BadParameter(
            f"{len(wanted):,} entities were asked for: at most {MAX_OPEN} are opened at once, "
            "since every pair of them is recorded"
        )
    now = now or times.now_sql()
    share = max(entity.PAGE, MAX_OPEN_ROWS // len(wanted))
    found: dict[int, dict[str, Any]] = {}
    unknown: list[int | str] = []
    for each in wanted:
        try:
            detail = entity.entity_detail(
                conn, each, settings=settings, now=now, size=share, access_log=access_log
            )
        except UnknownEntity:
            unknown.append(each)
        else:
            found.setdefault(detail["id"], _unpaged(detail))
    strangers = [each for each in unknown if isinstance(each, str)]
    answer = {
        "entities": list(found.values()),
        "unknown": unknown,
        "suggestions": {name: near for name in strangers if (near := entity.alike(conn, name))},
        "now": now,
    }
    if not found:
        return answer, None
    if search_id is not None and candidates is None:
        candidates = search_log.candidate_ids(conn, search_id)
    return answer, Recording(
        tuple(found),
        times.now_sql(),
        opened_from=search_id,
        results=len(found.keys() & (candidates or frozenset())),
        client=client,
        actor=actor,
    )


def _unpaged(detail: dict[str, Any]) -> dict[str, Any]:
    cut = detail["pages"] > 1
    paging = ("page", "pages", "relations_page", "relations_pages")
    whole = {key: value for key, value in detail.items() if key not in paging}
    return {**whole, "cut": cut}


def recorded(
    entry: Recording | None, done: Recorded | None = None, reason: str | None = None
) -> dict[str, Any]:
    """What an answer says of its recording.

    ``status`` is ``queued`` (written in a moment), ``done``, or ``nothing``, and then ``reason``
    says why.
    """
    if entry is None or reason:
        return {"status": "nothing", **asdict(Recorded()), "reason": reason or NOTHING_FOUND}
    if done is None:
        return {"status": "queued", **asdict(recording.planned(entry)), "reason": None}
    return {"status": "done", **asdict(done), "reason": None}


def failed(reason: str) -> dict[str, Any]:
    """The same where writing failed while the caller waited for it."""
    return {"status": "failed", **asdict(Recorded()), "reason": reason}


def search_semantic(
    conn: sqlite3.Connection,
    query: str,
    limit: int | None = None,
    *,
    settings: Settings | None = None,
    client: str | None = None,
    actor: str | None = None,
    confident_only: bool = False,
    why_not: str | None = None,
    on_failure: OnFailure | None = None,
    **arguments: Any,
) -> dict[str, Any]:
    """Search and record: what ``POST …/search`` does. Returns its answer.

    One access of each of the returned, one co-occurrence of each pair of them, and the search
    itself with its whole pool, in one transaction; with ``confident_only`` nothing where the
    answer is not confident, and where ``why_not`` says why nothing is to be recorded. Raises as
    ``search`` does, and what kept it from being written: sqlite3.Error and others. With
    ``on_failure`` the answer comes all the same, and ``recorded`` says ``failed`` with the reason
    that it makes of the error.
    """
    settings = settings or Settings()
    schema.require_memory(conn)
    given = {"q": query, "limit": limit, **arguments}
    answer, entry = serve_search(
        conn,
        parse(given, settings, applied_parameters(conn)),
        settings=settings,
        record=why_not is None,
        chosen=frozenset(name for name, value in given.items() if value not in (None, "")),
        confident_only=confident_only,
        client=client_name(client),
        actor=actor,
    )
    reason = why_not or (None if entry else unrecorded(answer))
    answer["recorded"] = _write(conn, entry, reason, on_failure)
    uid = entry.search.uid if entry and entry.search else None
    answer["search_id"] = uid if answer["recorded"]["status"] == "done" else None
    return answer


def open_nodes(
    conn: sqlite3.Connection,
    names: Iterable[str] = (),
    *,
    ids: Iterable[int] = (),
    settings: Settings | None = None,
    search_id: str | None = None,
    client: str | None = None,
    actor: str | None = None,
    why_not: str | None = None,
    on_failure: OnFailure | None = None,
) -> dict[str, Any]:
    """Open entities by name or id and record that: what ``POST …/open`` does.

    ``search_id`` is the search that they were found by; they are logged as opened from it.
    ``why_not`` and ``on_failure`` as for ``search_semantic``. Raises BadParameter,
    UnknownSearch, and what kept it from being written.
    """
    if search_id is not None:
        search_log.search_row(conn, search_id)
    answer, entry = serve_open(
        conn,
        names,
        ids=ids,
        settings=settings,
        search_id=search_id,
        client=client_name(client),
        actor=actor,
    )
    answer["recorded"] = _write(conn, entry, why_not, on_failure)
    return answer


def _write(
    conn: sqlite3.Connection,
    entry: Recording | None,
    reason: str | None,
    on_failure: OnFailure | None,
) -> dict[str, Any]:
    """Write what an answer leaves behind, and say it as the answer does."""
    if entry is None or reason:
        return recorded(None, reason=reason)
    try:
        [done] = recording.write_all(conn, [entry]).written
        if isinstance(done, Exception):
            raise done
    except Exception as error:
        if on_failure is None:
            raise
        return failed(on_failure(error))
    return recorded(entry, done)


def rate(
    conn: sqlite3.Connection,
    search_id: str,
    entity: int | str,
    rating: str,
    *,
    unlogged: LoggedSearch | None = None,
    client: str | None = None,
    actor: str | None = None,
) -> dict[str, Any]:
    """Rate a candidate of a search ``useful`` or ``not_useful``; the last rating counts.

    ``entity`` is the id, or the name that the search showed. ``unlogged`` is the search itself
    where it may not be logged yet, as on a page, where looking left no trace. One transaction of
    its own. Raises BadParameter, UnknownSearch where there is no such search or the entity was
    none of its candidates, NotAMemory, and sqlite3.Error where it cannot be written.
    """
    schema.require_memory(conn)
    choice("rating", rating, search_log.RATINGS)
    client = client_name(client)
    moment = times.now_sql()
    conn.execute("begin immediate")
    try:
        if unlogged is not None and not search_log.is_logged(conn, search_id):
            search_log.add_search(conn, unlogged, moment)
        row = search_log.search_row(conn, search_id)
        found = search_log.candidate(conn, row, entity)
        search_log.add_event(
            conn, search_id, found["id"], rating, client=client, actor=actor, moment=moment
        )
        conn.commit()
    except BaseException:
        conn.rollback()
        raise
    return {"search_id": search_id, "query": row["query"], **found, "rating": rating}


def client_name(value: Any) -> str | None:
    """Who asks, as a client names itself: None, or text of up to MAX_CLIENT characters."""
    if value is None or value == "":
        return None
    if not isinstance(value, str) or len(value) > MAX_CLIENT:
        raise BadParameter(f"client is {value!r:.60}: use a name of up to {MAX_CLIENT} characters")
    return storable(value).replace("\x00", " ")
