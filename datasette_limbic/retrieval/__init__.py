"""Retrieval: what turns a query into candidates, before the one statement that ranks them."""
