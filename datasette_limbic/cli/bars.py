"""Progress bars on stderr, for commands that take long."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from typing import Any

import click


class Bars(ExitStack):
    """A bar for each part of the work, opened when it first has something to show."""

    def __init__(self) -> None:
        super().__init__()
        self.bars: dict[str, Any] = {}

    def show(self, done: int, total: int, part: str) -> None:
        """``done`` of ``total`` steps of ``part``."""
        bar = self.bars.get(part)
        if bar is None:
            self.close()  # finishes the line of the one before
            bar = self.enter_context(click.progressbar(length=total, label=part, file=sys.stderr))
            self.bars[part] = bar
        bar.length = total
        bar.update(done - bar.pos)


def say(text: str) -> None:
    """A word on stderr while something takes seconds, where somebody sees it."""
    if sys.stderr.isatty():
        click.echo(text, err=True)
