"""The retrievers that there are: those of the hook ``limbic_retrievers``, by name."""

from __future__ import annotations

import logging
import re
from functools import cache
from typing import Any

from ..errors import BadParameter
from . import hookspecs
from .model import Retriever

log = logging.getLogger("datasette_limbic")

AUTO = "auto"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")


def retrievers() -> dict[str, Retriever]:
    """Every retriever by its name; the built-in ones first. Of two of one name the first counts."""
    from .builtin import RETRIEVERS

    found: dict[str, Retriever] = {}
    for group in [RETRIEVERS, *_hook()]:
        for retriever in group:
            if not isinstance(retriever, Retriever):
                log.error("a retriever is left out: %.100r is no object of Retriever", retriever)
            elif not _NAME.fullmatch(str(retriever.name)) or retriever.name == AUTO:
                log.error(
                    "the retriever %r is left out: a name is lower case, of letters, digits and _",
                    retriever.name,
                )
            elif found.setdefault(retriever.name, retriever) is not retriever:
                log.error("a second retriever %r is left out", retriever.name)
    return found


def retriever(name: str) -> Retriever:
    """The retriever of that name. Raises BadParameter, naming those there are."""
    found = retrievers()
    if name not in found:
        raise BadParameter(
            f"there is no retriever {name!r}: use {AUTO} or one of {', '.join(sorted(found))}, "
            "or install the plugin that brings it"
        )
    return found[name]


def _hook() -> list[list[Any]]:
    """What each plugin brings, in the order in which they were registered.

    One by one: a plugin that fails brings nothing, and takes nothing from the others.
    """
    found = []
    for plugin in _plugins().hook.limbic_retrievers.get_hookimpls():
        try:
            found.append(list(plugin.function() or ()))
        except Exception:
            log.exception("the plugin %s brings no retriever", plugin.plugin_name)
    return found


@cache
def _plugins():  # type: ignore[no-untyped-def]
    # Datasette's own plugin manager. Not at the top: importing it loads every plugin, and this
    # package is one of them.
    from datasette.plugins import pm

    pm.add_hookspecs(hookspecs)
    return pm
