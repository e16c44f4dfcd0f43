"""What to do after a refusal: what would have to be recorded for the log to tell more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SEARCHES = (
    "Let agents search with POST search, or on the command line with 'datasette limbic record "
    "search': those searches are recorded, and what is looked at with GET is not"
)
_LABELS = (
    "Let agents open results with the id of their search, and rate them where they can tell: "
    "without that nothing says which result was the right one"
)
_MORE = "Go on recording: more searches, by more clients and about more things, tell more"
_KEEP = (
    "What is in force may well be right: nothing in this log speaks against it. Look again when "
    "there is more of it"
)
_SAME = (
    "Go on recording under what is in force: searches that other parameters ranked can be used "
    "where the baseline is served now and then, and not otherwise"
)
_RANDOM = (
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
