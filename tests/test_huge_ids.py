"""Ids that SQLite cannot hold: nothing has them, and each function says so."""

from __future__ import annotations

from contextlib import closing

import pytest
from duplicates_helpers import made

from datasette_limbic import api, connection
from datasette_limbic.errors import UnknownEntity

HUGE = (2**63, -(2**63) - 1, 2**70, -(10**400))
ASKED = (
    "entity_detail",
    "find_duplicate_observations",
    "analyze_entity_split",
    "propose_entity_split",
)


@pytest.fixture(name="conn")
def memory(tmp_path):
    with closing(connection.connect(made(tmp_path / "memory.db"))) as conn:
        yield conn


@pytest.mark.parametrize("number", [*HUGE, 2**63 - 1, -(2**63), 0, 99])
@pytest.mark.parametrize("function", ASKED)
def test_no_entity_has_it(function, number, conn):
    with pytest.raises(UnknownEntity, match=f"no entity with the id {str(number)[:20]}"):
        getattr(api, function)(conn, number)


@pytest.mark.parametrize("number", HUGE)
def test_nothing_is_added_to_it(number, conn):
    answer = api.add_observations(conn, [{"id": number, "contents": ["likes tea"]}])
    assert answer["counts"] == {"added": 0, "skipped": 0, "rejected": 1, "flagged": 0}
    assert "too large" in answer["rejected"][0]["error"]
