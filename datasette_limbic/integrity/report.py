"""What a check of a memory found: for a terminal, for JSON, for a page."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SHOWN = 5
_CUT = 80
_COMMANDS = {
    "sync": "datasette limbic sync {file} --repair",
    "init": "datasette limbic init {file}",
}


@dataclass(frozen=True)
class Repair:
    """What puts a finding right."""

    by: str
    """``sync`` (``sync --repair`` rebuilds it), ``init``, or ``person`` (who alone can decide)."""
    sql: tuple[str, ...] = ()
    """Statements that would do it, where a person has to decide."""
    text: str | None = None
    """What else there is to say."""

    def command(self, database: str | None) -> str | None:
        """The command line that does it, or None."""
        template = _COMMANDS.get(self.by)
        return template and template.format(file=shlex.quote(database or "FILE"))


@dataclass(frozen=True)
class Result:
    """What one check found."""

    name: str
    title: str
    """What it looks for, as one would say it of a finding: "pairs in the wrong order"."""
    ok: bool | None
    """None where it could not be looked at; ``note`` says why."""
    count: int = 0
    examples: tuple[Mapping[str, Any], ...] = ()
    repair: Repair | None = None
    note: str | None = None

    def as_dict(self, database: str | None = None) -> dict[str, Any]:
        """The same as plain data, for JSON."""
        repair = None
        if self.repair is not None:
            repair = {
                "by": self.repair.by,
                "command": self.repair.command(database),
                "sql": list(self.repair.sql),
                "text": self.repair.text,
            }
        return {
            "name": self.name,
            "title": self.title,
            "ok": self.ok,
            "count": self.count,
            "examples": [dict(example) for example in self.examples],
            "repair": repair,
            "note": self.note,
        }

    def lines(self, database: str | None = None) -> list[str]:
        """A finding in full, for a terminal."""
        out = [f"{self.title}: {self.count:,} [{self.name}]"]
        out += [f"    {shown(example)}" for example in self.examples]
        if self.count > len(self.examples) > 0:
            out.append(f"    … and {self.count - len(self.examples):,} more")
        if self.note:
            out.append(f"    ({self.note})")
        if self.repair is not None:
            command = self.repair.command(database)
            if command:
                out.append(f"  repair: {command}")
            else:
                out.append("  needs a person" + (", who may run:" if self.repair.sql else ""))
            out += [f"    {statement}" for statement in self.repair.sql]
            if self.repair.text:
                out.append(f"    {self.repair.text}")
        return out


@dataclass
class Report:
    """What all checks found, in the order in which they ran."""

    results: list[Result] = field(default_factory=list)
    database: str | None = None
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong; what could not be looked at is not wrong."""
        return not self.findings

    @property
    def findings(self) -> list[Result]:
        """What is wrong."""
        return [result for result in self.results if result.ok is False]

    @property
    def notes(self) -> list[Result]:
        """What is not wrong but worth saying, and what could not be looked at."""
        return [r for r in self.results if r.ok is not False and r.note]

    def as_dict(self) -> dict[str, Any]:
        """The same as plain data, for JSON; every check is listed, also those that passed."""
        return {
            "ok": self.ok,
            "database": self.database,
            "checks": [result.as_dict(self.database) for result in self.results],
            "seconds": self.seconds,
        }

    def text(self) -> str:
        """Findings in full, notes in a line each, passed checks counted."""
        passed = sum(result.ok is True for result in self.results)
        lines: list[str] = []
        for result in self.findings:
            lines += [*result.lines(self.database), ""]
        unseen: dict[str | None, list[str]] = {}
        for result in self.notes:
            if result.ok:
                lines.append(f"note: {result.note}")
            else:
                unseen.setdefault(result.note, []).append(result.title)
        for note, titles in unseen.items():
            what = titles[0] if len(titles) == 1 else f"{len(titles)} checks"
            lines.append(f"not looked at: {what}: {note}")
        found = len(self.findings)
        name = self.database or "this memory"
        if found:
            say = f"{found} finding{'s' if found > 1 else ''}, {passed} checks passed"
        else:
            say = f"all is well, {passed} checks passed"
        return "\n".join([*lines, f"{name}: {say}"])


def shown(example: Mapping[str, Any]) -> str:
    """An example in one line: ``id 5, name 'Atlas'``."""
    return ", ".join(
        str(value) if key == "text" else f"{key} {value!r}" for key, value in example.items()
    )


def plain(value: Any) -> Any:
    """A value of SQLite's as JSON takes it, long ones cut."""
    if isinstance(value, bytes):
        return f"blob of {len(value):,} bytes"
    if isinstance(value, float) and not abs(value) < float("inf"):
        return str(value)
    if isinstance(value, str) and len(value) > _CUT:
        return value[: _CUT - 1] + "…"
    return value
