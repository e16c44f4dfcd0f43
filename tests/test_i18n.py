"""Which language a page is in."""

from __future__ import annotations

from typing import Any

import pytest
from view_helpers import base, get, get_json

from datasette_limbic import i18n


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
