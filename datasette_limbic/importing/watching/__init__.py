"""Following memory files that grow or are written anew. See ``watch``."""

from .watcher import Watched, Watcher, watch

__all__ = ["Watched", "Watcher", "watch"]
