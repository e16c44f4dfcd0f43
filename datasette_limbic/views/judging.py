"""The yes or no to one finding of the review queue: what a POST asks for, and doing it.

A yes goes the way of every action (``acting.done``), with the finding's id: both are written in
one transaction. A form carries along what its page showed; where a person chose something else
since, nothing is done, and the page shows what that would change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from datasette.utils.sqlite import sqlite3

from .. import compat, connection
from ..actions.judging import judged
from ..answers import plain
from ..errors import BadParameter, NotRecorded, Refused
from ..insights import queue
from ..insights.approving import NAMES, approval
from . import acting, posting
from .acting_form import Asked
from .common import Page, whole_number

DECISIONS = ("approve", "dismiss", "reopen")
SHOW = "show"
"""What a form asks besides: what another choice would change."""
EXAMPLE = '{"decision": "approve"}'
KEYS = ("decision", "basis", "arguments", "note", "digest", "embed")
CHOICES = ("observation", "keep", "reason", "at")
"""What a person chooses in fields, and a URL shows the diff of."""
_IDS = ("observation", "keep")
T = TypeVar("T")


@dataclass(frozen=True)
class Judgement:
    """What is asked of one finding."""

    decision: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """What was chosen, see ``approving.approval``."""
    basis: str | None = None
    note: str | None = None
    digest: str | None = None
    embed: bool = True
    chosen_since: bool = False
    """Whether something else was chosen than the page showed the diff of."""


def of_json(given: Mapping[str, Any]) -> Judgement:
    """A body of ``KEYS``. Raises BadParameter, naming what is wrong."""
    arguments = given.get("arguments")
    if not (arguments is None or isinstance(arguments, dict)):
        raise BadParameter(f"arguments is {arguments!r:.60}: use an object")
    for name in ("basis", "note", "digest"):
        if not (given.get(name) is None or isinstance(given[name], str)):
            raise BadParameter(f"{name} is {given[name]!r:.40}: use a text")
    if not isinstance(given.get("embed", True), bool):
        raise BadParameter(f"embed is {given['embed']!r:.40}: use true or false")
    return Judgement(
        _decision(given.get("decision"), DECISIONS),
        arguments or {},
        given.get("basis"),
        given.get("note"),
        given.get("digest"),
        given.get("embed", True),
    )


def of_form(pairs: list[tuple[str, str]]) -> Judgement:
    """The fields of the page's form. Raises BadParameter, naming what is wrong."""
    given = dict(pairs)
    unknown = [name[:40] for name in given if name not in (*KEYS, *NAMES)]
    if unknown:
        raise BadParameter(f"unknown field {', '.join(unknown[:5])}: see {', '.join(KEYS)}")
    shown = posting.parsed(given.get("arguments") or "{}", NAMES)
    chosen = of_fields(given)
    fresh = {name: value for name, value in chosen.items() if _differs(value, shown.get(name))}
    return Judgement(
        _decision(given.get("decision"), (*DECISIONS, SHOW)),
        {**shown, **fresh},
        given.get("basis") or None,
        given.get("note") or None,
        given.get("digest") or None,
        given.get("embed") != "0",
        bool(fresh),
    )


def of_fields(given: Mapping[str, str]) -> dict[str, Any]:
    """What was chosen, from the texts of a form or a URL."""
    found: dict[str, Any] = {}
    for name in CHOICES:
        if name not in given:
            continue
        text = given[name].strip()
        if name in _IDS:
            number = whole_number(text, signed=True)
            found[name] = text if number is None else number
        else:
            found[name] = text or (None if name == "at" else "")
    return found


async def judge(here: Page, number: int, asked: Judgement) -> dict[str, Any]:
    """Do it. ``decision``, ``insight`` as it stands then, ``change`` (the number under which it
    can be undone, or None), ``answer`` of the action, or None, and ``next``, the id of what waits
    for a decision next, or None.

    Raises what ``acting.done``, ``queue`` and ``approving`` raise; then nothing was changed.
    """
    await acting.must(here)
    answer = None
    actor = posting.actor_id(here)
    if asked.decision == "approve":
        found = await here.read(lambda conn: _pending(conn, number))
        _as_shown(found, asked)
        would = approval(found, asked.arguments)
        if would.action is not None:
            answer = await acting.done(here, act(would.action, would.arguments, number, asked))
        else:
            await written(
                here,
                lambda conn: queue.judge(
                    conn, number, "approved", actor=actor, note=asked.note, digest=asked.digest
                ),
            )
    elif asked.decision == "dismiss":
        await written(
            here,
            lambda conn: queue.dismiss(
                conn, number, actor=actor, note=asked.note, digest=asked.digest
            ),
        )
    else:
        await written(here, lambda conn: queue.reopen(conn, number, actor=actor))
    now = await here.read(lambda conn: _after(conn, number))
    done = plain(answer.answer) if answer else None
    return {
        "decision": asked.decision,
        "change": done["change"] if done else None,
        "answer": done,
        **now,
    }


def act(
    name: str, arguments: dict[str, Any], number: int, asked: Judgement, *, dry_run: bool = False
) -> Asked:
    """What is asked of ``acting.done``."""
    basis = None if dry_run else asked.basis
    return Asked(name, arguments, dry_run, basis, number, asked.embed)


async def written(here: Page, function: Callable[[sqlite3.Connection], T]) -> T:
    """``function`` on the connection that writes. Raises NotRecorded where it cannot."""
    try:
        return await compat.execute_write(here.db, function)
    except sqlite3.Error as error:
        raise unwritten(here, error) from error


def unwritten(here: Page, error: sqlite3.Error) -> NotRecorded:
    """Why nothing could be written, in a sentence."""
    why = connection.unwritten(here.db.name, error)
    again = ". Send it again" if connection.is_locked(error) else ""
    return NotRecorded(f"nothing was changed: {why}{again}")


def require_json(here: Page, example: str) -> None:
    """Raises BadParameter where a body is neither JSON nor the form of a page."""
    # without a type too: on 0.65 only the type keeps pages of other sites from sending a cookie
    if posting.content_type(here.request.scope) != "application/json":
        raise BadParameter(
            f"this takes JSON, or the form of a page of ours: send {example} with the header "
            "content-type: application/json"
        )


def _pending(conn: sqlite3.Connection, number: int) -> dict[str, Any]:
    """The finding. Raises UnknownInsight, and Refused, naming who judged it when."""
    judged(conn, number, "approved", None, "")
    return queue.insight(conn, number)


def _after(conn: sqlite3.Connection, number: int) -> dict[str, Any]:
    """The finding as it stands, and what comes next: that behind it, else the first that waits."""
    found = queue.insight(conn, number)
    following = found["next"]
    if following is None:
        waiting = queue.insights(conn, size=1)["insights"]
        following = waiting[0]["id"] if waiting else None
    return {"insight": found, "next": following}


def _as_shown(found: Mapping[str, Any], asked: Judgement) -> None:
    """Raise Refused where what the finding rests on is another than the page showed."""
    if asked.digest is not None and asked.digest != found["digest"]:
        raise Refused(
            f"nothing was changed: insight {found['id']} is not what was shown, since its evidence "
            "has changed. Look at it again"
        )


def _decision(value: Any, known: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in known:
        raise BadParameter(f"decision is {value!r:.40}: use one of {', '.join(known)}")
    return value


def _differs(chosen: Any, shown: Any) -> bool:
    """Whether a field says something else than it was filled with; a browser alters spaces."""
    if isinstance(chosen, str) and isinstance(shown, str):
        return chosen.split() != shown.split()
    return bool(chosen != shown)
