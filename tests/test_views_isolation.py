"""Texts of a memory turn nothing on a page around, and no link is without a text."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from view_helpers import base, get, links, rows, write

from datasette_limbic.views.display import isolated, isolated_name, named, sentence

RTL = "\u202e"
VOID = {"meta", "link", "input", "br", "img", "hr"}
# what holds text alone, with nothing beside it that could be turned around
ALONE = {"bdi", "title", "option", "script", "style", "textarea", "pre"}
CLASSES = {"limbic-text"}


class Texts(HTMLParser):
    """Texts with U+202E that are not isolated, and links without a text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[tuple[str, str]] = []
        self.loose: list[str] = []
        self.isolated = 0
        self.empty: list[Any] = []
        self.link: tuple[Any, str] | None = None

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        given = dict(attrs)
        if tag not in VOID:
            self.open.append((tag, given.get("class") or ""))
        if tag == "a":
            self.link = (given.get("href"), given.get("aria-label") or "")

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop()[0] != tag:
            pass
        if tag == "a" and self.link is not None:
            if not self.link[1].strip():
                self.empty.append(self.link[0])
            self.link = None

    def handle_data(self, data: str) -> None:
        if self.link is not None:
            self.link = (self.link[0], self.link[1] + data)
        if RTL not in data:
            return
        if any(tag in ALONE or CLASSES & set(names.split()) for tag, names in self.open):
            self.isolated += 1
        else:
            self.loose.append(data[:80])


def read(html: str) -> Texts:
    found = Texts()
    found.feed(html)
    return found


@pytest.fixture
def hostile(demo_db: Path) -> tuple[Path, list[int]]:
    """U+202E in every text that a page shows, and entities without a name that can be seen."""
    turned = f"abc {RTL}"
    write(
        demo_db,
        (f"update entities set name = '{turned}' || id, entity_type = '{turned}'", []),
        (f"update observations set content = content || '{turned}', kind = '{turned}'", []),
        (f"update relations set relation_type = '{turned}' || relation_type", []),
        (f"update limbic_duplicates set difference = '{turned}'", []),
        ("update entities set archived_at = '2026-01-01' where id = 5", []),
        ("update entities set archived_reason = ? where id = 5", [turned]),
        ("update observations set similarity_flag = 1 where id in (2, 3)", []),
        ("insert into entities(name) values (''), ('   '), ('\u200b')", []),
        ("insert into relations(from_entity, to_entity, relation_type)"
         " select 3, id, 'knows' from entities where trim(name) in ('', '\u200b')", []),
    )  # fmt: skip
    blank = rows(demo_db, "select id from entities where trim(name) in ('', '\u200b')")
    return demo_db, [row[0] for row in blank]


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/search?q=geocoder",
        "/search?q=geocoder&explain=1",
        "/search",
        "/entity/3",
        "/entity/5",
        "/consolidation",
        "/consolidation?stale_days=0",
        "/duplicates",
        "/duplicates/3",
        "/split/3",
        "/split/5",
        "/health",
        "/health?list=orphans&size=500",
    ],
)
async def test_texts_are_isolated_and_links_have_texts(
    path: str, hostile: tuple[Path, list[int]], make_datasette: Any
) -> None:
    demo_db, _ = hostile
    response = await get(make_datasette(demo_db), base(demo_db) + path)
    assert response.status_code == 200, response.text[:200]
    found = read(response.text)
    assert found.loose == []
    assert found.empty == []
    if path not in ("/consolidation", "/duplicates"):
        assert found.isolated


async def test_entities_without_a_name_are_called_by_their_number(
    hostile: tuple[Path, list[int]], make_datasette: Any
) -> None:
    demo_db, blank = hostile
    datasette = make_datasette(demo_db)
    assert len(blank) == 3
    for path in ("/entity/3", "/health?list=entities_without_observations&size=500"):
        response = await get(datasette, base(demo_db) + path)
        if response.status_code == 400:
            continue  # another name of the list
        for entity in blank:
            assert f"unnamed (#{entity})</bdi></a>" in response.text, path
            assert f"{base(demo_db)}/entity/{entity}" in links(response.text)
    for entity in blank:
        for path in ("/entity/", "/split/", "/duplicates/"):
            html = (await get(datasette, f"{base(demo_db)}{path}{entity}")).text
            assert f"unnamed (#{entity})</bdi></h1>" in html, path


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("", "unnamed (#5)"),
        ("   ", "unnamed (#5)"),
        (None, "unnamed (#5)"),
        ("\u200b\t\u202e\n", "unnamed (#5)"),
        (" a ", " a "),
        ("abcdef", "abc…"),
        (0, "0"),
    ],
)
def test_names(name: Any, shown: str) -> None:
    assert named(name, 5, 4) == shown
    assert isolated_name(name, 5, 4) == f"<bdi>{shown}</bdi>"


def test_isolated_texts_are_escaped_once() -> None:
    assert isolated("<b>") == "<bdi>&lt;b&gt;</bdi>"
    assert isolated(isolated("<b>")) == "<bdi><bdi>&lt;b&gt;</bdi></bdi>"
    assert isolated("abcdef", 3) == "<bdi>ab…</bdi>"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("setting x is wrong", "Setting x is wrong."),
        ("a_table: x", "a_table: x."),
        ("Right.", "Right."),
    ],
)
def test_sentences(given: str, said: str) -> None:
    assert sentence(given) == said
