"""The exception of this package."""

from __future__ import annotations


class Error(Exception):
    """An error of etlink.

    file: the file or folder of the error, or None
    place: the position in the file, or None
    remedy: what you can do, or None; also the end of the message
    """

    file: str | None
    place: str | None
    remedy: str | None

    def __init__(
        self,
        message: str,
        file: str | None = None,
        place: str | None = None,
        remedy: str | None = None,
    ) -> None:
        # all arguments, because an exception is pickled by them when it leaves a process
        super().__init__(message, file, place, remedy)
        self.file, self.place, self.remedy = file, place, remedy

    def __str__(self) -> str:
        return str(self.args[0])
