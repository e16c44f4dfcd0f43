"""The language of the pages: what a visitor reads, in the language that the browser asks for.

Every string of a page stands in English in the code or a template, wrapped in ``_`` or
``{% trans %}``; ``locale/`` has one catalogue a language (GNU gettext). JSON, the command line and
the log stay English: programs read them.
"""

from __future__ import annotations

import gettext as stock
import logging
from collections import ChainMap
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from markupsafe import Markup

from .config import LANGUAGES

log = logging.getLogger("datasette_limbic")

DOMAIN = "limbic"
FOLDER = Path(__file__).parent / "locale"
SOURCE = "en"

_chosen: ContextVar[str] = ContextVar("limbic_language", default=SOURCE)


_NOTHING = stock.NullTranslations()
_read: dict[str, stock.NullTranslations] = {}
_said: set[tuple[str, str]] = set()


def catalogue(language: str) -> stock.NullTranslations:
    """What is known of a language; English where that is nothing.

    A file that cannot be read is tried again the next time: it may be in the middle of an update.
    """
    if language == SOURCE:
        return _NOTHING
    if language not in _read:
        try:
            _read[language] = stock.translation(DOMAIN, FOLDER, [language])
        except Exception as error:  # any, by where the file is cut: see gettext's _parse
            if (said := (language, repr(error))) not in _said:
                _said.add(said)
                log.warning("the catalogue of %s cannot be read: %r", language, error)
            return _NOTHING
    return _read[language]


def speaks(language: str) -> bool:
    """Whether pages can be made in a language: its catalogue can be read, or it needs none."""
    return language == SOURCE or catalogue(language) is not _NOTHING


def language() -> str:
    """The language of the page that is being made."""
    return _chosen.get()


@contextmanager
def spoken(chosen: str) -> Iterator[None]:
    """Make a page in that language."""
    token = _chosen.set(chosen)
    try:
        yield
    finally:
        _chosen.reset(token)


def gettext(message: str) -> str:
    """``message`` in the language of the page."""
    # the catalogue keeps its own description under the empty string
    return catalogue(_chosen.get()).gettext(message) if message else message


def ngettext(one: str, many: str, count: Any) -> str:
    """The form for ``count``, a whole number; any other counts as many."""
    whole = count if isinstance(count, int) else 2
    return catalogue(_chosen.get()).ngettext(one, many, whole)


def pgettext(context: str, message: str) -> str:
    """``message`` as it is meant in ``context``: a word with several translations."""
    return catalogue(_chosen.get()).pgettext(context, message)


def npgettext(context: str, one: str, many: str, count: Any) -> str:
    """``ngettext`` and ``pgettext`` in one."""
    whole = count if isinstance(count, int) else 2
    return catalogue(_chosen.get()).npgettext(context, one, many, whole)


def marked(message: str) -> str:
    """``message`` as it is: for constants that are translated where they are shown."""
    return message


# language → decimal sign, sign between groups of three, digits from which there are groups,
# space before a per cent sign: as the CLDR has it
_FIGURES = {"en": (".", ",", 4, ""), "es": (",", ".", 5, "\N{NO-BREAK SPACE}")}


def figure(value: float, spec: str = ",") -> str:
    """A number in the way of the language, after a format as ``format`` takes it.

    ``12,345.5`` is ``12.345,5`` in Spanish, where four digits stand together.
    """
    point, group, grouped_from, space = _FIGURES[_chosen.get()]
    whole, dot, rest = format(value, spec).partition(".")
    if sum(map(str.isdigit, whole)) < grouped_from:
        whole = whole.replace(",", "")
    found = whole.replace(",", group) + (point if dot else "") + rest
    return found.replace("%", f"{space}%")


def counting(one: str, many: str, count: int, **values: Any) -> str:
    """The form for ``count`` with ``%(n)s``, the count as it is written, and other ``values``."""
    return ngettext(one, many, count) % {"n": figure(count), **values}


def said(value: Any) -> Any:
    """A word of a fixed list, translated where it is one of ours; anything else as it is."""
    return gettext(value) if isinstance(value, str) else value


def english(text: Any) -> Any:
    """A sentence that the library made, of which there is English alone: marked as such."""
    if _chosen.get() == SOURCE:
        return text
    return Markup('<span lang="en">{}</span>').format(text)


_EXTENSION = "jinja2.ext.InternationalizationExtension"
_OWN = "limbic_overlay"
# what the extension sets on an environment, bound to it
_BOUND = (
    "install_gettext_translations",
    "install_null_translations",
    "install_gettext_callables",
    "uninstall_gettext_translations",
    "extract_translations",
)


def overlay(env: Any) -> Any:
    """A Jinja environment for our templates, where they use ``_`` and ``{% trans %}``.

    All else is that of ``env``, also what is set there later. ``env`` has one ``_`` for all
    plugins, which is not ours to take.
    """
    own = getattr(env, _OWN, None)
    if own is None or own.linked_to is not env:  # an overlay of others has all that theirs has
        own = env.overlay()
        own.globals = ChainMap({}, env.globals)
        own.policies = {**env.policies, "ext.i18n.trimmed": False}
        own.extensions.pop(_EXTENSION, None)
        for name in _BOUND:
            vars(own).pop(name, None)
        own.add_extension("jinja2.ext.i18n")
        own.install_gettext_callables(
            gettext, ngettext, newstyle=True, pgettext=pgettext, npgettext=npgettext
        )
        setattr(env, _OWN, own)
    return own


def preferred(header: str) -> str:
    """The best of our languages for an ``Accept-Language`` header; English where none is asked for.

    ``es-MX,es;q=0.9,en;q=0.8`` is Spanish: a language is asked for by its first part (RFC 9110).
    """
    best, weight = SOURCE, 0.0
    for part in header[:1000].split(","):
        tag, _, rest = part.strip().partition(";")
        found = tag.strip().lower().partition("-")[0]
        if found == "*":
            found = SOURCE
        if found not in LANGUAGES:
            continue
        given = rest.strip().partition("=")[2].strip()
        try:
            quality = float(given) if given else 1.0
        except ValueError:
            continue
        if weight < quality <= 1:  # of two alike, the one that comes first
            best, weight = found, quality
    return best
