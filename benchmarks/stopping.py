"""How a program that takes long is stopped: in order, with one line and nothing left behind."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from . import apart
from .progress import say

_CODES = {signal.SIGINT: 130, signal.SIGTERM: 1}
"""What stops a program, and the exit code it then has."""


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Write to what is given: it becomes the file of this name once it is whole, else nothing.

    So a file that is there is complete, whenever a run was stopped.
    """
    unfinished = path.with_name(f"{path.name}.part")
    unfinished.unlink(missing_ok=True)
    try:
        yield unfinished
        unfinished.replace(path)
    finally:
        for left in path.parent.glob(f"{unfinished.name}*"):  # SQLite's journal, too
            left.unlink()


class _Stopped(BaseException):
    """Not an Exception: whoever goes on after the failure of a part must not go on after this."""


@contextmanager
def stoppable(kept: Path) -> Iterator[None]:
    """The work of a program that keeps what it made in ``kept``, called by its main thread.

    Ctrl-C and SIGTERM unwind it, once; then temporary files, those of other processes too, are
    removed. They, and what a person can mend, end the program by SystemExit with one line.
    """

    def stop(number: int, _: object) -> None:
        for either in _CODES:  # whoever is impatient must not end the tidying up
            signal.signal(either, signal.SIG_IGN)
        raise _Stopped(number)

    handlers = [(number, signal.signal(number, stop)) for number in _CODES]
    environment = os.environ.get("TMPDIR")
    try:
        with tempfile.TemporaryDirectory(prefix="limbic-", ignore_cleanup_errors=True) as folder:
            os.environ["TMPDIR"] = tempfile.tempdir = folder
            yield
    except _Stopped as stopped:
        say(f"\nStopped. The same command goes on with what is in {kept}.")
        sys.exit(_CODES[stopped.args[0]])
    except (FileNotFoundError, apart.Failed) as error:  # no WordNet, apt-get without a network
        sys.exit(f"{error}")
    finally:
        tempfile.tempdir = None
        if environment is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = environment
        for number, handler in handlers:
            signal.signal(number, handler)
