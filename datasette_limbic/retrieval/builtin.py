"""The retrievers that come with the package; the hook returns them."""

from __future__ import annotations

from typing import Any

from .approximate import Approximate
from .held import Held
from .in_memory import Memory
from .model import Retriever
from .postgres import Postgres
from .vec0 import Vec0

HELD: Held[Any] = Held()
"""What this process keeps of vectors and codes, of all files."""
RETRIEVERS: tuple[Retriever, ...] = (Approximate(HELD), Memory(HELD), Vec0(), Postgres())
