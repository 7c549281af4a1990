"""One cycle of the schedule: profiler and execution trace observer over exactly the same steps, and the two files."""

import contextlib
import os
import threading

from . import files, graph_nodes, steps, wait_events
from .guard import Failure, attempt, describe
from .memory_snapshot import MemorySnapshot
from .observer_file import ObserverFile
from .process import clock
from .waits import Waits

THREADS_OR_MEMORY = "allocations together with threads that the program starts itself (profile_all_threads)"
"""What no PyTorch has, as the manifest says it."""
DEVICES = ("cuda", "xpu", "mtia")
"""Kinds of activity beside that of the host, as modules of torch."""
OWN = {"making": False}
"""Whether a profiler that is being made is ours."""


@contextlib.contextmanager
def own():
    before, OWN["making"] = OWN["making"], True
    try:
        yield
    finally:
        OWN["making"] = before


def activities(torch, names):
    """The kinds of activity that are recorded, and the names of those that are not there. No names: all that are there."""
    kinds = torch.profiler.ProfilerActivity
    chosen, lacking = [kinds.CPU], []
    for name in DEVICES if names is None else names:
        device = getattr(torch, name, None)
        if name in DEVICES and hasattr(kinds, name.upper()) and device is not None and device.is_available():
            chosen.append(getattr(kinds, name.upper()))
        elif name != "cpu":
            lacking.append(name)
    return chosen, [] if names is None else lacking


def experimental(torch, options):
    """Settings that not every PyTorch has, and the names of those that this one lacks."""
    config = torch._C._profiler._ExperimentalConfig
    # with it PyTorch 2.15 writes no row of memory, and says nothing
    wanted = {} if options["profile_memory"] else {"profile_all_threads": True}
    if options["cuda_sync_events"]:
        wanted["enable_cuda_sync_events"] = True
    chosen, lacking = {}, []
    for name, value in wanted.items():
        try:
            config(**{name: value})
            chosen[name] = value
        except TypeError:
            lacking.append(name)
    return config(**chosen), lacking


def is_profiled(torch):
    """Whether a profiler records in this process: a second one ends in a fault of the C++ code."""
    enabled = getattr(torch.autograd, "_profiler_enabled", None)
    flag = getattr(torch.autograd.profiler, "_is_profiler_enabled", False)
    return bool(flag or (enabled is not None and enabled()))


def profiler_class(torch):
    class Observed(torch.profiler.profile):
        """As `profile(execution_trace_observer=…)`, which PyTorch has from 2.3 on: the observer starts before Kineto and stops before it.

        Of steps that are interleaved the observer has those before Kineto's: it stops where Kineto starts.
        """

        etlink_running = False

        def start_trace(self):
            # before the range of the next step begins: it is in one of the traces, not in both
            if self.etlink_interleaved:
                self.etlink_observer.stop()
            else:
                self.etlink_observer.start()
            super().start_trace()
            self.etlink_running = True

        def stop_trace(self):
            # to stop what does not run ends in a fault of the C++ code
            if not self.etlink_running and not is_profiled(torch):
                return
            self.etlink_running = False
            try:
                self.etlink_observer.stop()
            finally:
                super().stop_trace()

    return Observed


def add_waits(cycle):
    """Adds the waits of threads to the device trace of a cycle. The trace is whole without them."""
    if cycle.waits is None:
        return
    try:
        wait_events.add(cycle.device, cycle.waits, cycle.report, cycle.begin["unix_ns"], cycle.end["unix_ns"])
    except Exception as error:
        cycle.lost.append("thread_waits")
        cycle.report.note("thread waits are missing from the trace: {}".format(describe(error)))


def lost_parts(cycle):
    """Returns the options whose recordings of this cycle could not be written."""
    is_lost = cycle.snapshot is not None and cycle.snapshot.is_lost
    return cycle.lost + ["memory_snapshot"] * is_lost


def snapshot_of(torch, settings, report, name):
    """A snapshot of a cycle that is not started yet, if one is asked for; `name`: of its file in the work folder."""
    if not settings["options"]["memory_snapshot"]:
        return None
    return MemorySnapshot(torch, report, report.path(name))


class Window:
    """From the first warmup step of a cycle to its end."""

    def __init__(self, torch, settings, report, first):
        self.torch, self.settings, self.report = torch, settings, report
        self.first, self.next, self.saved, self.error = first, first, False, None
        self.begin, self.end = None, None
        # the phase of the program that these steps are of
        self.phase = None
        self.interleaved = settings["options"]["interleave"]
        schedule = settings["schedule"]
        # a part of a cycle may begin behind its warmup
        self.host_first = first
        while steps.action(schedule, self.host_first) == steps.WARMUP:
            self.host_first += 1
        # of an interleaved cycle: the first step of the device trace, after those of the host trace
        self.device_first = self.host_first + (schedule["active"] // 2 if self.interleaved else 0)
        self.thread, self.is_global = threading.get_ident(), False
        self.observer, self.observer_file, self.profiler = None, None, None
        self.host, self.device = report.path("host.json"), report.path("device.json")
        self.waits = Waits() if settings["options"]["thread_waits"] else None
        # options whose recordings could not be written
        self.lost = []
        self.snapshot = snapshot_of(torch, settings, report, "memory")
        kinds = (steps.NONE, steps.WARMUP, steps.RECORD, steps.RECORD_AND_SAVE)
        self.action_map = {name: getattr(torch.profiler.ProfilerAction, name) for name in kinds}

    def open(self):
        with own():
            self.observer = self.torch.profiler.ExecutionTraceObserver()
            self.observer_file = ObserverFile(self.observer, self.host)
            self.observer_file.register()
            self.profiler = self.make()
            self.look_at_clock()
            self.start_observer()
            self.profiler.start()
        if self.waits is not None:
            # without them the recording is as good as before
            attempt(self.waits.start, self.torch, self.report)

    def action(self, step):
        """What the profiler does: while the observer alone records it warms up."""
        action = steps.action(self.settings["schedule"], step)
        is_before = self.host_first <= step < self.device_first
        return self.action_map[steps.WARMUP if is_before else action]

    def is_recorded(self, step):
        """Whether a step is in the device trace, which has the times."""
        action = steps.action(self.settings["schedule"], step)
        return action in (steps.RECORD, steps.RECORD_AND_SAVE) and step >= self.device_first

    def host_steps(self):
        """First and last step of the host trace, where it has others than the device trace."""
        return [self.host_first, self.device_first - 1] if self.interleaved else None

    def start_observer(self):
        """Of an interleaved cycle, before its first recorded step begins."""
        if self.interleaved and self.next == self.host_first:
            self.observer.start()

    def make(self):
        options = self.settings["options"]
        config, lacking = experimental(self.torch, options)
        for name in lacking:
            self.report.lacks(name)
        if options["profile_memory"]:
            self.report.lacks(THREADS_OR_MEMORY)
        self.is_global = "profile_all_threads" not in lacking and not options["profile_memory"]
        chosen, missing = activities(self.torch, self.settings["activities"])
        for name in missing:
            self.report.lacks("activities of {} here".format(name))
        if options["cuda_graph_nodes"]:
            chosen = self.with_graph_nodes(chosen)
        profiler = profiler_class(self.torch)(
            activities=chosen,
            schedule=self.action,
            on_trace_ready=self.ready,
            experimental_config=config,
            **{name: options[name] for name in ("record_shapes", "profile_memory", "with_stack", "with_flops")},
        )
        profiler.etlink_observer, profiler.etlink_interleaved = self.observer, self.interleaved
        # the cycle begins here, not at step 0: the steps before it cost nothing
        profiler.step_num, profiler.current_action = self.first, self.action(self.first)
        return profiler

    def with_graph_nodes(self, activities):
        """The same activities, and the nodes of CUDA graphs where they can be had."""
        configured = graph_nodes.with_collector(self.torch, activities, self.settings["options"]["cuda_sync_events"])
        if configured is None:
            self.report.lacks(graph_nodes.LACKING)
            return activities
        return configured

    def step(self):
        """Between two steps of the cycle."""
        self.observer_file.check()
        with own():
            self.next += 1
            self.look_at_clock()
            self.start_observer()
            self.profiler.step()

    def look_at_clock(self):
        if self.begin is None and self.is_recorded(self.next):
            if self.snapshot is not None:
                self.snapshot.start()
            self.begin = clock()

    def ready(self, profiler):
        """Called inside of the profiler's `stop`, which has more to do after it."""
        try:
            files.remove_trace(self.device)
            with files.plain_path(self.device) as path:
                profiler.export_chrome_trace(path)
            graph_nodes.unpack(self.device)
            # the collector of graph nodes warns and goes on
            if self.settings["options"]["cuda_graph_nodes"] and not os.path.exists(self.device):
                raise Failure("PyTorch's collector of CUDA graph nodes wrote no trace; record without --cuda-graph-nodes")
            files.check_end(self.device)
            self.saved = True
        except Exception as error:
            self.error = error

    def is_closable_here(self):
        """A profiler that is not of all threads is closed by the thread that began it, else the C++ code faults."""
        return self.is_global or threading.get_ident() == self.thread

    def close(self):
        """Ends the cycle; the steps recorded as (first, last), or None if there is no whole pair of traces."""
        if not self.is_closable_here():
            raise RuntimeError("the thread that ends the process is not the thread that started the cycle")
        self.end = clock()
        self.stop_waits()
        self.observer_file.check()
        with own():
            self.profiler.stop()
        self.observer_file.unregister()
        attempt(graph_nodes.stop, self.profiler)
        if self.snapshot is not None:
            self.snapshot.take()
        if self.error is not None:
            raise self.error
        if self.saved and self.begin is not None:
            add_waits(self)
        if self.saved:
            attempt(self.note_missing)
        recorded = [step for step in range(self.first, self.next + 1) if self.is_recorded(step)]
        return (recorded[0], recorded[-1]) if self.saved and recorded else None

    def stop_waits(self):
        if self.waits is not None:
            attempt(self.waits.stop)

    def note_missing(self):
        """Says what was asked for and is not in the trace."""
        for name in files.missing(self.device, self.settings["options"]):
            self.report.note("{} was requested, but the device trace has no such data".format(name))

    def abandon(self):
        """Ends a cycle in which something went wrong; whatever fails, the rest of it is done."""
        self.stop_waits()
        if self.snapshot is not None:
            attempt(self.snapshot.stop)
        if self.profiler is not None and self.is_closable_here():
            # what stops a profiler may be what failed: once more
            attempt(self.stop) or attempt(self.stop)
            attempt(graph_nodes.stop, self.profiler)
        if self.observer_file is not None:
            attempt(self.observer_file.unregister) or attempt(self.observer_file.forget)
        attempt(self.discard)

    def stop(self):
        with own():
            self.profiler.on_trace_ready = None
            self.profiler.stop()
        return True

    def detach(self):
        """In a forked child: what this process still has buffered of the host trace goes nowhere."""
        self.stop_waits()
        if self.observer_file is not None:
            self.observer_file.release()
        files.detach(self.host)

    def discard(self):
        for path in (self.host, self.device):
            files.remove_trace(path)
        if self.snapshot is not None:
            self.snapshot.discard()
