"""The actions as functions: what changes a memory, each with its arguments by name.

All of them go the same way (``acting.act``): what would be created, changed and removed is worked
out first, new embeddings are made before anything is locked, then all of it is done in one
transaction and logged, so that ``undo_change`` takes it back. If anything fails, nothing has
happened.

With ``dry_run`` an action only says what it would do. Its answer has a ``basis``: send it back
with the yes, and what has changed since is refused (StaleProposal) rather than acted on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict

from datasette.utils.sqlite import sqlite3

from ..config import Settings
from .acting import act

if TYPE_CHECKING:  # in typing from Python 3.11 on
    from typing_extensions import Unpack


class Options(TypedDict, total=False):
    """What every action takes besides its own arguments, as ``act`` has it."""

    dry_run: bool
    basis: str | None
    actor: str | None
    insight: int | None
    embed: bool
    settings: Settings | None


def execute_entity_split(
    conn: sqlite3.Connection,
    entity: int | str,
    children: Sequence[Mapping[str, Any]] | None = None,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """Move observations of an entity into new entities, which it contains from then on.

    ``children`` are ``{"name": text, "entityType": text, "observations": [ids]}``; the type may be
    left out for that of the entity, and ``children`` for what ``propose_entity_split`` proposes.
    Observations that are in no child stay. What moves keeps its time, kind, flag and validity;
    ``contiene`` and ``parte_de`` link both ways, and nothing looks fresher or more used than
    before. Each child can be searched for when the call returns.

    For ``options``, and for what is answered and raised, see ``act``.
    Source: "Mantenimiento & Operaciones".
    """
    return act(conn, "split", {"entity": entity, "children": children}, **options)


def merge_observations(
    conn: sqlite3.Connection,
    entity: int | str,
    clusters: Sequence[Mapping[str, Any]] | None = None,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """Remove duplicate observations of an entity; exactly one of each cluster stays, as it is.

    ``clusters`` are ``{"keep": id, "remove": [ids]}``; left out: all that
    ``find_duplicate_observations`` suggests, never contradictions. What goes must be said by the
    one that stays, now, and so must all that was merged into it before: otherwise the merge is
    refused, and the last copy of a text never goes this way. See ``end_observation`` for what
    holds no longer and ``delete_observations`` for what is not wanted.

    For ``options``, and for what is answered and raised, see ``act``.
    """
    return act(conn, "merge", {"entity": entity, "clusters": clusters}, **options)


def delete_observations(
    conn: sqlite3.Connection,
    observations: Iterable[int],
    **options: Unpack[Options],
) -> dict[str, Any]:
    """Remove observations by id, of one entity or several, whatever they say.

    They stay in the log of changes, from where ``undo_change`` brings them back. ``warnings`` say
    where an entity is left with none and where no copy of a text is left.

    For ``options``, and for what is answered and raised, see ``act``.
    """
    return act(conn, "delete", {"observations": _listed(observations)}, **options)


def archive_entity(
    conn: sqlite3.Connection,
    entity: int | str,
    reason: str,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """Take an entity out of search, with all that belongs to it, until it is restored.

    Nothing is lost, and neither ``updated_at`` nor ``last_activity_at`` moves: being archived makes
    nothing look fresh. ``reason`` is kept with it, up to 1,000 characters. ``warnings`` say what
    the entity alone joins.

    For ``options``, and for what is answered and raised, see ``act``.
    Source: DDR-007.
    """
    return act(conn, "archive", {"entity": entity, "reason": reason}, **options)


def restore_entity(
    conn: sqlite3.Connection,
    entity: int | str,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """Bring an archived entity back: search finds it again when the call returns.

    For ``options``, and for what is answered and raised, see ``act``.
    """
    return act(conn, "restore", {"entity": entity}, **options)


def end_observation(
    conn: sqlite3.Connection,
    observation: int,
    at: Any = None,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """Say that an observation holds no longer: it stays as history, and leaves search.

    ``at`` is when it ended, any time that ``times.parse_time`` reads, UTC where it says no zone;
    left out: now. A time to come is taken: until then it holds. The right answer to most
    contradictions. It is activity of the entity.

    For ``options``, and for what is answered and raised, see ``act``.
    """
    return act(conn, "end", {"observation": observation, "at": at}, **options)


def end_relation(
    conn: sqlite3.Connection,
    relation: int,
    at: Any = None,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """Say that a relation holds no longer: it stays as history, and counts for no degree.

    ``at`` as in ``end_observation``. Asserting the relation again reopens it. It is activity of
    neither entity.

    For ``options``, and for what is answered and raised, see ``act``.
    """
    return act(conn, "end", {"relation": relation, "at": at}, **options)


def correct_confidence(
    conn: sqlite3.Connection,
    *,
    entity: int | str | None = None,
    observation: int | None = None,
    confidence: float,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """Say anew how far an entity, or one observation, is believed: 0 (not at all) to 1.

    Nothing else changes a confidence, and none decays. It is activity of the entity.

    For ``options``, and for what is answered and raised, see ``act``.
    Source: DDR-007.
    """
    return act(
        conn,
        "correct",
        {"entity": entity, "observation": observation, "confidence": confidence},
        **options,
    )


def merge_entities(
    conn: sqlite3.Connection,
    keep: int | str,
    others: Iterable[int | str],
    **options: Unpack[Options],
) -> dict[str, Any]:
    """Make one entity of several that mean the same, by ids or names.

    Observations, relations and accesses of ``others`` move to the one to ``keep``; the others are
    archived, with the reason, and keep what it has already.

    For ``options``, and for what is answered and raised, see ``act``.
    """
    return act(conn, "merge_entities", {"keep": keep, "others": _listed(others)}, **options)


def undo_change(
    conn: sqlite3.Connection,
    change: int,
    **options: Unpack[Options],
) -> dict[str, Any]:
    """Take a change back, by its number in the log (``change`` of the answer of what did it).

    Every row is as it was, or nothing is done: DependedOn names what is newer and depends on it.
    Undoing is a change itself, and can be undone.

    For ``options``, and for what is answered and raised, see ``act``.
    """
    return act(conn, "undo", {"change": change}, **options)


def _listed(some: Any) -> Any:
    """A set or a generator as a list; what is none of them is left for the action to refuse."""
    return list(some) if isinstance(some, Iterable) and not isinstance(some, (str, bytes)) else some
