"""What a benchmark that takes long shows meanwhile, on stderr: a line for each step, and bars."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from datasette_limbic.cli.bars import Bars


def say(text: str) -> None:
    """A line, of a step that cannot be counted."""
    click.echo(text, err=True)


@contextmanager
def counted(part: str) -> Iterator[Callable[..., None]]:
    """A bar: call what is given with (done, in all). Where nobody sees it, its name alone."""
    with Bars() as bars:
        yield lambda done, total, *_: bars.show(done, total, part)
