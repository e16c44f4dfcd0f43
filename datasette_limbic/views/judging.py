"""The yes or no to one finding of the review queue: what a POST asks for, and doing it.

``insights.deciding`` does it, in the steps of every action (``acting.carried_out``). A form
carries along what its page showed; where a person chose something else since, nothing is done, and
the page shows what that would change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import BadParameter
from ..insights.approving import NAMES
from ..insights.deciding import DECISIONS, Decision
from . import acting, posting
from .acting_form import Asked
from .common import Page, whole_number

SHOW = "show"
"""What a form asks besides: what another choice would change."""
EXAMPLE = '{"decision": "approve"}'
KEYS = ("decision", "basis", "arguments", "note", "digest", "embed")
CHOICES = ("observation", "keep", "reason", "at")
"""What a person chooses in fields, and a URL shows the diff of."""
_IDS = ("observation", "keep")


@dataclass(frozen=True)
class Judgement:
    """What is asked of one finding."""

    decision: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    """What was chosen, see ``approving.approval``."""
    basis: str | None = None
    note: str | None = None
    digest: str | None = None
    embed: bool = True
    chosen_since: bool = False
    """Whether something else was chosen than the page showed the diff of."""

    def of(self, here: Page, number: int) -> Decision:
        """On that finding, by the visitor. Raises BadParameter for what does not go together."""
        return Decision(
            number,
            self.decision,
            chosen=self.arguments,
            basis=self.basis,
            digest=self.digest,
            note=self.note,
            actor=posting.actor_id(here),
            embed=self.embed,
            settings=here.settings,
        )


def of_json(given: Mapping[str, Any]) -> Judgement:
    """A body of ``KEYS``. Raises BadParameter, naming what is wrong."""
    arguments = given.get("arguments")
    if not (arguments is None or isinstance(arguments, dict)):
        raise BadParameter(f"arguments is {arguments!r:.60}: use an object")
    for name in ("basis", "note", "digest"):
        if not (given.get(name) is None or isinstance(given[name], str)):
            raise BadParameter(f"{name} is {given[name]!r:.40}: use a text")
    if not isinstance(given.get("embed", True), bool):
        raise BadParameter(f"embed is {given['embed']!r:.40}: use true or false")
    return Judgement(
        _decision(given.get("decision"), DECISIONS),
        arguments or {},
        given.get("basis"),
        given.get("note"),
        given.get("digest"),
        given.get("embed", True),
    )


def of_form(pairs: list[tuple[str, str]]) -> Judgement:
    """The fields of the page's form. Raises BadParameter, naming what is wrong."""
    given = dict(pairs)
    unknown = [name[:40] for name in given if name not in (*KEYS, *NAMES)]
    if unknown:
        raise BadParameter(f"unknown field {', '.join(unknown[:5])}: see {', '.join(KEYS)}")
    shown = posting.parsed(given.get("arguments") or "{}", NAMES)
    chosen = of_fields(given)
    fresh = {name: value for name, value in chosen.items() if _differs(value, shown.get(name))}
    decision = _decision(given.get("decision"), (*DECISIONS, SHOW))
    # all buttons of a page send all of its fields: a no needs no choice
    approves = decision in ("approve", SHOW)
    return Judgement(
        decision,
        {**shown, **fresh} if approves else {},
        (given.get("basis") or None) if approves else None,
        given.get("note") or None,
        given.get("digest") or None,
        given.get("embed") != "0",
        bool(fresh),
    )


def of_fields(given: Mapping[str, str]) -> dict[str, Any]:
    """What was chosen, from the texts of a form or a URL."""
    found: dict[str, Any] = {}
    for name in CHOICES:
        if name not in given:
            continue
        text = given[name].strip()
        if name in _IDS:
            number = whole_number(text, signed=True)
            found[name] = text if number is None else number
        else:
            found[name] = text or (None if name == "at" else "")
    return found


async def judge(here: Page, number: int, asked: Judgement) -> dict[str, Any]:
    """Do it; what ``deciding.as_it_stands`` says then. Raises what ``deciding.decide`` raises,
    NotAllowed and NotWritable; then nothing was changed."""
    await acting.must(here)
    decision = asked.of(here, number)
    await fill(here, decision)
    await acting.carried_out(here, decision)
    return await here.read(decision.told)


async def fill(here: Page, decision: Decision) -> None:
    """Look whether it can be decided, and work out, apart, what its action leaves to us."""
    would = await here.read(decision.look)
    if would is not None and would.action is not None:
        of_it = Asked(would.action, would.arguments, dry_run=True)
        decision.arguments = await acting.in_full(here, of_it)


def _decision(value: Any, known: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in known:
        raise BadParameter(f"decision is {value!r:.40}: use one of {', '.join(known)}")
    return value


def _differs(chosen: Any, shown: Any) -> bool:
    """Whether a field says something else than it was filled with; a browser alters spaces."""
    if isinstance(chosen, str) and isinstance(shown, str):
        return chosen.split() != shown.split()
    return bool(chosen != shown)
