"""A cluster of Ray on this machine, and what makes its workers fail."""

from __future__ import annotations

import os
import re
import signal
import threading
from pathlib import Path

import psutil
import ray

TRACES = Path(os.environ["ETLINK_RAY_TRACES"])
"""64 ranks, made of one that was recorded."""
WORKERS = 2


def start_cluster() -> None:
    # small: the default is a third of the machine's memory
    store = 100_000_000
    ray.init(
        num_cpus=WORKERS,
        object_store_memory=store,
        include_dashboard=False,
        logging_level="ERROR",
    )


def results(folder: Path) -> dict[str, bytes]:
    """What was written, but for unfinished files."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    names = {str(path.relative_to(folder)): path for path in paths}
    return {name: path.read_bytes() for name, path in names.items() if not name.startswith(".")}


class Killer(threading.Thread):
    """Kills a worker in the middle of a task of each step that is asked for."""

    def __init__(self, steps: list[str]) -> None:
        super().__init__(daemon=True)
        self.steps, self.killed = steps, []
        self.lock = threading.Lock()

    def on_progress(self, step: str, done: int, shards: int) -> None:
        # some shards are done, and others are under way
        if step in self.steps and done == 2:
            self.steps.remove(step)
            self.kill_one(step)

    def kill_one(self, step: str) -> None:
        while True:
            for process in psutil.process_iter(["cmdline"]):
                line = " ".join(process.info["cmdline"] or [])
                # a worker that has a task is named by it
                if re.search(r"^ray::etlink", line):
                    os.kill(process.pid, signal.SIGKILL)
                    self.killed.append((step, process.pid))
                    return
