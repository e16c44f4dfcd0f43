"""The communities of a large memory, in a process of its own.

Label propagation is Python from end to end. In a thread, however patient, it would hold Python's
lock half of the time: a search beside it, which calls functions of ours from SQL, takes seconds.
"""

from __future__ import annotations

import logging
import os
import pickle
import subprocess
import sys
from typing import Any

from .communities import Part, parts
from .whole import Whole

log = logging.getLogger("datasette_limbic")

LONGEST = 1800.0
"""Seconds after which it is given up."""
NICE = 10
"""Whatever answers a request comes first."""


def first_parts(whole: Whole) -> list[Part]:
    """``atlas.first_parts``; in this process where no other can be had, and the log says why."""
    asked = (whole.ids, whole.one, whole.other, whole.weight)
    try:
        done = subprocess.run(
            [sys.executable, "-c", f"from {__name__} import main; main()"],
            input=pickle.dumps(asked),
            capture_output=True,
            timeout=LONGEST,
            check=True,
        )
        return [Part(members, count) for members, count in pickle.loads(done.stdout)]
    except (OSError, subprocess.SubprocessError, EOFError, pickle.UnpicklingError) as error:
        said = getattr(error, "stderr", None) or b""
        log.warning(
            "looking for communities in this process, as no other can be had: %s %s",
            error,
            said.decode("utf-8", "replace").strip()[-500:],
        )
        return parts(whole, whole.linked)


def main() -> None:
    """Read links from the standard input, and write parts to the standard output."""
    if hasattr(os, "nice"):  # Windows has none
        os.nice(NICE)
    found = answer(pickle.load(sys.stdin.buffer))
    sys.stdout.buffer.write(pickle.dumps(found))


def answer(asked: tuple[Any, Any, Any, Any]) -> list[tuple[Any, int]]:
    """Members and communities of each part."""
    import numpy

    ids, one, other, weight = asked
    whole = Whole(ids, (), (), numpy.zeros(len(ids)), one, other, weight)
    return [(part.members, part.communities) for part in parts(whole, whole.linked)]
