"""The catalogues hold every string of the pages, and say in every language what it says."""

from __future__ import annotations

import gettext
import re
from collections import Counter
from io import BytesIO
from typing import Any

import pytest
import translations
from babel.messages import Catalog, Message
from babel.messages.pofile import read_po

from datasette_limbic import config, i18n

RUN = "run: make translations"
LANGUAGES = sorted(set(config.LANGUAGES) - {i18n.SOURCE})
_PLACE = re.compile(r"%\((\w+)\)s|%%")
_TAG = re.compile(r"</?[a-z][^>]*>")


@pytest.fixture(scope="module", name="template")
def template_fixture() -> Catalog:
    """Every string as it stands in the code just now."""
    return translations.collected()


def names(catalogue: Catalog) -> set[tuple[Any, Any]]:
    """What tells messages apart."""
    return {(message.context, message.id) for message in catalogue if message.id}


def test_every_language_has_a_catalogue() -> None:
    assert sorted(translations.languages()) == LANGUAGES


def test_the_template_is_in_step(template: Catalog) -> None:
    written = names(translations.read(translations.TEMPLATE))
    found = names(template)
    assert not found - written, f"not in limbic.pot: {RUN}"
    assert not written - found, f"no longer in the code: {RUN}"
    assert len(found) > 500  # of templates and of the code
    assert translations.TEMPLATE.read_bytes() == translations.text_of(template), RUN


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_string_is_translated(template: Catalog, language: str) -> None:
    path = translations.languages()[language]
    catalogue = translations.read(path, language)
    assert names(catalogue) == names(template), RUN
    lacking = [m.id for m in catalogue if m.id and (m.fuzzy or not all(_texts(m.string)))]
    assert not lacking, f"no translation into {language}"
    wrong = [fault for message in catalogue if message.id for fault in _faults(message)]
    assert not wrong
    # the file is as the command writes it, whoever runs it, and whenever
    assert path.read_bytes() == translations.text_of(catalogue), RUN


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_is_compiled_is_what_is_written(language: str) -> None:
    path = translations.languages()[language]
    with path.with_suffix(".mo").open("rb") as file:
        compiled = gettext.GNUTranslations(file)
    assert compiled.gettext("Search") != "Search"
    catalogue = translations.read(path, language)
    fresh = gettext.GNUTranslations(BytesIO(translations.compiled(catalogue)))
    found, wanted = (dict(each._catalog) for each in (compiled, fresh))  # type: ignore[attr-defined]
    assert found.pop("").count("plural=(n != 1)") == wanted.pop("").count("plural=(n != 1)") == 1
    assert found == wanted, RUN


def _texts(found: Any) -> tuple[str, ...]:
    return translations.forms(found)


def _faults(message: Message) -> list[str]:
    """Placeholders, tags, or forms that a translation has not as the original has them."""
    originals, texts = _texts(message.id), _texts(message.string)
    if len(originals) > 1 and len(texts) != 2:
        return [f"{originals[0]!r} needs two forms, and has {len(texts)}"]
    found = []
    for original, text in zip(originals, texts, strict=True):
        places, given = set(_PLACE.findall(original)), set(_PLACE.findall(text))
        # a form for one may leave the count out, as the English one does
        if given - places or (places - given) - {"n", "count"}:
            found.append(f"{text!r} has other placeholders than {original!r}")
        if len(originals) == 1 and places != given:
            found.append(f"{text!r} has other placeholders than {original!r}")
        if Counter(_TAG.findall(original)) != Counter(_TAG.findall(text)):
            found.append(f"{text!r} has other tags than {original!r}")
        if original[:1].isspace() != text[:1].isspace() or "\n" in text:
            found.append(f"{text!r} begins with other space than {original!r}")
    return found


PO = """
msgid ""
msgstr ""
"Plural-Forms: nplurals=2; plural=(n != 1);\\n"

msgid "%(name)s <b>is</b> here"
msgstr "{}"
"""


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("%(name)s <b>está</b> aquí", None),
        ("%(nombre)s <b>está</b> aquí", "placeholders"),
        ("<b>está</b> aquí", "placeholders"),
        ("%(name)s está aquí", "tags"),
        ("%(name)s <i>está</i> aquí", "tags"),
        (" %(name)s <b>está</b> aquí", "space"),
    ],
)
def test_faults_are_seen(text: str, fault: str | None) -> None:
    catalogue = read_po(BytesIO(PO.format(text).encode()))
    found = [fault for message in catalogue if message.id for fault in _faults(message)]
    assert bool(found) is (fault is not None)
    assert all(str(fault) in each for each in found)


@pytest.mark.parametrize(
    ("language", "value", "spec", "written"),
    [
        ("en", 1234, ",", "1,234"),
        ("en", 1234.5, ",.1f", "1,234.5"),
        ("en", -12345678, ",", "-12,345,678"),
        ("en", 0.25, ".0%", "25%"),
        ("es", 1234, ",", "1234"),
        ("es", 12345, ",", "12.345"),
        ("es", -1234, ",", "-1234"),
        ("es", 12345678.25, ",.1f", "12.345.678,2"),
        ("es", 0.5, "+.4f", "+0,5000"),
        ("es", 0.25, ".0%", "25\N{NO-BREAK SPACE}%"),
        ("es", float("nan"), ".3f", "nan"),
    ],
)
def test_numbers_are_written_as_the_language_has_them(
    language: str, value: float, spec: str, written: str
) -> None:
    with i18n.spoken(language):
        assert i18n.figure(value, spec) == written


def test_counting() -> None:
    one, many = "%(n)s observation", "%(n)s observations"
    assert [i18n.counting(one, many, n) for n in (0, 1, 1234)] == [
        "0 observations", "1 observation", "1,234 observations",
    ]  # fmt: skip
    with i18n.spoken("es"):
        assert [i18n.counting(one, many, n) for n in (0, 1, 12345)] == [
            "0 observaciones", "1 observación", "12.345 observaciones",
        ]  # fmt: skip


def test_sentences_of_the_library_are_marked_as_english() -> None:
    assert i18n.english("a < b") == "a < b"
    with i18n.spoken("es"):
        assert i18n.english("a < b") == '<span lang="en">a &lt; b</span>'
