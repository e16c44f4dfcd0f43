"""What pages say of who brings the candidates, and of the approximate index."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from .. import i18n
from ..i18n import gettext, marked
from ..i18n import gettext as _
from ..retrieval.building import WORTH_FROM
from ..retrieval.plugins import AUTO
from .display import isolated

# retriever → what it is called
TITLES = {
    "approximate": marked("Approximate index"),
    "memory": marked("Matrix in memory"),
    "vec0": "sqlite-vec",
    "postgres": "PostgreSQL",
}
# retriever → who found the nearest, in a sentence
FOUND_BY = {
    "approximate": marked("the approximate index"),
    "memory": marked("comparing all in memory"),
    "vec0": marked("comparing all with sqlite-vec"),
    "postgres": "PostgreSQL",
}


def overview(found: dict[str, Any] | None) -> dict[str, Any] | None:
    """What the overview shows of ``status()["vectors"]["retrieval"]``; None before there are
    vectors."""
    if found is None or found["serves"] is None:
        return None
    built = found["approximate"]
    ready = built is not None and built["state"] == "ready"
    return {
        "serves": _named(TITLES, found["serves"]),
        "setting": found["retriever"],
        "reasons": [*found["reasons"], *([found["due"]] if found["due"] else [])],
        "hint": built is None and found["retriever"] == AUTO and found["vectors"] >= WORTH_FROM,
        "begun": built if built is not None and not ready else None,
        "cards": _cards(built) if ready else [],
    }


def found_by(retriever: str | None, recall: float | None) -> str | None:
    """Who found the nearest of a search, and what share of them; None where nobody did."""
    if retriever is None:
        return None
    who = _named(FOUND_BY, retriever)
    if recall is None:
        return who
    return Markup(_("%(who)s, which finds %(share)s of the nearest")) % {
        "who": who,
        "share": _share(recall),
    }


def _named(titles: dict[str, str], name: str) -> str:
    """A retriever of a plugin is called as the setting calls it."""
    return gettext(titles[name]) if name in titles else isolated(name, 40)


def _cards(built: dict[str, Any]) -> list[dict[str, Any]]:
    """Figures of an index that is ready: ``title``, ``value``, ``more`` and, for a time, ``at``."""
    cards = []
    if built["recall"]:
        of_ten, of_thirty = (_share(built["recall"][depth]) for depth in ("10", "30"))
        cards += [
            {
                "title": _("Recall"),
                "value": of_thirty,
                "more": _("of the nearest 30; of the nearest 10 %(share)s") % {"share": of_ten},
            },
            {
                "title": _("Questions it was measured with"),
                "value": i18n.figure(built["questions"]),
                "more": _("target %(share)s") % {"share": _share(built["target_recall"])},
            },
        ]
    cards += [
        {
            "title": _("Vectors in it"),
            "value": i18n.figure(built["vectors"]),
            "more": _("%(n)s MB") % {"n": i18n.figure(built["bytes"] / 1e6, ",.1f")},
        },
        {
            "title": _("Built"),
            "at": built["built_at"],
            "more": _("in %(n)s s") % {"n": i18n.figure(built["seconds"], ",.0f")},
        },
    ]
    return cards


def _share(value: float) -> str:
    return i18n.figure(value, ".1%")
