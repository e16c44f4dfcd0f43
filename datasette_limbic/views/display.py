"""What templates show, worked out beforehand: numbers, times and texts of the memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from markupsafe import Markup, escape

from .. import i18n, text, times

MAX_NAME = 200


def number(value: Any, digits: int = 3) -> str:
    """A number for people; an en dash where it is unknown, the text where it is none."""
    if value is None:
        return "–"
    if isinstance(value, float):
        return i18n.figure(value, f".{digits}f")
    return i18n.figure(value) if isinstance(value, int) else isolated(value, 20)


def day(value: Any) -> str:
    """The day of a stored time; the whole of it stands in a title attribute. What is no time is
    shown as it is written."""
    moment = times.to_sql(value)
    if moment is None:
        return isolated(value, 20) if value else i18n.gettext("unknown")
    return Markup('<time datetime="{}Z" title="{} UTC">{}</time>').format(
        moment.replace(" ", "T"), moment, moment[:10]
    )


def moment(value: Any) -> str:
    """A stored time to the second."""
    found = times.to_sql(value)
    if found is None:
        return day(value)
    return Markup('<time datetime="{}Z">{} UTC</time>').format(found.replace(" ", "T"), found[:19])


def short(value: Any, most: int = MAX_NAME) -> str:
    """The beginning of a long text."""
    return text.cut(str(value), most)


def light(value: str, most: int) -> str:
    """``short``, and shorter still where it would take over 3 bytes for 2 characters as HTML, as
    signs that are escaped do, and scripts that say more with fewer characters."""
    found, room = short(value, most), most * 3 // 2
    for at, char in enumerate(found):
        room -= len(str(escape(char)).encode("utf-8", "replace"))
        if room < 0:
            return short(found, at)
    return found


def named(name: Any, entity: Any, most: int = MAX_NAME) -> str:
    """The name of an entity as the text of a link, which one of spaces alone would leave empty."""
    found = str("" if name is None else name)
    return short(found, most) if text.shows(found) else unnamed(entity)


def unnamed(entity: Any) -> str:
    return i18n.gettext("unnamed (#%(id)s)") % {"id": entity}


def isolated(value: Any, most: int = MAX_NAME) -> Markup:
    """The beginning of a text of the memory, which turns nothing around it.

    A character such as U+202E turns what follows from right to left, up to the end of its element.
    """
    return Markup("<bdi>{}</bdi>").format(
        value if isinstance(value, Markup) else short(value, most)
    )


def isolated_name(name: Any, entity: Any, most: int = MAX_NAME) -> Markup:
    """``named``, as ``isolated`` has it."""
    return Markup("<bdi>{}</bdi>").format(named(name, entity, most))


def sentence(value: Any, most: int = 400) -> str:
    """A reason or a warning as a sentence of its own, with a capital letter and a full stop."""
    found = short(value, most)
    if "_" not in found.partition(" ")[0]:  # the name of a table stays as it is written
        found = found[:1].upper() + found[1:]
    found += "" if found.endswith((".", "…")) else "."
    return i18n.english(found)  # type: ignore[no-any-return]


def english(value: Any, most: int = 100_000) -> Markup:
    """``isolated``, of a text that the library made: see ``i18n.english``."""
    return isolated(i18n.english(short(value, most)))


FILTERS: dict[str, Callable[..., Any]] = {
    "limbic_number": number,
    "limbic_said": i18n.said,
    "limbic_english": english,
    "limbic_figure": lambda value: i18n.figure(value, ".15g"),
    "limbic_day": day,
    "limbic_moment": moment,
    "limbic_short": short,
    "limbic_text": isolated,
    "limbic_name": isolated_name,
    "limbic_sentence": sentence,
}
