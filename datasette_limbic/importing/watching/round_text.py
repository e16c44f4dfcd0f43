"""What a round of following files did, as figures and on one line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ..summary import FileSummary

_WORDS = {
    "lines": ("line", "lines"),
    "entities_created": ("entity created", "entities created"),
    "entities_updated": ("entity updated", "entities updated"),
    "stubs": ("stub made", "stubs made"),
    "observations_added": ("observation added", "observations added"),
    "observations_updated": ("observation updated", "observations updated"),
    "relations_created": ("relation created", "relations created"),
    "relations_updated": ("relation updated", "relations updated"),
    "accesses_added": ("access added", "accesses added"),
    "rejected": ("rejected", "rejected"),
    "dangling": ("dangling", "dangling"),
}


def figures(file: FileSummary) -> Counter[str]:
    """What changed by one file in a round, and what could not be used."""
    return Counter(
        {
            "lines": file.lines,
            "entities_created": file.entities.created,
            # one that only got observations is told by them
            "entities_updated": file.entities.updated if not file.observations.added else 0,
            "stubs": file.stubs,
            "observations_added": file.observations.added,
            "observations_updated": file.observations.updated,
            "relations_created": file.relations.created,
            "relations_updated": file.relations.updated,
            "accesses_added": file.access.added,
            "rejected": file.rejected,
            "dangling": file.rejects - file.rejected,
        }
    )


def round_text(counts: Mapping[str, int]) -> str:
    """``2 lines, 1 entity created, 3 observations added, 1 rejected``; nothing that is zero."""
    return ", ".join(
        f"{counts[what]:,} {words[counts[what] != 1]}"
        for what, words in _WORDS.items()
        if counts.get(what) or what == "lines"
    )
