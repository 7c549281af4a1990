"""When the workers of a DataLoader fetch: they are processes of their own, which no profiler sees.

A worker writes into a ring of records in a file, one per batch: the batch's number, when it was taken up
and when it was handed over. The process that is recorded reads the rings at the end of a cycle.
"""

import functools
import glob
import os
import struct
import time

from .descriptors import OwnFile
from .guard import attempt
from .steps.patches import Patches

RECORD = struct.Struct("<qqqq")
RECORDS = 4096
"""Room for so many batches per worker: 128 KiB."""


class Ring:
    def __init__(self, path):
        self.file = OwnFile(path)
        self.written, self.batch, self.begun = 0, None, 0

    def begin(self, task):
        """What is no batch ends a worker, or begins an epoch."""
        if type(task) is tuple and type(task[0]) is int:
            self.batch, self.begun = task[0], time.time_ns()

    def end(self, result):
        batch = result[0]
        if self.batch is None or batch != self.batch:
            return
        # the first field is never 0: parts of the file that nothing was written to are zeros
        record = RECORD.pack(self.written + 1, batch, self.begun, time.time_ns())
        self.file.write(record, self.written % RECORDS * RECORD.size)
        self.written, self.batch = self.written + 1, None


class Watched:
    """A queue of a worker; all but one method is the queue's own."""

    def __init__(self, queue, ring):
        self._queue, self._ring = queue, ring

    def __getattr__(self, name):
        return getattr(self._queue, name)


class Tasks(Watched):
    def get(self, *arguments, **named):
        original = self._queue.get
        task = original(*arguments, **named)
        attempt(self._ring.begin, task)
        return task


class Results(Watched):
    def put(self, result, *arguments, **named):
        attempt(self._ring.end, result)
        original = self._queue.put
        return original(result, *arguments, **named)


def watched(path, arguments):
    """The arguments of `_worker_loop` with its two queues watched."""
    ring = Ring(path)
    tasks, results = Tasks(arguments[2], ring), Results(arguments[3], ring)
    return (*arguments[:2], tasks, results, *arguments[4:])


def ring_path(session):
    """Where a worker writes, which runs this; None: nobody reads what it would write.

    The process that forked it may have been forked itself, and not know yet that it is a rank.
    """
    report, parent = session.report, os.getppid()
    name = "worker_{}".format(os.getpid())
    if parent == report.pid:
        return report.path(name)
    if session.heir is None:
        return None
    return report.path_of("{}.{}".format(session.settings["launcher"], parent), name)


def watched_by_session(session, arguments):
    path = ring_path(session)
    return None if path is None else watched(path, arguments)


def replace(torch, session):
    """For workers that are forked from now on; others run the original."""
    patches = Patches()
    module = torch.utils.data._utils.worker
    original = module._worker_loop

    @functools.wraps(original)
    def worker_loop(*arguments, **named):
        changed = attempt(watched_by_session, session, arguments) if patches.active else None
        return original(*(changed or arguments), **named)

    patches.replace(module, "_worker_loop", worker_loop)
    return patches


def rings(report):
    return glob.glob(glob.escape(report.path("worker_")) + "*")


def batches(report):
    """What workers fetched last, in order of time: process, batch, begin and end in ns."""
    found = []
    for path in rings(report):
        with open(path, "rb") as file:
            content = file.read()
        pid = int(path.rpartition("_")[2])
        whole = len(content) - len(content) % RECORD.size
        for number, batch, begin, end in RECORD.iter_unpack(content[:whole]):
            if number:
                found.append((pid, batch, begin, end))
    return sorted(found, key=lambda fetched: fetched[3])

