"""Plugin configuration: names, defaults, checks.

Written under ``plugins: datasette-limbic:`` in Datasette's own configuration, for all
databases or for one. What shapes reports stands in the table limbic_settings instead.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from . import scoring
from .errors import BadParameter

NAME = "datasette-limbic"

MODES = ("hybrid", "semantic", "text")
STRATEGIES = ("auto", "cosine_heavy", "hybrid_balanced", "limbic_heavy", "limbic")
RECENCIES = ("access", "activity", "freshest")
FUSIONS = ("document", "fused")
LANGUAGES = ("en", "es")
"""Languages of the pages; each but English has a catalogue in ``locale/``."""

MAX_LIMIT = 100
MAX_D_MAX = 1_000_000
MAX_QUERY = 2048
# How old, in days, a log may be asked to become.
MAX_DAYS = 1e6
MAX_TYPE = 10_000

# Lowest cosine similarity of the best hit at which an answer counts as confident, by model:
# each model spreads its similarities differently (measured on an evaluation set, docs/quality.md).
CONFIDENCE_FLOORS = {"limbic-multilingual": 0.25}
DEFAULT_CONFIDENCE_FLOOR = 0.30

SPLIT_THRESHOLDS = {"": 20, "sesion": 15, "proyecto": 25}


def type_key(entity_type: str | None) -> str:
    """Entity types are compared ignoring case and accents: 'Sesión' is 'sesion'."""
    decomposed = unicodedata.normalize("NFKD", entity_type or "")
    return "".join(c for c in decomposed if not unicodedata.combining(c)).casefold().strip()


@dataclass(frozen=True)
class Settings:
    """All settings of one database, with their defaults."""

    model: str | None = field(
        default=None,
        metadata={"help": "llm model that embeds queries; default: the collection's own"},
    )
    query_prefix: str = field(
        default="", metadata={"help": "put before a query, for models such as e5: 'query: '"}
    )
    passage_prefix: str = field(
        default="", metadata={"help": "put before what is embedded, such as 'passage: '"}
    )
    allow_remote_models: bool = field(
        default=False,
        metadata={"help": "let limbic_embed() in SQL call a model that has a key and costs money"},
    )
    limit: int = field(default=10, metadata={"help": f"results of a search, 1 to {MAX_LIMIT}"})
    mode: str = field(default="hybrid", metadata={"help": ", ".join(MODES)})
    strategy: str = field(default="auto", metadata={"help": ", ".join(STRATEGIES)})
    recency: str = field(default="access", metadata={"help": ", ".join(RECENCIES)})
    fusion: str = field(default="fused", metadata={"help": ", ".join(FUSIONS)})
    language: str = field(
        default="auto",
        metadata={
            "help": "language of the pages: "
            + ", ".join(("auto", *LANGUAGES))
            + " (auto is what the browser asks for)"
        },
    )
    consolidation: bool = field(
        default=False, metadata={"help": "let consolidation importance raise importance"}
    )
    expansion_factor: int = field(
        default=scoring.EXPANSION_FACTOR,
        metadata={"help": "candidates fetched per result, by vectors and by text each"},
    )
    beta_sal: float = field(default=scoring.BETA_SAL, metadata={"help": "weight of salience"})
    beta_deg: float = field(
        default=scoring.BETA_DEG, metadata={"help": "weight of the degree within importance"}
    )
    d_max: int = field(
        default=scoring.D_MAX, metadata={"help": "degree above which no more counts"}
    )
    lambda_hourly: float = field(
        default=scoring.LAMBDA_HOURLY, metadata={"help": "decay of recency per hour"}
    )
    gamma: float = field(default=scoring.GAMMA, metadata={"help": "weight of co-occurrence"})
    rrf_k: float = field(
        default=scoring.RRF_K, metadata={"help": "smoothing of reciprocal rank fusion"}
    )
    temporal_floor: float = field(
        default=scoring.TEMPORAL_FLOOR, metadata={"help": "lowest value of the temporal factor"}
    )
    cooc_temporal_floor: float = field(
        default=scoring.COOC_TEMPORAL_FLOOR,
        metadata={"help": "lowest decay of a co-occurrence"},
    )
    cooc_cap: float | None = field(
        default=None, metadata={"help": "upper bound of the co-occurrence boost; default: none"}
    )
    unknown_temporal: float = field(
        default=scoring.UNKNOWN_TEMPORAL,
        metadata={"help": "temporal factor of an entity of which no time is known"},
    )
    recency_half_life_days: float = field(
        default=180.0, metadata={"help": "half-life of temporal_score"}
    )
    insight_half_life_days: float = field(
        default=30.0, metadata={"help": "the same, for the insight types"}
    )
    insight_types: tuple[str, ...] = field(
        default=("Insight",), metadata={"help": "entity types that count as system insights"}
    )
    half_life_days_by_type: Mapping[str, float] = field(
        default_factory=dict, metadata={"help": "half-lives of single entity types, in days"}
    )
    exempt_types: tuple[str, ...] = field(
        default=("Domain", "Dominio"), metadata={"help": "entity types that do not age"}
    )
    confidence_floor: Mapping[str, float] | float | None = field(
        default=None,
        metadata={"help": "cosine below which the best hit is no match: a number, or one by model"},
    )
    retriever: str = field(
        default="auto",
        metadata={
            "help": "what brings the candidates: vec0, memory, approximate, postgres, or one of a "
            "plugin; auto is the fastest that the file has"
        },
    )
    vectors_in_memory_mb: int = field(
        default=512,
        metadata={
            "help": "megabytes that one process may keep of vectors and of the approximate index; "
            "0: none"
        },
    )
    postgres_dsn: str = field(
        default="",
        repr=False,
        metadata={
            "help": "the PostgreSQL server of the retriever postgres, as libpq names it: a secret; "
            "empty: the environment variable LIMBIC_POSTGRES_DSN"
        },
    )
    postgres_schema: str = field(
        default="limbic",
        metadata={"help": "schema on that server; it holds this memory and no other"},
    )
    postgres_timeout_ms: int = field(
        default=800,
        metadata={"help": "time after which a search gives that server up and looks here"},
    )
    postgres_partitions: int = field(
        default=8,
        metadata={"help": "partitions of the tables that sync makes there; 0: plain tables"},
    )
    postgres_ef_search: int = field(
        default=0,
        metadata={
            "help": "candidates that each index there looks through: the more, the fewer are "
            "missed, and the longer it takes; 0: four to ten times those wanted"
        },
    )
    knn_time_limit_ms: int = field(
        default=5000, metadata={"help": "time after which vector search gives way to text search"}
    )
    baseline_share: float = field(
        default=0.0,
        metadata={
            "help": "share of the recorded searches that is answered by base similarity alone, "
            "to compare with; 0 to 1"
        },
    )
    log_retention_days: float | None = field(
        default=None,
        metadata={
            "help": "days after which logged searches, their ratings and the access log are "
            "deleted; default: never"
        },
    )

    @classmethod
    def from_mapping(cls, given: Mapping[str, Any] | None) -> Settings:
        """Settings from plugin configuration. Raises BadParameter, naming key and value."""
        if not isinstance(given or {}, Mapping):
            raise BadParameter(
                f"the settings of datasette-limbic are {_short(given)}: use a mapping of names "
                "to values"
            )
        values: dict[str, Any] = {}
        known = {f.name: f for f in fields(cls)}
        for key, value in (given or {}).items():
            if key not in known:
                raise BadParameter(
                    f"datasette-limbic has no setting {key!r}: it has {', '.join(sorted(known))}"
                )
            values[key] = _checked(key, value)
        settings = cls(**values)
        try:
            settings.parameters()
        except ValueError as error:
            raise BadParameter(f"datasette-limbic: {error}") from error
        return settings

    def parameters(self) -> scoring.Parameters:
        """The scoring parameters among the settings, checked against their ranges."""
        return scoring.Parameters(
            **{f.name: getattr(self, f.name) for f in fields(scoring.Parameters)}
        )

    def half_life_days(self, entity_type: str | None) -> float | None:
        """Half-life of an entity type in days; None means that it does not age."""
        key = type_key(entity_type)
        for name, days in self.half_life_days_by_type.items():
            if type_key(name) == key:
                return float(days)
        if key in {type_key(t) for t in self.exempt_types}:
            return None
        if key in {type_key(t) for t in self.insight_types}:
            return self.insight_half_life_days
        return self.recency_half_life_days

    def split_threshold(self, entity_type: str | None) -> int:
        """Observations above which an entity of this type is large (the documents' defaults)."""
        return SPLIT_THRESHOLDS.get(type_key(entity_type), SPLIT_THRESHOLDS[""])

    def floor(self, model_id: str | None) -> float:
        """Cosine similarity below which the best hit is no confident match."""
        if isinstance(self.confidence_floor, Mapping):
            if model_id is not None and model_id in self.confidence_floor:
                return float(self.confidence_floor[model_id])
        elif self.confidence_floor is not None:
            return float(self.confidence_floor)
        return CONFIDENCE_FLOORS.get(model_id or "", DEFAULT_CONFIDENCE_FLOOR)


def choice(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    """``value`` if it is one of ``allowed``, else BadParameter naming both."""
    if value not in allowed:
        raise BadParameter(f"{name} is {_short(value)}: use one of {', '.join(allowed)}")
    return str(value)


def number(name: str, value: Any, low: float, high: float, *, whole: bool = False) -> float:
    """``value`` as a number within bounds. Text counts as a number (forms send text)."""
    try:
        if isinstance(value, bool):
            raise ValueError
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        found = float("nan")
    if not low <= found <= high or (whole and found != int(found)):
        kind = "whole number" if whole else "number"
        bounds = "" if low == float("-inf") else f" from {low:,.15g} to {high:,.15g}"
        raise BadParameter(f"{name} is {_short(value)}: use a {kind}{bounds}")
    return int(found) if whole else found


def flag(name: str, value: Any) -> bool:
    """``value`` as yes or no, as URLs, forms and YAML write it."""
    text = str(value).strip().lower()
    if text in ("1", "true", "yes", "on"):
        return True
    if text in ("", "0", "false", "no", "off", "none"):
        return False
    raise BadParameter(f"{name} is {_short(value)}: use 1 or 0")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…'"


_RANGES: dict[str, tuple[float, float, bool]] = {
    "limit": (1, MAX_LIMIT, True),
    "expansion_factor": (1, 40, True),
    "recency_half_life_days": (0.01, 1e6, False),
    "insight_half_life_days": (0.01, 1e6, False),
    "knn_time_limit_ms": (1, 600_000, True),
    "vectors_in_memory_mb": (0, 1_000_000, True),
    "postgres_timeout_ms": (1, 600_000, True),
    "postgres_partitions": (0, 256, True),
    "postgres_ef_search": (0, 1000, True),
    "baseline_share": (0, 1, False),
    "d_max": (1, MAX_D_MAX, True),
}
_CHOICES = {
    "mode": MODES,
    "strategy": STRATEGIES,
    "recency": RECENCIES,
    "fusion": FUSIONS,
    "language": ("auto", *LANGUAGES),
}


def _checked(key: str, value: Any) -> Any:
    if key in _CHOICES:
        return choice(key, value, _CHOICES[key])
    if key in _RANGES:
        low, high, whole = _RANGES[key]
        return number(key, value, low, high, whole=whole)
    if key == "log_retention_days":
        return None if value is None else number(key, value, 0.001, MAX_DAYS)
    if key in ("allow_remote_models", "consolidation"):
        return flag(key, value)
    if key in ("insight_types", "exempt_types"):
        if not isinstance(value, (list, tuple)) or not all(isinstance(v, str) for v in value):
            raise BadParameter(f"{key} is {_short(value)}: use a list of entity types")
        return tuple(value)
    if key == "half_life_days_by_type":
        if not isinstance(value, Mapping):
            raise BadParameter(f"{key} is {_short(value)}: use a mapping of type to days")
        return {str(k): number(f"{key}.{k}", v, 0.01, 1e6) for k, v in value.items()}
    if key == "confidence_floor":
        if isinstance(value, Mapping):
            return {str(k): number(f"{key}.{k}", v, -1, 1) for k, v in value.items()}
        return None if value is None else number(key, value, -1, 1)
    if key in ("query_prefix", "passage_prefix") and not isinstance(value, str):
        raise BadParameter(f"{key} is {_short(value)}: use text")
    if key == "retriever" and not (isinstance(value, str) and value):
        raise BadParameter(f"{key} is {_short(value)}: use the name of a retriever, or auto")
    if key == "postgres_dsn":
        if value is None:
            return ""  # {"$env": "NAME"} of a variable that is not set
        if not isinstance(value, str):
            # without the value: it may hold a password
            raise BadParameter(f'{key} is no text: write it in quotes, or as {{"$env": "NAME"}}')
        return value
    if key == "postgres_schema" and not (
        isinstance(value, str)
        and value.isidentifier()
        and len(value.encode("utf-8")) < 64
        and not value.startswith("pg_")
    ):
        raise BadParameter(
            f"{key} is {_short(value)}: use a name of letters, digits and _, of up to 63 bytes"
        )
    if key == "model" and not (value is None or isinstance(value, str)):
        raise BadParameter(f"{key} is {_short(value)}: use the id or alias of an llm model")
    return value
