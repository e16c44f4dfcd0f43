"""Which language a page is in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from datasette import Response, hookimpl
from view_helpers import ONE_POINT_ZERO, base, get, get_json

from datasette_limbic import compat, i18n


@pytest.mark.parametrize(
    ("header", "language"),
    [
        ("", "en"),
        ("es", "es"),
        ("ES-mx,es;q=0.9,en;q=0.8", "es"),
        ("en-GB,en;q=0.9,es;q=0.8", "en"),
        ("de, es;q=0.5, en;q=0.4", "es"),
        ("de-CH, fr", "en"),
        ("*", "en"),
        ("es;q=0", "en"),
        ("es;q=0.2, *;q=0.1", "es"),
        ("es;q=much, en;q=0.1", "en"),
        ("es;q=nan", "en"),
        (";;,,;q=", "en"),
        ("x" * 100_000, "en"),
    ],
)
def test_preferred(header: str, language: str) -> None:
    assert i18n.preferred(header) == language


def test_spoken_ends() -> None:
    with i18n.spoken("es"):
        assert i18n.language() == "es"
    assert i18n.language() == "en"


@pytest.mark.parametrize(
    ("setting", "query", "header", "language"),
    [
        ("auto", "", "es", "es"),
        ("auto", "", "", "en"),
        ("en", "", "es", "en"),
        ("es", "", "en", "es"),
        ("es", "?_lang=en", "es", "en"),
        ("auto", "?_lang=es", "", "es"),
        ("auto", "?_lang=xx", "es", "es"),
    ],
)
async def test_language_of_a_page(
    make_datasette: Any, demo_db: Any, setting: str, query: str, header: str, language: str
) -> None:
    ds = make_datasette(demo_db, config={"language": setting})
    response = await get(ds, base(demo_db) + query, headers={"accept-language": header})
    assert f'class="limbic-page" lang="{language}">' in response.text
    # JSON is for programs
    twin = await get_json(ds, base(demo_db) + ".json", headers={"accept-language": header})
    assert twin["database"] == "demo"


@pytest.mark.parametrize("broken", ["cut", "empty", "garbage", "missing", "plural", "text"])
async def test_a_catalogue_that_cannot_be_read_leaves_english(
    broken: str,
    make_datasette: Any,
    demo_db: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    path = tmp_path / "locale" / "es" / "LC_MESSAGES" / "limbic.mo"
    path.parent.mkdir(parents=True)
    whole = (i18n.FOLDER / "es" / "LC_MESSAGES" / "limbic.mo").read_bytes()
    content = {
        "cut": whole[: len(whole) // 2],
        "empty": b"",
        "garbage": b"x" * 100,
        "plural": whole.replace(b"plural=(n != 1)", b"plural=(n     +"),
        "text": whole.replace("ó".encode(), b"\xff\xff"),
    }
    if broken in content:
        path.write_bytes(content[broken])
    monkeypatch.setattr(i18n, "FOLDER", tmp_path / "locale")
    monkeypatch.setattr(i18n, "_read", {})
    monkeypatch.setattr(i18n, "_said", set())
    ds = make_datasette(demo_db, config={"language": "es"})
    for url in ("/", f"/{demo_db.stem}", base(demo_db), base(demo_db) + "/entity/0"):
        response = await get(ds, url, headers={"accept-language": "es"})
        assert response.status_code == (404 if url.endswith("/0") else 200), url
        assert 'lang="es"' not in response.text
        assert ('lang="en"' in response.text) is ("limbic" in url or ONE_POINT_ZERO)
    assert caplog.text.count("the catalogue of es cannot be read") == 1
    # put right while the server runs
    path.with_suffix(".new").write_bytes(whole)
    path.with_suffix(".new").replace(path)
    assert 'lang="es"' in (await get(ds, base(demo_db) + "/entity/0")).text


@pytest.mark.parametrize(
    ("setting", "url", "status", "varies"),
    [
        ("auto", "/demo/-/limbic", 200, True),
        ("auto", "/demo/-/limbic/entity/0", 404, True),
        ("auto", "/demo/-/limbic/search?limit=x", 400, True),
        ("auto", "/nothing/-/limbic", 404, True),
        ("auto", "/demo/-/limbic/reflect", 405, True),
        ("auto", "/", 200, ONE_POINT_ZERO),  # with the panel
        ("auto", "/demo", 200, ONE_POINT_ZERO),
        ("auto", "/demo/entities?_size=1", 200, False),
        ("auto", "/demo/-/limbic.json", 200, False),
        ("auto", "/demo/-/limbic/entity/0.json", 404, False),
        ("auto", "/demo/-/limbic/entity/0?_lang=es", 404, False),
        ("es", "/demo/-/limbic/entity/0", 404, False),
    ],
)
async def test_answers_name_the_header_that_they_depend_on(
    setting: str, url: str, status: int, varies: bool, make_datasette: Any, demo_db: Path
) -> None:
    ds = make_datasette(demo_db, config={"language": setting})
    response = await get(ds, url, headers={"accept": "text/html"})
    assert response.status_code == status
    named = [each.strip().lower() for each in response.headers.get("vary", "").split(",")]
    assert named.count("accept-language") == varies


class OfAnother:
    """Another plugin with words of its own, in the way that it likes them."""

    __name__ = "another"

    @hookimpl
    def prepare_jinja2_environment(self, env: Any) -> None:
        env.add_extension("jinja2.ext.i18n")
        env.install_gettext_callables(
            lambda text: f"«{text}»", lambda one, many, n: f"«{many}»", newstyle=False
        )
        env.policies["ext.i18n.trimmed"] = True

    @hookimpl
    def register_routes(self) -> Any:
        async def words(datasette: Any, request: Any) -> Any:
            return Response.html(await datasette.render_template("words.html", request=request))

        return [(r"^/-/words$", words)]


@pytest.fixture
def another() -> Iterator[None]:
    """That plugin, for as long as a test."""
    from datasette.plugins import pm

    pm.register(OfAnother(), name="another")
    yield
    pm.unregister(name="another")


@pytest.mark.usefixtures("another")
async def test_words_of_other_plugins_stay_theirs_and_ours_ours(
    make_datasette: Any, demo_db: Path, tmp_path: Path
) -> None:
    templates = tmp_path / "templates"
    templates.mkdir()
    (templates / "words.html").write_text(
        '{{ _("Search 100") }} {% trans n=2 %}one\n a{% pluralize %}many\n b{% endtrans %}'
    )
    # somebody's own, in place of ours
    (templates / "limbic_error.html").write_text(
        '{% extends "base.html" %}{% block content %}{{ _("Not found") }}: {{ "x"|theirs }}'
        "{{ theirs }}{% endblock %}"
    )
    ds = make_datasette(demo_db, template_dir=str(templates))
    spanish = {"headers": {"accept-language": "es"}}
    page = await get(ds, base(demo_db) + "/search", **spanish)
    assert page.status_code == 200
    assert "«" not in page.text
    assert "Buscar" in page.text
    assert (await get(ds, "/-/words")).text == "«Search 100» «many b»"
    env = compat.environment(ds, None)
    env.filters["theirs"] = lambda text: f"{text}-filtered"
    env.globals["theirs"] = " and set later"
    words = (await get(ds, base(demo_db) + "/entity/0", **spanish)).text
    assert "No encontrado: x-filtered and set later" in words
    assert (await get(ds, "/-/words")).text == "«Search 100» «many b»"
