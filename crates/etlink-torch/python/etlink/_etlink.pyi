"""The extension module, which the other modules of this package call."""

from os import PathLike
from typing import Any, final

__all__ = [
    "HtaHandle",
    "PhasedReport",
    "RunHandle",
    "Schedule",
    "Table",
    "list_merge_ranks",
    "merge_phase",
    "remove_phases",
    "run_command",
    "written_graphs",
]

def list_merge_ranks(source: str, folder: str, ranks: str | None) -> int: ...
def merge_phase(
    source: str,
    folder: str,
    phase: str,
    shard: tuple[int, int],
    ranks: str | None,
    memory: int | None,
    threads: int,
    strict: bool,
    simulator: bool,
    overwrite: bool,
) -> tuple[list[str], list[tuple[str, str]]]: ...
def remove_phases(folder: str) -> None: ...
def written_graphs(folder: str) -> list[str]: ...
def run_command(own_command: list[str], words: list[str]) -> int: ...
@final
class HtaHandle:
    def __new__(
        cls,
        files: list[tuple[int | None, str]],
        is_folder: bool,
        include_last: bool,
        nanoseconds: bool,
    ) -> HtaHandle: ...
    @property
    def files(self) -> list[tuple[int, PathLike[str]]]: ...
    @property
    def notes(self) -> list[str]: ...
    @property
    def profiler_steps(self) -> list[int]: ...
    def potential_stragglers(self, steps: list[int], candidates: int) -> list[int]: ...
    def table(self, name: str) -> Table: ...

@final
class PhasedReport:
    def __new__(
        cls,
        source: str,
        folder: str,
        ranks: str | None,
        memory: int | None,
        threads: int,
        strict: bool,
        sequences_of: str | None,
        memory_timeline: bool,
        scale: list[str],
        what_if: list[str],
    ) -> PhasedReport: ...
    def list_ranks(self) -> tuple[int, str]: ...
    def summarize(self, command: str, shard: tuple[int, int]) -> str: ...
    def analyze(self) -> tuple[list[Table], list[str]]: ...
    def ranks(self) -> tuple[list[Table], list[str]]: ...
    def findings(self) -> list[str]: ...
    def replay(self) -> tuple[str, Table]: ...

@final
class RunHandle:
    def __new__(
        cls,
        paths: list[str],
        is_list: bool,
        ranks: str | None,
        memory: int | None,
        strict: bool,
        cache: str | None,
    ) -> RunHandle: ...
    def close(self) -> None: ...
    @property
    def closed(self) -> bool: ...
    @property
    def ranks(
        self,
    ) -> list[tuple[str, int | None, str | None, str | None]]: ...
    @property
    def notes(self) -> list[str]: ...
    @staticmethod
    def table_names() -> list[str]: ...
    def table(self, name: str, sequences_of: str | None = None) -> Table: ...
    def findings(self) -> list[str]: ...
    def replay(self, scale: list[str], what_if: list[str]) -> tuple[str, Table]: ...
    def diff(self, other: RunHandle) -> tuple[str, list[str], list[Table]]: ...
    def report(self, title: str) -> bytes: ...
    def to_chakra(
        self, folder: str, simulator: bool, overwrite: bool
    ) -> list[str]: ...
    def timeline(self, path: str, overwrite: bool) -> None: ...

@final
class Schedule:
    def __new__(
        cls,
        wait: int,
        warmup: int,
        active: int,
        repeat: int,
        skip_first: int,
        skip_first_wait: int,
    ) -> Schedule: ...
    def __call__(self, step: int) -> str: ...
    @property
    def first_recorded(self) -> int | None: ...

@final
class Table:
    @property
    def name(self) -> str: ...
    @property
    def columns(self) -> list[str]: ...
    def __len__(self) -> int: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def to_pylist(self, limit: int | None = None) -> list[dict[str, Any]]: ...
