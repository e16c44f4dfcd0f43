"""The form in which a person merges a cluster of duplicates: which one stays, and which go."""

from __future__ import annotations

from typing import Any

from ..answers import plain
from ..duplicates.stars import by_pairs
from ..reports.similar import Alike, Asked
from .duplicates_display import SHOWN_IDS, cut


def decorate(data: dict[str, Any], asked: Asked, alike: Alike) -> None:
    """Give each cluster of an answer its ``_members``, the one suggested to stay first.

    Those that make a pair with that one go; whoever hangs in the cluster through others alone is
    left for a person to tick. ``_unseen`` are those that go and are too many to be shown.
    """
    known = {each.id: each for each in asked.observations}
    says = by_pairs(alike.lists["pairs"], asked.observations)
    for cluster in data["clusters"]:
        kept = cluster["survivor"]["id"]
        others = sorted(
            (i for i in cluster["ids"] if i != kept), key=lambda i: (not says(kept, i), i)
        )
        ids = [kept, *others]
        cluster["_members"] = [
            {
                "id": i,
                "text": cut(known[i].content),
                "created_at": plain(known[i].created_at),
                "kept": i == kept,
                "goes": i == kept or says(kept, i),
            }
            for i in ids[: SHOWN_IDS + 1]
        ]
        cluster["_unseen"] = [i for i in ids[SHOWN_IDS + 1 :] if says(kept, i)]
        cluster["_arguments"] = {
            "entity": data["entity"]["id"],
            "clusters": [{"keep": kept, "remove": others}],
        }
