"""What to say beside a verdict: what did not count, and what to do after a refusal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..i18n import marked
from ..text import counted

_SEARCHES = marked(
    "Let agents search with POST search, or on the command line with 'datasette limbic record "
    "search': those searches are recorded, and what is looked at with GET is not"
)
_LABELS = marked(
    "Let agents open results with the id of their search, and rate them where they can tell: "
    "without that nothing says which result was the right one"
)
_MORE = marked("Go on recording: more searches, by more clients and about more things, tell more")
_KEEP = marked(
    "What is in force may well be right: nothing in this log speaks against it. Look again when "
    "there is more of it"
)
_SAME = marked(
    "Go on recording under what is in force: searches that other parameters ranked can be used "
    "where the baseline is served now and then, and not otherwise"
)
_RANDOM = marked(
    "Serve the baseline now and then, or more often (the setting baseline_share, such as 0.1): "
    "which order is served is then chance, and the estimate is free of the bias for what is in "
    "force"
)
# codes of ``proposing``; what is not here wants more of everything
_ADVICE = {
    "events": _SEARCHES,
    "labels": _LABELS,
    "parameters": _SAME,
    "flat": _KEEP,
    "no_better": _KEEP,
    "tie": _KEEP,
    "step": _KEEP,
}

NO_ESTIMATE = ("events", "labels", "parameters")
"""Codes of refusals before anything is estimated: what an estimate rests on is no part of them."""
# groups of labels (``estimating.GROUPS``): how a sentence calls them, and their labels
_GROUPS = {
    "opened": ("opened or rated", ("opened", "useful")),
    "reaccessed": ("opened again later", ("reaccessed",)),
}


def not_counted(proposal: Mapping[str, Any], counts: Mapping[str, Any]) -> list[str]:
    """Sentences without a full stop: labels that the estimate leaves out though there are some.

    ``proposal`` as ``Proposal.as_dict`` and ``counts`` as ``labels.counts`` give them.
    """
    kinds = [
        words
        for name, (words, labels) in _GROUPS.items()
        if name in proposal["not_used"] and any(counts["labels"][label] for label in labels)
    ]
    if not kinds:
        return []
    return [
        f"Not counted: results {' or '.join(kinds)}, since how much their rank mattered is not "
        "known well enough"
    ]


def not_shown(counts: Mapping[str, Any]) -> list[str]:
    """Sentences without a full stop: labels that count nothing, being about what the search had
    not shown. ``counts`` as ``labels.counts`` gives them."""
    unshown = counts["unshown_ratings"] + counts["unshown_opened"]
    if not unshown:
        return []
    return [f"Not counted: {counted(unshown, 'label', 'labels')} of what the search had not shown"]


def advice(proposal: Mapping[str, Any]) -> list[str]:
    """Sentences without a full stop, the most useful first; of ``Proposal.as_dict``.

    Empty where something is proposed.
    """
    refusal = proposal["refusal"]
    if refusal is None:
        return []
    found = [_ADVICE.get(refusal["code"], _MORE)]
    if proposal["biased"] and refusal["code"] not in ("events", "labels"):
        found.append(_RANDOM)
    return found
