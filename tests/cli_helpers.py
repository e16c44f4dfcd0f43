"""What the tests of commands share."""

from __future__ import annotations

import io


class Terminal(io.StringIO):
    """Something that is written to and takes itself for a terminal."""

    def isatty(self) -> bool:
        return True
