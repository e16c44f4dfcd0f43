"""The NDJSON export of Engrama."""

from .source import ENGRAMA, EngramaSource, engrama_source, is_read

__all__ = ["ENGRAMA", "EngramaSource", "engrama_source", "is_read"]
