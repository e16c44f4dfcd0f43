"""Pages under /{database}/-/limbic, each with a .json twin."""

from __future__ import annotations

from typing import Any

from .entity import entity_page
from .feedback import feedback_view
from .imports import import_page, imports_page
from .open import open_view
from .overview import overview_page
from .search import search_page
from .unknown import unknown_page

_FORMAT = r"(?P<format>\.json)?"
_BASE = r"^/(?P<database>[^/]+)/-/limbic"

ROUTES: list[tuple[str, Any]] = [
    (rf"{_BASE}{_FORMAT}/?$", overview_page),
    (rf"{_BASE}/search{_FORMAT}$", search_page),
    (rf"{_BASE}/open{_FORMAT}$", open_view),
    (rf"{_BASE}/feedback{_FORMAT}$", feedback_view),
    (rf"{_BASE}/entity/(?P<entity>[^/.]+){_FORMAT}$", entity_page),
    (rf"{_BASE}/imports{_FORMAT}$", imports_page),
    (rf"{_BASE}/imports/(?P<id>[^/.]+){_FORMAT}$", import_page),
    # the last: what nothing else answers; with a slash at its end Datasette redirects first
    (rf"{_BASE}/(?P<unknown>.*?[^/]){_FORMAT}$", unknown_page),
]
