"""Whether one observation may stand for another: whether it says what the other one says.

Of the same entity, both holding now, and the same text (``text.normalise``) or a pair of kind
``duplicate``: one that is kept and of the entity as it stands, else found now by the same rule.
Beyond the rule of the reports: the one that stays is not much the shorter of the two, all of what
goes was looked at, and what had been merged into it before is said too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

from datasette.utils.sqlite import sqlite3

from ..duplicates import LENGTH_RATIO, Observation, judge
from ..duplicates.model import earlier_first
from ..duplicates.reading import read as taken_apart
from ..duplicates.rules import Verdict, containment_of
from ..duplicates.stated import LOOKED_AT, Stated
from ..reports import keeping, reading
from ..text import normalise, short
from .merged import Merged
from .settling import PAIRS

_KEPT = f"select earlier_id, later_id, kind, difference from {PAIRS} where entity_id = ?"


class Saying:
    """The observations of one entity, as they stand. Reads only."""

    def __init__(self, conn: sqlite3.Connection, entity_id: int) -> None:
        self.conn, self.entity_id = conn, entity_id
        self.rules = keeping.rules(conn)
        batch = reading.read(conn, [entity_id], info=self.rules.info)
        self.held: Mapping[int, Observation] = {each.id: each for each in batch.observations}
        """Those that hold now, by id."""
        self.places = {each.id: at for at, each in enumerate(batch.observations)}
        self.vectors = batch.vectors
        self._apart: dict[int, Stated] = {}

    @cached_property
    def texts(self) -> Mapping[int, str]:
        """What tells the same texts from others."""
        return {number: normalise(each.content) for number, each in self.held.items()}

    @cached_property
    def kept(self) -> Mapping[frozenset[int], Verdict]:
        """The pairs that are kept, where nothing of the entity has changed since."""
        if keeping.outdated(self.conn, self.rules) or self.entity_id in keeping.changed(self.conn):
            return {}
        found = self.conn.execute(_KEPT, [self.entity_id]).fetchall()
        return {frozenset((a, b)): Verdict(kind, "", said) for a, b, kind, said in found}

    def why_not(self, kept: int, other: int) -> str | None:
        """Why observation ``kept`` does not stand for ``other``, as a sentence; None if it does."""
        one, two = self.held[kept], self.held[other]
        if self.texts[kept] == self.texts[other]:
            return self._as_bytes(kept, other)
        verdict = self.kept.get(frozenset((kept, other))) or self._judged(one, two)
        pair = f"observations {kept} and {other}"
        if verdict is not None and verdict.kind == "contradiction":
            what = f" ({verdict.difference})" if verdict.difference else ""
            return (
                f"{pair} contradict each other{what}, so neither stands for the other: end the one "
                "that holds no longer (action end)"
            )
        if verdict is None or verdict.kind != "duplicate":
            return (
                f"{pair} do not say the same: keep both, or delete the one that is not wanted "
                "(action delete)"
            )
        return _more(one, two)

    def why_not_before(
        self, kept: int, other: int, before: Iterable[Merged], staying: frozenset[str]
    ) -> str | None:
        """Why ``kept`` does not stand for what had been merged into ``other``: there are no
        vectors of that any more, so the words alone tell. ``staying`` are the texts that stay."""
        for each in before:
            content = each.content
            if isinstance(content, str) and normalise(content) in staying:
                continue
            if not isinstance(content, str) or self._worded(kept, each):
                return (
                    f"observation {other} was kept for observation {each.id} “{short(content)}” "
                    f"(change {each.change}), which observation {kept} does not say word for "
                    f"word: keep {other} instead, or undo change {each.change} first"
                )
        return None

    def _worded(self, kept: int, before: Merged) -> bool:
        one, two = self.held[kept], Observation(before.id, self.entity_id, before.content)
        a, b = self._stated(one), taken_apart(two.content)
        verdict = judge(a, b, None, containment_of(a, b), self.rules.thresholds)
        return verdict is None or verdict.kind != "duplicate" or _more(one, two) is not None

    def _as_bytes(self, kept: int, other: int) -> str | None:
        """Texts that cannot be read are the same where their bytes are."""
        if "\ufffd" not in self.held[kept].content and "\ufffd" not in self.held[other].content:
            return None
        raw = self.conn.execute(
            "select count(distinct cast(content as blob)) from observations where id in (?, ?)",
            [kept, other],
        ).fetchone()
        if raw[0] == 1:
            return None
        return (
            f"observations {kept} and {other} hold characters that cannot be read, and differ in "
            "their bytes: keep both, or delete the one that is not wanted (action delete)"
        )

    def _judged(self, one: Observation, two: Observation) -> Verdict | None:
        first, second = earlier_first(one, two)
        a, b = self._stated(first), self._stated(second)
        cosine = self._cosine(one.id, two.id)
        return judge(a, b, cosine, containment_of(a, b), self.rules.thresholds)

    def _stated(self, one: Observation) -> Stated:
        if one.id not in self._apart:
            self._apart[one.id] = taken_apart(one.content)
        return self._apart[one.id]

    def _cosine(self, one: int, two: int) -> float | None:
        """Of one text any vector will do."""
        if self.vectors is None:
            return None
        rows = [self._with_vector.get(self.texts[number]) for number in (one, two)]
        if None in rows:
            return None
        return float(self.vectors[rows[0]] @ self.vectors[rows[1]])

    @cached_property
    def _with_vector(self) -> Mapping[str, int]:
        import numpy

        found: dict[str, int] = {}
        known = numpy.isfinite(self.vectors).all(axis=1)
        for number, at in self.places.items():
            if known[at]:
                found.setdefault(self.texts[number], at)
        return found


def _more(kept: Observation, other: Observation) -> str | None:
    """Why what goes may say more than what stays, though the two are duplicates."""
    if len(other.content) > LOOKED_AT:
        return (
            f"observation {other.id} has {len(other.content):,} characters, and only the first "
            f"{LOOKED_AT:,} are compared: keep it, or delete it if it is not wanted (action delete)"
        )
    if len(other.content) >= LENGTH_RATIO * len(kept.content):
        return (
            f"observation {other.id} says more than observation {kept.id} "
            f"({len(other.content):,} characters, not {len(kept.content):,}): keep {other.id} "
            "instead"
        )
    return None
