"""Progress of reading traces: a bar of tqdm, if installed, in a terminal or notebook."""

from __future__ import annotations

import sys
import time
import warnings
from typing import Any

DELAY_S = 0.5
"""Shorter calls show nothing."""


class Progress:
    """Progress of a call, updated by the extension every 50 ms."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._bar: Any = None
        self._is_missing = False

    def update(self, phase: str, read: int, expected: int) -> None:
        """Shows the bytes read, and the size of the files opened so far."""
        if self._is_missing or time.monotonic() - self._begin < DELAY_S:
            return
        if self._bar is None:
            self._bar = _new_bar()
            self._is_missing = self._bar is None
            if self._is_missing:
                return
        # files are opened one after the other, so the end moves
        self._bar.total, self._bar.n = expected, read
        self._bar.set_description(phase, refresh=False)
        self._bar.refresh()

    def close(self) -> None:
        """Removes the bar at the end of the call."""
        if self._bar is not None:
            self._bar.close()


def progress() -> Progress | None:
    """Returns a progress bar, or None if nobody would see it."""
    return Progress() if _is_watched() else None


def _is_watched() -> bool:
    """Returns True in a notebook, or if standard error is a terminal."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if getattr(shell, "kernel", None) is not None:
        return True
    return sys.stderr is not None and sys.stderr.isatty()


def _new_bar() -> Any:
    """Returns a bar, or None without tqdm, which takes longer to import than short calls last."""
    try:
        with warnings.catch_warnings():
            # in a notebook without widgets tqdm warns, and draws a bar of text
            warnings.simplefilter("ignore")
            from tqdm import auto  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError:
        return None
    bar: Any = auto.tqdm
    return bar(unit="B", unit_scale=True, leave=False)
