"""PostgreSQL with pgvector as a retriever: for memories that one machine cannot hold.

``datasette limbic sync`` pushes vectors, text and filters (``push``); a search asks the server
for candidates (``searching``), and what the server does not have yet is searched here. The file
stays the truth: what stands on the server can be dropped and pushed again.
"""

from __future__ import annotations

from .searching import Postgres

__all__ = ["Postgres"]
