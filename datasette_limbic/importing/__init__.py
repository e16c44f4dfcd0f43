"""Importing the memory files of other programs. See ``import_files``."""

from __future__ import annotations

from .reading import sniff
from .summary import ImportSummary
from .writing import import_files

__all__ = ["ImportSummary", "import_files", "sniff"]
