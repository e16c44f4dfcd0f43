"""The yes or no to a finding of the review queue, as a change of its row."""

from __future__ import annotations

from datasette.utils.sqlite import sqlite3

from ..errors import Refused, StaleProposal, UnknownInsight
from ..insights import still
from ..schema import holds
from . import rows
from .model import RowChange, update

STATUSES = ("pending", "approved", "dismissed")


def judged(
    conn: sqlite3.Connection, number: int, status: str, actor: str | None, now: str
) -> RowChange:
    """The insight, from pending to ``status``.

    Raises UnknownInsight, Refused, naming who judged it when, where it is not pending, and
    StaleProposal where it is to be approved and what it says is not so any more.
    """
    found = rows.read(conn, "limbic_insights", [(number,)]) if holds(number) else {}
    if not found:
        raise UnknownInsight(
            f"there is no insight {number}: it may have been withdrawn, since nothing raises it "
            "any more. Look at the review queue again"
        )
    row = found[(number,)]
    if row["status"] != "pending":
        by = f" by {row['judged_by']}" if row["judged_by"] else ""
        at = f", at {row['judged_at']}" if row["judged_at"] else ""
        raise Refused(
            f"nothing was changed: insight {number} ({row['title']}) was {row['status']}{by}{at}"
        )
    other = still.no_longer(conn, row) if status == "approved" else None
    if other is not None:
        raise StaleProposal(
            f"nothing was changed: what insight {number} ({row['title']}) says is not so any more: "
            f"{other}. Look again ('datasette limbic reflect'), and decide on what is found then"
        )
    return update(
        "limbic_insights",
        (number,),
        row,
        ("title",),
        status=status,
        judged_by=actor,
        judged_at=now,
    )
