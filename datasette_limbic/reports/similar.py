"""Duplicates and contradictions among the observations of one entity.

Reading, comparing and answering are apart: comparing thousands of observations takes seconds, and
on a page neither a thread that reads the database nor the event loop may wait for it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

from datasette.utils.sqlite import sqlite3

from ..config import number
from ..duplicates import Cluster, Observation, Pair, Thresholds, clusters, find_pairs
from ..llm_store import content_hash
from ..schema import has_reports, require_memory
from . import keeping, reading
from .entities import PAGE, find_entity, pages, paging
from .queries import current

LISTS = {"pairs": "duplicate", "contradictions": "contradiction", "worth_a_look": "look"}

_MARKED = """
exists (select 1 from limbic_stale s where s.collection = 'observations' and s.item_id = o.id)
"""
# observations that hold, those without a vector, and ids whose vector may be of an earlier text
_COUNTS = f"""
select count(*), coalesce(sum(m.embedding is null or length(m.embedding) != 4 * :dimension), 0),
  json_group_array(o.id) filter (where {_MARKED} and m.embedding is not null
    and length(m.embedding) = 4 * :dimension)
from observations o
left join collections c on c.name = 'observations'
left join embeddings m on m.collection_id = c.id and m.id = cast(o.id as text)
where o.entity_id = :entity and {current("o")}
"""
_DIGESTS = """
select cast(o.content as blob), m.content_hash from observations o
join collections c on c.name = 'observations'
join embeddings m on m.collection_id = c.id and m.id = cast(o.id as text)
where o.id in (select value from json_each(?))
"""
# When what is kept was found; no row where the entity has changed, or time has changed it.
_KEPT = """
select r.computed_at from limbic_reports r where r.report = :report and r.computed_at is not null
and not exists (select 1 from limbic_report_pending where entity_id = :entity)
and not exists (
  select 1 from observations where entity_id = :entity and (
    valid_to is not null and datetime(valid_to) between datetime(r.computed_at) and datetime('now')
    or valid_from is not null
      and datetime(valid_from) between datetime(r.computed_at) and datetime('now')))
"""
_PAIRS = """
select entity_id, earlier_id, later_id, kind, rule, cosine, containment, difference
from limbic_duplicates where entity_id = ?
"""
_TEXTS = """
select id, entity_id, cast(content as blob), created_at from observations
where id in (select value from json_each(?))
"""


def find_duplicate_observations(
    conn: sqlite3.Connection,
    entity: int | str,
    threshold: float | str | None = None,
    containment_threshold: float | str | None = None,
    *,
    look: float | str | None = None,
    page: int = 1,
    size: int = PAGE,
    settings: Any = None,
) -> dict[str, Any]:
    """Which observations of an entity, by id or name, are alike; compared now, nothing is written.

    ``threshold`` is the cosine from which two are duplicates, ``look`` that from which they are
    worth a look, ``containment_threshold`` the share of the shorter text's words that the longer
    one holds; each 0 to 1, left out: as ``limbic_settings`` has it, else what suits the model.
    ``settings`` are the plugin's, for the prefix of what was embedded.

    ``pairs`` (duplicates), ``contradictions`` and ``worth_a_look`` hold ``size`` each, the
    strongest first: ``earlier`` and ``later`` (id, content, created_at, similarity_flag),
    ``cosine`` (-1 to 1), ``containment`` (0 to 1), ``rule``, ``difference``. ``clusters`` are
    duplicates that hang together, with the ``survivor`` that is suggested and ``why``. Without
    vectors the words alone are compared, and ``similarity`` says so. ``kept`` is None: only pages
    answer from what was found before. An entity of thousands of observations takes seconds.

    Source: "Mantenimiento & Operaciones", with contradictions told apart.
    Raises UnknownEntity, BadParameter and NotAMemory.
    """
    page, size = paging(page, size)
    asked = read_alike(conn, entity, threshold, containment_threshold, look, settings=settings)
    return answer(asked, compare(asked), page, size)


@dataclass(frozen=True)
class Asked:
    """One entity at one moment, and by what it is to be compared."""

    entity: dict[str, Any]
    thresholds: Thresholds
    model: str | None
    count: int
    """Observations that hold."""
    without_vector: int
    observations: list[Observation]
    """All that hold; of what is kept those of the pairs alone."""
    vectors: Any
    flagged: frozenset[int]
    kept: list[Pair] | None = None
    """The pairs, where they were found before and nothing has changed since."""
    kept_at: str | None = None
    warnings: tuple[str, ...] = ()
    """Settings that cannot be used."""

    @cached_property
    def digest(self) -> bytes:
        """Of what is compared and by what: equal ones have the same pairs."""
        found = hashlib.sha256(
            repr((self.thresholds, self.observations)).encode("utf-8", "surrogatepass")
        )
        if self.vectors is not None:
            found.update(self.vectors.tobytes())
        return found.digest()


@dataclass(frozen=True)
class Alike:
    """The pairs of each list, the strongest first, and the clusters."""

    lists: dict[str, list[Pair]]
    clusters: list[Cluster]


def read_alike(
    conn: sqlite3.Connection,
    entity: int | str,
    threshold: float | str | None = None,
    containment_threshold: float | str | None = None,
    look: float | str | None = None,
    *,
    fresh: bool = True,
    settings: Any = None,
) -> Asked:
    """What ``compare`` needs, as at one moment. Reads only.

    Not ``fresh``: what is kept, where it is of the entity as it stands and of these thresholds.
    Raises UnknownEntity, BadParameter and NotAMemory.
    """
    require_memory(conn)
    given = {
        name: number(word, value, 0, 1)
        for name, word, value in (
            ("cosine", "threshold", threshold),
            ("containment", "containment_threshold", containment_threshold),
            ("look", "look", look),
        )
        if value is not None and value != ""
    }
    ours = not conn.in_transaction
    if ours:
        conn.execute("begin")
    try:
        return _read(conn, entity, given, fresh, getattr(settings, "passage_prefix", None) or "")
    finally:
        if ours:
            conn.rollback()


def _read(
    conn: sqlite3.Connection, entity: int | str, given: dict[str, Any], fresh: bool, prefix: str
) -> Asked:
    rules = keeping.rules(conn)
    thresholds = _bounded(replace(rules.thresholds, **given))
    found = find_entity(conn, entity)
    model = rules.info.model_id if rules.info and rules.info.count else None
    flagged = frozenset(
        row[0]
        for row in conn.execute(
            "select id from observations where entity_id = ? and similarity_flag = 1",
            [found["id"]],
        )
    )
    at = None if fresh or thresholds != _bounded(rules.thresholds) else _kept(conn, rules, found)
    if at is None:
        batch = reading.read(conn, [found["id"]], info=rules.info, prefix=prefix)
        return Asked(
            found, thresholds, model, len(batch.observations), batch.without_vector,
            batch.observations, batch.vectors, flagged, warnings=rules.settings.warnings,
        )  # fmt: skip
    pairs = [Pair(*row) for row in conn.execute(_PAIRS, [found["id"]]).fetchall()]
    ids = sorted({i for p in pairs for i in (p.earlier_id, p.later_id)})
    texts = [
        Observation(i, entity_id, (content or b"").decode("utf-8", "replace"), created)
        for i, entity_id, content, created in conn.execute(_TEXTS, [json.dumps(ids)]).fetchall()
    ]
    count, without = _counts(conn, found["id"], rules.info.dimension if rules.info else 0, prefix)
    return Asked(
        found, thresholds, model, count, without, texts, None, flagged, pairs, at,
        rules.settings.warnings,
    )  # fmt: skip


def _bounded(thresholds: Thresholds) -> Thresholds:
    return replace(thresholds, look=thresholds.lowest)


def _kept(conn: sqlite3.Connection, rules: keeping.Rules, entity: dict[str, Any]) -> str | None:
    """When what is kept of an entity was found, None where it is not what would be found now."""
    if not has_reports(conn) or keeping.outdated(conn, rules):
        return None
    row = conn.execute(_KEPT, {"report": keeping.NAME, "entity": entity["id"]}).fetchone()
    return str(row[0]) if row else None


def _counts(
    conn: sqlite3.Connection, entity_id: int, dimension: int | None, prefix: str
) -> tuple[int, int]:
    """How many observations hold, and of how many there is no vector of the present text."""
    count, without, marked = conn.execute(
        _COUNTS, {"entity": entity_id, "dimension": dimension or 0}
    ).fetchone()
    if not dimension:
        return count, count
    earlier = sum(
        digest != content_hash(prefix + (content or b"").decode("utf-8", "replace"))
        for content, digest in conn.execute(_DIGESTS, [marked]).fetchall()
    )
    return count, without + earlier


def compare(asked: Asked) -> Alike:
    """The pairs; needs no connection. Takes seconds for thousands of observations."""
    pairs = asked.kept
    if pairs is None:
        pairs = find_pairs(asked.observations, asked.vectors, asked.thresholds)
    pairs = sorted(pairs, key=_strength)
    lists = {name: [p for p in pairs if p.kind == kind] for name, kind in LISTS.items()}
    return Alike(lists, clusters(lists["pairs"], asked.observations))


def answer(asked: Asked, alike: Alike, page: int = 1, size: int = PAGE) -> dict[str, Any]:
    """The dict of ``find_duplicate_observations``."""
    start = (page - 1) * size
    shown = {name: all_of[start : start + size] for name, all_of in alike.lists.items()}
    shown_clusters = alike.clusters[start : start + size]
    wanted = {i for some in shown.values() for p in some for i in (p.earlier_id, p.later_id)}
    texts = _texts(asked, wanted | {c.survivor_id for c in shown_clusters})
    return {
        "entity": asked.entity,
        "observations": asked.count,
        "thresholds": asdict(asked.thresholds),
        "model": asked.model,
        "similarity": _similarity(asked.count, asked.without_vector),
        "kept": None if asked.kept is None else {"computed_at": asked.kept_at},
        "warnings": list(asked.warnings),
        "counts": {
            **{name: len(all_of) for name, all_of in alike.lists.items()},
            "clusters": len(alike.clusters),
        },
        "page": page,
        "pages": pages(size, len(alike.clusters), *map(len, alike.lists.values())),
        "size": size,
        **{name: [_pair(p, texts) for p in some] for name, some in shown.items()},
        "clusters": [
            {"ids": list(c.ids), "survivor": texts[c.survivor_id], "why": c.why}
            for c in shown_clusters
        ],
    }


def _strength(pair: Pair) -> tuple[Any, ...]:
    return (
        pair.rule != "exact",
        -2.0 if pair.cosine is None else -pair.cosine,
        -(pair.containment or 0.0),
        pair.earlier_id,
        pair.later_id,
    )


def _similarity(count: int, without: int) -> dict[str, Any]:
    """Whether vectors could be compared, and why not."""
    reason = None
    if count and without == count:
        reason = (
            "no observation of this entity has a vector of its present text, so only words were"
            " compared: run 'datasette limbic sync'"
        )
    elif without:
        reason = (
            f"{without:,} of {count:,} observations have no vector of their present text, so of"
            " those only words were compared: run 'datasette limbic sync'"
        )
    return {"computed": without < count, "reason": reason, "without_vector": without}


def _texts(asked: Asked, wanted: set[int]) -> dict[int, dict[str, Any]]:
    """The observations that are shown, by id."""
    return {
        o.id: {
            "id": o.id,
            "content": o.content,
            "created_at": o.created_at,
            "similarity_flag": int(o.id in asked.flagged),
        }
        for o in asked.observations
        if o.id in wanted
    }


def _pair(pair: Pair, texts: dict[int, dict[str, Any]]) -> dict[str, Any]:
    return {
        "rule": pair.rule,
        "cosine": pair.cosine,
        "containment": pair.containment,
        "difference": pair.difference,
        "earlier": texts[pair.earlier_id],
        "later": texts[pair.later_id],
    }
