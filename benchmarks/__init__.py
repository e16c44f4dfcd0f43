"""Benchmarks: how fast search, indexing, import, sync and start are, and how good retrieval is."""
