"""Pages under /{database}/-/limbic, each with a .json twin."""

from __future__ import annotations

from typing import Any

from .acting import acting_view
from .changes import change_page, changes_page
from .consolidation import consolidation_page
from .duplicates import duplicates_page, entity_duplicates_page
from .entity import entity_page
from .entity_graph import entity_graph_page
from .feedback import feedback_view
from .graph import graph_page
from .graph_full import full_map_view
from .health import health_page
from .imports import import_page, imports_page
from .insight import insight_view
from .observations import observations_view
from .open import open_view
from .overview import overview_page
from .reflecting import reflect_view
from .retuning import retuning_view
from .review import review_page
from .reviewed import reviewed_view
from .search import search_page
from .split import split_page
from .tuning import tuning_page
from .unknown import unknown_page

_FORMAT = r"(?P<format>\.json)?"
_BASE = r"^/(?P<database>[^/]+)/-/limbic"

ROUTES: list[tuple[str, Any]] = [
    (rf"{_BASE}{_FORMAT}/?$", overview_page),
    (rf"{_BASE}/search{_FORMAT}$", search_page),
    (rf"{_BASE}/open{_FORMAT}$", open_view),
    (rf"{_BASE}/feedback{_FORMAT}$", feedback_view),
    (rf"{_BASE}/observations{_FORMAT}$", observations_view),
    (rf"{_BASE}/entity/(?P<entity>[^/.]+){_FORMAT}$", entity_page),
    (rf"{_BASE}/entity/(?P<entity>[^/.]+)/graph{_FORMAT}$", entity_graph_page),
    (rf"{_BASE}/graph{_FORMAT}$", graph_page),
    (rf"{_BASE}/graph\.svg$", full_map_view),
    (rf"{_BASE}/split/(?P<entity>[^/.]+){_FORMAT}$", split_page),
    (rf"{_BASE}/consolidation{_FORMAT}$", consolidation_page),
    (rf"{_BASE}/duplicates{_FORMAT}$", duplicates_page),
    (rf"{_BASE}/duplicates/(?P<entity>[^/.]+){_FORMAT}$", entity_duplicates_page),
    (rf"{_BASE}/health{_FORMAT}$", health_page),
    (rf"{_BASE}/actions/(?P<name>[^/.]+){_FORMAT}$", acting_view),
    (rf"{_BASE}/changes{_FORMAT}$", changes_page),
    (rf"{_BASE}/changes/(?P<id>[^/.]+){_FORMAT}$", change_page),
    (rf"{_BASE}/review{_FORMAT}$", review_page),
    (rf"{_BASE}/review/(?P<id>[^/.]+){_FORMAT}$", insight_view),
    (rf"{_BASE}/reflect{_FORMAT}$", reflect_view),
    (rf"{_BASE}/reviewed{_FORMAT}$", reviewed_view),
    (rf"{_BASE}/tuning{_FORMAT}$", tuning_page),
    (rf"{_BASE}/tuning/apply{_FORMAT}$", retuning_view("apply")),
    (rf"{_BASE}/tuning/set{_FORMAT}$", retuning_view("set")),
    (rf"{_BASE}/tuning/rollback{_FORMAT}$", retuning_view("rollback")),
    (rf"{_BASE}/imports{_FORMAT}$", imports_page),
    (rf"{_BASE}/imports/(?P<id>[^/.]+){_FORMAT}$", import_page),
    # the last: what nothing else answers; with a slash at its end Datasette redirects first
    (rf"{_BASE}/(?P<unknown>.*?[^/]){_FORMAT}$", unknown_page),
]
