"""Files that are replaced when they are whole, and not before."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def written_beside(path: str, overwrite: bool) -> Iterator[str]:
    """A name beside a file. What the block writes there takes the file's place at its end; when the
    block fails, it is removed and the file stays as it was.

    Raises FileExistsError where the file is there, unless it may be overwritten.
    """
    if not overwrite and os.path.lexists(path):
        raise FileExistsError(path)
    # a link to a file stays one
    place = os.path.realpath(path)
    if os.path.exists(place) and not os.path.isfile(place):
        # a device or a pipe is written to, and a folder is refused by whoever opens it
        yield place
        return
    # no ending of traces: what a killed process leaves is no trace of the folder
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
        # renaming would replace a file that came there meanwhile
        os.link(beside, place)
    except FileExistsError:
        raise
    except OSError:
        # a file system without links
        os.rename(beside, place)
    else:
        os.unlink(beside)
