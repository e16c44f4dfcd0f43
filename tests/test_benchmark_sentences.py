"""What the benchmarks read: WordNet's files, HTML, POD and dictionaries, a few lines of each."""

from __future__ import annotations

from contextlib import closing
from pathlib import PurePosixPath

import numpy
import pytest

from benchmarks import corpus, prose, synsets, vector_cache, wordnet
from datasette_limbic import connection, llm_store, schema
from datasette_limbic.stop_words import STOP_WORDS

LICENCE = "  1 This software and database is being provided to you, the LICENSEE  \n"
NOUNS = (
    '00001740 05 n 02 dog 0 domestic_dog 0 003 @ 00002000 n 0000 #m 00003000 n 0000 ! 00003000 n'
    ' 0101 | a member of the genus Canis; occurs in many breeds; "the dog barked all night"; "a'
    ' dog, they say"  ',
    "00002000 05 n 01 Animal 0 002 ~ 00001740 n 0000 @ 00002000 n 0000 | a living thing  ",
    "00003000 14 n 0a a 0 b 0 c 0 d 0 e 0 f 0 g 0 h 0 i 0 j 0 002 %m 00001740 n 0000 ! 00001740 n"
    " 0101 | dogs together",
)  # fmt: skip
ADJECTIVE = '00001000 00 s 01 afraid(p) 0 000 | "they stayed outside'

PAGE = """<html><head><title>Not this one of the head.</title></head><body>
<nav><p>Go to the next page of the manual now.</p></nav>
<h1>1.2. Files&nbsp;and <em>folders</em>&para;</h1>
<p>The method <code>open()</code> gives you a file
   that can be read. It is closed when the block ends, e.g. Always by the end.
<p>Too short a one.</p><pre>The code of a sample is not for the reader.</pre>
<h3>Cells</h3><table><tr><td>The first cell of the table says this.
<td>And the second cell says that to you.</table>
<p>A line<br>that breaks is still one of the lines.</p>
<script>var a = "The script says nothing to a reader.";</script>
</body></html>"""


def test_a_synset_is_read_with_words_gloss_and_pointers():
    dog, animal, pack = map(synsets.parse_synset, NOUNS)
    assert (dog.key, dog.kind, dog.words) == (("n", 1740), "noun.animal", ["dog", "domestic dog"])
    assert dog.definition == "a member of the genus Canis; occurs in many breeds"
    assert dog.examples == ["the dog barked all night", "a dog, they say"]
    assert len(pack.words) == 10, "counts of words are hexadecimal"
    assert synsets.relations([dog, animal, pack]) == [
        (0, 1, "is_a"),
        (0, 2, "member_of"),
        (0, 2, "antonym_of"),
    ]


def test_a_satellite_adjective_loses_its_marker_and_an_open_quote_ends_with_the_line():
    found = synsets.parse_synset(ADJECTIVE)
    assert (found.key, found.words) == (("a", 1000), ["afraid"])
    assert (found.definition, found.examples) == ("", ["they stayed outside"])


def test_the_whole_of_a_folder_has_unique_names(tmp_path):
    index = (
        "dog n 2 1 @ 2 1 00009999 00001740  \nanimal n 1 0 1 0 00002000  \na n 1 0 1 0 00003000  \n"
    )
    for name in ("noun", "verb", "adj", "adv"):
        lines = NOUNS if name == "noun" else ()
        (tmp_path / f"data.{name}").write_text(LICENCE + "\n".join(lines), "utf-8")
        (tmp_path / f"index.{name}").write_text(LICENCE + (index if lines else ""), "utf-8")
    names = [synset.name for synset in synsets.read(tmp_path).synsets]
    assert names == ["dog (noun 2)", "Animal (noun 1)", "a (noun 1)"]
    (tmp_path / "data.noun").unlink()
    with pytest.raises(FileNotFoundError, match="wordnet-base"):
        synsets.read(tmp_path)


def test_prose_of_a_page_is_kept_and_nothing_else():
    assert prose.sentences_of(PAGE, PurePosixPath("a/some_page.html")) == [
        ("Files and folders", "The method open() gives you a file that can be read."),
        ("Files and folders", "It is closed when the block ends, e.g. Always by the end."),
        ("Files and folders: Cells", "The first cell of the table says this."),
        ("Files and folders: Cells", "And the second cell says that to you."),
        ("Files and folders: Cells", "A line that breaks is still one of the lines."),
    ]


def test_pod_and_dictionaries_have_their_headings():
    pod = (
        "=head2 The C<my> function X<my>\n\n"
        "It makes L<a name|perlsub> that is B<seen I<here>>.\n\n"
        "    sample of the code;\n"
    )
    assert prose.pod_blocks(pod, "perlfunc") == [
        ("The my function", "It makes a name that is seen here."),
    ]
    entries = "Dog \\Dog\\, n. [OE. dogge.]\n   An {animal} of the house. [1913 Webster]\n"
    assert prose.dictionary_blocks(entries, "gcide") == [
        ("Dog", "   An animal of the house. \n"),
    ]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("The quick fox runs over the lazy dog.", True),
        ("The fox runs over it.", False),  # short
        ("The fox " + "runs and " * 50 + "stops.", False),  # long
        ("the fox of the house runs over it.", False),  # the end of another one
        ("The fox of the house runs over it", False),
        ("The values of it are then 1 2 3 4 5 6 = 77 (0x3f, 0x40).", False),
        ("Law) The end of a label is not a sentence.", False),
        ("Der schnelle Fuchs springt leicht davon.", False),
    ],
)  # fmt: skip
def test_is_prose(text, kept):
    assert prose.is_prose(text) is kept


@pytest.mark.parametrize(
    ("text", "heading"),
    [
        ("3.1 " + "words " * 20, "words words words words words words"),
        ("E.6.2. Changes", "Changes"),
        ("3D\n Graphics\ue004", "3D Graphics"),
        (" ¶", ""),
    ],
)
def test_a_heading_loses_its_number_and_is_cut_at_a_word(text, heading):
    assert prose.heading(text) == heading


def test_the_text_of_an_entity_is_what_the_database_embeds(tmp_path):
    rows = [corpus.Row("hub", "noun.act", ("one", "two"))]
    rows += [corpus.Row(f"spoke {i}", "x-doc", (f"said {i} " + "long " * 900,)) for i in range(60)]
    links = [(0, i, "is_a") for i in range(60, 0, -1)] + [(5, 0, "part_of")]
    made = corpus.Corpus(rows, links, [])
    with closing(connection.connect(tmp_path / "a.db", create=True)) as conn:
        schema.init(conn)
        wordnet._write_rows(conn, made)
        texts = llm_store.texts(conn, "entities", range(1, len(rows) + 1))
    assert corpus.snapshots(rows, links) == [texts[i] for i in range(1, len(rows) + 1)]


def test_vectors_are_kept_and_asked_for_again_only_where_a_text_changed(tmp_path, monkeypatch):
    asked = []

    def model(_, texts):
        asked.extend(texts)
        return [[float(len(text)), *[1.0] * 511] for text in texts]

    monkeypatch.setattr(vector_cache, "CHUNK", 4)
    monkeypatch.setattr(vector_cache.embedding, "run_model", model)
    texts = [f"text {'x' * i}" for i in range(10)]
    seen = []
    vector_cache.fill(texts, tmp_path, progress=lambda *at: seen.append(at))
    rows = numpy.concatenate(list(vector_cache.stored(texts, tmp_path)))
    assert seen == [(0, 10), (4, 10), (8, 10), (10, 10)]
    assert numpy.allclose(numpy.linalg.norm(rows, axis=1), 1)
    assert numpy.allclose(rows[:, 0] / rows[:, 1], [len(text) for text in texts])
    asked.clear()
    vector_cache.fill(texts[:8], tmp_path)
    assert asked == []
    vector_cache.fill([*texts[:7], "another", *texts[8:]], tmp_path)
    assert asked == [*texts[4:7], "another"]


def test_short_queries_are_words_of_the_texts_and_the_same_each_time():
    texts = ["The merchant carried heavy barrels of cider across the frozen river.",
             "Every kernel module exports symbols that other modules require."]  # fmt: skip
    found = corpus.short_queries(texts, 20)
    assert found == corpus.short_queries(texts, 20)
    assert len(set(found)) == 20
    for query in found:
        assert 2 <= len(query.split()) <= 4
        assert STOP_WORDS.isdisjoint(query.lower().split())
        assert any(set(query.split()) <= set(text.strip(".").split()) for text in texts)
