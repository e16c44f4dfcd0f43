"""The public Python API: what a program of your own imports.

    from datasette_limbic.api import connect, search

Its names stay; everything else in the package may move.
"""

from .actions.acting import act
from .actions.functions import (
    archive_entity,
    correct_confidence,
    delete_observations,
    end_observation,
    end_relation,
    execute_entity_split,
    merge_entities,
    merge_observations,
    restore_entity,
    undo_change,
)
from .actions.log import change_detail, changes_log
from .adding import add_observations
from .config import Settings
from .connection import connect
from .entity import entity_detail
from .exporting import export_full, export_mcp
from .health import health_report
from .importing import import_files
from .insights.deciding import decide, dismiss, reopen
from .insights.queue import insight, insights
from .insights.reflecting import reflect
from .integrity import check
from .reports.consolidation import consolidation_report
from .reports.similar import find_duplicate_observations
from .reports.similar_graph import find_duplicates
from .reports.splits import analyze_entity_split, find_split_candidates, propose_entity_split
from .retrieval.model import Candidate, Hit, Retriever, Wanted
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
from .tuning.functions import (
    analyze_searches,
    apply_parameters,
    parameters_history,
    parameters_in_force,
    propose_parameters,
    rollback_parameters,
    set_parameters,
)

__all__ = [
    "Candidate",
    "Hit",
    "Parameters",
    "Retriever",
    "Settings",
    "Wanted",
    "act",
    "add_observations",
    "analyze_entity_split",
    "analyze_searches",
    "apply_parameters",
    "archive_entity",
    "change_detail",
    "changes_log",
    "check",
    "compute_cooc_boost",
    "compute_importance",
    "compute_temporal_factor",
    "connect",
    "consolidation_report",
    "correct_confidence",
    "decide",
    "delete_observations",
    "detect_query_type",
    "dismiss",
    "end_observation",
    "end_relation",
    "entity_detail",
    "execute_entity_split",
    "export_full",
    "export_mcp",
    "find_duplicate_observations",
    "find_duplicates",
    "find_split_candidates",
    "health_report",
    "import_files",
    "init",
    "insight",
    "insights",
    "merge_entities",
    "merge_observations",
    "open_nodes",
    "parameters_history",
    "parameters_in_force",
    "propose_entity_split",
    "propose_parameters",
    "rank_candidates",
    "rank_hybrid_candidates",
    "rate",
    "reciprocal_rank_fusion",
    "record_access",
    "record_co_occurrences",
    "reflect",
    "reopen",
    "restore_entity",
    "rollback_parameters",
    "search",
    "search_semantic",
    "set_parameters",
    "status",
    "sync",
    "undo_change",
]
