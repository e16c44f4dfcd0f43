"""The retrievers that come with the package; the hook returns them."""

from __future__ import annotations

from .approximate import Approximate
from .in_memory import Memory
from .model import Retriever
from .postgres import Postgres
from .vec0 import Vec0

RETRIEVERS: tuple[Retriever, ...] = (Approximate(), Memory(), Vec0(), Postgres())
