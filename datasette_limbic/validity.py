"""What holds at a time: conditions in SQL, in the terms of a search's ``as_of``."""

from __future__ import annotations


def valid(alias: str) -> str:
    """SQL: whether a row holds at ``:at``, in the terms of a search's ``as_of``: 0 or 1."""
    return (
        f"coalesce(julianday({alias}.valid_to) > julianday(:at), 1)"
        f" and coalesce(julianday({alias}.valid_from) <= julianday(:at), 1)"
    )


def ended(alias: str) -> str:
    """SQL: whether a row was over at ``:at``; one of an end that cannot be read is not."""
    return f"coalesce(julianday({alias}.valid_to) <= julianday(:at), 0)"
