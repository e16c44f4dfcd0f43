"""The plugin hook of ours: other packages may bring candidates too."""

from __future__ import annotations

from collections.abc import Sequence

import pluggy

from .model import Retriever

hookspec = pluggy.HookspecMarker("datasette")


@hookspec
def limbic_retrievers() -> Sequence[Retriever]:  # type: ignore[empty-body]
    """Retrievers that the setting ``retriever`` may name; the built-in ones come this way too."""
