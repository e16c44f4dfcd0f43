"""One action from the question to the answer: read, embed, write.

The steps are apart because a model may take long and must hold neither a transaction nor the
thread that writes. ``read`` works out the plan and what is to be embedded, ``embed`` does that,
``write`` works the plan out again, sees that it is the same, and writes rows, vectors, index and
log in one transaction: all of it, or nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from datasette.utils.sqlite import sqlite3

from .. import embedding_target, llm_store, schema
from ..answers import plain
from ..config import Settings
from ..errors import (
    NotRecorded,
    NotWritable,
    Refused,
    StaleProposal,
    UnknownEntity,
    UnknownRow,
)
from . import applying, basis, changes, judging, snapshots
from .diff import MOST, diff
from .embedded import Embedded, Outdated
from .kinds import kind
from .model import New, Plan, RowChange

TRIES = 5
"""So often an action is read and embedded again because others wrote meanwhile."""
CHANGING = f"nothing was changed: others wrote {TRIES} times while it was prepared. Send it again"
SYNC = embedding_target.SYNC
MAX_SAID = 5


def act(
    conn: sqlite3.Connection,
    name: str,
    arguments: Mapping[str, Any],
    *,
    dry_run: bool = False,
    basis: str | None = None,
    actor: str | None = None,
    insight: int | None = None,
    embed: bool = True,
    settings: Settings | None = None,
) -> dict[str, Any]:
    """Do one of ``kinds.KINDS``; with ``dry_run`` only say what it would do, and write nothing.

    ``basis`` is that of an answer to ``dry_run``: where given, and what it was worked out from is
    another than it was, StaleProposal says what changed. ``actor`` is who said yes, ``insight``
    the id of the finding in the review queue that this answers, which becomes approved: refused
    unless this is what the finding proposes, with what may be chosen of it. With
    ``embed`` False no model is called, and what changed is left to the next sync.

    The answer: ``action``, ``dry_run``, ``change`` (the number under which it can be undone, None
    in a dry run), ``summary``, ``entity`` ({"id", "name"}), ``arguments``, ``diff`` (see
    ``diff.diff``), ``warnings``, ``basis``, ``insight``, ``search`` ({"updated", "reason"}).

    Raises BadParameter, UnknownEntity, UnknownRow, UnknownChange, UnknownInsight, Refused (and of
    it StaleProposal, DependedOn) where it cannot be done, NotEmbedded where the model fails,
    NotAMemory, NotWritable, NotRecorded and sqlite3.Error where nothing could be written. Whatever
    is raised, nothing was changed.
    """
    action = Action(
        name, arguments, basis=basis, actor=actor, insight=insight, embed=embed, settings=settings
    )
    for _ in range(TRIES):
        action.read(conn)
        if dry_run:
            return action.answer
        action.embed()
        if action.write(conn):
            return action.answer
    raise NotRecorded(CHANGING)


class Action:
    """One call. Raises BadParameter where there is no such action, or for an unknown argument."""

    def __init__(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        basis: str | None = None,
        actor: str | None = None,
        insight: int | None = None,
        digest: str | None = None,
        embed: bool = True,
        settings: Settings | None = None,
    ) -> None:
        self.kind = kind(name, arguments)
        self.arguments = dict(arguments)
        self.given = None if basis is None else _read_basis(basis)
        self.actor, self.insight = actor, insight
        self.digest = digest
        """Of the insight as it was shown."""
        self.settings = settings or Settings()
        self.embedded = Embedded(self.settings, wanted=embed)
        self.plan: Plan | None = None
        self.said: tuple[Plan, int | None] | None = None
        self._answer: dict[str, Any] | None = None

    def read(self, conn: sqlite3.Connection) -> None:
        """Work out the plan, as at one moment, and what is to be embedded for it. Reads only."""
        schema.require_memory(conn)
        if not schema.has_changes(conn):
            raise NotWritable(
                "the file is of an earlier version of this plugin: run 'datasette limbic init' on "
                "it to bring it up to date"
            )
        ours = not conn.in_transaction
        try:
            if ours:
                conn.execute("begin")
            arguments = self.kind.filled(conn, self.arguments, self.settings)
            self.plan = self._plan(conn, arguments)
            self.embedded.choose(conn)
            self.embedded.look(conn, self.plan)
        finally:
            if ours:
                conn.rollback()
        self._say(self.plan, None)

    def _plan(self, conn: sqlite3.Connection, arguments: Mapping[str, Any]) -> Plan:
        now = str(conn.execute("select datetime('now')").fetchone()[0])
        # first: what somebody else has approved may have taken the rows away
        judged = self._judged(conn, now)
        try:
            plan = self.kind.planner(conn, arguments, now)
        except (UnknownRow, UnknownEntity) as error:
            if self.given is None:
                raise
            raise _stale(str(error)) from error  # it was there when it was shown
        changed = plan.basis.changes_since(self.given) if self.given is not None else []
        if changed:
            raise _stale("; ".join(changed[:MAX_SAID]))
        if self.insight is not None and judged is not None:
            judging.refuse_other(conn, self.insight, plan)
            plan = replace(plan, changes=(*plan.changes, judged))
        applying.refuse_unfit(conn, plan)
        return plan

    def _judged(self, conn: sqlite3.Connection, now: str) -> RowChange | None:
        """The insight that this answers, approved."""
        if self.insight is None:
            return None
        return judging.judged(conn, self.insight, "approved", self.actor, now, digest=self.digest)

    def embed(self) -> None:
        """Embed what is needed; needs no connection. Raises NotEmbedded where the model fails."""
        self.embedded.embed()

    def write(self, conn: sqlite3.Connection) -> bool:
        """Do it in one transaction, and make the answer. Raises Refused where a rule of the file
        does not allow it; any other sqlite3.Error as it comes.

        False where others wrote meanwhile what it depends on: nothing was written, and it is to
        be read and embedded again.
        """
        try:
            with _all_or_nothing(conn):
                if self.plan is None:
                    raise Outdated
                # what was filled in is not looked for again while others wait to write
                plan = self._plan(conn, self.plan.arguments)
                if plan.basis != self.plan.basis:
                    raise Outdated
                touched, left = snapshots.touched(conn, plan)
                done = applying.apply(conn, plan)
                known = [each for each in touched if not isinstance(each, New)]
                self.embedded.store(conn, done, known)
                if left:
                    self.embedded.reasons.setdefault(
                        "entities", f"{left:,} neighbours are left to the next sync: {SYNC}"
                    )
                number = changes.write(conn, done, actor=self.actor, insight=self.insight)
        except Outdated:
            return False
        except applying.Mismatch as error:
            raise Refused(
                f"nothing was changed: {error} afterwards. A trigger of another program on this "
                "table changes what is written"
            ) from error
        except sqlite3.IntegrityError as error:  # says which table and column
            raise Refused(
                f"nothing was changed: a rule of this file does not allow it: {error}. Look at "
                "what another program demands of the rows (constraints, triggers)"
            ) from error
        self._say(done, number)
        return True

    def _say(self, plan: Plan, number: int | None) -> None:
        self.said, self._answer = (plan, number), None

    @property
    def answer(self) -> dict[str, Any]:
        """What ``act`` answers, of the last step that was taken; empty before the first one.

        Made when it is asked for: that of a reading which is then written is of no use, and that
        of thousands of rows takes a while.
        """
        if self._answer is None:
            self._answer = self._answered(*self.said) if self.said else {}
        return self._answer

    def _answered(self, plan: Plan, number: int | None) -> dict[str, Any]:
        why = "nothing was changed" if number is None else self.embedded.reason
        answer: dict[str, Any] = plain(
            {
                "action": plan.action,
                "dry_run": number is None,
                "change": number,
                "summary": plan.summary,
                "entity": {
                    "id": plan.entity_id if isinstance(plan.entity_id, int) else None,
                    "name": plan.entity_name,
                },
                "arguments": dict(plan.arguments),
                "diff": diff(plan.changes, MOST),
                "warnings": list(plan.warnings),
                "basis": plan.basis.token(),
                "insight": self.insight,
                "search": {"updated": why is None, "reason": why},
            }
        )
        return answer


def _stale(why: str) -> StaleProposal:
    return StaleProposal(
        f"nothing was changed: this is not as it was when it was shown: {why}. Look at it again"
    )


def _read_basis(token: str) -> basis.Basis:
    return basis.read(token)


@contextmanager
def _all_or_nothing(conn: sqlite3.Connection) -> Iterator[None]:
    """A write transaction; inside one of the caller's a part of it that is undone by itself."""
    if not conn.in_transaction:
        with llm_store.transaction(conn):
            yield
        return
    conn.execute("savepoint limbic_action")
    try:
        yield
        conn.execute("release limbic_action")
    except BaseException:
        if conn.in_transaction:  # SQLite may have rolled everything back (disk full)
            conn.execute("rollback to limbic_action")
            conn.execute("release limbic_action")
        raise
