from __future__ import annotations

import json
import unicodedata
from contextlib import closing
from pathlib import Path

import pytest
from datasette.utils.sqlite import sqlite3
from hypothesis import example, given, settings
from hypothesis import strategies as st

from datasette_limbic.text import (
    MAX_TERMS,
    MOST_TOKENS,
    STOP_WORDS,
    cjk_runs,
    counted,
    fold,
    fts_query,
    fts_terms,
    fts_tokens,
    normalise,
    shows,
    storable,
    text_containment,
    word_tokens,
)

REFERENCE = json.loads((Path(__file__).parent / "reference" / "scoring.json").read_text("utf-8"))
HOSTILE = [
    '"',
    '""" unbalanced',
    "AND",
    "AND OR NOT",
    "NEAR(",
    "NEAR(a b, 3)",
    "*",
    "a*",
    "^a",
    "content: x",
    "{a b}: c",
    "-x",
    "a - b",
    "(((",
    "a'b;--",
    "x\x00y",
    "\x00",
    "\ud800lone",
    "🤖 🏳️‍🌈 👩🏽‍💻",
    "שלום עולם \u202eabc",
    "مرحبا",
    "हिन्दी",
    "a-" * 5000,
    '"' * 10000,
    "\u0301\u0301",
    "١٢٣",
    "\\",
    "%_",
]


def make_fts():
    conn = sqlite3.connect(":memory:")
    conn.execute("create virtual table t using fts5(x, tokenize='unicode61 remove_diacritics 2')")
    conn.execute("create virtual table v using fts5vocab(t, 'instance')")
    conn.execute("create virtual table tri using fts5(x, tokenize='trigram')")
    return conn


@pytest.fixture(scope="module")
def fts():
    conn = make_fts()
    yield conn
    conn.close()


@pytest.fixture
def documents():
    conn = make_fts()
    yield conn
    conn.close()


def check_accepted(conn, text):
    query = fts_query(text)
    assert "\x00" not in query
    assert len(fts_terms(text)) <= MAX_TERMS
    if query:
        conn.execute("select count(*) from t where t match ?", [query]).fetchone()
    for run in cjk_runs(text):
        conn.execute("select count(*) from tri where tri match ?", [f'"{run}"']).fetchone()


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text[:20]))
def test_hostile_queries_are_accepted(fts, text):
    check_accepted(fts, text)


@settings(max_examples=400, deadline=None)
@given(st.text(st.characters(), max_size=200))
@example("NEAR(a, b) AND \"x:* -y ^z'")
def test_any_query_is_accepted(text):
    conn = make_fts()
    try:
        check_accepted(conn, text)
    finally:
        conn.close()


@settings(deadline=None)
@given(st.lists(st.sampled_from(['"', "AND", "NEAR(", "*", "^", ":", "-", "ab", " ", "é", "用户"])))
def test_any_mix_of_syntax_is_accepted(parts):
    conn = make_fts()
    try:
        check_accepted(conn, "".join(parts))
    finally:
        conn.close()


# Letters and marks of the scripts most memories are in; SQLite's and Python's tables agree here.
SHARED = st.text(
    st.one_of(
        st.characters(min_codepoint=0x20, max_codepoint=0x17E),
        st.characters(min_codepoint=0x386, max_codepoint=0x3CE, categories=["L"]),
        st.characters(min_codepoint=0x400, max_codepoint=0x45F),
        st.sampled_from("用户身份漢字かなไทย한국"),
        st.sampled_from("\u0300\u0301\u0303\u0308"),
    ),
    max_size=40,
)


@settings(max_examples=300, deadline=None)
@given(SHARED)
@example("caffe\u0300 caffè CAFFÈ")
@example("ΌΣΟΣ όσος")
def test_tokens_are_those_of_fts5(text):
    # SQLite sees what is stored; queries are composed (NFC) first.
    text = unicodedata.normalize("NFC", text)
    conn = make_fts()
    try:
        conn.execute("insert into t(x) values (?)", [text])
        seen = [row[0] for row in conn.execute("select term from v order by offset")]
    finally:
        conn.close()
    assert fts_tokens(text) == seen


@settings(max_examples=200, deadline=None)
@given(SHARED)
@example("Υ\u0300πνος")
def test_a_text_finds_itself(text):
    # Latin letters are found in both Unicode forms (test_search); FTS5 leaves the accents of
    # other scripts alone, so decomposed Greek is another word to it.
    text = unicodedata.normalize("NFC", text)
    conn = make_fts()
    try:
        conn.execute("insert into t(x) values (?)", [text])
        query = fts_query(text)
        if query:
            found = conn.execute("select count(*) from t where t match ?", [query]).fetchone()
            assert found == (1,)
    finally:
        conn.close()


@pytest.mark.parametrize(
    ("text", "matches", "tokens"),
    [
        ("", [], []),
        ("POL-358", ['"POL-358"'], [("pol", "358")]),
        ("GB/s", ['"GB/s"'], [("gb", "s")]),
        ("38.101", ['"38.101"'], [("38", "101")]),
        ("health.base", ['"health.base"'], [("health", "base")]),
        (
            "don't use agents",
            ['"don\'t"', '"use"', '"agents"'],
            [("don", "t"), ("use",), ("agents",)],
        ),
        ("¿Qué despliegue falla?", ['"despliegue"', '"falla"'], [("despliegue",), ("falla",)]),
        ("¿qué es?", ['"qué"', '"es"'], [("que",), ("es",)]),
        ("the THE The", ['"the"'], [("the",)]),
        ("café CAFE cafe\u0301", ['"café"'], [("cafe",)]),
        ('say "hi"', ['"say"', '"hi"'], [("say",), ("hi",)]),
        ('5"x7"', ['"5""x7"'], [("5", "x7")]),
        ("*** --- !!!", [], []),
        ("p\x00q", ['"p"', '"q"'], [("p",), ("q",)]),
        ("用户身份", ['"用户身份"'], [("用户身份",)]),
    ],
)
def test_terms(text, matches, tokens):
    terms = fts_terms(text)
    assert [term.match for term in terms] == matches
    assert [term.tokens for term in terms] == tokens
    assert fts_query(text) == " OR ".join(matches)


@pytest.mark.parametrize(
    ("word", "cjk"), [("用户身份", True), ("用户ID", False), ("สวัสดี", True), ("word", False)]
)
def test_terms_say_which_are_in_scripts_without_spaces(word, cjk):
    assert fts_terms(word)[0].cjk is cjk


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        ("plain", []),
        ("用户身份", ["用户身份"]),
        ("用户ID和身份 用户", ["用户", "和身份"]),
        ("日本語のテスト", ["日本語のテスト"]),
        ("ภาษาไทย and ខ្មែរ", ["ภาษาไทย", "ខ្មែរ"]),
        ("မြန်မာ ລາວ", ["မြန်မာ", "ລາວ"]),
        ("한국어 텍스트", ["한국어", "텍스트"]),
    ],
)
def test_cjk_runs(text, runs):
    assert cjk_runs(text) == runs


@pytest.mark.parametrize(
    ("query", "stored"),
    [
        ("POL-358", "ticket POL-358 is open"),
        ("don't", "they don't use agents"),
        ("GB/s", "reads 3 GB/s"),
        ("38.101", "see TS 38.101 part 2"),
        ("health.base", "module health.base"),
        ("caffe\u0300", "un caffè"),
        ("caffè", "un caffe\u0300"),
        ("用户身份", "用户身份"),
        ("AND", "the AND gate"),
        ("🤖", "built by 🤖 yesterday"),
        ("the who", "the who concert"),
    ],
)
def test_queries_find_what_they_say(documents, query, stored):
    documents.execute("insert into t(x) values (?)", [stored])
    documents.execute("insert into t(x) values ('nothing of that kind')")
    rows = documents.execute("select x from t where t match ?", [fts_query(query)]).fetchall()
    assert rows == [(stored,)]


def test_phrases_keep_their_order(documents):
    documents.execute("insert into t(x) values ('358 pol')")
    query = fts_query("POL-358")
    assert documents.execute("select count(*) from t where t match ?", [query]).fetchone() == (0,)


def test_at_most_64_terms():
    terms = fts_terms(" ".join(f"w{i}" for i in range(500)))
    assert [term.match for term in terms] == [f'"w{i}"' for i in range(64)]


def test_terms_share_128_tokens():
    terms = fts_terms(" ".join(f"a{i}-b{i}-c{i}" for i in range(60)) + " one more two")
    assert [len(term.tokens) for term in terms] == [3] * 42 + [1, 1]
    assert sum(len(term.tokens) for term in terms) == MOST_TOKENS


def test_stop_words_are_folded():
    assert {fold(word) for word in STOP_WORDS} == STOP_WORDS
    assert {"the", "que", "tambien", "with"} < STOP_WORDS
    # A negation is never noise.
    assert not {"no", "not", "never", "nunca"} & STOP_WORDS


@pytest.mark.parametrize(
    ("text", "folded"),
    [("Sesión", "sesion"), ("ＡＢ", "ab"), ("ﬁn", "fin"), ("Ñandú", "nandu"), ("ПЁС", "пес")],
)
def test_fold(text, folded):
    assert fold(text) == folded


@given(st.text())
def test_fold_is_idempotent_and_blind_to_unicode_form(text):
    assert fold(fold(text)) == fold(text)
    assert fold(unicodedata.normalize("NFD", text)) == fold(unicodedata.normalize("NFC", text))


@pytest.mark.parametrize("case", REFERENCE["text_containment(a, b)"], ids=str)
def test_containment_reference(case):
    expected = case["expect"]
    result = text_containment(*case["args"])
    assert result == (None if expected is None else pytest.approx(expected, rel=1e-12))


def test_containment_in_scripts_without_spaces():
    assert text_containment("用户身份", "验证用户身份的服务") == 1.0
    assert text_containment("用户身份", "今天天气很好") == 0.0
    assert word_tokens("用户ID") == ["id", "用户"]


@given(st.text(), st.text())
def test_containment_is_a_symmetric_share(a, b):
    result = text_containment(a, b)
    assert result == text_containment(b, a)
    assert result is None or 0 <= result <= 1
    if word_tokens(a):
        assert text_containment(a, a) == 1.0
        assert text_containment(a, f"{a} {b}") == 1.0


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Hello  World.", "hello\nworld"),
        ("¿Funciona?", "funciona"),
        ("Straße", "STRASSE"),
        ("cafe\u0301", "CAFÉ"),
        ("“quoted”", "quoted"),
        ("ＡＢＣ", "abc"),
        ("- item", "item"),
    ],
)
def test_normalise_equal(a, b):
    assert normalise(a) == normalise(b)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("-5", "5"),
        ("5 %", "5"),
        ("uses C#", "uses C"),
        ("uses C++", "uses C"),
        (".5", "5"),
        (".NET", "NET"),
        ("???", "!!!"),
        ("si", "sí"),
        ("__init__", "init"),
        ("port 80", "port 81"),
    ],
)
def test_normalise_keeps_what_matters(a, b):
    assert normalise(a) != normalise(b)


@given(st.text())
def test_normalise_is_idempotent(text):
    assert normalise(normalise(text)) == normalise(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("sesión 🤖\x00", "sesión 🤖\x00"),
        ("\ud800", "\ufffd"),
        ("a\udfff\udcffb", "a\ufffd\ufffdb"),
    ],
)
def test_what_utf8_cannot_write_is_replaced(text, expected):
    assert storable(text) == expected


@given(st.text(st.characters(exclude_categories=())))
def test_stored_text_comes_back(text):
    cleaned = storable(text)
    with closing(sqlite3.connect(":memory:")) as conn:
        assert conn.execute("select ?", [cleaned]).fetchone()[0] == cleaned
    assert len(cleaned) == len(text)


@pytest.mark.parametrize(
    ("count", "expected"),
    [(0, "0 pairs"), (1, "1 pair"), (2, "2 pairs"), (1203, "1,203 pairs")],
)
def test_counted(count, expected):
    assert counted(count, "pair", "pairs") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a", True), ("字", True), ("👩\u200d💻", True), ("-", True),
     ("\u0301a", True), ("\ue000", True),
     ("", False), (" \u00a0\u3000", False), ("\u200b\ufeff", False), ("\u202e\u202c", False),
     ("\ufe0f", False), ("\U000e0100", False), ("\u3164\uffa0", False), ("\u2800", False),
     ("\x00\x1b", False), ("\ufffd", False)],
)  # fmt: skip
def test_whether_anything_shows(text: str, expected: bool) -> None:
    assert shows(text) is expected
