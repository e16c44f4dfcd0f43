"""The style sheets as data: their rules, the colours of both themes, and contrast."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

SHEETS = Path(__file__).parents[1] / "static"
DARK = "prefers-color-scheme: dark"
Colour = tuple[float, float, float]
"""Red, green and blue, 0 to 1."""


@dataclass(frozen=True)
class Rule:
    sheet: str
    media: str
    """What stands after @media, empty outside of one."""
    selector: str
    """One of those that stand before the brace."""
    says: dict[str, str]

    def number(self, name: str) -> float:
        return float(self.says.get(name, "1"))


def _rules(sheet: str, text: str) -> Iterator[Rule]:
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    outer = ""
    for head, brace in re.findall(r"([^{}]*)([{}])", text):
        if brace == "{" and head.strip().startswith("@"):
            outer = head.strip().removeprefix("@media").strip()
        elif brace == "{":
            selectors = head.strip()
        elif not head.strip():
            outer = ""
        else:
            says = dict(each.split(":", 1) for each in head.split(";") if ":" in each)
            for selector in re.split(r",\s*(?![^(]*\))", selectors):
                yield Rule(sheet, outer, selector, {k.strip(): v.strip() for k, v in says.items()})


@cache
def rules() -> tuple[Rule, ...]:
    """Those of all our sheets."""
    return tuple(
        rule
        for path in sorted(SHEETS.glob("*.css"))
        for rule in _rules(path.name, path.read_text("utf-8"))
    )


@cache
def themes() -> dict[str, dict[str, Colour]]:
    """The colours by the names of their variables without ``--limbic-``, light and dark."""
    said: dict[str, dict[str, Colour]] = {"light": {}, "dark": {}}
    for rule in rules():
        if rule.selector == ".limbic" and rule.media in ("", f"screen and ({DARK})"):
            for name, value in rule.says.items():
                if name.startswith("--limbic-") and re.fullmatch("#[0-9a-f]{6}", value):
                    found = tuple(int(value[i : i + 2], 16) / 255 for i in (1, 3, 5))
                    said["dark" if rule.media else "light"][name[9:]] = found  # type: ignore[assignment]
    return {"light": said["light"], "dark": {**said["light"], **said["dark"]}}


def variable(value: str | None) -> str | None:
    """The name in ``var(--limbic-name, …)``; None of any other value."""
    found = re.match(r"var\(--limbic-([\w-]+)", value or "")
    return found[1] if found else None


def mixed(colour: Colour, ground: Colour, opacity: float) -> Colour:
    """What is seen of a colour that lets its ground through."""
    red, green, blue = (
        c * opacity + g * (1 - opacity) for c, g in zip(colour, ground, strict=True)
    )
    return red, green, blue


def contrast(one: Colour, other: Colour) -> float:
    """The ratio of WCAG, 1 to 21."""

    def luminance(colour: Colour) -> float:
        linear = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour)
        return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)
