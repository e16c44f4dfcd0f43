"""The names in a picture: what is written, how wide it is, and where it finds room.

Widths are estimates in the picture's own units, a little generous: the server has no fonts.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import escape

from ..text import shows

NAME_SIZE = 12.0
EDGE_SIZE = 10.0
LONGEST = 24
SHORTEST = 8
# First strong isolate and its end: what is between turns nothing around it. SVG has no <bdi>.
ISOLATED = "\u2068{}\u2069"
_WIDE = frozenset("WF")
_NARROW = frozenset("iljtfrI1.,:;'|!()[] -")
_BROAD = frozenset("mwMW@%")


@dataclass(frozen=True)
class Box:
    """A rectangle: ``left``, ``top``, ``right``, ``bottom``."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Box) -> bool:
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )

    def within(self, width: float, height: float) -> bool:
        return self.left >= 0 and self.top >= 0 and self.right <= width and self.bottom <= height


@dataclass(frozen=True)
class Wanted:
    """A text that is to stand by a circle; those with most ``weight`` choose first.

    ``radius`` 0 is a point on a line, and the text stands on it.
    """

    key: object
    text: str
    x: float
    y: float
    radius: float
    weight: float = 0.0
    size: float = NAME_SIZE
    above: bool = False
    """Whether it stands above its circle rather than below, where both have room."""


@dataclass(frozen=True)
class Label:
    """Where a text stands: its baseline's anchor, and whether it found room without pointing."""

    text: str
    x: float
    y: float
    anchor: str
    shown: bool
    size: float = NAME_SIZE

    @property
    def box(self) -> Box:
        return _box(self.text, self.x, self.y, self.anchor, self.size)


def plain_line(value: object) -> str:
    """A text in one line, without what cannot be seen or turns the text around it."""
    return " ".join(
        "".join(
            " " if unicodedata.category(c) in ("Cc", "Zl", "Zp") else c
            for c in str("" if value is None else value)
            if c in "\u200c\u200d" or unicodedata.category(c) not in ("Cf", "Cs")
        ).split()
    )


def short_line(value: object, most: int) -> str:
    """The beginning of ``plain_line``, isolated; empty where nothing of it would show.

    At most ``most`` letters, and no more than twice as many bytes of HTML: those of Chinese take
    three each, and say more; ``&`` takes five. Only as much as may be shown is looked at: a name
    may have a million characters.
    """
    line = plain_line(str("" if value is None else value)[: most * 8 + 64])
    if not shows(line):
        return ""
    kept = min(most, _affordable(line[:most], most * 2))
    return ISOLATED.format(line if len(line) <= kept else line[: kept - 1].rstrip() + "…")


def _affordable(line: str, room: int) -> int:
    """How many letters of a text take at most ``room`` bytes of HTML."""
    if html_size(line) <= room:
        return len(line)
    for count, c in enumerate(line):
        room -= html_size(c)
        if room < 0:
            return count
    return len(line)


def html_size(text: str) -> int:
    """How many bytes a text takes in HTML."""
    return len(escape(text).encode("utf-8", "replace"))


def width_of(text: str, size: float = NAME_SIZE) -> float:
    """About how wide a text is drawn in a sans-serif of that size."""
    units = 0.0
    for c in text:
        if unicodedata.category(c) in ("Mn", "Me", "Cf"):
            continue
        if unicodedata.east_asian_width(c) in _WIDE:
            units += 1.05
        elif c in _NARROW:
            units += 0.36
        elif c in _BROAD:
            units += 0.92
        elif c.isupper():
            units += 0.7
        else:
            units += 0.57
    return units * size


def place(
    wanted: Iterable[Wanted],
    taken: Sequence[Box],
    *,
    width: float,
    height: float,
    show: bool = True,
) -> dict[object, Label]:
    """Where each text stands, so that none meets another, a circle (``taken``) or the edge.

    A text without room is tried shorter; one that finds none even so is not ``shown``: it stands
    below its circle for whoever points at it. ``show`` False leaves all of them for that.
    """
    boxes = list(taken)
    placed: dict[object, Label] = {}
    for one in sorted(wanted, key=lambda w: (-w.weight, str(w.key))):
        placed[one.key] = _placed(one, boxes, width, height, show)
    return placed


def _placed(one: Wanted, boxes: list[Box], width: float, height: float, show: bool) -> Label:
    for text in _lengths(one.text) if show else ():
        for x, y, anchor in _places(one):
            box = _box(text, x, y, anchor, one.size)
            if box.within(width, height) and not any(box.meets(other) for other in boxes):
                boxes.append(box)
                return Label(text, x, y, anchor, True, one.size)
    x, y, anchor = _places(one)[0]
    half = width_of(one.text, one.size) / 2
    x = max(half + 2, min(width - half - 2, x))
    return Label(one.text, x, min(y, height - 2), anchor, False, one.size)


def _lengths(text: str) -> list[str]:
    """A text whole and, where it is long, in about half the length."""
    inner = text.strip("\u2068\u2069")
    most = max(SHORTEST, len(inner) // 2)
    if len(inner) <= most + 3:
        return [text]
    return [text, ISOLATED.format(inner[: most - 1].rstrip(" …") + "…")]


def _places(one: Wanted) -> list[tuple[float, float, str]]:
    """Anchors to try, the best first: below, above (or the other way), right, left."""
    if one.radius == 0:
        step = one.size * 0.9
        return [(one.x, one.y + dy, "middle") for dy in (-3.0, step, -step - 2)]
    gap = one.radius + 3
    level = one.y + one.size * 0.35
    below, above = one.y + gap + one.size * 0.8, one.y - gap - one.size * 0.2
    return [
        (one.x, above if one.above else below, "middle"),
        (one.x, below if one.above else above, "middle"),
        (one.x + gap, level, "start"),
        (one.x - gap, level, "end"),
    ]


def _box(text: str, x: float, y: float, anchor: str, size: float) -> Box:
    wide = width_of(text, size)
    left = x - {"start": 0.0, "middle": wide / 2, "end": wide}[anchor]
    return Box(left - 1, y - size * 0.85, left + wide + 1, y + size * 0.25)
