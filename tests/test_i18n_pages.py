"""Nothing on a page is said past the catalogue: with one that puts ⟦…⟧ around each message, all
words of every page stand in such brackets, but for names and values of the memory."""

from __future__ import annotations

import gettext
import re
from collections.abc import Iterator
from contextlib import closing
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from review_helpers import ids, queued_fixture, queued_master_fixture  # noqa: F401
from view_helpers import ONE_POINT_ZERO, as_actor, base, get, text_of

from datasette_limbic import config, connection, i18n, import_log
from datasette_limbic.actions.acting import act
from datasette_limbic.health.looks import HUB_DEGREE, looks
from datasette_limbic.views import import_display

pytestmark = pytest.mark.slow  # the pages are no other on another Python

ACTOR = {"id": "root"}
DEMO = (
    "", "/search", "/search?q=geocoder&explain=1", "/search?q=xyzzy", "/entity/{id}",
    "/entity/{id}/graph", "/graph", "/consolidation", "/consolidation?list=stale_entities&page=9",
    "/health", "/duplicates", "/changes", "/changes/1", "/tuning", "/imports", "/imports/1",
    "/review", "/split/{id}?by_hand=1", "/duplicates/{id}", "/entity/999999",
)  # fmt: skip
QUEUED = ("/review", "/consolidation", "/health", "/duplicates", "/duplicates/1", "/split/1")
# What stands on a page as the memory, a program or a computer writes it.
_AS_IT_IS = ("bdi", "code", "time", "pre", "mark", "kbd", "script", "style", "textarea", "noscript")
_READ = ("aria-label", "title", "placeholder", "alt")
_UNITS = {"β", "γ", "s", "ms", "min", "h", "UTC", "k", "M", "G", "JSON", "CSV", "SQL", "id", "x"}
# values of settings and of arguments in a URL
_VALUES = {*config.MODES, *config.STRATEGIES, *config.RECENCIES, *config.FUSIONS}
# a name where no element can hold it, as in a picture
_ISOLATED = re.compile(
    "\N{FIRST STRONG ISOLATE}[^\N{POP DIRECTIONAL ISOLATE}]*\N{POP DIRECTIONAL ISOLATE}"
)
_BRACKETS = re.compile("([⟦⟧])")
_SPLIT = re.compile(r"[\s\d.,;:·()→–—−+×/#%“”\"'…?!*=<>@&|\[\]-]+")


class Pseudo(gettext.NullTranslations):
    """Every message in brackets."""

    def gettext(self, message: str) -> str:
        return f"⟦{message}⟧"

    def ngettext(self, one: str, many: str, count: int) -> str:
        return f"⟦{one if count == 1 else many}⟧"

    def pgettext(self, context: str, message: str) -> str:
        return self.gettext(message)

    def npgettext(self, context: str, one: str, many: str, count: int) -> str:
        return self.ngettext(one, many, count)


class Unsaid(HTMLParser):
    """Words of our part of a page that stand in no brackets."""

    void = {"input", "br", "hr", "img", "meta", "link", "wbr", "source"}

    def __init__(self, known: set[str]) -> None:
        super().__init__()
        self.known = known
        self.found: list[str] = []
        self.depth = 0
        self.open: list[tuple[str, bool]] = []
        """Tags within our part, and whether what they hold is as it is."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        ours = bool(self.open) or "limbic-page" in given.get("class", "").split()
        if not ours:
            return
        for name in _READ:
            self.look(given.get(name, ""), f"{name}=")
        if tag == "input" and given.get("type") == "submit":
            self.look(given.get("value", ""), "value=")
        if tag not in self.void:
            as_it_is = tag in _AS_IT_IS or given.get("lang") == "en"
            inside = bool(self.open) and self.open[-1][1]
            self.open.append((tag, inside or as_it_is))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self.open:
            self.handle_starttag(tag, attrs)
            if tag not in self.void:
                self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if self.open and tag not in self.void:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open and not self.open[-1][1]:
            self.look(data, f"<{self.open[-1][0]}> ", whole=False)
        elif self.open:  # brackets of a message may open or end in what is as it is
            self.depth += data.count("⟦") - data.count("⟧")

    def look(self, text: str, where: str, whole: bool = True) -> None:
        text = _ISOLATED.sub("", text)
        depth = 0 if whole else self.depth
        bare = []
        for piece in _BRACKETS.split(text):
            depth += {"⟦": 1, "⟧": -1}.get(piece, 0)
            if depth == 0 and piece not in "⟦⟧":
                bare.append(piece)
        if not whole:
            self.depth = depth
        for piece in bare:
            if not self.is_of_memory(piece):
                self.found.append(where + " ".join(piece.split())[:120])

    def is_of_memory(self, text: str) -> bool:
        said = " ".join(text.split())
        for name in sorted(self.known.intersection(_runs(said)), key=len, reverse=True):
            said = said.replace(name, " ")
        words = [word for word in _SPLIT.split(said) if word and word not in _UNITS]
        return not any(re.search(r"[^\W\d_]", word) for word in words) or any(
            # the beginning of a name, cut
            name.startswith(said.strip(" …"))
            for name in self.known
            if "…" in text
        )


def _runs(text: str) -> Iterator[str]:
    """Every run of words of ``text``, which may be a name."""
    words = re.split(r"(\s+|[(),:;·→])", text)
    for start in range(len(words)):
        for end in range(start + 1, min(len(words), start + 40) + 1):
            yield "".join(words[start:end]).strip()


def names(path: Path) -> set[str]:
    """Names, kinds and other words that are values of a memory."""
    columns = (
        ("entities", "name"), ("entities", "entity_type"), ("relations", "relation_type"),
        ("observations", "content"), ("observations", "kind"), ("limbic_imports", "source"),
        ("limbic_imports", "format"), ("limbic_insights", "title"), ("limbic_insights", "kind"),
        ("limbic_changes", "actor"), ("limbic_searches", "client"), ("limbic_searches", "query"),
    )  # fmt: skip
    found = {path.stem, "root", *_VALUES}
    with closing(connection.connect(path, readonly=True)) as conn:
        for table, column in columns:
            rows = conn.execute(f"select distinct {column} from {table}")
            found |= {" ".join(str(row[0]).split()) for row in rows if row[0]}
    return found


@pytest.fixture(name="pseudo")
def pseudo_fixture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(i18n, "catalogue", lambda language: Pseudo())


def editing(make_datasette: Any, path: Path) -> Any:
    """Datasette in which ``ACTOR`` may edit and record."""
    granted = {"permissions": {"limbic-edit": ACTOR, "limbic-record": ACTOR}}
    if not ONE_POINT_ZERO:
        return make_datasette(path, metadata=granted)
    made = make_datasette(path)
    made.config = {**(made.config or {}), **granted}
    return made


async def unsaid(datasette: Any, path: Path, pages: list[str]) -> dict[str, list[str]]:
    """Page → words on it that are past the catalogue."""
    known = names(path)
    found = {}
    for page in pages:
        url = f"{base(path)}{page}{'&' if '?' in page else '?'}_lang=es"
        response = await get(datasette, url, cookies=as_actor(datasette, ACTOR))
        assert response.status_code < 500, (page, response.text[-2000:])
        reader = Unsaid(known)
        reader.feed(response.text)
        assert not reader.open, page
        assert "⟦" in response.text, page
        if reader.found:
            found[page] = list(dict.fromkeys(reader.found))
    return found


def assert_said(found: dict[str, list[str]]) -> None:
    """Fail with every text that is past the catalogue, by page."""
    lines = [f"{page or '/'}: {text}" for page, texts in found.items() for text in texts]
    assert not lines, "not wrapped for translation:\n" + "\n".join(lines)


async def test_every_word_of_the_demo_comes_from_the_catalogue(
    pseudo: None, demo_db: Path, make_datasette: Any
) -> None:
    with closing(connection.connect(demo_db)) as conn:
        [(number,)] = conn.execute(
            "select entity_id from observations group by 1 order by count(*) desc limit 1"
        )
        act(conn, "archive", {"entity": number, "reason": "tried"}, actor="root")
        act(conn, "restore", {"entity": number}, actor="root")
    datasette = editing(make_datasette, demo_db)
    pages = [page.format(id=number) for page in DEMO]
    assert_said(await unsaid(datasette, demo_db, pages))


async def test_every_word_of_a_queue_comes_from_the_catalogue(
    pseudo: None, queued: Path, make_datasette: Any
) -> None:
    datasette = editing(make_datasette, queued)
    findings = ids(queued).values()
    pages = [*QUEUED, *(f"/review/{number}" for number in findings)]
    assert_said(await unsaid(datasette, queued, pages))


@pytest.mark.parametrize(
    ("html", "found"),
    [
        ("<p>⟦All⟧ 12</p>", []),
        ("<p>⟦<a>All</a> of ⟦it⟧⟧, Atlas</p>", []),
        ("<p>⟦All⟧ of it</p>", ["<p> of it"]),
        ('<a title="Open">⟦x⟧</a>', ["title=Open"]),
        ('<input type="submit" value="Go">', ["value=Go"]),
        ("<p><bdi>free</bdi> <code>x y</code> <span lang='en'>free</span></p>", []),
        ("<svg><title>Open Atlas</title></svg>", ["<title> Open Atlas"]),
    ],
)
def test_unsaid(html: str, found: list[str]) -> None:
    reader = Unsaid({"Atlas"})
    reader.feed(f'<h1>Home</h1><div class="limbic-page">{html}</div><p>Footer</p>')
    assert reader.found == found


def test_every_figure_of_our_imports_has_a_word(demo_db: Path) -> None:
    with closing(connection.connect(demo_db, readonly=True)) as conn:
        imports = import_log.import_list(conn, page=1, source=None)["imports"]
    with i18n.spoken("es"):
        for row in imports:
            figures = row["figures"]
            groups = {key for key, value in figures.items() if isinstance(value, dict)}
            words = {key for group in groups for key in figures[group]} | {*figures} - groups
            # those alike in both languages have no place here
            assert words
            same = [key for key in words if import_display.words(key) == key.replace("_", " ")]
            assert not same
            assert not [key for key in groups if import_display.title(key).lower() == key]


def test_the_number_in_a_title_is_that_of_the_check() -> None:
    [title] = [look.title for look in looks() if look.name == "hub_stubs"]
    assert f" {HUB_DEGREE} " in title


async def test_pages_are_in_spanish(demo_db: Path, make_datasette: Any) -> None:
    datasette = make_datasette(demo_db)
    health = text_of((await get(datasette, f"{base(demo_db)}/health?_lang=es")).text)
    for words in ("Salud", "Revisión", "Mantenimiento", "Por revisar", "Esta página como JSON"):
        assert words in health
    response = await get(
        datasette, f"{base(demo_db)}/consolidation", headers={"accept-language": "es-ES"}
    )
    words = text_of(response.text)
    for said in ("El informe de consolidación", "Observaciones marcadas", "Entidades en desuso"):
        assert said in words
    # an error too, but for what is wrong, which is said in English
    error = await get(datasette, f"{base(demo_db)}/entity/999999?_lang=es")
    assert "<h1>No encontrado</h1>" in error.text
    assert 'role="alert" lang="en">This memory has no' in error.text
    # and JSON is not
    twin = await get(
        datasette, f"{base(demo_db)}/health.json", headers={"accept-language": "es-ES"}
    )
    assert "entities without observations" in twin.text
