"""Functions called in processes of their own, which end when this one is stopped.

A process pool waits for what it was given, however long, when it is left; these are ended.
"""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections.abc import Callable, Sequence
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, TypeVar

T = TypeVar("T")
STOPS_WITHIN_S = 5
"""What a process has to tidy up, once it is told to end: code in C may not hear of it."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Failed(Exception):
    """What a process of its own raised, in a sentence."""


def call(function: Callable[..., T], *arguments: Any) -> T:
    """The result of a function, called in a process of its own. Raises Failed."""
    (answer,) = each(function, [arguments])
    return answer


def each(
    function: Callable[..., T],
    items: Sequence[tuple[Any, ...]],
    *,
    processes: int = 1,
    done: Callable[[int, int], None] | None = None,
) -> list[T]:
    """The results of a function for each tuple of arguments, each in a process of its own.

    So many run at once; ``done`` is called with (items done, items in all). Raises Failed at the
    first that fails. Whatever is raised, no process is left.
    """
    answers: dict[int, T] = {}
    running: dict[Connection, tuple[int, SpawnProcess]] = {}
    waiting = list(enumerate(items))[::-1]
    try:
        while waiting or running:
            while waiting and len(running) < processes:
                place, arguments = waiting.pop()
                _start(running, place, function, arguments)
            for pipe in wait(list(running)):
                assert isinstance(pipe, Connection)
                place, process = running[pipe]
                answers[place] = _received(pipe)
                process.join()
                del running[pipe]
                if done:
                    done(len(answers), len(items))
    finally:
        _end([process for _, process in running.values()])
    return [answers[place] for place in range(len(items))]


def _start(
    running: dict[Connection, tuple[int, SpawnProcess]],
    place: int,
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
) -> None:
    # spawned, not forked: the parent may have threads, and what it loaded must not count
    context = multiprocessing.get_context("spawn")
    ours, its = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(its, function, arguments))
    resource_tracker.ensure_running()  # it unblocks the signals, when it starts
    # Ctrl-C in a terminal reaches all processes: one that begins must not hear it, nor may a
    # signal come here before the process is among those to be ended
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        process.start()
        running[ours] = place, process
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    its.close()


def _received(pipe: Connection) -> Any:
    try:
        answer, failed = pipe.recv()
    except EOFError:
        raise Failed("its process was killed, by the system for want of memory?") from None
    if failed:
        raise Failed(failed)
    return answer


def _end(processes: Sequence[SpawnProcess]) -> None:
    for process in processes:
        process.terminate()
    for process in processes:
        process.join(STOPS_WITHIN_S)
        if process.is_alive():
            process.kill()
            process.join()


def _answer(pipe: Connection, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """What the process does. SIGTERM unwinds it, so that what it started is stopped too."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    try:
        pipe.send((function(*arguments), ""))  # it sends nothing of what it cannot pickle
    except Exception as error:  # foreign code: its failure is told, whatever it is
        pipe.send((None, f"{type(error).__name__}: {error}"))
