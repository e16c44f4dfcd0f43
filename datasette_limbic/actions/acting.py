"""One action from the question to the answer: read, embed, write.

The steps are apart because a model may take long and must hold neither a transaction nor the
thread that writes. ``read`` works out the plan and what is to be embedded, ``embed`` does that,
``write`` works the plan out again, sees that it is the same, and writes rows, vectors, index and
log in one transaction: all of it, or nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from datasette.utils.sqlite import sqlite3

from .. import embedding, embedding_target, llm_store, schema, vectors
from ..answers import plain
from ..config import Settings
from ..embedding_target import Target
from ..errors import LimbicError, NotEmbedded, NotRecorded, NotWritable, Refused, StaleProposal
from ..schema import COLLECTIONS
from . import applying, basis, changes, judging, snapshots
from .diff import diff
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
    the id of the finding in the review queue that this answers, which becomes approved. With
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


class _Changed(Exception):
    """What was read is not what is there: it is to be read and embedded again."""


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
        embed: bool = True,
        settings: Settings | None = None,
    ) -> None:
        self.kind = kind(name, arguments)
        self.arguments = dict(arguments)
        self.given = None if basis is None else _read_basis(basis)
        self.actor, self.insight, self.wanted = actor, insight, embed
        self.settings = settings or Settings()
        self.plan: Plan | None = None
        self.targets: dict[str, Target] = {}
        self.reasons: dict[str, str] = {}
        """Why no vectors are made or indexed, by collection."""
        self.texts: dict[str, list[str]] = {}
        """What is to be embedded, by collection."""
        self.blobs: dict[str, dict[str, bytes]] = {}
        """Vectors by collection and text: the ids of new rows are not known before they are
        written."""
        self.answer: dict[str, Any] = {}

    def read(self, conn: sqlite3.Connection) -> None:
        """Work out the plan, as at one moment, and what is to be embedded for it. Reads only."""
        schema.require_memory(conn)
        if not schema.has_changes(conn):
            raise NotWritable(
                "the file is of an earlier version of this plugin: run 'datasette limbic init' on "
                "it to bring it up to date"
            )
        ours = not conn.in_transaction
        if ours:
            conn.execute("begin")
        try:
            self.plan = self._plan(conn)
            self._choose(conn)
            self.texts = self._needed(conn, self.plan)
        finally:
            if ours:
                conn.rollback()
        self._say(self.plan, None)

    def _plan(self, conn: sqlite3.Connection) -> Plan:
        now = str(conn.execute("select datetime('now')").fetchone()[0])
        plan = self.kind.planner(conn, self.arguments, now)
        if self.given is not None:
            changed = plan.basis.changes_since(self.given)
            if changed:
                raise StaleProposal(
                    "nothing was changed: this is not as it was when it was shown: "
                    f"{'; '.join(changed[:MAX_SAID])}. Look at it again"
                )
        judged = self._judged(conn, now)
        if judged is None:
            return plan
        return Plan(**{**vars(plan), "changes": (*plan.changes, judged)})

    def _judged(self, conn: sqlite3.Connection, now: str) -> RowChange | None:
        """The insight that this answers, approved."""
        if self.insight is None:
            return None
        return judging.judged(conn, self.insight, "approved", self.actor, now)

    def _choose(self, conn: sqlite3.Connection) -> None:
        """The model of each collection; none where there are no vectors, or none are wanted."""
        self.targets, self.reasons = {}, {}
        for name in COLLECTIONS:
            info = embedding.collection_info(conn, name)
            if not self.wanted:
                self.reasons[name] = f"not asked for: {SYNC}"
            elif info is None or not info.count:
                self.reasons[name] = f"there are no vectors of {name} yet: {SYNC}"
            else:
                try:
                    self.targets[name] = embedding_target.choose(conn, name, settings=self.settings)
                except LimbicError as error:
                    raise _not_embedded(error) from error

    def _needed(self, conn: sqlite3.Connection, plan: Plan) -> dict[str, list[str]]:
        """Texts that would be in the memory and have no vector of exactly this text yet."""
        found: dict[str, list[str]] = {}
        target = self.targets.get("entities")
        if target is not None:
            touched, _ = snapshots.touched(conn, plan)
            made = snapshots.texts(conn, plan, touched)
            have = _stored(conn, "entities", [e for e in made if not isinstance(e, New)])
            found["entities"] = [
                target.prefix + text
                for each, text in made.items()
                if have.get(each) != llm_store.content_hash(target.prefix + text)
            ]
        target = self.targets.get("observations")
        if target is not None:
            found["observations"] = [
                target.prefix + _text(change.after["content"])
                for change in plan.of("observations")
                if change.after is not None and "content" in change.after
            ]
        return found

    def embed(self) -> None:
        """Embed those texts; needs no connection. Raises NotEmbedded where the model fails."""
        for name, texts in self.texts.items():
            made = self.blobs.setdefault(name, {})
            missing = [text for text in dict.fromkeys(texts) if text not in made]
            target = self.targets[name]
            try:
                for _, batch in embedding_target.batches(target, missing):
                    made.update(zip(batch, embedding_target.embed(target, batch), strict=True))
            except LimbicError as error:
                raise _not_embedded(error) from error

    def write(self, conn: sqlite3.Connection) -> bool:
        """Do it in one transaction, and make the answer. sqlite3.Error as it comes.

        False where others wrote meanwhile what it depends on: nothing was written, and it is to
        be read and embedded again.
        """
        try:
            with llm_store.transaction(conn):
                plan = self._plan(conn)
                if self.plan is None or plan.basis != self.plan.basis:
                    raise _Changed
                touched, left = snapshots.touched(conn, plan)
                done = applying.apply(conn, plan)
                self._store(conn, done, [each for each in touched if not isinstance(each, New)])
                if left:
                    self.reasons.setdefault(
                        "entities", f"{left:,} neighbours are left to the next sync: {SYNC}"
                    )
                number = changes.write(conn, done, actor=self.actor, insight=self.insight)
        except _Changed:
            return False
        except applying.Mismatch as error:
            raise Refused(
                f"nothing was changed: {error} afterwards. A trigger of another program on this "
                "table changes what is written"
            ) from error
        self._say(done, number)
        return True

    def _store(self, conn: sqlite3.Connection, done: Plan, touched: Iterable[int]) -> None:
        """Vectors and index of all that changed."""
        created = [c.key[0] for c in done.of("entities") if c.before is None]
        self._collection(conn, "entities", {*touched, *created}, done)
        self._collection(conn, "observations", {c.key[0] for c in done.of("observations")}, done)

    def _collection(
        self, conn: sqlite3.Connection, name: str, ids: Iterable[int], done: Plan
    ) -> None:
        gone = [change.key[0] for change in done.of(name) if change.after is None]
        found = llm_store.collection(conn, name)
        if found is not None:
            llm_store.delete(conn, found[0], map(str, gone))
        target = self.targets.get(name)
        if target is None or found is None:
            self._forget(conn, name, gone)
            return
        there = sorted(set(ids) - set(gone))
        have = llm_store.stored(conn, found[0], there)
        right: list[tuple[int, bytes]] = []
        fresh: list[tuple[int, str, bytes]] = []
        for item, content in llm_store.texts(conn, name, there).items():
            text = target.prefix + content
            if item in have and have[item][0] == llm_store.content_hash(text):
                right.append((item, have[item][1]))
            elif text in self.blobs.get(name, {}):
                fresh.append((item, text, self.blobs[name][text]))
            elif name == "entities" or any(
                c.key[0] == item and "content" in (c.after or {}) for c in done.of(name)
            ):
                raise _Changed
        try:
            stored = embedding_target.store(conn, target, fresh)
        except LimbicError as error:  # embedded with another model, just now
            raise _Changed from error
        reason = embedding_target.unusable(conn, target)
        if reason is not None:
            self.reasons[f"index of {name}"] = reason
            return
        embedding_target.index(conn, name, [*right, *stored])
        vectors.delete(conn, name, gone)
        self._forget(conn, name, gone)

    def _forget(self, conn: sqlite3.Connection, name: str, gone: Iterable[int]) -> None:
        """Marks of rows that are not there, where no index holds them any more."""
        if not self.reasons.get(name) or vectors.table_dimension(conn, name) is None:
            conn.executemany(
                "delete from limbic_stale where collection = ? and item_id = ?",
                [(name, item) for item in gone],
            )

    def _say(self, plan: Plan, number: int | None) -> None:
        why = next((self.reasons[key] for key in _ORDER if key in self.reasons), None)
        if number is None:
            why = "nothing was changed"
        self.answer = plain(
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
                "diff": diff(plan.changes),
                "warnings": list(plan.warnings),
                "basis": plan.basis.token(),
                "insight": self.insight,
                "search": {"updated": why is None, "reason": why},
            }
        )


_ORDER = ("entities", "observations", "index of entities", "index of observations")


def _read_basis(token: str) -> basis.Basis:
    return basis.read(token)


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _stored(conn: sqlite3.Connection, name: str, ids: Iterable[int]) -> dict[Any, bytes | None]:
    """Hash of the text of each vector that is there."""
    found = llm_store.collection(conn, name)
    if found is None:
        return {}
    return {item: row[0] for item, row in llm_store.stored(conn, found[0], list(ids)).items()}


def _not_embedded(error: Exception) -> NotEmbedded:
    return NotEmbedded(
        f"nothing was changed, since what would change could not be embedded: {error}. Put that "
        "right, or do it without embedding (embed: false, --no-embed), and run 'datasette limbic "
        "sync' afterwards"
    )
