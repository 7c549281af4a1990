"""Merges the ranks of a run on a Ray cluster, and reports on them: `pip install etlink[ray]`.

    import etlink.ray

    etlink.ray.merge("/shared/traces", "/shared/merged", shards=64)
    tables = etlink.ray.analyze("/shared/traces")
    print(tables["kernels"].to_pylist(3))

The ranks are split into shards, and each shard is a task of Ray. The files are those that `etlink merge` writes, byte for byte, and
the tables those of `etlink.open`. A task that is lost with its machine is done again.

All machines of the cluster have to see both folders by the same path. Folders of object stores are such paths:

    etlink.ray.merge("s3://bucket/traces", "s3://bucket/merged")

The tasks find credentials where they run: in the environment, in the files of the cloud's tools, or from the machine's role.
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
"""More shards than processors: who is done early takes another."""

DEFAULT_MEMORY = 4_000_000_000
"""What a task takes at most, bytes."""

_M_MMAP_THRESHOLD = -3
"""The parameter of glibc's `mallopt`, from malloc.h."""

_LARGE_BLOCK = 4 << 20
"""Blocks of so many bytes are the system's own."""

Joined = TypeVar("Joined")

Progress = Callable[[str, int, int], None]
"""Called with the name of a phase, the shards that are done, and all shards."""


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
    folder: where the files go, or its URL; a folder is made if it is not there
    shards: how many tasks the ranks are split into; None: four for each processor of the cluster
    ranks: the ranks to take; None: all
    memory: what one task may take, bytes or a text such as "8G"; Ray starts it where so much is
        free. None: 4 GB, or what the largest machine has if that is less
    simulator: "astra-sim": also what it needs to run them
    strict: refuse damaged traces
    overwrite: replace files of an earlier merge
    retries: how often a task is done again when its worker or machine is lost
    progress: called when a task is done

    Raises Error where a rank could not be linked or written, with its name; the other ranks are
    written. Ctrl-C cancels all tasks.
    """
    paths = [_shared_path(path) for path in (source, folder)]
    if simulator not in (None, "astra-sim"):
        raise Error(f"there is no simulator {simulator!r}; give 'astra-sim', or None")
    chosen, asked = _rank_list(ranks), _bytes(memory)
    selection = None if chosen is None else ",".join(map(str, chosen))
    if not overwrite:
        _refuse_graphs(paths[1])
    ray = _import_ray()
    if not ray.is_initialized():
        ray.init()
    most = _task_memory(ray, asked)
    parts = _shard_count(ray, shards)
    # what an earlier merge left is of no use
    _etlink.remove_phases(paths[1])
    # tasks find there which files are whose, and need not look for themselves
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
    # a task that is done again finds what it wrote before
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
    """The tables of `etlink analyze` on a folder: `analyze(source)["kernels"]` is the table
    `etlink.open(source).table("kernels")`.

    sequences_of: also the table "sequences", of the ops whose names contain this
    memory_timeline: also the table "memory_timeline", each allocation and free

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
    """The tables of `etlink ranks` on a folder: `ranks(source)["steps"]` is the table
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
    """What the run of a folder would gain most from, a sentence each.

    The arguments are those of `merge`. The graphs of all ranks have to fit into the memory of this
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
    """Runs the graph of a folder's ranks, as `etlink.open(source).replay(scale, what_if)`.

    The other arguments are those of `merge`. The graphs of all ranks have to fit into the memory of
    this process.
    """
    query = {"scale": _scale_rules(scale), "what_if": _questions(what_if)}
    cluster = _ReportCluster(source, shards, ranks, memory, strict, retries, progress)
    text, path = cluster.report("replay", query, _etlink.PhasedReport.replay)
    return Replay(text, Table(path))


def _tables(tables: list[_etlink.Table], notes: list[str]) -> RunTables:
    return RunTables([Table(table) for table in tables], notes)


class _ReportCluster:
    """Makes a report: shards as tasks, whose summaries come to this process, which joins them."""

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
            # which files are whose: tasks need not look for themselves
            self.listing = _stored(path)
        self.ray = _import_ray()
        if not self.ray.is_initialized():
            self.ray.init()
        self.most = _task_memory(self.ray, self.asked)
        self.parts = min(_shard_count(self.ray, shards), count)

    def phased(self, folder: str, settings: dict[str, Any]) -> _etlink.PhasedReport:
        """The report, as this process joins it."""
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
        # of this machine alone: what shards have for the join comes through Ray
        with tempfile.TemporaryDirectory(prefix="etlink-") as folder:
            _store(folder, self.listing)
            for stored in cluster.run("summaries", self.parts):
                _store(folder, stored)
            joined = join(self.phased(folder, settings))
        if self.progress is not None:
            self.progress("join", 1, 1)
        return joined


class _Cluster:
    """Does the shards of a phase as tasks, one processor each."""

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
        """What came of each shard, in the order in which they are done."""
        waiting = [
            self.task.remote(self.settings, phase, (shard, shards), *self.more)
            for shard in range(shards)
        ]
        try:
            while waiting:
                done, waiting = self.ray.wait(waiting, num_returns=1)
                # one at a time: what came of it need not stay in the cluster
                yield from self.ray.get(done)
                if self.progress is not None:
                    self.progress(phase, shards - len(waiting), shards)
        except self.ray.exceptions.RayTaskError as error:
            # what failed is an Error of etlink, which Ray has wrapped
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
    """A task: a phase of one shard of a merge. The files that were written, and the ranks that
    failed with their reasons."""
    with _trim_after_task():
        return _etlink.merge_phase(phase=phase, shard=shard, **settings)


_StoredFile = tuple[str, bytes]
"""The name of a file, and what is in it."""


def _summarize(
    settings: dict[str, Any], phase: str, shard: tuple[int, int], listing: _StoredFile
) -> _StoredFile:
    """A task: what a report needs of one shard."""
    of_report = {name: value for name, value in settings.items() if name != "command"}
    # on this machine alone: what is in the file goes through Ray
    with _trim_after_task(), tempfile.TemporaryDirectory(prefix="etlink-") as folder:
        _store(folder, listing)
        report = _etlink.PhasedReport(folder=folder, **of_report)
        return _stored(report.summarize(settings["command"], shard))


@contextlib.contextmanager
def _trim_after_task() -> Iterator[None]:
    """Gives the memory of a task back to the system when the task is done.

    glibc keeps what is freed, for each of its arenas, and the threads of a worker have many: it held
    more with each task.
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
    """Not at once: the rest of the package needs no Ray."""
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
        raise Error(f"{asked} shards are no shards; give at least 1")
    return asked


def _task_memory(ray: Any, asked: int | None) -> int:
    """Bytes that a task asks for: no more than a machine of the cluster has."""
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
    """A path that means the same to all tasks."""
    text = _path_text(path)
    if in_object_store(text):
        return text
    scheme, is_url, _ = text.partition("://")
    if is_url:
        remedy = "give a folder, or one of s3://, gs:// and az://"
        raise Error(f"{text}: {scheme} is no object store; {remedy}", file=text, remedy=remedy)
    return os.path.abspath(text)


def _refuse_graphs(folder: str) -> None:
    """Refuses a folder that has results: tasks that are done again replace what they find."""
    graphs = _etlink.written_graphs(folder)
    if graphs:
        remedy = "give overwrite=True to replace it"
        raise Error(f"{graphs[0]} exists; {remedy}", remedy=remedy)
