"""The yes or no to a finding of the review queue, as a change of its row, and what a yes may do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from datasette.utils.sqlite import sqlite3

from ..errors import Refused, StaleProposal
from ..insights import approving, history, notes, queue, still
from . import rows
from .model import Plan, RowChange, update

_IN_EFFECT = """
select id from limbic_changes where insight_id = ? and undone_by is null and undoes is null
order by id desc limit 1
"""


def judged(
    conn: sqlite3.Connection,
    number: int,
    status: str,
    actor: str | None,
    now: str,
    *,
    digest: str | None = None,
    note: str | None = None,
) -> RowChange:
    """The insight, from pending to ``status``. ``digest`` is that of what was shown.

    Raises UnknownInsight; Refused, naming who judged it when, where it is not pending, or where
    its evidence has another digest; StaleProposal where it is to be approved and what it says is
    not so any more.
    """
    found = queue.read(conn, number)
    if found["status"] != "pending":
        raise Refused(f"nothing was changed: {_called(found)} was {_said(found)} already")
    if digest is not None and digest != found["evidence_digest"]:
        raise Refused(
            f"nothing was changed: {_called(found)} is not what was shown: its evidence changed "
            f"at {found['updated_at']}. Look at it again"
        )
    other = still.no_longer(conn, found) if status == "approved" else None
    if other is not None:
        raise StaleProposal(
            f"nothing was changed: what {_called(found)} says is not so any more: {other}. Look "
            "again ('datasette limbic reflect'), and decide on what is found then"
        )
    noted = {} if note is None else {"evidence": notes.noted(found["evidence"], note)}
    return _update(conn, number, status=status, judged_by=actor, judged_at=now, **noted)


def reopened(conn: sqlite3.Connection, number: int, actor: str | None, now: str) -> RowChange:
    """The insight, from judged to pending; who judged it goes to ``judged_before``.

    Raises UnknownInsight, and Refused where it waits already, or where what was approved is in
    effect: that is to be undone.
    """
    found = queue.read(conn, number)
    before = history.read(found["judged_before"])
    if found["status"] == "pending":
        last = before[-1] if before else None
        since = f": {last.get('what_changed')}, at {last.get('raised_again_at')}" if last else ""
        raise Refused(f"{_called(found)} waits for a decision already{since}")
    row = conn.execute(_IN_EFFECT, [found["id"]]).fetchone()
    if row is not None and found["status"] == "approved":
        raise Refused(
            f"{_called(found)} was {_said(found)} and carried out as change {row[0]}: undo that "
            "first"
        )
    entry = history.entry(
        found, now, f"opened again by {_by(actor)}", reopened=True, reopened_by=actor
    )
    return _update(
        conn,
        number,
        status="pending",
        judged_by=None,
        judged_at=None,
        evidence=notes.as_raised(found["evidence"]),
        judged_before=history.written([*before, entry]),
        updated_at=now,
    )


def refuse_other(conn: sqlite3.Connection, number: int, plan: Plan) -> None:
    """Raise Refused unless ``plan`` does what the insight proposes, choices included: a yes to
    one thing is no yes to another."""
    found = queue.found(conn, number)
    proposed = approving.other_than(found, plan.action, plan.arguments)
    if proposed is not None:
        raise Refused(
            f"nothing was changed: this is not what {_called(found)} proposes: {proposed}. Do it "
            "without naming the insight, or decide on that in the review queue"
        )


def _update(conn: sqlite3.Connection, number: int, **after: Any) -> RowChange:
    table = "limbic_insights"
    row = rows.read(conn, table, [(number,)])[(number,)]
    return update(table, (number,), row, ("title",), **after)


def _called(found: Mapping[str, Any]) -> str:
    return f"insight {found['id']} ({found['title']!s:.100})"


def _said(found: Mapping[str, Any]) -> str:
    at = f" at {found['judged_at']}" if found["judged_at"] else ""
    return f"{found['status']} by {_by(found['judged_by'])}{at}"


def _by(actor: Any) -> str:
    return "somebody unnamed" if actor is None else str(actor)
