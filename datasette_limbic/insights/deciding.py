"""Deciding on a finding of the review queue: Python, pages and command line all come here.

A yes is an action, with the finding approved in its transaction; where the finding proposes none,
and for a no, its row is all that changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from datasette.utils.sqlite import sqlite3

from .. import schema
from ..actions import judging
from ..actions.acting import CHANGING, TRIES, Action
from ..actions.model import RowChange
from ..answers import plain
from ..config import Settings, choice
from ..errors import BadParameter, NotRecorded, NotWritable
from ..llm_store import transaction
from ..reports.lists import moment
from . import notes, queue
from .approving import Approval, approval, carried_out

DECISIONS = ("approve", "dismiss", "reopen")
_SECONDS = len("2026-11-30 12:00:00")


def decide(
    conn: sqlite3.Connection,
    id: int,
    decision: str,
    *,
    chosen: Mapping[str, Any] | None = None,
    basis: str | None = None,
    digest: str | None = None,
    note: str | None = None,
    actor: str | None = None,
    embed: bool = True,
    dry_run: bool = False,
    settings: Settings | None = None,
) -> dict[str, Any]:
    """Approve, dismiss or reopen one finding; with ``dry_run`` only say what that would do.

    Approving does what the finding proposes, with what is ``chosen`` of it (see
    ``approving.approval``): ``basis`` and ``embed`` are those of ``acting.act``. ``note`` says why
    something was dismissed, or goes with a finding whose approval does nothing else. ``digest`` is
    that of the finding as it was shown: where it rests on something else by now, nothing is done.
    What was judged is opened again with ``reopen``; who had judged it stays in ``judged_before``.

    Returns what ``as_it_stands`` does. Raises what ``acting.act`` raises; of it UnknownInsight,
    BadParameter for what does not go with the decision, and Refused where the finding was judged
    already (by whom and when), rests on something else, waits already, or is in effect. Whatever
    is raised, nothing was changed.
    """
    asked = Decision(
        id,
        decision,
        chosen=chosen,
        basis=basis,
        digest=digest,
        note=note,
        actor=actor,
        embed=embed,
        settings=settings,
    )
    for _ in range(TRIES):
        asked.read(conn)
        if dry_run:
            return asked.told(conn, done=False)
        asked.embed()
        if asked.write(conn):
            return asked.told(conn)
    raise NotRecorded(CHANGING)


class Decision:
    """One call, in the steps of ``acting.Action``. Raises BadParameter for what does not go
    together."""

    def __init__(
        self,
        id: int,
        decision: str,
        *,
        chosen: Mapping[str, Any] | None = None,
        basis: str | None = None,
        digest: str | None = None,
        note: str | None = None,
        actor: str | None = None,
        embed: bool = True,
        settings: Settings | None = None,
    ) -> None:
        self.id, self.decision = id, choice("decision", decision, DECISIONS)
        self.chosen, self.basis, self.digest = dict(chosen or {}), basis, digest
        self.note, self.actor = notes.given(note), actor
        self.embeds, self.settings = embed, settings
        self.would: Approval | None = None
        """What approving does, once it was looked at."""
        self.arguments: dict[str, Any] | None = None
        """Those of the action, where they were worked out elsewhere: see ``Kind.filler``."""
        self.action: Action | None = None
        if decision != "approve" and (self.chosen or basis is not None):
            what = "basis" if not self.chosen else ", ".join(map(str, self.chosen))
            raise BadParameter(f"{what[:60]} is for approving: leave it out to {decision}")
        if decision == "reopen" and (self.note is not None or digest is not None):
            what = "digest" if self.note is None else "note"
            raise BadParameter(f"{what} is for approving and dismissing: leave it out to reopen")

    def look(self, conn: sqlite3.Connection) -> Approval | None:
        """Whether it can be decided, and what approving does. Reads only."""
        schema.require_memory(conn)
        if self.decision == "reopen":
            _reopened(conn, self.id, self.actor)
            return None
        status = "approved" if self.decision == "approve" else "dismissed"
        judging.judged(conn, self.id, status, self.actor, "", digest=self.digest)
        if self.decision == "dismiss":
            return None
        self.would = approval(queue.found(conn, self.id), self.chosen)
        if self.would.action is not None and self.note is not None:
            raise BadParameter(
                "a note says why something is dismissed: leave it out here, the log of changes "
                "says what was done"
            )
        if self.would.action is None and self.basis is not None:
            raise BadParameter("basis is that of an action, and here is none: leave it out")
        return self.would

    def read(self, conn: sqlite3.Connection) -> None:
        """Work out what is to be done. Reads only."""
        would = self.look(conn)
        self.action = None
        if would is None or would.action is None:
            return
        self.action = Action(
            would.action,
            would.arguments if self.arguments is None else self.arguments,
            basis=self.basis,
            actor=self.actor,
            insight=self.id,
            digest=self.digest,
            embed=self.embeds,
            settings=self.settings,
        )
        self.action.read(conn)

    def embed(self) -> None:
        """As ``Action.embed``."""
        if self.action is not None:
            self.action.embed()

    def write(self, conn: sqlite3.Connection) -> bool:
        """As ``Action.write``: all in one transaction, in which everything is looked at again."""
        if self.action is not None:
            return self.action.write(conn)
        if self.decision == "reopen":
            reopen(conn, self.id, actor=self.actor)
        else:
            status = "approved" if self.decision == "approve" else "dismissed"
            judge(conn, self.id, status, actor=self.actor, note=self.note, digest=self.digest)
        return True

    def told(self, conn: sqlite3.Connection, *, done: bool = True) -> dict[str, Any]:
        """``as_it_stands``, after the last step that was taken."""
        return as_it_stands(
            conn,
            self.id,
            decision=self.decision if done else None,
            would=self.would,
            answer=self.action.answer if self.action else None,
        )


def as_it_stands(
    conn: sqlite3.Connection,
    id: int,
    *,
    decision: str | None = None,
    would: Approval | None = None,
    answer: Mapping[str, Any] | None = None,
    refused: str | None = None,
) -> dict[str, Any]:
    """One finding and what is done with it, as all who show it say it. Reads only.

    ``insight`` as ``queue.insight`` gives it; ``decision``, what was done, None where nothing was;
    ``answer`` of the action or of its dry run, None where there is none, and ``refused`` then why,
    if it is because of the memory as it stands; ``chosen``, what a person may choose, as it is,
    and ``options``, the ids that may be; ``change``, the last that approving it made, see
    ``approving.carried_out``; ``next``, the id of what waits behind it, else of the first that
    waits, or None.
    """
    found = queue.insight(conn, id)
    following = found["next"]
    if following is None:
        waiting = queue.insights(conn, size=1)["insights"]
        following = next((each["id"] for each in waiting if each["id"] != id), None)
    told: dict[str, Any] = plain(
        {
            "insight": found,
            "decision": decision,
            "answer": None if answer is None else dict(answer),
            "refused": refused,
            "chosen": {} if would is None else dict(would.chosen),
            "options": {} if would is None else dict(would.options),
            "change": carried_out(conn, id),
            "next": following,
        }
    )
    return told


def dismiss(
    conn: sqlite3.Connection,
    id: int,
    *,
    actor: str | None = None,
    note: str | None = None,
    digest: str | None = None,
    now: Any = None,
) -> dict[str, Any]:
    """Decide that nothing is to be done; returns the insight as it stands then.

    It is not raised again unless what it rests on changes. Raises as ``decide`` does.
    """
    return judge(conn, id, "dismissed", actor=actor, note=note, digest=digest, now=now)


def reopen(
    conn: sqlite3.Connection, id: int, *, actor: str | None = None, now: Any = None
) -> dict[str, Any]:
    """Take a judgement back: the insight waits for a decision again. Returns it as it is then.

    Raises as ``decide`` does.
    """
    schema.require_memory(conn)
    with transaction(conn):
        _apply(conn, _reopened(conn, id, actor, now))
        return queue.insight(conn, id)


def judge(
    conn: sqlite3.Connection,
    id: int,
    status: str,
    *,
    actor: str | None = None,
    note: str | None = None,
    digest: str | None = None,
    now: Any = None,
) -> dict[str, Any]:
    """Write a judgement and nothing else: a no, or the yes to what proposes no action. In one
    transaction; in one of the caller's, a part of that. Returns the insight as it stands then."""
    schema.require_memory(conn)
    choice("status", status, queue.STATUSES[1:])
    # in seconds, as an action that approves has it
    at, note = moment(now)[:_SECONDS], notes.given(note)
    with transaction(conn):
        _apply(conn, judging.judged(conn, id, status, actor, at, digest=digest, note=note))
        return queue.insight(conn, id)


def _reopened(conn: sqlite3.Connection, id: int, actor: str | None, now: Any = None) -> RowChange:
    if not schema.has_changes(conn):
        raise NotWritable(
            "the file is of an earlier version of this plugin: run 'datasette limbic init' on it "
            "to bring it up to date"
        )
    return judging.reopened(conn, id, actor, moment(now))


def _apply(conn: sqlite3.Connection, change: RowChange) -> None:
    after = change.after or {}
    conn.execute(
        f"update limbic_insights set {', '.join(f'{name} = ?' for name in after)} where id = ?",
        [*after.values(), *change.key],
    )
