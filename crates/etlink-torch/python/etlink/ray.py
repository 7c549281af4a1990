"""Merges the ranks of a run on a Ray cluster, and makes reports: `pip install etlink[ray]`.

    import etlink.ray

    etlink.ray.merge("/shared/traces", "/shared/merged", shards=64)
    tables = etlink.ray.analyze("/shared/traces")
    print(tables["kernels"].to_pylist(3))

The ranks are split into shards, and each shard is a task of Ray. The files equal those of `etlink merge`, byte for byte, and the
tables those of `etlink.open`. A task that is lost with its machine is repeated.

All machines of the cluster must see both folders under the same path. Folders in object stores have such paths:

    etlink.ray.merge("s3://bucket/traces", "s3://bucket/merged")

Each task looks for credentials on its machine: in the environment, in files of the cloud's tools, or from the machine's role.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from . import _etlink
from ._error import Error
from ._results import Replay, RunTables
from ._run import Path, _bytes, _path_text, _questions, _rank_list, _scale_rules
from ._table import Table
from ._urls import in_object_store

SHARDS_PER_CPU = 4
"""More shards than processors: a worker that finishes early takes another one."""

DEFAULT_MEMORY = 4_000_000_000
"""Default memory limit of a task, bytes."""

_M_MMAP_THRESHOLD = -3
"""The parameter of glibc's `mallopt`, from malloc.h."""

_LARGE_BLOCK = 4 << 20
"""Size in bytes from which blocks are allocated directly from the system."""

Joined = TypeVar("Joined")

Progress = Callable[[str, int, int], None]
"""Called with the name of a phase, the number of finished shards, and the number of shards."""


def merge(
    source: Path,
    folder: Path,
    *,
    shards: int | None = None,
    ranks: int | Iterable[int] | None = None,
    memory: int | str | None = None,
    simulator: str | None = None,
    strict: bool = False,
    overwrite: bool = False,
    retries: int = 3,
    progress: Progress | None = None,
) -> list[str]:
    """Writes a Chakra file for each rank of a folder into another folder, and returns their paths.

    source: the folder with the traces of all ranks, or its URL in an object store
    folder: the output folder, or its URL; created if missing
    shards: number of tasks that the ranks are split into; None: four per processor of the cluster
    ranks: ranks to read; None: all
    memory: memory limit of a task, in bytes or a text such as "8G"; Ray starts a task where this
        much is free. None: 4 GB, or the memory of the largest machine if that is less
    simulator: "astra-sim" also writes its configurations and a README
    strict: reject damaged traces, and pairs of traces from two runs
    overwrite: replace files of an earlier merge
    retries: how often a task is repeated if its worker or machine is lost
    progress: called when a task is done

    Raises Error if a rank could not be linked or written, with its name; the other ranks are
    written. Ctrl-C cancels all tasks.
    """
    paths = [_shared_path(path) for path in (source, folder)]
    if simulator not in (None, "astra-sim"):
        raise Error(f"unknown simulator {simulator!r}; give 'astra-sim', or None")
    chosen, asked = _rank_list(ranks), _bytes(memory)
    selection = None if chosen is None else ",".join(map(str, chosen))
    if not overwrite:
        _refuse_graphs(paths[1])
    ray = _import_ray()
    if not ray.is_initialized():
        ray.init()
    most = _task_memory(ray, asked)
    parts = _shard_count(ray, shards)
    # data of an earlier merge is of no use
    _etlink.remove_phases(paths[1])
    # tasks find the files of each rank there, instead of searching themselves
    parts = min(parts, _etlink.list_merge_ranks(paths[0], paths[1], selection))
    settings: dict[str, Any] = {
        "source": paths[0],
        "folder": paths[1],
        "ranks": selection,
        "memory": most,
        "threads": 1,
        "strict": bool(strict),
        "simulator": simulator is not None,
    }
    # a repeated task finds its own earlier output
    cluster = _Cluster(ray, _run_phase, {**settings, "overwrite": True}, most, retries, progress)
    files: list[str] = []
    failed: dict[str, str] = {}
    for phase, tasks in [("summaries", parts), ("join", 1), ("write", parts)]:
        for written, refused in cluster.run(phase, tasks):
            files += written
            failed.update(refused)
    _etlink.remove_phases(paths[1])
    if failed:
        label, reason = min(failed.items())
        more = f"; {len(failed) - 1} more ranks failed" if len(failed) > 1 else ""
        raise Error(f"rank {label}: {reason}{more}")
    return sorted(files)


def analyze(
    source: Path,
    *,
    sequences_of: str | None = None,
    memory_timeline: bool = False,
    shards: int | None = None,
    ranks: int | Iterable[int] | None = None,
    memory: int | str | None = None,
    strict: bool = False,
    retries: int = 3,
    progress: Progress | None = None,
) -> RunTables:
    """Returns the tables of `etlink analyze` on a folder: `analyze(source)["kernels"]` is the table
    `etlink.open(source).table("kernels")`.

    sequences_of: add the table "sequences", for the outermost ops whose names contain this
    memory_timeline: add the table "memory_timeline", with each allocation and free

    The other arguments are those of `merge`.
    """
    query = {"sequences_of": sequences_of, "memory_timeline": bool(memory_timeline)}
    cluster = _ReportCluster(source, shards, ranks, memory, strict, retries, progress)
    return _tables(*cluster.report("analyze", query, _etlink.PhasedReport.analyze))


def ranks(
    source: Path,
    *,
    shards: int | None = None,
    ranks: int | Iterable[int] | None = None,
    memory: int | str | None = None,
    strict: bool = False,
    retries: int = 3,
    progress: Progress | None = None,
) -> RunTables:
    """Returns the tables of `etlink ranks` on a folder: `ranks(source)["steps"]` is the table
    `etlink.open(source).table("ranks.steps")`.

    The arguments are those of `merge`.
    """
    cluster = _ReportCluster(source, shards, ranks, memory, strict, retries, progress)
    return _tables(*cluster.report("ranks", {}, _etlink.PhasedReport.ranks))


def findings(
    source: Path,
    *,
    shards: int | None = None,
    ranks: int | Iterable[int] | None = None,
    memory: int | str | None = None,
    strict: bool = False,
    retries: int = 3,
    progress: Progress | None = None,
) -> list[str]:
    """Returns the largest possible gains of a folder's run, a sentence each.

    The arguments are those of `merge`. The graphs of all ranks must fit into the memory of this
    process.
    """
    cluster = _ReportCluster(source, shards, ranks, memory, strict, retries, progress)
    return cluster.report("findings", {}, _etlink.PhasedReport.findings)


def replay(
    source: Path,
    scale: Mapping[str, float] | None = None,
    what_if: str | Iterable[str] = (),
    *,
    shards: int | None = None,
    ranks: int | Iterable[int] | None = None,
    memory: int | str | None = None,
    strict: bool = False,
    retries: int = 3,
    progress: Progress | None = None,
) -> Replay:
    """Replays the graph of a folder's ranks, like `etlink.open(source).replay(scale, what_if)`.

    The other arguments are those of `merge`. The graphs of all ranks must fit into the memory of
    this process.
    """
    query = {"scale": _scale_rules(scale), "what_if": _questions(what_if)}
    cluster = _ReportCluster(source, shards, ranks, memory, strict, retries, progress)
    text, path = cluster.report("replay", query, _etlink.PhasedReport.replay)
    return Replay(text, Table(path))


def _tables(tables: list[_etlink.Table], notes: list[str]) -> RunTables:
    return RunTables([Table(table) for table in tables], notes)


class _ReportCluster:
    """Makes a report: tasks summarize shards, and this process joins the summaries."""

    def __init__(
        self,
        source: Path,
        shards: int | None,
        ranks: int | Iterable[int] | None,
        memory: int | str | None,
        strict: bool,
        retries: int,
        progress: Progress | None,
    ) -> None:
        chosen, self.asked = _rank_list(ranks), _bytes(memory)
        self.retries, self.progress = retries, progress
        self.settings: dict[str, Any] = {
            "source": _shared_path(source),
            "ranks": None if chosen is None else ",".join(map(str, chosen)),
            "strict": bool(strict),
            "sequences_of": None,
            "memory_timeline": False,
            "scale": [],
            "what_if": [],
        }
        with tempfile.TemporaryDirectory(prefix="etlink-") as folder:
            count, path = self.phased(folder, self.settings).list_ranks()
            # the files of each rank, so that tasks need not search themselves
            self.listing = _stored(path)
        self.ray = _import_ray()
        if not self.ray.is_initialized():
            self.ray.init()
        self.most = _task_memory(self.ray, self.asked)
        self.parts = min(_shard_count(self.ray, shards), count)

    def phased(self, folder: str, settings: dict[str, Any]) -> _etlink.PhasedReport:
        """Returns the report for a phase in this process."""
        return _etlink.PhasedReport(folder=folder, memory=self.asked, threads=0, **settings)

    def report(
        self,
        command: str,
        query: dict[str, Any],
        join: Callable[[_etlink.PhasedReport], Joined],
    ) -> Joined:
        settings = {**self.settings, **query}
        of_task = {**settings, "memory": self.most, "threads": 1, "command": command}
        # once for all tasks of a machine
        listing = self.ray.put(self.listing)
        cluster = _Cluster(
            self.ray, _summarize, of_task, self.most, self.retries, self.progress, listing
        )
        # only on this machine: summaries of shards arrive through Ray
        with tempfile.TemporaryDirectory(prefix="etlink-") as folder:
            _store(folder, self.listing)
            for stored in cluster.run("summaries", self.parts):
                _store(folder, stored)
            joined = join(self.phased(folder, settings))
        if self.progress is not None:
            self.progress("join", 1, 1)
        return joined


class _Cluster:
    """Runs the shards of a phase as tasks, on one processor each."""

    def __init__(
        self,
        ray: Any,
        work: Callable[..., Any],
        settings: dict[str, Any],
        memory: int,
        retries: int,
        progress: Progress | None,
        *more: Any,
    ) -> None:
        self.ray, self.settings, self.progress, self.more = ray, settings, progress, more
        self.task = ray.remote(work).options(
            num_cpus=1, memory=memory, max_retries=retries, name="etlink"
        )

    def run(self, phase: str, shards: int) -> Iterator[Any]:
        """Yields the result of each shard, in the order of their completion."""
        waiting = [
            self.task.remote(self.settings, phase, (shard, shards), *self.more)
            for shard in range(shards)
        ]
        try:
            while waiting:
                done, waiting = self.ray.wait(waiting, num_returns=1)
                # one at a time, so that results need not stay in the cluster
                yield from self.ray.get(done)
                if self.progress is not None:
                    self.progress(phase, shards - len(waiting), shards)
        except self.ray.exceptions.RayTaskError as error:
            # Ray has wrapped an Error of etlink
            raise error.cause from None
        except self.ray.exceptions.RayError as error:
            remedy = "give more retries, or more memory for a task"
            message = f"a task of the phase {phase} was lost: {error}; {remedy}"
            raise Error(message, remedy=remedy) from error
        finally:
            for task in waiting:
                self.ray.cancel(task)


def _run_phase(
    settings: dict[str, Any], phase: str, shard: tuple[int, int]
) -> tuple[list[str], list[tuple[str, str]]]:
    """Task: runs a phase of one shard of a merge. Returns the written files, and the failed ranks
    with their reasons."""
    with _trim_after_task():
        return _etlink.merge_phase(phase=phase, shard=shard, **settings)


_StoredFile = tuple[str, bytes]
"""Name and content of a file."""


def _summarize(
    settings: dict[str, Any], phase: str, shard: tuple[int, int], listing: _StoredFile
) -> _StoredFile:
    """Task: summarizes one shard for a report."""
    of_report = {name: value for name, value in settings.items() if name != "command"}
    # only on this machine: the content of the file goes through Ray
    with _trim_after_task(), tempfile.TemporaryDirectory(prefix="etlink-") as folder:
        _store(folder, listing)
        report = _etlink.PhasedReport(folder=folder, **of_report)
        return _stored(report.summarize(settings["command"], shard))


@contextlib.contextmanager
def _trim_after_task() -> Iterator[None]:
    """Returns the memory of a task to the system at the end of the task.

    glibc keeps freed memory per arena, and the threads of a worker have many arenas, so a worker
    would hold more memory with each task.
    """
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None
    # other C libraries have no such functions
    mallopt, malloc_trim = (getattr(libc, name, None) for name in ("mallopt", "malloc_trim"))
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BLOCK)
    try:
        yield
    finally:
        if malloc_trim is not None:
            malloc_trim(0)


def _stored(path: str) -> _StoredFile:
    with open(path, "rb") as file:
        return os.path.basename(path), file.read()


def _store(folder: str, stored: _StoredFile) -> None:
    name, content = stored
    with open(os.path.join(folder, name), "wb") as file:
        file.write(content)


def _import_ray() -> Any:
    """Imports Ray on first use: the rest of the package does not need it."""
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        remedy = "pip install 'etlink[ray]'"
        raise Error(f"Ray is not installed; {remedy}", remedy=remedy) from error


def _shard_count(ray: Any, asked: int | None) -> int:
    if asked is None:
        processors = int(ray.cluster_resources().get("CPU", 1))
        asked = max(1, processors) * SHARDS_PER_CPU
    if isinstance(asked, bool) or not isinstance(asked, int):
        raise TypeError(f"shards is an int, not {type(asked).__name__}")
    if asked < 1:
        raise Error(f"{asked} shards are too few; give at least 1")
    return asked


def _task_memory(ray: Any, asked: int | None) -> int:
    """Returns the bytes that a task requests, at most those of the cluster's largest machine."""
    nodes = [node for node in ray.nodes() if node["Alive"]]
    largest = max((int(node["Resources"].get("memory", 0)) for node in nodes), default=0)
    if asked is None:
        return min(DEFAULT_MEMORY, largest) if largest else DEFAULT_MEMORY
    if asked > largest > 0:
        remedy = f"give memory={largest} or less"
        message = f"no machine of the cluster has {asked} bytes of memory for a task; {remedy}"
        raise Error(message, remedy=remedy)
    return asked


def _shared_path(path: Path) -> str:
    """Returns a path that is the same for all tasks."""
    text = _path_text(path)
    if in_object_store(text):
        return text
    scheme, is_url, _ = text.partition("://")
    if is_url:
        remedy = "give a folder, or one of s3://, gs:// and az://"
        raise Error(f"{text}: {scheme} is not an object store; {remedy}", file=text, remedy=remedy)
    return os.path.abspath(text)


def _refuse_graphs(folder: str) -> None:
    """Refuses a folder with results, because repeated tasks replace existing files."""
    graphs = _etlink.written_graphs(folder)
    if graphs:
        remedy = "give overwrite=True to replace it"
        raise Error(f"{graphs[0]} already exists; {remedy}", remedy=remedy)
