"""Types of the public interface; other modules are internal."""

from collections.abc import Callable, Iterable, Sequence
from os import PathLike
from types import TracebackType
from typing import Any, TypedDict, overload

from torch.profiler import ExecutionTraceObserver as ExecutionTraceObserver
from torch.profiler import ProfilerAction as ProfilerAction
from torch.profiler import ProfilerActivity as ProfilerActivity
from torch.profiler import kineto_available as kineto_available
from torch.profiler import profile as torch_profile
from torch.profiler import record_function as record_function
from torch.profiler import schedule as schedule
from torch.profiler import supported_activities as supported_activities
from torch.profiler import tensorboard_trace_handler as tensorboard_trace_handler
from typing_extensions import Required, Self, Unpack

__version__: str
__all__ = ["arm", "profile"]

class _Recorded(TypedDict, total=False):
    """Options of recordings."""

    record_shapes: bool
    with_stack: bool
    profile_memory: bool
    with_flops: bool
    cuda_sync_events: bool
    thread_waits: bool
    memory_snapshot: bool
    cuda_graph_nodes: bool
    gzip: bool

class _Scheduled(_Recorded, total=False):
    wait: int
    warmup: int
    active: Required[int]
    repeat: int
    skip_first: int
    skip_first_wait: int
    interleave: bool

class arm:
    def __init__(
        self,
        output: str | PathLike[str],
        step_on: str = "optimizer",
        steps: int = 2,
        every: int | None = None,
        when: str | None = None,
        keep: int | None = None,
        signal: str | None = "SIGUSR2",
        ranks: Iterable[int] | None = None,
        overwrite: bool = False,
        max_size: int | None = None,
        activities: Iterable[object] | None = None,
        **options: Unpack[_Recorded],
    ) -> None: ...
    @property
    def notes(self) -> list[str]: ...
    def close(self) -> None: ...

class Recording:
    """Result of `profile` with a schedule in its own arguments."""

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

class profile(torch_profile):
    # a schedule in its own arguments
    @overload
    def __new__(  # type: ignore[misc]
        cls,
        output: str | PathLike[str] | None = None,
        step_on: str | None = None,
        ranks: Iterable[int] | None = None,
        tensorboard: str | PathLike[str] | None = None,
        overwrite: bool | None = None,
        max_size: int | None = None,
        activities: Iterable[object] | None = None,
        **options: Unpack[_Scheduled],
    ) -> Recording: ...
    # the arguments of `torch.profiler.profile`
    @overload
    def __new__(
        cls,
        output: str | PathLike[str] | None = None,
        *,
        activities: Iterable[Any] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[Any], Any] | Sequence[Callable[[Any], Any]] | None = None,
        record_shapes: bool = ...,
        profile_memory: bool = ...,
        with_stack: bool = ...,
        with_flops: bool = ...,
        with_modules: bool = ...,
        experimental_config: Any = ...,
        execution_trace_observer: Any = ...,
        acc_events: bool = ...,
        custom_trace_id_callback: Callable[[], str] | None = ...,
        post_processing_timeout_s: float | None = ...,
        ranks: Iterable[int] | None = None,
        tensorboard: str | PathLike[str] | None = None,
        overwrite: bool | None = None,
        max_size: int | None = None,
        thread_waits: bool = ...,
        memory_snapshot: bool = ...,
        gzip: bool = ...,
    ) -> Self: ...
    @property
    def notes(self) -> list[str]: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None: ...
