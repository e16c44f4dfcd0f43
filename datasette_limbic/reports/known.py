"""What is not known of a memory whose observations were never compared, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

EARLIER = (
    "this file was made by an earlier version and keeps no reports: run 'datasette limbic init' "
    "on it, then 'datasette limbic sync'"
)
NOT_LOOKED_AT = "not looked at yet: run 'datasette limbic sync'"


def why_unknown(kept: Mapping[str, Any] | None) -> str | None:
    """Why nothing is known of pairs and topics; None where it is.

    ``kept`` is that of ``keeping.state``, or None in a file without the tables for it. Before the
    first look at all of it has ended, there may be pairs, such as those of what was added since:
    how many there are of all is not known, and 0 least of all.
    """
    if kept is None:
        return EARLIER
    return None if kept["computed_at"] else NOT_LOOKED_AT
