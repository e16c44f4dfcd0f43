"""What the sheets draw can be told from its ground, in both themes: WCAG's AA, reckoned."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from sheet_helpers import Rule, contrast, mixed, rules, themes, variable

GROUNDS = ("page", "card")
TEXT, DRAWN = 4.5, 3.0
# A picture's own paper, and the hairlines that divide it: nothing is read from them.
PAPER = {"page", "card", "soft", "line"}
# Rules that set how much shows through, by the rule that gives the colours.
COLOURED_BY = {
    ".limbic .limbic-edge-ended path": ".limbic .limbic-edge path",
    ".limbic .limbic-weeks .limbic-span": ".limbic .limbic-span",
}
# Faint on purpose: by the end of the selector, and what says the same in full.
FAINT = {
    ".limbic-band": "the line in the middle of the band, and the table",
    ".limbic-heat > rect": "a scale from faint to full: its numbers are in the table",
    ":not(.limbic-near)": "while another node is pointed at",
    "button[disabled]": "a control that is off needs no contrast",
    "::placeholder": "sets the opacity to 1",
}
COLOURED = ("fill", "stroke", "background", "border", "border-color")
OPACITIES = ("opacity", "fill-opacity", "stroke-opacity")


def colour(rule: Rule, name: str) -> str | None:
    """The variable that a declaration of the rule takes its colour from."""
    return variable(rule.says.get(name, "").removeprefix("1px solid "))


def drawn() -> list[Rule]:
    """The rules that colour something of a picture, or let its ground through."""
    by_selector = {rule.selector: rule for rule in rules() if not rule.media}
    found = []
    for rule in rules():
        if "forced-colors" in rule.media or rule.media == "print":
            continue
        if any(rule.selector.endswith(end) for end in FAINT):
            continue
        if not any(colour(rule, name) for name in COLOURED):
            if not any(rule.number(name) < 1 for name in OPACITIES):
                continue
            base = by_selector[COLOURED_BY[rule.selector]]
            rule = replace(rule, says={**base.says, **rule.says})
        found.append(rule)
    return found


def seen(rule: Rule, theme: str, ground: str) -> dict[str, float]:
    """The contrast of what the rule fills and of what it strokes; nothing for paper."""
    colours = themes()[theme]
    found = {}
    # a key is filled by its background and outlined by its border
    parts, paper = [("fill", "fill"), ("stroke", "stroke")], PAPER
    if re.search(r"\.limbic-key\b(?!-)", rule.selector):
        parts += [("fill", "background"), ("stroke", "border"), ("stroke", "border-color")]
        paper = PAPER - {"line"}
    for part, says in parts:
        name = colour(rule, says)
        if name is not None and name not in paper:
            share = rule.number("opacity") * rule.number(f"{part}-opacity")
            found[part] = contrast(mixed(colours[name], colours[ground], share), colours[ground])
    return found


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("ground", GROUNDS)
def test_what_is_drawn_is_seen(theme, ground):
    """A bar by its fill or else by its outline, a line and its arrow both; words by their fill."""
    low, shapes, words = [], 0, 0
    for rule in drawn():
        found = seen(rule, theme, ground)
        if not found:
            continue
        is_text = " text" in rule.selector or ".limbic-lane" in rule.selector
        words, shapes = words + is_text, shapes + (not is_text)
        if is_text:
            found = {"fill": found.get("fill", 0.0)}
        has_line = rule.selector.endswith(" path")
        if (min if has_line else max)(found.values()) < (TEXT if is_text else DRAWN):
            low.append((rule.sheet, rule.selector, found))
    assert low == []
    assert shapes > 30
    assert words > 5


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_words_are_read(theme):
    """On the ground that their rule gives them; else on each that they may stand on."""
    colours, low, count = themes()[theme], [], 0
    for rule in rules():
        name = variable(rule.says.get("color"))
        if "forced-colors" in rule.media or rule.media == "print" or name is None:
            continue
        own = variable(rule.says.get("background"))
        on = [own] if own else ["bar"] if name.endswith("bar-ink") else [*GROUNDS, "soft"]
        for ground in on:
            count += 1
            ratio = contrast(colours[name], colours[ground])
            if ratio < TEXT and "[disabled]" not in rule.selector:
                low.append((rule.sheet, rule.selector, name, ground, round(ratio, 2)))
    assert low == []
    assert count > 50


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_names_of_colours(theme):
    """All that the sheets name are there; those of types and of notes bear what stands on them."""
    colours = themes()[theme]
    used = {variable(value) for rule in rules() for value in rule.says.values()} - {None}
    used -= {"shadow"}
    assert used <= set(colours)
    for number in range(8):
        for ground in GROUNDS:
            assert contrast(colours[f"type-{number}"], colours[ground]) >= DRAWN
        assert contrast(colours[f"type-{number}"], colours["on-type"]) >= TEXT
    for ground in ("good", "warn", "bad", "info", "mark", "soft"):
        assert contrast(colours["ink"], colours[ground]) >= TEXT, ground
    for kind in ("good", "warn", "bad"):
        assert contrast(colours[f"{kind}-ink"], colours[kind]) >= TEXT, kind
