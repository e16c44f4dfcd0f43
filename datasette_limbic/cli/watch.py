"""``datasette limbic import --watch``: following files until somebody stops it."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from types import FrameType

import click

from ..importing.import_job import Options
from ..importing.summary import ImportSummary
from ..importing.watching import watch
from ..importing.watching.round_text import figures, round_text

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def follow(
    database: str,
    files: tuple[Path, ...],
    options: Options,
    interval: float,
    *,
    as_json: bool = False,
    quiet: bool = False,
) -> None:
    """Import the files and follow them, with a line for each round that changed something."""

    def report(summary: ImportSummary) -> None:
        if quiet:
            return
        if as_json:
            _print_json({"at": _now(), **summary.as_dict()})
            return
        for file in summary.files:
            click.echo(f"{time.strftime('%H:%M:%S')} {file.name}: {round_text(figures(file))}")

    def say(text: str) -> None:
        click.echo(text, err=True)

    with _stopped_by_signals() as stop:
        watched = watch(
            database, files, options=options, interval=interval, stop=stop, report=report, say=say
        )
    for sentence in watched.left:
        say(sentence[:1].upper() + sentence[1:])
    if quiet:
        return
    if as_json:
        _print_json(
            {"at": _now(), "stopped": True, "rounds": watched.rounds, "totals": watched.figures}
        )
        return
    rounds = f"{watched.rounds:,} round{'' if watched.rounds == 1 else 's'} with changes"
    click.echo(f"Stopped after {rounds}: {round_text(watched.figures)}")


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def _print_json(value: object) -> None:
    click.echo(json.dumps(value, ensure_ascii=False))


@contextmanager
def _stopped_by_signals() -> Iterator[threading.Event]:
    """An event that the first Ctrl-C or SIGTERM sets; a second one ends the process."""
    stop = threading.Event()

    def handle(number: int, frame: FrameType | None) -> None:
        for each in _SIGNALS:
            signal.signal(each, before[each])
        # not here: the signal may have come while this very thread holds the event's lock
        threading.Thread(target=stop.set, daemon=True).start()

    if threading.current_thread() is not threading.main_thread():
        yield stop  # signals are none of its business
        return
    before = {each: signal.getsignal(each) for each in _SIGNALS}
    for each in _SIGNALS:
        signal.signal(each, handle)
    try:
        yield stop
    finally:
        for each in _SIGNALS:
            signal.signal(each, before[each])
