"""What ``datasette limbic split --children`` reads: a proposal as it was edited."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click

from ..errors import BadParameter

# What a proposal says of a child besides what a split takes.
_SAID = frozenset(("label", "terms", "firmness", "topic", "size"))
MAX_BYTES = 64 * 1024 * 1024


def read_file(path: str) -> tuple[list[Any], dict[str, Any]]:
    """The children of a split in a JSON file, ``-`` for standard input, and the rest of it.

    The file has a whole proposal, as ``split --json`` gives it (then the rest has its ``id``,
    ``basis`` and ``digest``), or its children alone. Raises BadParameter, naming the file; what is
    wrong with the children themselves is said by the split.
    """
    shown = named(path)
    try:
        with click.open_file(path, "rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise BadParameter(f"{shown} cannot be read: {error.strerror or error}") from error
    if len(raw) > MAX_BYTES:
        raise BadParameter(f"{shown} is larger than {MAX_BYTES // 1024**2} MiB: it is no proposal")
    try:
        found = json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise BadParameter(
            f"{shown} is no JSON ({error}): edit what 'datasette limbic split FILE ENTITY --json' "
            "gives"
        ) from error
    try:
        return read_children(found)
    except BadParameter as error:
        raise BadParameter(f"{shown} {error}") from error


def named(path: str) -> str:
    """The file for a sentence."""
    return "standard input" if path == "-" else path


def read_children(found: Any) -> tuple[list[Any], dict[str, Any]]:
    """The children of a proposal, or of a list of them, as a split takes them; and the rest of the
    proposal. Observations are ids, or objects with an ``id``. Raises BadParameter."""
    rest: dict[str, Any] = {}
    if isinstance(found, dict):
        rest = {name: value for name, value in found.items() if name != "children"}
        found = found.get("children")
    if not isinstance(found, list):
        raise BadParameter(
            "has no list of children: give what 'datasette limbic split FILE ENTITY --json' gives, "
            "or its children alone"
        )
    return [_child(each) for each in found], rest


def _child(asked: Any) -> Any:
    if not isinstance(asked, Mapping):
        return asked
    child = {name: value for name, value in asked.items() if name not in _SAID}
    if child.get("entityType") == "":  # a parent without a type has such children
        child["entityType"] = None
    if isinstance(child.get("observations"), list):
        child["observations"] = [
            each["id"] if isinstance(each, Mapping) and "id" in each else each
            for each in child["observations"]
        ]
    return child
