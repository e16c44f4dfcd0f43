"""What shapes the reports: the table ``limbic_settings``, read each time.

In the database and not in the plugin's configuration, so that views in stock SQL see the same
values. A value that cannot be used counts as not given, and ``warnings`` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from datasette.utils.sqlite import sqlite3

from .config import MAX_DAYS, SPLIT_THRESHOLDS, number, type_key
from .duplicates.model import MODEL_THRESHOLDS, Thresholds
from .errors import BadParameter

APPROACHING = 0.8
"""Share of its threshold from which an entity approaches it (the document's 80 %)."""
_TYPE = "split_threshold:"
NUMBERS: dict[str, tuple[float, float, bool]] = {
    "split_threshold": (1, 1e9, True),
    "stale_days": (0, MAX_DAYS, False),
    "stale_max_access": (0, 1e9, True),
    "topic_min_silhouette": (-1, 1, False),
    "containment_threshold": (0, 1, False),
    "duplicate_threshold": (0, 1, False),
    "look_threshold": (0, 1, False),
}
"""By key: lowest, highest, whole number."""


@dataclass(frozen=True)
class ReportSettings:
    """The settings of one memory's reports."""

    split_threshold: int = SPLIT_THRESHOLDS[""]
    split_thresholds: Mapping[str, int] = field(default_factory=dict)
    """By entity type as ``config.type_key`` writes it."""
    stale_days: float = 90.0
    stale_max_access: int = 2
    topic_min_silhouette: float = 0.1
    containment_threshold: float = 0.7
    cosine_thresholds: Mapping[str, float] = field(default_factory=dict)
    """By model; '' for all models."""
    look_thresholds: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def threshold(self, entity_type: str | None) -> int:
        """Observations above which an entity of this type is large."""
        return self.split_thresholds.get(type_key(entity_type), self.split_threshold)

    def thresholds(self, model: str | None) -> Thresholds:
        """What counts as a duplicate among vectors of ``model``."""
        cosine, look = MODEL_THRESHOLDS.get(model or "", (Thresholds.cosine, Thresholds.look))
        key = model or ""
        cosine = self.cosine_thresholds.get(key, self.cosine_thresholds.get("", cosine))
        look = self.look_thresholds.get(key, self.look_thresholds.get("", look))
        return Thresholds(cosine, min(look, cosine), self.containment_threshold)

    def as_dict(self) -> dict[str, Any]:
        """The same as plain data, without the warnings."""
        found = asdict(self)
        del found["warnings"]
        return found


def read(conn: sqlite3.Connection) -> ReportSettings:
    """The settings in force. Without the table, as in a file before ``init``, the defaults."""
    values: dict[str, Any] = {}
    by: dict[str, dict[str, Any]] = {"split": {}, "duplicate": {}, "look": {}}
    warnings = []
    try:
        rows = conn.execute("select key, value from limbic_settings order by key").fetchall()
    except sqlite3.OperationalError as error:
        if "no such table" not in str(error):
            raise
        by["split"] = {key: n for key, n in SPLIT_THRESHOLDS.items() if key}
        rows = []
    for key, value in rows:
        base, _, about = str(key).partition(":")
        if base not in NUMBERS or value is None or str(value).strip() == "":
            continue
        low, high, whole = NUMBERS[base]
        try:
            found = number(str(key), value, low, high, whole=whole)
        except BadParameter as error:
            warnings.append(f"limbic_settings: {error}; it does not count until then")
            continue
        if base in ("duplicate_threshold", "look_threshold"):
            by[base.partition("_")[0]][about] = found
        elif about and base == "split_threshold":
            of = by["split"]
            of[type_key(about)] = min(found, of.get(type_key(about), found))
        elif not about:
            values[base] = found
    return ReportSettings(
        **values,
        split_thresholds=by["split"],
        cosine_thresholds=by["duplicate"],
        look_thresholds=by["look"],
        warnings=tuple(warnings),
    )


def sql_threshold(conn: sqlite3.Connection) -> Callable[[str], int]:
    """The function behind ``limbic_threshold(entity_type)`` on this connection.

    Reads the settings each time: a few rows, and they may have changed.
    """
    return lambda entity_type: read(conn).threshold(entity_type)
