"""One entity as a split sees it: what holds in it now, its vectors, and what it is measured by."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from datasette.utils.sqlite import sqlite3

from .. import report_settings, schema
from ..embedding import collection_info
from ..report_settings import APPROACHING, ReportSettings
from . import reading
from .entities import find_entity


@dataclass(frozen=True)
class SplitObservation:
    """An observation that holds now."""

    id: int
    content: str
    created_at: Any
    kind: Any
    similarity_flag: Any


@dataclass(frozen=True)
class Subject:
    """An entity at one moment. ``rows`` hold now, by id; ``ended`` counts those that do not."""

    id: int
    name: str
    entity_type: str
    archived_at: Any
    archived_reason: Any
    rows: list[SplitObservation]
    ended: int
    vectors: Any
    """numpy (n, d), a row of NaN where there is none; None where no observation has one."""
    model: str | None
    settings: ReportSettings
    taken: list[str]
    """Names of all entities; empty where none is needed, since no split is proposed."""

    @property
    def threshold(self) -> int:
        """Observations above which an entity of this type is large."""
        return self.settings.threshold(self.entity_type)

    @property
    def digest(self) -> str:
        """32 hex digits of what a proposal is made from: see ``observations_digest``."""
        pairs = [(row.id, row.content) for row in self.rows]
        return observations_digest(self.id, self.name, self.entity_type, pairs)


def approaching_from(threshold: int) -> int:
    """The fewest observations with which an entity comes near ``threshold`` (80 % of it)."""
    return ceil(APPROACHING * threshold)


def observations_digest(
    entity_id: int, name: str, entity_type: str, observations: Sequence[tuple[int, str]]
) -> str:
    """32 hex digits of an entity and the (id, content) of its observations, in order of id.

    Another digest means that the entity was renamed or retyped, or that an observation came,
    went, ended or changed since.
    """
    text = json.dumps([entity_id, name, entity_type, observations], ensure_ascii=True)
    return hashlib.blake2b(text.encode("ascii"), digest_size=16).hexdigest()


def read_subject(conn: sqlite3.Connection, entity: int | str, *, settings: Any = None) -> Subject:
    """The entity of this id (a number) or exact name, all of it as at one moment. Reads only.

    ``settings`` are the plugin's, for the prefix of what was embedded. Raises UnknownEntity,
    naming entities of almost that name, BadParameter and NotAMemory.
    """
    schema.require_memory(conn)
    ours = not conn.in_transaction
    if ours:
        conn.execute("begin")
    try:
        return _read(conn, entity, getattr(settings, "passage_prefix", None) or "")
    finally:
        if ours:
            conn.rollback()


def _read(conn: sqlite3.Connection, entity: int | str, prefix: str) -> Subject:
    found = conn.execute(
        "select id, cast(name as text), cast(entity_type as text), archived_at, archived_reason"
        " from entities where id = ?",
        [find_entity(conn, entity)["id"]],
    ).fetchone()
    number, name, entity_type, archived_at, archived_reason = found
    info = collection_info(conn, "observations")
    batch = reading.read(conn, [number], info=info, prefix=prefix)
    more = {
        row[0]: tuple(row[1:])
        for row in conn.execute(
            "select id, kind, similarity_flag from observations where entity_id = ?", [number]
        )
    }
    subject = Subject(
        number,
        name,
        entity_type or "",
        archived_at,
        archived_reason,
        [SplitObservation(o.id, o.content, o.created_at, *more[o.id]) for o in batch.observations],
        len(more) - len(batch.observations),
        batch.vectors,
        info.model_id if info and batch.vectors is not None else None,
        report_settings.read(conn),
        [],
    )
    if len(subject.rows) >= approaching_from(subject.threshold):
        names = conn.execute("select cast(name as text) from entities")
        subject.taken.extend(row[0] for row in names)
    return subject
