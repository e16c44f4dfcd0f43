"""Tuning of ``beta_sal`` and ``gamma`` from the log of recorded searches.

It reads what was logged and what became of it, proposes or refuses with a figure, and changes
nothing: a person applies. See docs/tuning.md.
"""
