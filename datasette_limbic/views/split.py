"""How one entity could be split: the analysis, and what would go where. Nothing is changed."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import fields
from typing import Any

from datasette.utils import tilde_decode

from ..errors import UnknownEntity
from ..reports.split_proposal import STAYS, proposal
from ..reports.split_subject import Subject, read_subject
from .common import Page, page, whole_number
from .working import WORKER

# What the page reads; the relations it shows are not there yet.
TABLES = ("entities", "observations", "limbic_settings")
SHOWN = 200
"""Observations shown of each list; the JSON has them all."""
# verdict → heading, and the colour of its sentence
HEADINGS = {
    "split": ("Worth splitting", "limbic-warn"),
    "approaching": ("Near its threshold", ""),
    "too_few": ("Too small to split", "limbic-good"),
    "one_subject": ("One subject", "limbic-good"),
    "loose": ("Topics overlap", "limbic-good"),
    "identical": ("All the same", "limbic-warn"),
    "no_words": ("No words to go by", ""),
    "empty": ("Nothing in it", ""),
    "archived": ("Not in use", ""),
}


async def _split_page(here: Page) -> tuple[str, dict[str, Any]]:
    given = here.request.url_vars["entity"]
    wanted = whole_number(given)
    if wanted is None:
        shown = tilde_decode(given)[:60]
        raise UnknownEntity(f"{shown!r} is no entity id: search for the name instead")
    subject = await here.read(lambda conn: read_subject(conn, wanted, settings=here.settings))
    key = await asyncio.to_thread(_key, here, subject)
    data = {**await WORKER.run(key, proposal, subject)}
    data["_heading"], data["_tone"] = HEADINGS[data["verdict"]]
    data["_children"] = [
        {**child, **_cut(here, child["observations"])} for child in data["children"]
    ]
    data["_stays"] = [
        {"why": why[:1].upper() + why[1:], "size": len(rows), **_cut(here, rows)}
        for code, why in STAYS.items()
        if (rows := [row for row in data["stays"] if row["reason"] == code])
    ]
    return "limbic_split.html", data


def _key(here: Page, subject: Subject) -> tuple[Any, ...]:
    """Equal where a proposal would be: of all that it is made from."""
    found = hashlib.sha256()
    vectors = subject.vectors
    if vectors is not None:
        found.update(vectors.tobytes())
    for field in fields(subject):
        if field.name != "vectors":
            found.update(repr(getattr(subject, field.name)).encode("utf-8", "surrogatepass"))
    return "split", here.db.name, subject.id, found.digest()


split_page = page(_split_page, TABLES, takes=())


def _cut(here: Page, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """As many as are shown, each with the address of its row, and how many more there are."""
    urls = here.datasette.urls
    return {
        "observations": [
            {**row, "url": str(urls.row(here.db.name, "observations", str(row["id"])))}
            for row in rows[:SHOWN]
        ],
        "more": max(0, len(rows) - SHOWN),
    }
