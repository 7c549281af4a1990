"""Files that are replaced only when they are complete."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def written_beside(path: str, overwrite: bool) -> Iterator[str]:
    """Gives a temporary name next to a file. At the end of the block, that file replaces the first
    one. If the block fails, it is removed, and the first file stays unchanged.

    Raises FileExistsError if the file exists, unless `overwrite` is true.
    """
    if not overwrite and os.path.lexists(path):
        raise FileExistsError(path)
    # a link to a file stays one
    place = os.path.realpath(path)
    if os.path.exists(place) and not os.path.isfile(place):
        # devices and pipes are written directly, and opening a folder fails
        yield place
        return
    # not a trace's extension: the rest of a killed process must not count as a trace
    beside = os.path.join(os.path.dirname(place), f".etlink-{secrets.token_hex(8)}.part")
    try:
        yield beside
        with open(beside, "rb+") as written:
            os.fsync(written.fileno())
        _move(beside, place, overwrite)
    except BaseException:
        if os.path.lexists(beside):
            os.unlink(beside)
        raise


def _move(beside: str, place: str, overwrite: bool) -> None:
    if overwrite:
        if os.path.exists(place):
            shutil.copymode(place, beside)
        os.replace(beside, place)
        return
    try:
        # renaming would replace a file that was created meanwhile
        os.link(beside, place)
    except FileExistsError:
        raise
    except OSError:
        # a file system without links
        os.rename(beside, place)
    else:
        os.unlink(beside)
