"""Types of what programs use; the other modules are the package's own."""

from collections.abc import Iterable
from os import PathLike
from types import TracebackType

from typing_extensions import Self

__version__: str
__all__ = ["profile"]

class profile:
    def __init__(
        self,
        output: str | PathLike[str],
        step_on: str | None = None,
        ranks: Iterable[int] | None = None,
        tensorboard: str | PathLike[str] | None = None,
        overwrite: bool = False,
        max_size: int | None = None,
        activities: Iterable[object] | None = None,
        *,
        wait: int = ...,
        warmup: int = ...,
        active: int = ...,
        repeat: int = ...,
        skip_first: int = ...,
        skip_first_wait: int = ...,
        record_shapes: bool = ...,
        with_stack: bool = ...,
        profile_memory: bool = ...,
        with_flops: bool = ...,
        cuda_sync_events: bool = ...,
        thread_waits: bool = ...,
        gzip: bool = ...,
        interleave: bool = ...,
    ) -> None: ...
    @property
    def notes(self) -> list[str]: ...
    def step(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...
