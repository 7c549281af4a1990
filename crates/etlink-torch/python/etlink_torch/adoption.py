"""The profilers of `etlink_torch.profile` that are PyTorch's own, in this process: one recording for each output folder.

A recording begins with the first profiler that writes to its folder. It ends when all of these are gone, and
goes on where it ended when the script makes another one. PyTorch saves a trace once, and the script comes first:
see `own_profiler`.
"""

import os
import weakref

from . import at_end, hook, own_profiler
from .guard import attempt, silent
from .output_folder import OutputFolder

RUNNING = []
"""Recordings whose folder is in use."""
ENDED = {}
"""The session of each folder whose recording has ended."""
WATCHED = []
"""What is done once in a process."""


class Adoption:
    """The recording of one output folder."""

    def __init__(self, torch, settings, old):
        self.pid, self.profilers = os.getpid(), weakref.WeakSet()
        self.folder = OutputFolder(torch, settings)
        self.folder.list_old(old)
        self.session = self.folder.session
        earlier = ENDED.get((self.pid, settings["output"]))
        if earlier is not None:
            self.session.resume(earlier)
        self.session.published = self.folder.write_manifest
        self.session.begin()

    def is_over(self):
        """Whether no profiler is left whose traces could be waited for."""
        own = self.session.own
        return not self.profilers and own.cycle is None and not own.waiting

    def end(self):
        RUNNING.remove(self)
        session = self.session
        ENDED[self.pid, session.settings["output"]] = session
        session.leave()
        session.close()
        try:
            self.folder.end()
        finally:
            self.folder.leave()


def adopt(torch, settings, old, profiler):
    """The recording of a profiler that has been made."""
    watch(torch)
    end_those_that_are_over()
    output = settings["output"]
    found = [adoption for adoption in here() if adoption.session.settings["output"] == output]
    if not found:
        found = [Adoption(torch, settings, old)]
        RUNNING.extend(found)
    found[0].profilers.add(profiler)
    return found[0]


def here():
    """Those of this process, and not of the one that it was forked from."""
    return [adoption for adoption in RUNNING if adoption.pid == os.getpid()]


def owns_here(_):
    return [adoption.session.own for adoption in here()]


def is_known(output):
    """Whether this process itself has recorded into the folder."""
    return (os.getpid(), output) in ENDED or any(one.session.settings["output"] == output for one in here())


def end_those_that_are_over():
    for adoption in here():
        attempt(adoption.session.own.export_dropped)
        if adoption.is_over():
            attempt(adoption.end)


def watch(torch):
    """Once in a process, and for all that it forks."""
    if WATCHED:
        return
    WATCHED.extend(own_profiler.wrap_all(own_profiler.calls_beside_profilers(torch), owns_here))
    os.register_at_fork(after_in_child=forked)
    at_end.call(leave)


@silent
def forked():
    """In a forked child the recordings are the parent's."""
    for adoption in RUNNING:
        attempt(adoption.session.forked)
    RUNNING.clear()


@silent
def leave():
    """The process ends."""
    for adoption in here():
        attempt(adoption.end)


def is_wanted():
    """Under `etlink record` the command records, and adopts the profiler as it does any of the program's."""
    return not hook.is_recorded_by_command()
