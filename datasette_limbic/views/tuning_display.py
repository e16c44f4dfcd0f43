"""What the template of the tuning page shows, worked out: words, charts, links, forms."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import urlencode

from .. import config, status
from ..i18n import figure, marked
from ..i18n import gettext as _
from ..tuning.advice import NO_ESTIMATE, advice, not_counted, not_shown
from . import heat_map, tuning_charts
from .common import Page
from .display import number
from .overview_display import RAISING
from .tuning_history import done, history, in_force, pair, short

LABELS = {
    "useful": marked("rated useful"),
    "opened": marked("opened"),
    "reaccessed": marked("opened again later"),
    "not_useful": marked("rated not useful"),
}
ARMS = {"limbic": marked("Limbic order"), "baseline": marked("Base similarity alone")}
ASKED = ("k", "beta_sal_range", "gamma_range")
"""What is asked, in a URL and in the body of a POST."""
_AS_SHARE = ("coverage",)


def entities(data: Mapping[str, Any]) -> set[int]:
    """The ids that the page names."""
    movers = data["movers"] or {"gain": (), "lose": ()}
    return {
        each["id"] for side in ("gain", "lose") for row in movers[side] for each in row["relevant"]
    }


def decorate(
    here: Page, data: dict[str, Any], given: Mapping[str, str], there: Collection[int]
) -> None:
    """Add what the template needs, under keys of its own: the rest belongs to others too.

    ``given`` are the texts that were asked with, which forms and links of the page carry on.
    """
    proposal, now = data["proposal"], data["in_force"]
    data["_carried"] = carried = {name: given[name] for name in ASKED if name in given}
    data["_asked"] = {name: given.get(name, "") for name in ASKED}
    data["_opened"] = bool(carried)
    data["_json_url"] = here.url("/tuning.json") + (f"?{urlencode(carried)}" if carried else "")
    data["_now"] = [_parameter(name, now[name]) for name in ("beta_sal", "gamma")]
    data["_warning"] = status.parameter_warning(now)
    data["_in_force"] = in_force(data)
    data["_verdict"] = _verdict(proposal, data["counts"])
    data["_labels"] = [(_(LABELS[name]), data["counts"]["labels"][name]) for name in LABELS]
    data["_policy"] = _policy(data["labels"])
    data["_not_shown"] = not_shown(data["counts"])
    data["_left_out"] = sorted(data["left_out"].items(), key=lambda item: -item[1])
    data["_arms"] = _arms(data["arms"])
    data["_difference"] = _gain(data["difference"], tuning_charts.gain_axis(data["difference"]))
    data["_strategies"] = _groups(data["strategies"], "strategy")
    data["_weeks"] = tuning_charts.week_bands(data["weeks"])
    data["_week_rows"] = _groups(data["weeks"][::-1], "week")
    data["_map"] = heat_map.heat_map(data["grid"])
    data["_movers"] = _movers(here, data, there)
    data["_history"] = history(here, data)
    data["_done"] = done(data, given.get("done"))


def _parameter(name: str, value: Any) -> dict[str, Any]:
    return {"name": name, "value": short(value), "exact": repr(value), "help": _(RAISING[name])}


def _policy(labels: Mapping[str, Any]) -> str:
    """The rules for labels, in a sentence."""
    values = {name: figure(value, "g") for name, value in labels.items()}
    return " ".join(
        (
            _(
                "Labels, version %(version)s: a result counts %(useful)s where it was rated "
                "useful, %(opened)s where it was opened from its search, %(reaccessed)s, less "
                "what chance brings, where the same client opened it by name within "
                "%(reaccess_hours)s h, and %(not_useful)s where it was rated not useful."
            )
            % values,
            _("The same query of the same client within %(repeat_minutes)s min is one search.")
            % values,
        )
    )


def _gain(found: Mapping[str, Any] | None, axis: float) -> dict[str, Any] | None:
    """A gain in words, and as a bar on an axis that goes so far to both sides of 0."""
    if found is None:
        return None
    return {
        "words": tuning_charts.words(found, signed=True),
        "bar": tuning_charts.gain_bar(found, axis),
        "clusters": found.get("clusters"),
    }


def _verdict(proposal: Mapping[str, Any], counts: Mapping[str, Any]) -> dict[str, Any]:
    refusal = proposal["refusal"]
    target, step = proposal["target"], proposal["step"]
    estimated = refusal is None or refusal["code"] not in NO_ESTIMATE
    axis = tuning_charts.gain_axis(proposal["gain"], proposal["step_gain"])
    found: dict[str, Any] = {
        "gain": _gain(proposal["gain"], axis),
        "step_gain": _gain(proposal["step_gain"], axis),
        "target": pair(target),
        "step": pair(step),
        "blend": tuning_charts.percent(proposal["blend"]),
        "how": _how(proposal) if estimated else None,
        "not_counted": not_counted(proposal, counts) if estimated else [],
        "facts": _facts(proposal),
        "meter": None,
        "next": [_(sentence) for sentence in advice(proposal)],
        "warning": status.parameter_warning(step) if step and proposal["proposed"] else None,
        "exact": None,
    }
    if proposal["proposed"]:
        found["exact"] = {name: repr(target[name]) for name in ("beta_sal", "gamma")}
        found["moves"] = [
            {
                "name": name,
                "now": short(proposal["in_force"][name]),
                "target": short(target[name]),
                "step": short(step[name]),
            }
            for name in ("beta_sal", "gamma")
        ]
        return found
    code = refusal["code"]
    found["meter"] = tuning_charts.meter(refusal["figure"], refusal["bound"])
    as_share = code in _AS_SHARE
    found["figure"], found["bound"] = (
        "–"
        if value is None
        else tuning_charts.percent(value)
        if as_share
        else figure(value, ",.4g")
        for value in (refusal["figure"], refusal["bound"])
    )
    return found


def _how(proposal: Mapping[str, Any]) -> str:
    if not proposal["biased"]:
        return _(
            "Unbiased: either order was served by chance, and what was seldom looked at for its "
            "rank counts for more"
        )
    if not proposal["reason"]:
        return _(
            "Biased in favour of what is in force, a replay of what it served. It may move by a "
            "factor of two at most"
        )
    return _(
        "Biased in favour of what is in force, a replay of what it served: %(reason)s. It may "
        "move by a factor of two at most"
    ) % {"reason": proposal["reason"]}


def _facts(proposal: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Figures of the estimate; those that were not come to are left out."""
    counts = proposal["counts"]
    sides = [counts.get(f"{side}_searches") for side in ("train", "holdout")]
    aside = None if None in sides else proposal["labelled"] - sum(sides)
    facts = [
        (_("Searches served in the limbic order"), counts.get("events")),
        (_("Usable searches with a used result"), proposal["labelled"]),
        (_("Distinct queries of these"), counts.get("queries")),
        (_("Days of clients of these"), counts.get("client_days")),
        (_("Earlier ones of these, which choose"), sides[0]),
        (_("Later ones of these, which decide"), sides[1]),
        (_("Set aside, since their query stands on the other side"), aside or None),
        (
            _("The later ones tell as much as"),
            _equal(proposal["effective_sample"]),
        ),
        (
            _("The parameters matter in so many of the usable ones"),
            None if proposal["coverage"] is None else tuning_charts.percent(proposal["coverage"]),
        ),
    ]
    return [(title, number(value)) for title, value in facts if value is not None]


def _equal(sample: float | None) -> str | None:
    if sample is None:
        return None
    return _("%(count)s equal ones") % {"count": figure(sample, ",.0f")}


def _figures(found: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **found,
        "words": tuning_charts.words(found["ndcg"]),
        "bar": tuning_charts.interval_bar(found["ndcg"], 0.0, 1.0),
    }


def _arms(arms: Any) -> list[dict[str, Any]]:
    """Both orders, as they were served and over all searches alike."""
    return [
        {"title": _(ARMS[arm["arm"]]), "kind": kind, **_figures(arm[kind])}
        for kind in ("served", "shadow")
        for arm in arms
    ]


def _groups(rows: Any, name: str) -> list[dict[str, Any]]:
    return [
        {"name": row[name], "arms": [{"arm": arm, **_figures(row[arm])} for arm in ARMS]}
        for row in rows
    ]


def _movers(here: Page, data: Mapping[str, Any], there: Collection[int]) -> dict[str, Any] | None:
    found = data["movers"]
    if found is None:
        return None
    target = data["proposal"]["target"] is not None
    return {
        "still": not target and data["grid"]["best"] == data["grid"]["in_force"],
        "counts": _moves(found, target),
        "sides": [
            (side, title, [_mover(here, row, there) for row in found[side]])
            for side, title in (("gain", _("Would gain most")), ("lose", _("Would lose most")))
        ],
    }


def _moves(found: Mapping[str, Any], is_target: bool) -> str:
    """How many searches another pair would rank otherwise."""
    shape = (
        _(
            "Under %(pair)s, the target: %(better)s would rank better, %(worse)s worse, %(same)s "
            "the same."
        )
        if is_target
        else _(
            "Under %(pair)s, the best cell of the grid: %(better)s would rank better, %(worse)s "
            "worse, %(same)s the same."
        )
    )
    counts = {name: number(found[name]) for name in ("better", "worse", "same")}
    return shape % {"pair": pair(found), **counts}


def _mover(here: Page, row: Mapping[str, Any], there: Collection[int]) -> dict[str, Any]:
    query = row["query"]
    asks = isinstance(query, str) and query.strip() and len(query) <= config.MAX_QUERY
    return {
        **row,
        "url": here.url("/search?") + urlencode({"q": query}) if asks else None,
        "used": [
            {
                **each,
                "label": _(LABELS.get(each["label"], each["label"])),
                "url": here.url(f"/entity/{each['id']}") if each["id"] in there else None,
            }
            for each in row["relevant"]
        ],
    }
