"""The forms and links of the search page: what is asked, and the sliders that vary the ranking."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from .. import request
from ..config import FUSIONS, MODES, RECENCIES, STRATEGIES
from ..i18n import gettext as _
from ..i18n import marked
from ..routing import STRATEGIES as WEIGHTS
from .common import Page

# What the search form has a field for; any other argument of the URL it carries on unseen.
FORM_FIELDS = ("q", "type", "limit", "mode", "recency", "fusion", "as_of", "include_archived")
# What the sliders vary.
VARIED = ("beta_sal", "gamma", "strategy")
# name, sign, title, and the end of the slider
SLIDERS = (
    ("beta_sal", "β", marked("Salience"), 2.0),
    ("gamma", "γ", marked("Co-occurrence"), 0.2),
)


def stored_query(asked: request.Request) -> str:
    """URL query of the stored query page for this search."""
    return urlencode(asked.varied())


def add_links(answer: dict[str, Any], here: Page) -> None:
    """Add the links to the same search with and without something."""
    # with the id of a logged search, whose ratings both show
    same = {k: v for k, v in here.given.items() if k != "explain"}
    args = {k: v for k, v in same.items() if k != "search_id"}

    def link(given: Mapping[str, Any], anchor: str = "") -> str:
        return here.url("/search?") + urlencode(given) + anchor

    answer["_explain_url"] = link({**same, "explain": 1}, "#limbic-losers")
    answer["_plain_url"] = link(same)
    answer["_unfiltered_url"] = link({k: v for k, v in args.items() if k not in ("type", "as_of")})
    answer["_reset_url"] = link({k: v for k, v in here.given.items() if k not in VARIED})


def add_form(
    answer: dict[str, Any], here: Page, asked: request.Request, in_force: request.Request
) -> None:
    """Add the values of both forms: of the search as it was asked, whose strategy another may have
    replaced. ``in_force`` is the same search without what the sliders vary.
    """
    args = {k: v for k, v in here.given.items() if k not in ("explain", "search_id")}
    answer["_given"] = here.given
    answer["_opened"] = bool(set(args) & set(FORM_FIELDS) - {"q"})
    answer["_carried"] = [
        (name, args[name]) for name in request.ARGUMENTS if name in args and name not in FORM_FIELDS
    ]
    answer["_kept"] = [
        (name, here.given[name])
        for name in request.ARGUMENTS
        if name in here.given and name not in VARIED
    ]
    answer["_defaults"] = {
        name: getattr(here.settings, name) for name in ("mode", "recency", "fusion")
    }
    answer["_options"] = {"mode": MODES, "recency": RECENCIES, "fusion": FUSIONS}
    answer["_sliders"] = [
        _slider(name, sign, _(title), top, asked, in_force) for name, sign, title, top in SLIDERS
    ]
    answer["_strategies"] = [
        {"name": name, "text": _strategy_text(name), "selected": name == asked.strategy}
        for name in STRATEGIES
    ]
    answer["_strategy_in_force"] = in_force.strategy


def _slider(
    name: str,
    sign: str,
    title: str,
    top: float,
    asked: request.Request,
    in_force: request.Request,
) -> dict[str, Any]:
    value, default = getattr(asked.parameters, name), getattr(in_force.parameters, name)
    return {
        **{"name": name, "sign": sign, "title": title},
        "max": _exact(max(top, value, default)),
        "value": _exact(value),
        "default": _exact(default),
        "value_text": f"{value:.4g}",
        "default_text": f"{default:.4g}",
    }


def _exact(value: float) -> str:
    """A number that a form sends back as it was: rounded, it would count as another one."""
    return repr(float(value)).removesuffix(".0")


def _strategy_text(name: str) -> str:
    if name == "auto":
        return _("auto: the query decides")
    of_base, of_limbic = WEIGHTS[name]
    return _("%(strategy)s: %(base)s similarity, %(limbic)s limbic score") % {
        "strategy": name,
        "base": f"{of_base:.0%}",
        "limbic": f"{of_limbic:.0%}",
    }
