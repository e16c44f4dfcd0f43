"""Reading an Engrama export: nodes, relations and vectors as one JSON object a line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from ...errors import UnknownFormat
from ...times import to_sql
from ..items import Item, Rejection, Relation, Row
from ..notes import Notes, as_text, text_of
from ..records import Counted, Progress, Record
from ..source import Source
from .identity import Identities, Identity, identity_of, owner_of
from .nodes import read_node

ENGRAMA = "Engrama export"
ENVELOPE = "engrama_export"
VERSION = 1

_NAMES_SHOWN = 20
_NODE_KEYS = frozenset({"type", "label", "key_field", "key_value", "properties"})
_RELATION_TEXTS = ("from_label", "from_value", "rel_type", "to_label", "to_value")
_RELATION_KEYS = frozenset({"type", *_RELATION_TEXTS, "from_key", "to_key", "org_id", "user_id"})


@dataclass
class EngramaSource(Source):
    """An export of Engrama, read twice: who is there, then what they are.

    ``counted.beside`` counts the lines that are understood and yield nothing: the envelope
    (again, in exports that were put together) and the vectors. Every other record yields one
    entity, relation or rejection, so that ``lines - blank + glued`` is their number and ``beside``
    together. An insight comes after the entity of the same line and counts for none.
    ``columns`` counts the properties that became columns of an entity.
    """

    complete_rows: ClassVar[bool] = True

    columns: int = 0

    def items(self, notes: Notes, progress: Progress | None = None) -> Iterator[Item]:
        """Its rows in order; half of ``progress`` is the first reading."""
        self.counted, self.columns = Counted(), 0
        exported_at: str | None = None
        half = _halved(progress)
        with closing(Identities(self._identities(half))) as known:
            if known.renamed:
                notes.remarks.append(_about_names(known))
            for record in self._records(self.counted, half):
                value = record.value
                if isinstance(value, dict) and ENVELOPE in value and is_read(value):
                    exported_at = to_sql(value.get("exported_at"))
                for row in self._rows(record, known, notes, exported_at):
                    yield Item(record.line, record.raw, row)
            if known.crossed:
                notes.remarks.append(
                    f"Ends of relations linked to the only node of that name, which belongs to"
                    f" another owner than the relation: {known.crossed:,}"
                )

    def _records(self, counted: Counted, progress: Progress | None) -> Iterator[Record]:
        # here, not at the top: that module hands its exports over to this one
        from ..reading import read_lines

        with self.path.open("rb") as file:
            yield from read_lines(file, counted, progress)

    def _identities(self, progress: Progress | None) -> Iterator[Identity]:
        # What is wrong with a node is noted when it is read for good.
        unnoted = Notes()
        for record in self._records(Counted(), progress):
            value = record.value
            if isinstance(value, dict) and ENVELOPE not in value and value.get("type") == "node":
                identity = identity_of(value, unnoted)
                if isinstance(identity, Identity):
                    yield identity

    def _rows(
        self, record: Record, known: Identities, notes: Notes, exported_at: str | None
    ) -> list[Row]:
        if record.error:
            return [Rejection(record.error)]
        try:
            return self._read(record.value, known, notes, exported_at)
        except RecursionError:
            # What can be decoded at the edge of the limit cannot always be written again.
            return [Rejection("nested too deeply to be kept")]

    def _read(
        self, value: object, known: Identities, notes: Notes, exported_at: str | None
    ) -> list[Row]:
        if not isinstance(value, dict):
            return [Rejection(notes.text(f"no object but {as_text(value)[:60]}"))]
        if ENVELOPE in value:
            if not is_read(value):
                return [Rejection(notes.text(f"an export within the file {_newer(value)}"))]
            self.counted.beside += 1
            return []
        kind = value.get("type")
        if kind == "node":
            return self._node(value, known, notes, exported_at)
        if kind == "relation":
            return [_relation(value, known, notes)]
        if kind == "vector":
            self.counted.beside += 1
            notes.not_carried["vectors"] += 1
            return []
        if "type" in value:
            return [Rejection(notes.text(f"unknown record type {as_text(kind)[:80]}"))]
        keys = ", ".join(list(value)[:8])[:200]
        return [
            Rejection(notes.text(f"no record type: keys {keys}" if keys else "an empty object"))
        ]

    def _node(
        self, value: dict[str, Any], known: Identities, notes: Notes, exported_at: str | None
    ) -> list[Row]:
        identity = identity_of(value, notes)
        if isinstance(identity, str):
            return [Rejection(identity)]
        entity, insight, columns = read_node(
            value, identity, known.name_of(identity), notes, exported_at
        )
        self.columns += columns
        notes.extras("record", {key: None for key in value if key not in _NODE_KEYS})
        return [entity] if insight is None else [entity, insight]


def engrama_source(path: str | Path, size: int, envelope: dict[str, Any]) -> EngramaSource:
    """The export whose first line is ``envelope``. Raises UnknownFormat for a newer format."""
    if not is_read(envelope):
        raise UnknownFormat(
            f"{path} is an export of Engrama {_newer(envelope)}: update datasette-limbic, or"
            f" export it with a version of Engrama that writes {VERSION}"
        )
    return EngramaSource(Path(path), ENGRAMA, size)


def is_read(envelope: dict[str, Any]) -> bool:
    """Whether the format that an envelope names is the one that is read here."""
    version = envelope.get(ENVELOPE)
    return version == VERSION and not isinstance(version, bool)


def _newer(envelope: dict[str, Any]) -> str:
    try:
        version = as_text(envelope.get(ENVELOPE))[:60]
    except RecursionError:
        version = "something deeply nested"
    return f"in format {version}, and format {VERSION} is read"


def _relation(value: dict[str, Any], known: Identities, notes: Notes) -> Relation | Rejection:
    texts = {}
    for key in _RELATION_TEXTS:
        text = text_of(value.get(key), notes)
        if text is None or not text.strip():
            return Rejection(f"relation without {key}")
        texts[key] = text
    owner = owner_of(value, notes)
    start = known.resolve(Identity(texts["from_label"], texts["from_value"], *owner))
    end = known.resolve(Identity(texts["to_label"], texts["to_value"], *owner))
    if isinstance(start, str) or isinstance(end, str):
        reasons = dict.fromkeys(found for found in (start, end) if isinstance(found, str))
        return Rejection("; ".join(reasons))
    notes.extras("relation", {key: None for key in value if key not in _RELATION_KEYS})
    return Relation(start.key, end.key, texts["rel_type"])


def _about_names(known: Identities) -> str:
    shown = ", ".join(known.some_names(_NAMES_SHOWN))
    more = known.renamed - _NAMES_SHOWN
    rest = f" and {more:,} more" if more > 0 else ""
    return f"Nodes that share a name with others are kept apart: {shown}{rest}"


def _halved(progress: Progress | None) -> Callable[[int], object] | None:
    """Each byte is read twice, and counts half each time."""
    if progress is None:
        return None
    carried = 0

    def half(read: int) -> None:
        nonlocal carried
        whole, carried = divmod(read + carried, 2)
        progress(whole)

    return half
