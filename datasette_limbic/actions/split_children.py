"""The parts of a split as a caller gave them, checked before anything is looked up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..adding_input import clean
from ..entity import LONGEST_NAME
from ..errors import BadParameter
from ..text import listed, shows
from . import rows

KEYS = ("name", "entityType", "observations")
MAX_CHILDREN = 100
MAX_OBSERVATIONS = 100_000
"""Of one child."""
MAX_TYPE = 200


@dataclass(frozen=True)
class Child:
    """One new entity. ``entity_type`` None: that of the parent."""

    name: str
    entity_type: str | None
    observations: tuple[int, ...]

    @property
    def shown(self) -> str:
        """Its name for a sentence."""
        return rows.named({"name": self.name})

    def given(self, parent_type: Any) -> dict[str, Any]:
        """The child as a caller would give it again."""
        entity_type = parent_type if self.entity_type is None else self.entity_type
        found: dict[str, Any] = {"name": self.name, "observations": list(self.observations)}
        # one that a caller could not give (any program may write) is taken from the parent again
        return found | ({"entityType": entity_type} if _is_given(entity_type) else {})


def read(asked: Any) -> list[Child]:
    """``[{"name": text, "entityType": text or None, "observations": [ids]}]``.

    Names lose their outer spaces. Raises BadParameter, naming the value and what to do, where one
    of them is no such object, has no name or no observations, or where two have one name or one
    observation.
    """
    if not isinstance(asked, (list, tuple)):
        raise BadParameter(f"children is {asked!r:.60}: give a list of objects with {_keys()}")
    if not asked:
        raise BadParameter(
            "children is empty: give at least one new entity with its observations, or leave "
            "children out to take the proposal"
        )
    if len(asked) > MAX_CHILDREN:
        raise BadParameter(
            f"children has {len(asked):,} entries: split into at most {MAX_CHILDREN}, and split "
            "those again if need be"
        )
    found = [_child(number, each) for number, each in enumerate(asked, 1)]
    names: dict[str, int] = {}
    places: dict[int, Child] = {}
    for number, child in enumerate(found, 1):
        first = names.setdefault(child.name, number)
        if first != number:
            raise BadParameter(
                f"children {first} and {number} are both called {child.shown}: give each a name "
                "of its own"
            )
        for observation in child.observations:
            other = places.setdefault(observation, child)
            if other is not child:
                raise BadParameter(
                    f"observation {observation} is in both {other.shown} and {child.shown}: an "
                    "observation goes to one child, so take it out of the other"
                )
    return found


def _child(number: int, asked: Any) -> Child:
    if not isinstance(asked, Mapping):
        raise BadParameter(f"child {number} is {asked!r:.60}: use an object with {_keys()}")
    unknown = [f"{key!s:.40}" for key in asked if key not in KEYS]
    if unknown:
        raise BadParameter(
            f"child {number} has the unknown key {listed(unknown)}: a child takes {_keys()}"
        )
    name = _name(number, asked.get("name"))
    entity_type = _type(name, asked.get("entityType"))
    what = f"observations of {rows.named({'name': name})}"
    given = asked.get("observations")
    if given is None or given == [] or given == ():
        raise BadParameter(
            f"{what}: there are none. Give the ids of those that move, or leave this child out"
        )
    return Child(name, entity_type, tuple(rows.whole_ids(what, given, most=MAX_OBSERVATIONS)))


def _name(number: int, asked: Any) -> str:
    if not isinstance(asked, str):
        raise BadParameter(f"the name of child {number} is {asked!r:.60}: use a text")
    name = clean(asked.strip())
    if not shows(name):
        raise BadParameter(
            f"the name of child {number} is empty, or nothing of it can be seen: give it one"
        )
    if len(name) > LONGEST_NAME:
        raise BadParameter(
            f"the name of child {number} has {len(name):,} characters ({name[:40]!r}…): use at "
            f"most {LONGEST_NAME}"
        )
    return name


def _type(name: str, asked: Any) -> str | None:
    if asked is None:
        return None
    if not isinstance(asked, str) or not asked.strip() or len(asked) > MAX_TYPE:
        raise BadParameter(
            f"entityType of {rows.named({'name': name})} is {asked!r:.60}: use a text of up to "
            f"{MAX_TYPE} characters, or leave it out for the parent's"
        )
    return clean(asked.strip())


def _is_given(entity_type: Any) -> bool:
    """Whether a type comes out of ``_type`` as it is."""
    return (
        isinstance(entity_type, str)
        and 0 < len(entity_type) <= MAX_TYPE
        and clean(entity_type.strip()) == entity_type
    )


def _keys() -> str:
    return f"{', '.join(KEYS[:-1])} and {KEYS[-1]}"
