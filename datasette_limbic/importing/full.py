"""Reading a full export of ours into a memory that holds something already.

Into an empty memory it is restored (``restoring``), with ids and logs. Here entities are merged
by name and ids are given anew, so what hangs on ids stays out, and is counted: the log of
changes, whose undo goes by ids, and the searches, on which tuning here must not learn.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from ..errors import UnknownFormat
from ..exporting.envelope import KEY, read_envelope
from ..exporting.tables import SEQUENCE
from ..exporting.values import RawText, decode
from .items import (
    AccessCount,
    Entity,
    Insight,
    Item,
    LogEntry,
    Observation,
    Observations,
    PairCount,
    Rejection,
    Relation,
    Row,
)
from .notes import Notes, confidence_of, text_of, time_of
from .records import Counted, Progress, Record
from .source import Source

FULL = "full export"
_LOG_OF_IMPORTS = {
    "limbic_imports",
    "limbic_import_rejects",
    "_limbic_sources",
    "_limbic_source_entities",
    "_limbic_source_relations",
    "_limbic_source_counts",
}
# An entity with more observations comes in several rows.
_TOGETHER = 10_000


def full_source(path: Path, size: int, first_line: str) -> FullSource | None:
    """The source, where the first line of the file is that of a full export.

    Raises UnknownFormat where it is one of a newer version.
    """
    try:
        envelope = read_envelope(first_line)
    except UnknownFormat as error:
        raise UnknownFormat(f"{path}: {error}") from error
    return None if envelope is None else FullSource(path, FULL, size)


@dataclass
class FullSource(Source):
    """A full export, merged row by row. Entities come first, so ids tell names from then on."""

    complete_rows: ClassVar[bool] = True

    names: dict[int, str] = field(default_factory=dict, init=False)
    superseded: set[int] = field(default_factory=set, init=False)

    def items(self, notes: Notes, progress: Progress | None = None) -> Iterator[Item]:
        """Its rows in order; tables that are not merged are counted in ``notes.not_carried``."""
        self.superseded = {
            row["supersedes"]
            for _, table, row in self._rows(None)
            if table == "observations" and isinstance(row.get("supersedes"), int)
        }
        self.counted = Counted()
        self.names = {}
        readers = {
            "entities": self._entity,
            "relations": self._relation,
            "entity_access": self._access_count,
            "entity_access_log": self._log_entry,
            "co_occurrences": self._pair_count,
            "limbic_insights": self._insight,
        }
        group = _Group()
        for record, table, row in self._rows(progress):
            if table != "observations" or group.full(row):
                yield from group.flush()
            if record.error:
                yield Item(record.line, record.raw, Rejection(record.error))
            elif table == "observations":
                found = self._observation(row, notes)
                if isinstance(found, Rejection):
                    yield Item(record.line, record.raw, found)
                else:
                    group.add(record, row, self.names[row["entity_id"]], found)
            elif table in readers:
                read = readers[table](row, notes)
                if read is not None:
                    yield Item(record.line, record.raw, read)
            else:
                self.counted.beside += 1
                if table in _LOG_OF_IMPORTS:
                    notes.not_carried["rows of the log of imports"] += 1
                elif table and table != SEQUENCE:
                    notes.not_carried[f"rows of {table}"] += 1
        yield from group.flush()

    def _rows(self, progress: Progress | None) -> Iterator[tuple[Record, str, dict[str, Any]]]:
        """Each line with its table and its row; the envelope has no table."""
        from .reading import read_lines  # the sniffer there asks for this module

        with self.path.open("rb") as file:
            for record in read_lines(file, self.counted, progress):
                value = record.value
                if record.error:
                    yield record, "", {}
                elif isinstance(value, dict) and KEY in value:
                    yield record._replace(value=None), "", {}
                elif (
                    isinstance(value, dict)
                    and isinstance(value.get("table"), str)
                    and isinstance(value.get("row"), dict)
                ):
                    try:
                        row = {key: _plain(decode(item)) for key, item in value["row"].items()}
                    except ValueError as bad:
                        yield record._replace(error=str(bad)), "", {}
                    else:
                        yield record, value["table"], row
                else:
                    reason = "not a row of an export: no table or no row"
                    yield record._replace(error=reason), "", {}

    def _named(self, row: dict[str, Any], column: str) -> str | Rejection:
        number = row.get(column)
        name = self.names.get(number) if isinstance(number, int) else None
        return Rejection(f"no entity with id {number!r:.40}") if name is None else name

    def _entity(self, row: dict[str, Any], notes: Notes) -> Row:
        name = text_of(row.get("name"), notes)
        if name is None or not name.strip():
            return Rejection("entity without a name")
        if isinstance(row.get("id"), int):
            self.names[row["id"]] = name
        return Entity(
            name=name,
            entity_type=text_of(row.get("entity_type"), notes),
            observations=[],
            skipped=[],
            created_at=_time(row, "created_at", notes),
            updated_at=_time(row, "updated_at", notes),
            last_activity_at=_time(row, "last_activity_at", notes),
            archived_at=_time(row, "archived_at", notes),
            valid_from=_time(row, "valid_from", notes),
            valid_to=_time(row, "valid_to", notes),
            archived_reason=text_of(row.get("archived_reason"), notes),
            confidence=confidence_of(dict(row), notes),
        )

    def _observation(self, row: dict[str, Any], notes: Notes) -> Observation | Rejection:
        entity = self._named(row, "entity_id")
        if isinstance(entity, Rejection):
            return entity
        content = text_of(row.get("content"), notes)
        if content is None:
            return Rejection("observation without content")
        number, supersedes = row.get("id"), row.get("supersedes")
        return Observation(
            content,
            _time(row, "created_at", notes),
            text_of(row.get("kind"), notes),
            confidence_of(dict(row), notes),
            _time(row, "valid_from", notes),
            _time(row, "valid_to", notes),
            1 if row.get("similarity_flag") == 1 else 0,
            number if isinstance(number, int) and number in self.superseded else None,
            supersedes if isinstance(supersedes, int) else None,
        )

    def _relation(self, row: dict[str, Any], notes: Notes) -> Row:
        source, target = self._named(row, "from_entity"), self._named(row, "to_entity")
        if isinstance(source, Rejection):
            return source
        if isinstance(target, Rejection):
            return target
        kind = text_of(row.get("relation_type"), notes)
        if kind is None or not kind.strip():
            return Rejection("relation without a relation_type")
        return Relation(
            source,
            target,
            kind,
            _time(row, "created_at", notes),
            _time(row, "valid_from", notes),
            _time(row, "valid_to", notes),
            text_of(row.get("context"), notes),
        )

    def _access_count(self, row: dict[str, Any], notes: Notes) -> Row:
        entity, count = self._named(row, "entity_id"), row.get("access_count")
        if isinstance(entity, Rejection):
            return entity
        if not isinstance(count, int) or not 0 <= count < 2**62:
            return Rejection(f"access_count is {count!r:.40}, no number of accesses")
        return AccessCount(entity, count, _time(row, "last_access", notes))

    def _log_entry(self, row: dict[str, Any], notes: Notes) -> Row | None:
        if row.get("entity_id") is None:
            self.counted.beside += 1
            notes.not_carried["log entries of deleted entities"] += 1
            return None
        entity, at = self._named(row, "entity_id"), _time(row, "accessed_at", notes)
        if isinstance(entity, Rejection):
            return entity
        if at is None:
            return Rejection("access without a readable time")
        return LogEntry(entity, text_of(row.get("query"), notes), at)

    def _pair_count(self, row: dict[str, Any], notes: Notes) -> Row:
        first, second = self._named(row, "entity_a_id"), self._named(row, "entity_b_id")
        count = row.get("co_count")
        if isinstance(first, Rejection):
            return first
        if isinstance(second, Rejection):
            return second
        if not isinstance(count, int) or not 0 <= count < 2**62:
            return Rejection(f"co_count is {count!r:.40}, no number of co-occurrences")
        return PairCount(first, second, count, _time(row, "last_co", notes))

    def _insight(self, row: dict[str, Any], notes: Notes) -> Row:
        about: str | None = None
        if row.get("entity_id") is not None:
            found = self._named(row, "entity_id")
            if isinstance(found, Rejection):
                return found
            about = found
        texts = {
            c: text_of(row.get(c), notes) for c in ("key", "kind", "title", "body", "evidence")
        }
        lacking = [column for column, text in texts.items() if text is None]
        if lacking or row.get("status") not in ("pending", "approved", "dismissed"):
            return Rejection(f"insight without a usable {', '.join(lacking) or 'status'}")
        confidence = confidence_of(dict(row), notes)
        return Insight(
            **{column: str(text) for column, text in texts.items()},
            entity=about,
            confidence=1.0 if confidence is None else confidence,
            status=row["status"],
            judged_by=text_of(row.get("judged_by"), notes),
            judged_at=_time(row, "judged_at", notes),
            created_at=_time(row, "created_at", notes),
            updated_at=_time(row, "updated_at", notes),
        )


class _Group:
    """Observations of one entity, which stand together in an export."""

    def __init__(self) -> None:
        self.entity_id: Any = None
        self.name, self.line, self.raw = "", 0, ""
        self.found: list[Observation] = []

    def full(self, row: dict[str, Any]) -> bool:
        """Whether the row begins another group."""
        return row.get("entity_id") != self.entity_id or len(self.found) >= _TOGETHER

    def add(self, record: Record, row: dict[str, Any], name: str, found: Observation) -> None:
        if not self.found:
            self.entity_id, self.name = row["entity_id"], name
            self.line, self.raw = record.line, record.raw
        self.found.append(found)

    def flush(self) -> Iterator[Item]:
        if self.found:
            yield Item(self.line, self.raw, Observations(self.name, self.found))
            self.found = []
        self.entity_id = None


def _time(row: dict[str, Any], column: str, notes: Notes) -> str | None:
    return time_of({column: row.get(column)}, column, (column,), notes)


def _plain(value: Any) -> Any:
    """Bytes of another writer's as text: names and contents are compared with those here."""
    return value.decode("utf-8", "replace") if isinstance(value, (bytes, RawText)) else value
