"""Figures of imports as people read them: words, cards, marks for unseen characters."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from markupsafe import Markup

from .. import import_log, times
from ..i18n import counting, figure, marked, ngettext
from ..i18n import gettext as _
from .display import number, short

SHOWN_RAW = 120
MAX_SHOWN_RAW = 4000
MAX_GROUPS = 12
MAX_FIGURES = 40

# The order of what we know; whatever else there is follows.
GROUPS = ("entities", "observations", "relations", "access")
TITLES = {"access": marked("Accesses"), "co_occurrences": marked("Co-occurrences")}
# words of figures that our own imports log; those of others are shown as they are
WORDS = (
    marked("entities"), marked("observations"), marked("relations"), marked("access"),
    marked("created"), marked("added"), marked("merged"), marked("updated"), marked("replaced"),
    marked("already there"), marked("reopened"), marked("skipped"), marked("dangling"),
    marked("lines"), marked("in file"), marked("names"), marked("rows"), marked("rejected"),
    marked("warnings"), marked("line"), marked("count"), marked("key"), marked("value"),
    marked("name"), marked("reason"), marked("column"), marked("table"), marked("entity"),
    marked("kept"), marked("given"), marked("type"), marked("ended"), marked("removed"),
    marked("searches"), marked("feedback"), marked("settings"), marked("insights"),
    marked("parameters"), marked("changes"), marked("imports"), marked("unchanged"),
    marked("seconds"), marked("embeddings"), marked("duplicates"), marked("files"),
    marked("blank"), marked("glued"), marked("beside"), marked("stubs"), marked("rejects"),
    marked("removed here"), marked("gone"), marked("missing"), marked("moved"), marked("restored"),
    marked("refused"), marked("shared"), marked("vectors"), marked("access counts"),
    marked("access log"), marked("type conflict count"), marked("unreadable count"),
    marked("near equal count"), marked("replaced texts"), marked("kept confidence"),
    marked("columns"),
)  # fmt: skip
RESULTS = (
    *("created", "added", "merged", "updated", "replaced", "already_there", "reopened"),
    *("skipped", "dangling"),
)
# What a file held, beside what became of it.
GIVEN = ("lines", "in_file", "names", "rows")
OWN_COLUMNS = 2
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def visible(value: Any, most: int) -> str:
    """The beginning of a text, with characters that are not seen or turn its direction escaped."""
    text = short("" if value is None else value, most)
    return _UNSEEN.sub(lambda m: m.group().encode("unicode_escape").decode(), text)


def raw(value: Any) -> dict[str, Any]:
    """The raw text of a reject: what shows at once, and the rest where there is more."""
    text = "" if value is None else str(value)
    if len(text) <= SHOWN_RAW and "\n" not in text:
        return {"text": visible(text, SHOWN_RAW), "more": None}
    return {
        "text": visible(short(" ".join(text[: 4 * SHOWN_RAW].split()), SHOWN_RAW - 1), SHOWN_RAW),
        "more": visible(text, MAX_SHOWN_RAW),
        "length": len(text),
    }


def cell(value: Any) -> str:
    """Any value in a table: numbers as such, a list as its items."""
    if isinstance(value, list):
        return " / ".join(visible(item, 120) for item in value[:8])
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return visible(value, 300)
    return number(value)


def moment(value: Any) -> str:
    """Day and minute of a stored time; the whole of it stands in a title attribute."""
    known = times.to_sql(value)
    if known is None:
        return _("unknown") if not value else visible(value, 20)
    return Markup('<time datetime="{}Z" title="{} UTC">{} UTC</time>').format(
        known.replace(" ", "T"), known, known[:16]
    )


def took(seconds: float | None) -> str | None:
    """``3.4 s``, ``2 min 5 s``, ``1 h 3 min``."""
    if seconds is None:
        return None
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms" if seconds else _("under 1 ms")
    if seconds < 60:
        return f"{figure(seconds, '.1f')} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{figure(whole // 3600)} h {whole % 3600 // 60} min"


def words(key: Any) -> str:
    """A key as words: ``already_there`` → ``already there``."""
    return _(visible(key, 60).replace("_", " "))


def title(key: str) -> str:
    found = _(TITLES[key]) if key in TITLES else words(key)
    return found[:1].upper() + found[1:]


def said(group: Any) -> str:
    """``12 created, 1 merged``: what became of a group, a dash where nothing did."""
    return ", ".join(_counted(key, n) for key, n in _results(group) if n) or "–"


def _counted(key: Any, count: Any) -> str:
    return _("%(n)s %(what)s") % {"n": number(count), "what": words(key)}


def columns(totals: dict[str, Any]) -> list[tuple[str, tuple[str, ...]]]:
    """Titles and groups of the columns: three of any import, then others that count.

    Where these are many, one column holds them.
    """
    others = [k for k in _groups(totals) if k not in GROUPS[:3] and any(_values(totals[k]))]
    found = [(title(key), (key,)) for key in GROUPS[:3]]
    if len(others) > OWN_COLUMNS:
        return [*found, (_("Also"), tuple(others[:MAX_GROUPS]))]
    return [*found, *((title(key), (key,)) for key in others)]


def column(figures: dict[str, Any], keys: tuple[str, ...]) -> str:
    """What one import has to say in a column."""
    if len(keys) == 1:
        return said(figures.get(keys[0]))
    texts = [(title(key), said(figures.get(key))) for key in keys]
    return "; ".join(f"{name}: {text}" for name, text in texts if text != "–") or "–"


def cards(figures: dict[str, Any]) -> list[dict[str, str]]:
    """One figure of each group in large, the others below it."""
    found = []
    for key in _groups(figures):
        results = _results(figures[key])
        if not results or not any(_values(figures[key])):
            continue
        (first, value), *rest = results
        more = ", ".join(_counted(name, n) for name, n in rest if n)
        heading = _("%(group)s %(what)s") % {"group": title(key), "what": words(first)}
        found.append({"title": heading, "value": number(value), "sub": more})
    return found[:MAX_GROUPS]


def groups(figures: dict[str, Any]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Every figure, in its group."""
    top = [(key, value) for key, value in figures.items() if not isinstance(value, dict)]
    parts: list[tuple[str, Iterable[tuple[str, Any]]]] = [(_("The file"), top)]
    known = [
        *_groups(figures),
        *(["warnings"] if isinstance(figures.get("warnings"), dict) else []),
    ]
    parts += [(title(key), figures[key].items()) for key in known[: 2 * MAX_GROUPS]]
    return [
        (name, shown)
        for name, items in parts
        if (shown := [(words(key), number(n)) for key, n in list(items)[:MAX_FIGURES]])
    ]


def dangling(figures: dict[str, Any]) -> float:
    """Relations of an import whose ends are no entities."""
    group = figures.get("relations")
    return group.get("dangling", 0) if isinstance(group, dict) else 0


def left_out_words(figures: dict[str, Any], kept: int) -> list[str]:
    """``6 lines rejected``, ``1 relation dangling``: the parts of what was left out."""
    parts = []
    if n := figures.get("rejected"):
        said = ngettext("%(n)s line rejected", "%(n)s lines rejected", n)
        parts.append(said % {"n": number(n)})
    for key in _groups(figures):
        for what in ("dangling", "skipped"):
            if n := figures[key].get(what):
                parts.append(_left_out(key, what, n))
    return parts or ([counting("%(n)s in the log", "%(n)s in the log", kept)] if kept else [])


def _left_out(group: str, what: str, count: Any) -> str:
    """``1 relation dangling``, ``3 observations skipped``."""
    said = {
        "relations": ngettext("%(n)s relation %(what)s", "%(n)s relations %(what)s", count),
        "observations": ngettext(
            "%(n)s observation %(what)s", "%(n)s observations %(what)s", count
        ),
        "entities": ngettext("%(n)s entity %(what)s", "%(n)s entities %(what)s", count),
    }
    other = _("%(n)s %(group)s %(what)s")
    values = {"n": number(count), "what": words(what), "group": title(group).lower()}
    return said.get(group, other) % values


def beyond(figures: dict[str, Any], kept: int) -> float:
    """How many were rejected, where the log holds fewer; else 0."""
    rejects = import_log.left_out({k: v for k, v in figures.items() if not isinstance(v, dict)})
    return rejects if rejects > kept else 0


def _groups(figures: dict[str, Any]) -> list[str]:
    """Keys of the groups of figures, known ones first; warnings are none."""
    there = [key for key, group in figures.items() if isinstance(group, dict)]
    return [key for key in GROUPS if key in there] + [
        key for key in there if key not in (*GROUPS, "warnings")
    ]


def _results(group: Any) -> list[tuple[str, Any]]:
    """What became of a group, the known in their order; what the file held is not part of it."""
    if not isinstance(group, dict):
        return []
    keys = [key for key in RESULTS if key in group]
    keys += [key for key in group if key not in (*RESULTS, *GIVEN)]
    return [(key, group[key]) for key in keys[:MAX_FIGURES]]


def _values(group: dict[str, Any]) -> list[Any]:
    return [n for _, n in _results(group)]
