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
from ._results import Replay, RunTables, read_diagnostics
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
"""Called with the name of a step, the number of finished shards, and the number of shards."""


def merge(
    source: Path,
    folder: Path,
    *,
    shards: int | None = None,
    ranks: int | Iterable[int] | None = None,
    memory: int | str | None = None,
    simulator: str | None = None,
    strict: bool = False,
    overhead: str | None = None,
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
    overhead: as in `etlink.open`
    overwrite: replace files of an earlier merge
    retries: how often a task is repeated if its worker or machine is lost
    progress: called when a task is done

    Raises Error if a rank could not be linked or written, with its name; the other ranks are
    written. Ctrl-C cancels all tasks.
    """
    if simulator not in (None, "astra-sim"):
        raise Error(f"unknown simulator {simulator!r}; give 'astra-sim', or None")
    output = _shared_path(folder)
    if not overwrite:
        _refuse_graphs(output)
    cluster = _Cluster("merge", source, shards, ranks, memory, strict, overhead, retries, progress)
    cluster.settings["simulator"] = simulator is not None
    cluster.prepare()
    files: list[str] = []
    failed: dict[str, str] = {}
    for written, refused in cluster.run("write", _write, output, cluster.entries):
        files += written
        failed.update(refused)
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
    overhead: str | None = None,
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
    cluster = _Cluster("analyze", source, shards, ranks, memory, strict, overhead, retries, progress)
    return _tables(*cluster.report(query, _etlink.ShardedRun.analyze))


def ranks(
    source: Path,
    *,
    shards: int | None = None,
    ranks: int | Iterable[int] | None = None,
    memory: int | str | None = None,
    strict: bool = False,
    overhead: str | None = None,
    retries: int = 3,
    progress: Progress | None = None,
) -> RunTables:
    """Returns the tables of `etlink ranks` on a folder: `ranks(source)["steps"]` is the table
    `etlink.open(source).table("ranks.steps")`.

    The arguments are those of `merge`.
    """
    cluster = _Cluster("ranks", source, shards, ranks, memory, strict, overhead, retries, progress)
    return _tables(*cluster.report({}, _etlink.ShardedRun.ranks))


def findings(
    source: Path,
    *,
    shards: int | None = None,
    ranks: int | Iterable[int] | None = None,
    memory: int | str | None = None,
    strict: bool = False,
    overhead: str | None = None,
    retries: int = 3,
    progress: Progress | None = None,
) -> list[str]:
    """Returns the largest possible gains of a folder's run, as `Run.findings`.

    The arguments are those of `merge`. The graphs of all ranks must fit into the memory of this
    process.
    """
    cluster = _Cluster("findings", source, shards, ranks, memory, strict, overhead, retries, progress)
    return cluster.report({}, _etlink.ShardedRun.findings)


def replay(
    source: Path,
    scale: Mapping[str, float] | None = None,
    what_if: str | Iterable[str] = (),
    *,
    shards: int | None = None,
    ranks: int | Iterable[int] | None = None,
    memory: int | str | None = None,
    strict: bool = False,
    overhead: str | None = None,
    retries: int = 3,
    progress: Progress | None = None,
) -> Replay:
    """Replays the graph of a folder's ranks, like `etlink.open(source).replay(scale, what_if)`.

    The other arguments are those of `merge`. The graphs of all ranks must fit into the memory of
    this process.
    """
    query = {"scale": _scale_rules(scale), "what_if": _questions(what_if)}
    cluster = _Cluster("replay", source, shards, ranks, memory, strict, overhead, retries, progress)
    text, path = cluster.report(query, _etlink.ShardedRun.replay)
    return Replay(text, Table(path))


def _tables(tables: list[_etlink.Table], diagnostics: str) -> RunTables:
    return RunTables([Table(table) for table in tables], read_diagnostics(diagnostics))


_Entries = dict[str, bytes]
"""Files of a cache, by name."""


class _Cluster:
    """Prepares the ranks of a command: tasks of one processor, one for each shard."""

    def __init__(
        self,
        command: str,
        source: Path,
        shards: int | None,
        ranks: int | Iterable[int] | None,
        memory: int | str | None,
        strict: bool,
        overhead: str | None,
        retries: int,
        progress: Progress | None,
    ) -> None:
        chosen, self.asked = _rank_list(ranks), _bytes(memory)
        self.command, self.retries, self.progress = command, retries, progress
        self.settings: dict[str, Any] = {
            "source": _shared_path(source),
            "ranks": None if chosen is None else ",".join(map(str, chosen)),
            "strict": bool(strict),
            "overhead": overhead,
            "sequences_of": None,
            "memory_timeline": False,
            "scale": [],
            "what_if": [],
            "simulator": False,
        }
        self.entries: _Entries = {}
        with _cache({}) as folder:
            count = self.joined(folder).list_ranks(command)
            # the files of each rank, so that tasks need not search themselves
            self.entries = _new_entries(folder, {})
        self.ray = _import_ray()
        if not self.ray.is_initialized():
            self.ray.init()
        self.most = _task_memory(self.ray, self.asked)
        self.shards = min(_shard_count(self.ray, shards), count)

    def joined(self, folder: str) -> _etlink.ShardedRun:
        """Returns all ranks, for this process."""
        return _etlink.ShardedRun(cache=folder, memory=self.asked, threads=0, **self.settings)

    def prepare(self) -> None:
        """Collects the results of the ranks from the tasks."""
        found = dict(self.entries)
        for entries in self.run("prepare", _prepare, self.command, self.entries):
            found.update(entries)
        self.entries = found

    def report(
        self, query: dict[str, Any], make: Callable[[_etlink.ShardedRun], Joined]
    ) -> Joined:
        self.settings.update(query)
        self.prepare()
        with _cache(self.entries) as folder:
            made = make(self.joined(folder))
        if self.progress is not None:
            self.progress("join", 1, 1)
        return made

    def run(
        self, step: str, work: Callable[..., Any], what: str, entries: _Entries
    ) -> Iterator[Any]:
        """Yields the result of each shard, in the order of their completion."""
        task = self.ray.remote(work).options(
            num_cpus=1, memory=self.most, max_retries=self.retries, name="etlink"
        )
        settings = {**self.settings, "memory": self.most, "threads": 1}
        # once for all tasks of a machine
        known = self.ray.put(entries)
        shards = self.shards
        waiting = [task.remote(settings, what, (shard, shards), known) for shard in range(shards)]
        try:
            while waiting:
                done, waiting = self.ray.wait(waiting, num_returns=1)
                # one at a time, so that results need not stay in the cluster
                yield from self.ray.get(done)
                if self.progress is not None:
                    self.progress(step, shards - len(waiting), shards)
        except self.ray.exceptions.RayTaskError as error:
            # Ray has wrapped an Error of etlink
            raise error.cause from None
        except self.ray.exceptions.RayError as error:
            remedy = "give more retries, or more memory for a task"
            message = f"a task of the step {step} was lost: {error}; {remedy}"
            raise Error(message, remedy=remedy) from error
        finally:
            for task in waiting:
                self.ray.cancel(task)


def _prepare(
    settings: dict[str, Any], command: str, shard: tuple[int, int], known: _Entries
) -> _Entries:
    """Task: prepares one shard for a command. Returns the new entries of the cache."""
    with _trim_after_task(), _cache(known) as folder:
        _etlink.ShardedRun(cache=folder, **settings).prepare(command, shard)
        return _new_entries(folder, known)


def _write(
    settings: dict[str, Any], output: str, shard: tuple[int, int], known: _Entries
) -> tuple[list[str], list[tuple[str, str]]]:
    """Task: writes one shard of a merge. Returns the files, and the failed ranks with their reasons."""
    with _trim_after_task(), _cache(known) as folder:
        return _etlink.ShardedRun(cache=folder, **settings).merge(output, shard)


@contextlib.contextmanager
def _cache(entries: _Entries) -> Iterator[str]:
    """Makes a cache of this machine with the entries that arrived through Ray."""
    with tempfile.TemporaryDirectory(prefix="etlink-") as folder:
        for name, content in entries.items():
            with open(os.path.join(folder, name), "wb") as file:
                file.write(content)
        yield folder


def _new_entries(folder: str, known: _Entries) -> _Entries:
    """Returns the entries of a cache that are not known yet."""
    entries = {}
    for name in os.listdir(folder):
        if name not in known:
            with open(os.path.join(folder, name), "rb") as file:
                entries[name] = file.read()
    return entries


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
