"""Where a program calls a collective: the line that is told of ranks that wait, or do not agree."""

from __future__ import annotations

import os
import sys

# Folders of those that only pass calls on.
_passes: tuple[str, ...] = (os.path.dirname(__file__) + os.sep,)


def passes_on(module: object) -> None:
    """Calls from this module's folder are those of whoever calls it."""
    global _passes
    _passes += (os.path.dirname(str(module.__file__)) + os.sep,)


def calling() -> tuple[str, int] | None:
    """File and line of the innermost frame that is a program's own; none in a thread that has none."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(_passes):
            return name, frame.f_lineno
        frame = frame.f_back
    return None
