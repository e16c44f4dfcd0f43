"""What has changed in what an insight rests on since a person judged it, in a sentence.

``None`` means that it stands as judged. For all kinds but one any difference counts; large
entities are those that grow, and to propose a split again for each observation that comes would
only teach a person to press "no".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..text import counted
from .model import digest_of, named

SPLIT_SHARE = 0.25
"""A split that was judged is raised again once so many of the observations that it was judged by
(a share of them) have come, gone or changed; or the number of its topics is another."""
_NAMED = 3
_ANYWHERE = frozenset(("contradiction", "duplicate"))
"""What is decided of texts, whatever entity they have moved to since."""
_AMONG = {"duplicate": "observations", "name_clash": "names"}
_UNKNOWN = "its evidence is another than that which was judged"


def what_changed(
    kind: str, before: Any, after: Mapping[str, Any], *, dismissed: bool = False
) -> str | None:
    """``before`` and ``after`` are ``Raised.material``; None where nothing that matters differs.

    ``before`` of another form (an imported insight's) always differs. Where it was ``dismissed``
    that some are the same, so it was of any of them.
    """
    if not isinstance(before, Mapping):
        return _UNKNOWN
    if kind in _ANYWHERE:
        before, after = _without_entity(before), _without_entity(after)
    if digest_of(before) == digest_of(after) or (kind == "split" and _still(before, after)):
        return None
    if dismissed and kind in _AMONG and _fewer(_AMONG[kind], before, after):
        return None
    said = [*_observations(before, after), *_names(before, after), *_ends(before, after)]
    said += [
        sentence.format(before=_value(before.get(key)), after=_value(after.get(key)))
        for key, sentence in _SENTENCES.items()
        if key in after and before.get(key) != after[key]
    ]
    if kind == "split" and len(_topics(before)) != len(_topics(after)):
        topics = counted(len(_topics(after)), "topic stands", "topics stand")
        said.append(f"{topics} apart, {len(_topics(before)):,} before")
    return "; ".join(said) or _UNKNOWN


_SENTENCES = {
    "earlier": "observation {after} is the earlier one now",
    "access_count": "accesses in all: {after}, {before} before",
    "last_access": "last accessed at {after}, {before} before",
    "last_activity_at": "its own data last changed at {after}, {before} before",
    "archived_at": "archived at {after}, {before} before",
}


def _without_entity(material: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in material.items() if key != "entity"}


def _fewer(part: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether all that is left stood there before, as it is now."""
    return _mapping(after, part).items() <= _mapping(before, part).items()


def _still(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether a split would still be decided as it was."""
    old, new = _texts(before), _texts(after)
    others = len(old.items() ^ new.items())
    # one that was rewritten is in both halves of the difference
    others -= sum(old[i] != new[i] for i in old.keys() & new.keys())
    return others < SPLIT_SHARE * len(old) and len(_topics(before)) == len(_topics(after))


def _observations(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterable[str]:
    old, new = _texts(before), _texts(after)
    both = old.keys() & new.keys()
    yield from _said(new.keys() - old.keys(), "observation", "is new", "are new")
    yield from _said(
        old.keys() - new.keys(), "observation", "is none of them any more",
        "are none of them any more",
    )  # fmt: skip
    yield from _said(
        {i for i in both if old[i] != new[i]}, "observation", "has another text",
        "have another text",
    )  # fmt: skip


def _names(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterable[str]:
    old, new = _mapping(before, "names"), _mapping(after, "names")
    for i in _ordered(new.keys() - old.keys()):
        yield f"{named(new[i])} ({i}) is new"
    for i in _ordered(old.keys() - new.keys()):
        yield f"{named(old[i])} ({i}) is none of them any more"
    for i in _ordered(old.keys() & new.keys()):
        if old[i] != new[i]:
            yield f"{named(old[i])} ({i}) is called {named(new[i])} now"


def _ends(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterable[str]:
    for key, word in (("neighbours", "entity"), ("through", "archived entity")):
        old = {str(i) for i in before.get(key) or ()}
        new = {str(i) for i in after.get(key) or ()}
        yield from _said(new - old, word, "is linked with it now", "are linked with it now")
        yield from _said(old - new, word, "no longer is", "no longer are")


def _said(ids: Iterable[str], word: str, one: str, many: str) -> Iterable[str]:
    listed = _ordered(ids)
    if not listed:
        return
    more = f" and {len(listed) - _NAMED:,} more" if len(listed) > _NAMED else ""
    plural = {"entity": "entities", "archived entity": "archived entities"}.get(word, word + "s")
    yield (
        f"{word if len(listed) == 1 else plural} {', '.join(listed[:_NAMED])}{more} "
        f"{one if len(listed) == 1 else many}"
    )


def _ordered(ids: Iterable[str]) -> list[str]:
    return sorted(ids, key=lambda i: (len(i), i))


def _texts(material: Mapping[str, Any]) -> dict[str, Any]:
    return _mapping(material, "observations")


def _topics(material: Mapping[str, Any]) -> list[Any]:
    found = material.get("topics")
    return found if isinstance(found, list) else []


def _mapping(material: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = material.get(key)
    return found if isinstance(found, dict) else {}


def _value(value: Any) -> str:
    return "never" if value is None else str(value)
