"""One cycle of the schedule: profiler and execution trace observer over exactly the same steps, and the two files."""

import contextlib
import gzip
import os
import shutil
import socket
import time

from . import steps

OWN = {"making": False}
"""Whether a profiler that is being made is ours."""


@contextlib.contextmanager
def own():
    OWN["making"] = True
    try:
        yield
    finally:
        OWN["making"] = False


def activities(torch):
    kinds = torch.profiler.ProfilerActivity
    chosen = [kinds.CPU]
    for name, module in (("CUDA", "cuda"), ("XPU", "xpu"), ("MTIA", "mtia")):
        device = getattr(torch, module, None)
        if hasattr(kinds, name) and device is not None and device.is_available():
            chosen.append(getattr(kinds, name))
    return chosen


def experimental(torch, options, report):
    """Settings that not every PyTorch has; those that this one lacks are reported."""
    config = torch._C._profiler._ExperimentalConfig
    wanted = {"profile_all_threads": True}
    if options["cuda_sync_events"]:
        wanted["enable_cuda_sync_events"] = True
    chosen = {}
    for name, value in wanted.items():
        try:
            config(**{name: value})
            chosen[name] = value
        except TypeError:
            report.lacks(name)
    return config(**chosen)


def profiler_class(torch):
    class Observed(torch.profiler.profile):
        """As `profile(execution_trace_observer=…)`, which PyTorch has from 2.3 on: the observer starts before Kineto and stops before it."""

        def start_trace(self):
            self.etlink_observer.start()
            super().start_trace()

        def stop_trace(self):
            self.etlink_observer.stop()
            super().stop_trace()

    return Observed


class Window:
    """From the first warmup step of a cycle to its end."""

    def __init__(self, torch, settings, report, first):
        self.torch, self.settings, self.report = torch, settings, report
        self.first, self.next, self.saved = first, first, False
        self.host, self.device = report.path("host.json"), report.path("device.json")
        self.action_map = {name: getattr(torch.profiler.ProfilerAction, name) for name in (steps.NONE, steps.WARMUP, steps.RECORD, steps.RECORD_AND_SAVE)}
        with own():
            self.observer = torch.profiler.ExecutionTraceObserver()
            self.observer.register_callback(self.host)
            self.profiler = self.make()
            self.profiler.start()

    def action(self, step):
        return self.action_map[steps.action(self.settings["schedule"], step)]

    def make(self):
        options = self.settings["options"]
        profiler = profiler_class(self.torch)(
            activities=activities(self.torch),
            schedule=self.action,
            on_trace_ready=self.ready,
            experimental_config=experimental(self.torch, options, self.report),
            **{name: options[name] for name in ("record_shapes", "profile_memory", "with_stack", "with_flops")},
        )
        profiler.etlink_observer = self.observer
        # the cycle begins here, not at step 0: the steps before it cost nothing
        profiler.step_num, profiler.current_action = self.first, self.action(self.first)
        return profiler

    def step(self):
        """Between two steps of the cycle."""
        with own():
            self.next += 1
            self.profiler.step()

    def ready(self, profiler):
        profiler.export_chrome_trace(self.device)
        self.saved = True

    def close(self):
        """Ends the cycle; the steps recorded as (first, last), or None if there is no whole pair of traces."""
        with own():
            self.profiler.stop()
        self.observer.unregister_callback()
        recorded = [step for step in range(self.first, self.next + 1) if steps.action(self.settings["schedule"], step).startswith("RECORD")]
        return (recorded[0], recorded[-1]) if self.saved and recorded else None

    def detach(self):
        """In a forked child: what this process still has buffered of the host trace goes nowhere. Needs /proc, as Linux has it."""
        links = "/proc/self/fd"
        if not os.path.isdir(links):
            return
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for name in os.listdir(links):
            try:
                if os.readlink(os.path.join(links, name)) == os.path.realpath(self.host):
                    os.dup2(nowhere, int(name))
            except OSError:
                continue
        os.close(nowhere)

    def discard(self):
        for path in (self.host, self.device):
            if os.path.exists(path):
                os.remove(path)


def publish(source, target, packed):
    """Moves a finished file to its name; never a half file under that name."""
    if packed:
        with open(source, "rb") as plain, gzip.open(source + ".gz", "wb", compresslevel=6) as out:
            shutil.copyfileobj(plain, out, 1 << 20)
        os.remove(source)
        source += ".gz"
    os.replace(source, target)


def show(trace, folder, rank):
    """The device trace once more, as TensorBoard's plugin looks for it: worker, span (the time), and the ending."""
    ending = ".pt.trace.json.gz" if trace.endswith(".gz") else ".pt.trace.json"
    name = "{}_rank{}.{}{}".format(socket.gethostname(), rank, time.time_ns(), ending)
    target = os.path.join(folder, name)
    try:
        os.link(trace, target)
    except OSError:
        shutil.copyfile(trace, target)


def clock():
    """The two clocks of this machine at one moment, in ns."""
    return {"unix_ns": time.time_ns(), "monotonic_ns": time.monotonic_ns()}
