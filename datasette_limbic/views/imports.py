"""The log of imports and one import of it."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlencode

from datasette.utils import tilde_decode

from .. import import_log, import_rejects
from ..errors import UnknownImport
from ..i18n import gettext as _
from . import import_display as display
from . import import_warnings
from .common import Page, page, whole_number
from .display import number
from .tabs import IMPORT_TABLES

# Raw rejects can hold private text: who may not see that table sees neither page.


_PLAIN_NAME = re.compile(r"[\w.][\w.-]{0,80}", re.ASCII)


async def _imports(here: Page) -> tuple[str, dict[str, Any]]:
    wanted = here.whole("page", 1)
    source = here.given.get("source")
    data = await here.read(lambda conn: import_log.import_list(conn, page=wanted, source=source))
    if here.as_json:
        return "limbic_imports.html", data
    names = await here.read(import_log.sources)
    data["_sources"] = [name for name in names if display.visible(name, 200) == name]
    data["_source"] = display.visible(source, 200)
    data["_columns"] = display.columns(data["totals"])
    data["_totals"] = display.cards(data["totals"])
    for row in data["imports"]:
        row["_url"] = here.url(f"/imports/{row['id']}")
        row["_cells"] = [
            (title, display.column(row["figures"], keys)) for title, keys in data["_columns"]
        ]
        rejected = row["figures"].get("rejected")
        row["_rejected"] = number(None if isinstance(rejected, dict) else rejected)
        _decorate(row)
    _pages(here, data)
    return "limbic_imports.html", data


async def _import(here: Page) -> tuple[str, dict[str, Any]]:
    given = here.request.url_vars["id"]
    wanted = whole_number(given, signed=True)  # that of a restore is below zero
    if wanted is None:
        shown = tilde_decode(given)[:60]
        raise UnknownImport(f"{shown!r} is no number of an import: see {here.url('/imports')}")
    turned = here.whole("page", 1)
    reason = here.given.get("reason")
    data = await here.read(
        lambda conn: import_log.import_detail(conn, wanted, page=turned, reason=reason)
    )
    if here.as_json:
        return "limbic_import.html", data
    row = data["_row"] = data["import"]
    _decorate(row)
    data["_cards"] = display.cards(row["figures"])
    data["_groups"] = display.groups(row["figures"])
    data["_left"] = display.left_out_words(row["figures"], row["rejects_kept"])
    data["_warnings"] = import_warnings.tables(row["counts"] or {}, row["figures"])
    data["_dangling"] = display.dangling(row["figures"])
    data["_beyond"] = display.beyond(row["figures"], row["rejects_kept"])
    data["_full"] = row["rejects_kept"] >= import_rejects.MAX_KEPT
    data["_most_kept"], data["_longest"] = import_rejects.MAX_KEPT, import_rejects.MAX_RAW
    data["_command"] = f"datasette limbic import {_name(row['source'])} {_name(here.db.name)}.db"
    chosen = {reason, import_rejects.reason_kind(reason)} if reason else set()
    for one in data["reasons"]:
        one["_current"] = one["reason"] in chosen
        one["_line"] = display.cell(one["first_line"])
        one["_reason"] = display.visible(one["reason"], import_rejects.MAX_KIND)
        one["_example"] = (
            display.visible(one["example"], 160) if one["example"] != one["reason"] else None
        )
        one["_url"] = "?" + urlencode({"reason": one["reason"]}) + "#limbic-rejects"
    for reject in data["rejects"]:
        reject["_url"] = here.datasette.urls.row(here.db.name, IMPORT_TABLES[1], str(reject["id"]))
        reject["_line"] = display.cell(reject["line"])
        reject["_reason"] = display.visible(reject["reason"], 300)
        reject["_raw"] = display.raw(reject["raw"])
    data["_reason"] = display.visible(reason, 200) if reason else None
    data["_row_url"] = here.datasette.urls.row(here.db.name, IMPORT_TABLES[0], str(row["id"]))
    data["_table_url"], data["_csv_url"] = _own_tables(here, row["id"])
    _pages(here, data, "#limbic-rejects")
    return "limbic_import.html", data


imports_page = page(_imports, IMPORT_TABLES, takes=("source", "page"))
import_page = page(_import, IMPORT_TABLES, takes=("reason", "page"))


def _decorate(row: dict[str, Any]) -> None:
    row["_source"] = display.visible(row["source"], 200) or _("without a name")
    row["_format"] = display.visible(row["format"], 60)
    row["_when"] = display.moment(row["started_at"])
    row["_took"] = display.took(row["seconds"])


def _name(value: Any) -> str:
    """A file name for a command that is to be copied; only what no shell reads otherwise."""
    return value if isinstance(value, str) and _PLAIN_NAME.fullmatch(value) else "FILE"


def _own_tables(here: Page, import_id: int) -> tuple[str, str]:
    """URLs of all rejects of an import: Datasette's table, and all of it as CSV."""
    urls = here.datasette.urls
    whole = "_stream=on" if here.datasette.setting("allow_csv_stream") else "_size=max"
    asked = f"import_id={import_id}"
    return (
        f"{urls.table(here.db.name, IMPORT_TABLES[1])}?{asked}",
        f"{urls.table(here.db.name, IMPORT_TABLES[1], format='csv')}?{asked}&{whole}",
    )


def _pages(here: Page, data: dict[str, Any], anchor: str = "") -> None:
    """URLs of the pages before and after this one, None where there is none."""
    kept: dict[str, Any] = {
        key: here.given[key] for key in ("source", "reason") if key in here.given
    }

    def url(to: int) -> str:
        return "?" + urlencode({**kept, "page": to}) + anchor

    before, after = min(data["page"] - 1, data["pages"]), data["page"] + 1
    data["_before"] = url(before) if before else None
    data["_after"] = url(after) if after <= data["pages"] else None
