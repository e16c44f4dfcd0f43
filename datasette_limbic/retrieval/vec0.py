"""The retriever ``vec0``: exact, by sqlite-vec, in SQL alone. It needs no memory of its own."""

from __future__ import annotations

from .. import statement
from .model import Retriever


class Vec0(Retriever):
    """KNN over the vec0 table: works from the first search on, in any process."""

    name = "vec0"
    sql = statement.nearest_vec0()
