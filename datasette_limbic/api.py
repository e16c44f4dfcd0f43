"""The public Python API: what a program of your own imports.

    from datasette_limbic.api import connect, search

Its names stay; everything else in the package may move.
"""

from .config import Settings
from .connection import connect
from .entity import entity_detail
from .exporting import export_full, export_mcp
from .importing import import_files
from .integrity import check
from .routing import detect_query_type
from .schema import init
from .scoring import (
    Parameters,
    compute_cooc_boost,
    compute_importance,
    compute_temporal_factor,
    rank_candidates,
    rank_hybrid_candidates,
    reciprocal_rank_fusion,
)
from .search import search
from .serving import open_nodes, rate, search_semantic
from .signals import record_access, record_co_occurrences
from .status import status
from .sync import sync

__all__ = [
    "Parameters",
    "Settings",
    "check",
    "compute_cooc_boost",
    "compute_importance",
    "compute_temporal_factor",
    "connect",
    "detect_query_type",
    "entity_detail",
    "export_full",
    "export_mcp",
    "import_files",
    "init",
    "open_nodes",
    "rank_candidates",
    "rank_hybrid_candidates",
    "rate",
    "reciprocal_rank_fusion",
    "record_access",
    "record_co_occurrences",
    "search",
    "search_semantic",
    "status",
    "sync",
]
