"""The exception of this package."""

from __future__ import annotations


class Error(Exception):
    """Why etlink could not do what was asked for.

    file: the file or folder that it is about, or None
    place: where in the file, or None
    remedy: what you can do, or None; the message ends with it too
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
        # all of them: an exception is pickled by its arguments, on its way out of a process
        super().__init__(message, file, place, remedy)
        self.file, self.place, self.remedy = file, place, remedy

    def __str__(self) -> str:
        return str(self.args[0])
