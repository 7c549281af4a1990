"""Merges the ranks of a run on a Ray cluster: `pip install etlink[ray]`.

    import etlink.ray

    etlink.ray.merge("/shared/traces", "/shared/merged", shards=64)

The ranks are split into shards, and each shard is a task of Ray. The files are those that `etlink merge` writes, byte for byte. A
task that is lost with its machine is done again.

All machines of the cluster have to see both folders by the same path. Folders of object stores are such paths:

    etlink.ray.merge("s3://bucket/traces", "s3://bucket/merged")

The tasks find credentials where they run: in the environment, in the files of the cloud's tools, or from the machine's role.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterable
from typing import Any

from . import _etlink
from ._error import Error
from ._run import Path, _bytes, _path_text, _rank_list
from ._run import open as open_run
from ._urls import in_object_store

SHARDS_PER_CPU = 4
"""More shards than processors: who is done early takes another."""

DEFAULT_MEMORY = 4_000_000_000
"""What a task takes at most, bytes."""

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
    count = len(open_run(paths[0], ranks=chosen))
    if not overwrite:
        _refuse_graphs(paths[1])
    ray = _import_ray()
    if not ray.is_initialized():
        ray.init()
    most = _task_memory(ray, asked)
    # what an earlier merge left is of no use
    _etlink.remove_phases(paths[1])
    settings: dict[str, Any] = {
        "source": paths[0],
        "folder": paths[1],
        "ranks": None if chosen is None else ",".join(map(str, chosen)),
        "memory": most,
        "threads": 1,
        "strict": bool(strict),
        "simulator": simulator is not None,
    }
    # a task that is done again finds what it wrote before
    cluster = _Cluster(ray, {**settings, "overwrite": True}, most, retries, progress)
    parts = _shard_count(ray, shards, count)
    failed = dict(cluster.run("summaries", parts)[1])
    failed.update(cluster.run("join", 1)[1])
    files, unwritten = cluster.run("write", parts)
    failed.update(unwritten)
    _etlink.remove_phases(paths[1])
    if failed:
        label, reason = min(failed.items())
        more = f"; {len(failed) - 1} more ranks failed" if len(failed) > 1 else ""
        raise Error(f"rank {label}: {reason}{more}")
    return sorted(files)


class _Cluster:
    """Does the shards of a phase as tasks, one processor each."""

    def __init__(
        self,
        ray: Any,
        settings: dict[str, Any],
        memory: int,
        retries: int,
        progress: Progress | None,
    ) -> None:
        self.ray, self.settings, self.progress = ray, settings, progress
        self.task = ray.remote(_run_phase).options(
            num_cpus=1, memory=memory, max_retries=retries, name="etlink"
        )

    def run(self, phase: str, shards: int) -> tuple[list[str], list[tuple[str, str]]]:
        """The files that were written, and the ranks that failed with their reasons."""
        waiting = [
            self.task.remote(self.settings, phase, (shard, shards)) for shard in range(shards)
        ]
        files: list[str] = []
        failed: list[tuple[str, str]] = []
        try:
            while waiting:
                done, waiting = self.ray.wait(waiting, num_returns=1)
                for written, refused in self.ray.get(done):
                    files += written
                    failed += refused
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
        return files, failed


def _run_phase(
    settings: dict[str, Any], phase: str, shard: tuple[int, int]
) -> tuple[list[str], list[tuple[str, str]]]:
    """A task: a phase of one shard."""
    return _etlink.merge_phase(phase=phase, shard=shard, **settings)


def _import_ray() -> Any:
    """Not at once: the rest of the package needs no Ray."""
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        remedy = "pip install 'etlink[ray]'"
        raise Error(f"Ray is not installed; {remedy}", remedy=remedy) from error


def _shard_count(ray: Any, asked: int | None, ranks: int) -> int:
    if asked is None:
        processors = int(ray.cluster_resources().get("CPU", 1))
        asked = max(1, processors) * SHARDS_PER_CPU
    if isinstance(asked, bool) or not isinstance(asked, int):
        raise TypeError(f"shards is an int, not {type(asked).__name__}")
    if asked < 1:
        raise Error(f"{asked} shards are no shards; give at least 1")
    return min(asked, ranks)


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
