"""Which nodes an Engrama export holds: their names here, and the ends of its relations.

A node is told by its label, its key and its owner, a relation names its ends by the same. All
of them must be known before the first row can be handed on, so they wait in a temporary file,
as a database: a million of them would fill the memory.
"""

from __future__ import annotations

import json
import string
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from datasette.utils.sqlite import sqlite3

from ..notes import Notes, text_of

# The user whose nodes everybody of the organisation sees.
EVERYBODY = "__entity__"
# Of the candidates of an ambiguous end, as many are named.
_CANDIDATES_SHOWN = 5
_LONGEST_SHOWN = 200

# Engrama compares with SQLite's LOWER, which knows ASCII only.
_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)

_TABLES = """
pragma journal_mode = off; pragma synchronous = off; pragma locking_mode = exclusive;
pragma cache_size = -32000;
create table nodes(folded, value, label, user, org,
  primary key (folded, value, label, user, org)) without rowid;
create table names(value, label, user, org, name unique,
  primary key (value, label, user, org)) without rowid;
begin;
"""
_SHARING = """
select label, user, org, count(*) over (partition by label),
  count(*) over (partition by label, user)
from nodes where folded = ? and value = ? order by label, user, org
"""


class Identity(NamedTuple):
    """What tells a node; an owner that is not known is ''."""

    label: str
    value: str
    org: str = ""
    user: str = ""

    @property
    def key(self) -> str:
        """The identity for people: ``Project: Acequia [org/user]``.

        Used even where the node has an ``engrama_id``, because relations name nodes by this,
        and whoever reads a reject can find it in the file. No two identities share a key: a
        part that could be mistaken for the punctuation is written as JSON text.
        """
        value = _quoted(self.value, "[")
        owner = f" [{_quoted(self.org, '/[]')}/{_quoted(self.user, '/[]')}]"
        return f"{_quoted(self.label, ':')}: {value}{owner if self.org or self.user else ''}"

    @property
    def shown(self) -> str:
        """The key, short enough for a message."""
        return _cut(self.key)


def _quoted(text: str, unsafe: str) -> str:
    if text.startswith('"') or any(character in text for character in unsafe):
        return json.dumps(text, ensure_ascii=False)
    return text


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…"


def identity_of(node: dict[str, Any], notes: Notes) -> Identity | str:
    """What tells the node, or why it cannot be used."""
    label, value = text_of(node.get("label"), notes), text_of(node.get("key_value"), notes)
    if label is None or not label.strip():
        return "node without a label"
    if value is None or not value.strip():
        return "node without a key_value"
    properties = node.get("properties")
    if properties is None:
        return Identity(label, value)
    if not isinstance(properties, dict):
        return "node whose properties are no object"
    return Identity(label, value, *owner_of(properties, notes))


def owner_of(holder: dict[str, Any], notes: Notes) -> tuple[str, str]:
    """Organisation and user, '' where they are not given."""
    org, user = text_of(holder.get("org_id"), notes), text_of(holder.get("user_id"), notes)
    return org or "", user or ""


class Identities:
    """All nodes of one export. ``crossed`` counts the ends that were found at another owner."""

    def __init__(self, found: Iterable[Identity]) -> None:
        # Not SQLite's own temporary database: some builds keep that in memory, whatever its size.
        self.folder = tempfile.TemporaryDirectory(prefix="limbic-")
        self.conn = sqlite3.connect(Path(self.folder.name) / "nodes.db", isolation_level=None)
        self.crossed = 0
        try:
            self.conn.executescript(_TABLES)
            self.conn.executemany(
                "insert or ignore into nodes values (?, ?, ?, ?, ?)",
                ((_fold(i.value), i.value, i.label, i.user, i.org) for i in found),
            )
            self._set_names()
            row = self.conn.execute("select count(*) from names").fetchone()
            self.renamed = int(row[0])
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Forget them, and remove the temporary file."""
        self.conn.close()
        self.folder.cleanup()

    def _set_names(self) -> None:
        """Name the nodes that share one so that each name is its own, the same at each run."""
        for folded, value in self.conn.execute(
            "select folded, value from nodes group by folded, value having count(*) > 1"
        ):
            for label, user, org, *others in self.conn.execute(_SHARING, [folded, value]):
                name = next(
                    name
                    for name in _names(Identity(label, value, org, user), *others)
                    if not self._taken(name)
                )
                self.conn.execute(
                    "insert into names values (?, ?, ?, ?, ?)", [value, label, user, org, name]
                )

    def _taken(self, name: str) -> bool:
        there = self.conn.execute(
            "select 1 from nodes where folded = ? and value = ?"
            " union all select 1 from names where name = ?",
            [_fold(name), name, name],
        )
        return there.fetchone() is not None

    def name_of(self, node: Identity) -> str:
        """What the node is called here: its key, or more where others have the same key."""
        if not self.renamed:
            return node.value
        row = self.conn.execute(
            "select name from names where value = ? and label = ? and user = ? and org = ?",
            [node.value, node.label, node.user, node.org],
        ).fetchone()
        return str(row[0]) if row else node.value

    def some_names(self, limit: int) -> list[str]:
        """The first of the names that several nodes share, as they are told apart."""
        rows = self.conn.execute(
            "select name from names order by value, label, user, org limit ?", [limit]
        )
        return [_cut(name) for (name,) in rows]

    def resolve(self, end: Identity) -> Identity | str:
        """The node that a relation means, or why there is none.

        The owner of a relation is who wrote it, who saw nodes of its own and those of
        everybody in the organisation. Before 0.18 there is none, and a name stood for one
        node. So, in this order: the same spelling, then the same but for ASCII case, at
        owners that do not contradict, nearest first; then both at any owner. The first step
        that finds anything decides, and must find one node alone.
        """
        there = self.conn.execute(
            "select 1 from nodes where folded = ? and value = ? and label = ? and user = ?"
            " and org = ?",
            [_fold(end.value), end.value, end.label, end.user, end.org],
        )
        if there.fetchone():
            return end
        best: tuple[bool, bool, int] | None = None
        found: list[Identity] = []
        for value, user, org in self.conn.execute(
            "select value, user, org from nodes where folded = ? and label = ?",
            [_fold(end.value), end.label],
        ):
            node = Identity(end.label, value, org, user)
            distance = _distance(end, node)
            rank = (distance == 3, value != end.value, distance)
            if best is None or rank < best:
                best, found = rank, []
            if rank == best:
                found.append(node)
        if not found:
            return f"no {_cut(end.label)} named {_cut(end.value)!r}{self._hint(end)}"
        if len(found) > 1:
            shown = "; ".join(node.shown for node in found[:_CANDIDATES_SHOWN])
            more = len(found) - _CANDIDATES_SHOWN
            shown += f"; and {more} more" if more > 0 else ""
            return f"{_cut(end.label)} {_cut(end.value)!r} may be any of {len(found)}: {shown}"
        self.crossed += best is not None and best[0]
        return found[0]

    def _hint(self, end: Identity) -> str:
        row = self.conn.execute(
            "select label, value, org, user from nodes where folded = ? limit 1",
            [_fold(end.value)],
        ).fetchone()
        return f" (there is {Identity(*row).shown})" if row else ""


def _fold(text: str) -> str:
    return text.translate(_LOWER)


def _distance(end: Identity, node: Identity) -> int:
    """How far the owners are apart: 0 the same, 3 they contradict each other."""
    if (end.org, end.user) == (node.org, node.user):
        return 0
    if end.org == node.org and node.user == EVERYBODY:
        return 1
    if all(not a or not b or a == b for a, b in ((end.org, node.org), (end.user, node.user))):
        return 2
    return 3


def _names(node: Identity, of_label: int, of_user: int) -> Iterator[str]:
    """Names for one of several nodes with the same key, the best first, without end."""
    owner = f"{node.org}/{node.user}" if node.org and node.user else node.user or node.org
    if of_label == 1 or not owner:
        yield f"{node.value} ({node.label})"
    elif of_user == 1 and node.user:
        yield f"{node.value} ({node.label}, {node.user})"
    if owner:
        yield f"{node.value} ({node.label}, {owner})"
    number = 2
    while True:
        yield f"{node.value} ({node.label}, {number})"
        number += 1
