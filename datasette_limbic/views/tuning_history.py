"""The versions as the tuning page shows them: what is in force, what was, and the way back.

A row may be of another program, with anything in any column.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import BadParameter
from ..i18n import figure, marked, said
from ..i18n import gettext as _
from ..tuning.version_rows import configured
from .common import Page

SOURCES = {
    "tuned": marked("from the log"),
    "manual": marked("set by hand"),
    "rollback": marked("rolled back"),
}


def short(value: Any) -> str:
    """A parameter as short as people write it; of another program's, anything."""
    if value is None:
        return "–"
    return figure(value, ".4g") if _is_figure(value) else str(value)[:20]


def _is_figure(value: Any) -> bool:
    """Whether it is a number of a size that ours have: evidence may hold one of 400 digits."""
    return type(value) in (int, float) and abs(value) < 1e9


def pair(values: Mapping[str, Any] | None) -> str:
    if values is None:
        return "–"
    return f"beta_sal {short(values.get('beta_sal'))}, gamma {short(values.get('gamma'))}"


def in_force(data: Mapping[str, Any]) -> dict[str, Any]:
    """Since when, by whom and why; the version that is one step back."""
    row = next((each for each in data["history"] if each["in_force"]), None)
    if row is None:
        what = _("these are the constants of the design")
        if data["in_force"]["source"] == "configuration":
            what = _("this is what the configuration of this server has")
        return {"row": None, "what": what, "back": None}
    source = row["source"]
    what = str(said(SOURCES.get(source, source)))
    return {"row": row, "what": what[:1].upper() + what[1:], "back": row["rollback_to"]}


def history(here: Page, data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The versions, and below them what configuration has, which is version 0."""
    rows = data["history"]
    current = next((row["stands_for"] for row in rows if row["in_force"]), 0)
    shown = [
        {
            **row,
            "pair": [short(row["to"][name]) for name in ("beta_sal", "gamma")],
            "what": said(SOURCES.get(row["source"], row["source"])),
            "beside": _beside(row),
            "gain": _evidence_gain(row["evidence"]),
            "digest": row["log_digest"][:10] if isinstance(row["log_digest"], str) else None,
            "back": row["unusable"] is None and row["stands_for"] != current,
        }
        for row in rows
    ]
    if shown:
        try:
            values = configured(here.settings).values
        except BadParameter:
            return shown  # nothing to go back to
        shown.append(
            {
                "version": 0,
                "pair": [short(values[name]) for name in ("beta_sal", "gamma")],
                "what": _("configuration"),
                "back": current != 0,
            }
        )
    return shown


def _beside(row: Mapping[str, Any]) -> str:
    """What was asked for, or brought back: in the words of the row's own evidence."""
    evidence = row["evidence"] if isinstance(row["evidence"], dict) else {}
    if row["source"] == "rollback" and _is_figure(evidence.get("to")):
        return _("to version %(version)s") % {"version": evidence["to"]}
    asked = evidence.get("asked")
    if isinstance(asked, dict):
        given = [f"{name} {short(asked[name])}" for name in ("beta_sal", "gamma") if name in asked]
        return _("towards %(values)s") % {"values": ", ".join(given)} if given else ""
    return ""


def _evidence_gain(evidence: Any) -> str | None:
    """The gain that a version was tuned for; None for what other programs wrote instead."""
    gain = evidence.get("gain") if isinstance(evidence, dict) else None
    if not isinstance(gain, dict):
        return None
    values: list[Any] = [gain.get(name) for name in ("value", "low", "high")]
    known = all(map(_is_figure, values))
    if not known:
        return None
    value, low, high = (figure(each, "+.4f") for each in values)
    return _("%(value)s (%(low)s to %(high)s)") % {"value": value, "low": low, "high": high}


def done(data: Mapping[str, Any], version: str | None) -> dict[str, Any] | None:
    """What was done just before, read from what was written: a URL says only which version, and
    may have been kept since. None unless that version is in force."""
    row = next((each for each in data["history"] if each["in_force"]), None)
    if row is None or str(row["version"]) != version:
        return None
    return {
        "version": row["version"],
        "pair": pair(row["to"]),
        "before": pair(row["from"]),
        "what": said(SOURCES.get(row["source"], row["source"])),
    }
