"""The SQLite file of an MCP Memory v2 server, of whatever age."""

from .source import FORMAT, McpV2Source, sqlite_source

__all__ = ["FORMAT", "McpV2Source", "sqlite_source"]
