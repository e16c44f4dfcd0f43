"""Exporting a memory: the graph for MCP servers, or everything. See the two functions."""

from __future__ import annotations

from .full import export_full
from .mcp import export_mcp
from .summary import ExportSummary
from .tables import RESTORED

__all__ = ["RESTORED", "ExportSummary", "export_full", "export_mcp"]
