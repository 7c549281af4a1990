"""Records this process by the schedule. Whatever goes wrong here is reported and never reaches the program."""

import functools
import os
import signal
import threading

from . import steps
from .window import Window, clock, publish, show


def guarded(method):
    """An error ends the recording, not the program."""

    @functools.wraps(method)
    def call(self, *arguments):
        try:
            return method(self, *arguments)
        except Exception as error:
            self.fail("{}: {}".format(type(error).__name__, error))
            return None

    return call


class Session:
    def __init__(self, torch, settings, report):
        self.torch, self.settings, self.report = torch, settings, report
        self.made, self.window, self.cycle = 0, None, 0
        self.begun, self.off, self.closed, self.thread = False, False, False, None
        self.found = True

    def recordable(self):
        """Not in a forked child and not in a worker of a DataLoader."""
        return os.getpid() == self.report.pid and self.torch.utils.data.get_worker_info() is None

    def begin(self):
        """Before the first step; further calls do nothing."""
        if not self.begun and not self.closed and self.recordable():
            self.begun = True
            self.enter(0)

    def step(self):
        """At the end of each step."""
        if self.closed or os.getpid() != self.report.pid:
            return
        if self.thread is None:
            self.thread = threading.get_ident()
        if threading.get_ident() != self.thread:
            return
        self.made += 1
        self.report.steps(self.made)
        if not self.off:
            self.advance()

    @guarded
    def advance(self):
        if self.window is not None:
            if steps.action(self.settings["schedule"], self.made - 1) == steps.RECORD_AND_SAVE:
                self.finish()
            else:
                self.window.step()
        if self.window is None:
            self.enter(self.made)

    @guarded
    def enter(self, step):
        """Begins a cycle if `step` is its first."""
        if self.off or steps.action(self.settings["schedule"], step) == steps.NONE or not self.take_rank():
            return
        with_handler = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        self.window = Window(self.torch, self.settings, self.report, step)
        if with_handler and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self.terminated)

    def take_rank(self):
        """Learns the rank when it is first needed: it may not be known before."""
        content = self.report.content
        if content["rank"] is not None:
            return True
        rank, world = self.rank()
        chosen = self.settings["ranks"]
        if chosen is not None and not any(first <= rank <= last for first, last in chosen):
            content["rank"], content["world"], content["excluded"], self.off = rank, world, True, True
            self.report.write()
            return False
        holder = self.report.claim(rank)
        if holder is not None:
            self.fail("rank {} is process {} already; of two processes with one rank only the first is recorded: set RANK in each".format(rank, holder))
            return False
        content["rank"], content["world"] = rank, world
        self.report.write()
        return True

    def rank(self):
        distributed = self.torch.distributed
        if distributed.is_available() and distributed.is_initialized():
            return distributed.get_rank(), distributed.get_world_size()
        world = os.environ.get("WORLD_SIZE", "")
        for name in ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "LOCAL_RANK"):
            if os.environ.get(name, "").isdigit():
                return int(os.environ[name]), int(world) if world.isdigit() else None
        return 0, None

    def finish(self):
        window, self.window = self.window, None
        recorded = window.close()
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == self.terminated:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if recorded is None:
            window.discard()
            return
        rank = self.report.content["rank"]
        ending = "json.gz" if self.settings["options"]["gzip"] else "json"
        folder = "cycle_{}".format(self.cycle) if self.cycle else ""
        place = os.path.join(self.settings["output"], folder)
        os.makedirs(place, exist_ok=True)
        names = {kind: os.path.join(folder, "{}_{}.{}".format(kind, rank, ending)) for kind in ("torch_et", "kineto_trace")}
        for source, name in zip((window.host, window.device), names.values()):
            publish(source, os.path.join(self.settings["output"], name), self.settings["options"]["gzip"])
        if self.settings["tensorboard"]:
            show(os.path.join(self.settings["output"], names["kineto_trace"]), self.settings["tensorboard"], rank)
        self.report.content["cycles"].append(
            {"first_step": recorded[0], "last_step": recorded[1], "whole": self.made > recorded[1], "host_trace": names["torch_et"], "device_trace": names["kineto_trace"], "clock": clock()}
        )
        self.cycle += 1
        self.report.write()

    @guarded
    def leave(self):
        """The process ends."""
        if self.window is not None and os.getpid() == self.report.pid:
            self.finish()

    def close(self):
        """Nothing counts any more."""
        self.off, self.closed = True, True

    def tell_end(self):
        """Whose steps these were, and why there is no trace, where nothing else kept it from being made."""
        content, schedule = self.report.content, self.settings["schedule"]
        if content["rank"] is None:
            content["rank"], content["world"] = self.rank()
        if content["cycles"] or content["notes"] or content["excluded"]:
            return
        first = schedule["skip_first"] + schedule["warmup"] + (0 if schedule["skip_first_wait"] else schedule["wait"])
        plural = "" if self.made == 1 else "s"
        self.report.note("nothing is recorded: the program made {} step{}, recording starts at step {} (they count from 0)".format(self.made, plural, first))

    def process(self):
        """What the manifest says of this process."""
        return dict(self.report.content, steps=self.made, lost=False)

    def forked(self):
        """In a forked child, such as a worker of a DataLoader: the observer would write into the parent's file."""
        self.off = True
        if self.window is not None:
            self.window.detach()

    def terminated(self, number, frame):
        self.leave()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def foreign(self):
        """The program makes a profiler of its own: there can be only one."""
        if not self.off and os.getpid() == self.report.pid:
            self.fail("the program uses the profiler itself: it is left alone from there on")

    def fail(self, why):
        self.off = True
        window, self.window = self.window, None
        try:
            if window is not None:
                window.close()
                window.discard()
        except Exception:
            pass
        self.report.note(why)
