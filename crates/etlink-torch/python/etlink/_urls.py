"""Traces at URLs."""

from __future__ import annotations

import os
from typing import IO, TYPE_CHECKING, Any, cast

from ._error import Error

if TYPE_CHECKING:
    # they take longer to import than all of this package, and most traces are files
    import tempfile

BY_ETLINK = ("s3", "s3a", "gs", "az", "azure")
"""Object stores whose files and folders etlink reads itself, without a copy."""
BY_PYTHON = ("http", "https", "ftp")
"""Schemes that Python reads itself; fsspec reads others, if it is installed."""
SILENCE_S = 60
"""Time without data after which a server counts as gone."""


def in_object_store(path: str) -> bool:
    """Returns True for a URL of an object store."""
    scheme, is_url, _ = path.partition("://")
    return bool(is_url) and scheme.lower() in BY_ETLINK


class LocalCopies:
    """Local copies of URLs, deleted with this object."""

    def __init__(self) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def local_path(self, path: str) -> str:
        """Returns the path itself, or the path of a local copy."""
        scheme, is_url, rest = path.partition("://")
        if not is_url or in_object_store(path):
            return path
        import shutil
        import tempfile
        import urllib.parse
        import urllib.request

        if scheme == "file":
            return urllib.request.url2pathname(rest)
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="etlink-")
        name = os.path.basename(urllib.parse.urlsplit(path).path)
        if not name:
            remedy = "give the URLs of its traces"
            raise Error(f"{path} is a folder; {remedy}", file=path, remedy=remedy)
        # two URLs may end with one name
        folder = tempfile.mkdtemp(dir=self._folder.name)
        copy = os.path.join(folder, name)
        try:
            with _opened(path, scheme) as source, open(copy, "wb") as target:
                shutil.copyfileobj(source, target)
        except (OSError, ValueError) as error:
            raise Error(f"cannot read {path}: {error}", file=path) from None
        return copy


def _opened(url: str, scheme: str) -> IO[bytes]:
    if scheme in BY_PYTHON:
        import urllib.request

        return cast("IO[bytes]", urllib.request.urlopen(url, timeout=SILENCE_S))
    try:
        import fsspec  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError:
        remedy = "pip install fsspec and its package for this store, or copy the trace"
        raise Error(f"{url}: {scheme} needs fsspec; {remedy}", file=url, remedy=remedy) from None
    opened: Any = fsspec.open(url, "rb").open()
    return cast("IO[bytes]", opened)
