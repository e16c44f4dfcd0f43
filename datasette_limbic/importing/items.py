"""What a source holds, whatever its format: the rows that readers make and writers take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

GENERIC = "Generic"


class Observation(NamedTuple):
    """``ref`` is the source's own id, given where ``supersedes`` of another one names it."""

    content: str
    created_at: str | None = None
    kind: str | None = None
    confidence: float | None = None
    valid_from: str | None = None
    valid_to: str | None = None
    flag: int = 0
    ref: int | None = None
    supersedes: int | None = None


@dataclass(slots=True)
class Entity:
    """``entity_type`` and ``confidence`` are None where the row does not say.

    ``key`` is what the source tells the entity by, where that is more than its name: relations
    and all other rows of the source name it by this. ``replaces`` says that an observation of a
    kind takes the place of the one of that kind which the same source brought before.
    """

    name: str
    entity_type: str | None
    observations: list[Observation]
    skipped: list[str]
    created_at: str | None = None
    updated_at: str | None = None
    last_activity_at: str | None = None
    archived_at: str | None = None
    archived_reason: str | None = None
    confidence: float | None = None
    valid_from: str | None = None
    valid_to: str | None = None
    key: str | None = None
    replaces: bool = False
    #: whether the reader knows that no observation has more than its content: these are many,
    #: and need not be looked at one by one
    only_texts: bool = False


class Observations(NamedTuple):
    """Observations of an entity that came before, each on a line of its own."""

    entity: str
    observations: list[Observation]


class Relation(NamedTuple):
    """``source`` and ``target`` are keys of entities."""

    source: str
    target: str
    relation_type: str
    created_at: str | None = None
    valid_from: str | None = None
    valid_to: str | None = None
    context: str | None = None


class Access(NamedTuple):
    """One use: counted for each entity, logged, and counted for each pair."""

    query: str | None
    accessed_at: str
    names: list[str]


class AccessCount(NamedTuple):
    """How often an entity was used in all, with no telling when."""

    entity: str
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody needs here
    last_access: str | None


class LogEntry(NamedTuple):
    """A line of the access log that the counts hold already."""

    entity: str
    query: str | None
    accessed_at: str


class PairCount(NamedTuple):
    """How often two entities came up together in all."""

    first: str
    second: str
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody needs here
    last_co: str | None


class Insight(NamedTuple):
    """A finding of the other program, for the review queue. ``evidence`` is JSON."""

    key: str
    kind: str
    entity: str | None
    title: str
    body: str
    evidence: str
    confidence: float
    status: str
    judged_by: str | None
    judged_at: str | None
    created_at: str | None
    updated_at: str | None


class Vector(NamedTuple):
    """The source's own embedding of an entity: little-endian float32."""

    entity: str
    blob: bytes


class Rejection(NamedTuple):
    """Why a row cannot be used."""

    reason: str


Link = Relation | Access | AccessCount | LogEntry | PairCount | Insight | Vector
Row = Entity | Observations | Link | Rejection


class Item(NamedTuple):
    """One row, where it stands (line, or id in its table), and its text as it was."""

    line: int
    raw: str
    row: Row
