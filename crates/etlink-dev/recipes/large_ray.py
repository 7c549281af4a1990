"""What a merge, or a table of ranks, takes on a Ray cluster with two workers on this machine.

    large_ray.py merge|ranks SOURCE FOLDER SHARDS MEMORY

Prints a line of JSON: wall seconds, processor seconds of all workers, the most that one of them held. The workers are children of
Ray's own processes, so they are looked at while they run. What one held in a phase, and how much of it is its own, goes to stderr.
"""

from __future__ import annotations

import json
import sys
import threading
import time

import psutil
import ray

import etlink.ray

WORKERS = 2
# What a worker takes between its last look and its end is not seen.
SECONDS_BETWEEN_LOOKS = 0.2


class Observer(threading.Thread):
    """Looks at the workers of Ray until it is stopped."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.processor_seconds: dict[int, float] = {}
        self.peak_bytes = 0
        # since a phase began: all, and without what processes share, such as libraries
        self.phase_peak_bytes = (0, 0)
        self.stopped = threading.Event()

    def run(self) -> None:
        while not self.stopped.wait(SECONDS_BETWEEN_LOOKS):
            self.look()

    def look(self) -> None:
        for process in psutil.process_iter():
            try:
                # workers call themselves `ray::` and the name of their task
                if not "".join(process.cmdline()).startswith("ray::"):
                    continue
                times = process.cpu_times()
                memory = process.memory_info()
            except psutil.Error:
                # it has ended since it was listed
                continue
            self.processor_seconds[process.pid] = times.user + times.system
            self.peak_bytes = max(self.peak_bytes, memory.rss)
            held = (memory.rss, memory.rss - memory.shared)
            self.phase_peak_bytes = max(self.phase_peak_bytes, held)

    def say_progress(self, phase: str, done: int, shards: int) -> None:
        """Called by etlink when a task is done."""
        held, own = (round(size / 1e6) for size in self.phase_peak_bytes)
        memory = f"a worker held {held} MB, {own} MB of its own"
        print(f"{phase}: {done} of {shards}; {memory}", file=sys.stderr)
        if done == shards:
            self.phase_peak_bytes = (0, 0)


def main() -> None:
    command, source, folder, shards, memory = sys.argv[1:]
    ray.init(
        num_cpus=WORKERS,
        # small: the default is a third of the machine's memory
        object_store_memory=100_000_000,
        include_dashboard=False,
        logging_level="ERROR",
    )
    observer = Observer()
    observer.start()
    begin = time.monotonic()
    settings = {"shards": int(shards), "memory": memory, "progress": observer.say_progress}
    if command == "merge":
        etlink.ray.merge(source, folder, overwrite=True, **settings)
    else:
        etlink.ray.ranks(source, **settings)
    wall = time.monotonic() - begin
    observer.stopped.set()
    observer.join()
    observer.look()
    usage = {
        "wall": wall,
        "cpu": sum(observer.processor_seconds.values()),
        "peak_bytes": observer.peak_bytes,
        "failed": None,
        "output": "",
    }
    print(json.dumps(usage))


if __name__ == "__main__":
    main()
