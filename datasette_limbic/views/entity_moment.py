"""The moment that an entity is asked about: as the URL has it, as SQL does, in words."""

from __future__ import annotations

from urllib.parse import urlencode

from .. import times
from ..errors import BadParameter
from ..i18n import gettext as _
from .common import Page

LONGEST = 32


def moment(here: Page, name: str) -> str | None:
    """A time among the arguments, as SQL writes it; None where it is not given."""
    given = here.given.get(name)
    if given is None:
        return None
    found = times.to_sql(given)
    if found is None:
        raise BadParameter(f"{name} is {given[:60]!r}: use a time such as 2026-11-29 12:00:00")
    return found


def as_asked(here: Page, name: str) -> str | None:
    """The same as links and forms hand it on: as the URL has it, unless that is long."""
    given = here.given.get(name)
    # a time may be written with any number of spaces about it
    return given if given is None or len(given) <= LONGEST else moment(here, name)


def when(as_of: str) -> str:
    """A moment, as SQL writes it, in words: a day is its first moment, not all of it."""
    day, _space, time = as_of.partition(" ")
    if not time.strip("0:."):
        return _("at the start of %(day)s (00:00 UTC)") % {"day": day}
    return _("at %(moment)s UTC") % {"moment": as_of}


def kept(as_of: str | None) -> str:
    """``as_of`` as the query of a link to another entity, which is seen at the same moment."""
    return f"?{urlencode({'as_of': as_of})}" if as_of else ""
