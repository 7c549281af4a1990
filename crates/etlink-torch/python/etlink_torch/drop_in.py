"""`profile` with the arguments of `torch.profiler.profile`: PyTorch's own profiler, whose steps etlink also records."""

import gzip
import inspect
import os
import shutil

import torch
from torch.profiler import profile as torch_profile

from . import adoption, files
from .context import OPTIONS, SCHEDULE, Recording, folder_settings, is_to_be_replaced, refuse_old
from .guard import attempt, describe, is_programs
from .own_profiler import around, calls_of_profilers
from .process import rank_and_world

SCHEDULED = {*SCHEDULE, "step_on", "interleave", "cuda_sync_events", "cuda_graph_nodes"}
"""Arguments that only `Recording` has, with its schedule."""
FOLDER = ("output", "ranks", "tensorboard", "overwrite", "max_size", "gzip", "thread_waits", "memory_snapshot")
"""Arguments that PyTorch's profiler lacks."""
OF_BOTH = {"activities", "record_shapes", "with_stack", "profile_memory", "with_flops"}


def is_scheduled(arguments, named):
    """Returns true if a call is for `Recording`. Raises for a call with both kinds of schedule."""
    scheduled = sorted(SCHEDULED.intersection(named))
    known = set(inspect.signature(torch_profile.__init__).parameters) - OF_BOTH
    others = sorted(known.intersection(named))
    if scheduled and others:
        raise TypeError(
            "profile() takes {} only with its own schedule, and {} only with one of torch.profiler; use "
            "schedule=torch.profiler.schedule(...) instead of wait, warmup and active, or leave out {}".format(
                ", ".join(scheduled), ", ".join(others), ", ".join(others)
            )
        )
    has_output = bool(arguments) or named.get("output") is not None
    is_of_torch = bool(others) or not OF_BOTH.isdisjoint(named)
    return bool(scheduled) or len(arguments) > 1 or (has_output and not is_of_torch)


class profile(torch_profile):
    """`torch.profiler.profile`, whose steps are also recorded with the execution trace observer.

    All arguments and methods are PyTorch's, and so is the script's output. Both traces of each cycle are also written
    to a folder, with `etlink.json`.

    on_trace_ready: as in PyTorch, or a list of handlers, each of which may export the trace
    output: the folder, created if missing; default "etlink_traces"
    ranks, tensorboard, overwrite, max_size, gzip, thread_waits, memory_snapshot: as in `Recording`

    With `wait`, `warmup`, `active`, `repeat`, `skip_first`, `skip_first_wait` or `step_on`, or with an output and no
    argument of PyTorch's profiler, this is a `Recording` instead.

    Raises PyTorch's own exceptions, TypeError or ValueError for invalid arguments, and FileExistsError if there is a
    recording already and an output was given without `overwrite=True`. Other failures are in `notes`. Under
    `etlink record`, that command decides about the traces.
    """

    def __new__(cls, *arguments, **named):
        if cls is profile and is_scheduled(arguments, named):
            return Recording(*arguments, **named)
        return super().__new__(cls)

    def __init__(self, output=None, *, on_trace_ready=None, overwrite=None, **options):
        given = {name: options.pop(name) for name in FOLDER if name in options}
        if options.get("activities") is not None:
            options["activities"] = [kind_of_activity(kind) for kind in options["activities"]]
        if isinstance(on_trace_ready, (list, tuple)):
            on_trace_ready = Handlers(on_trace_ready)
        super().__init__(on_trace_ready=on_trace_ready, **options)
        self.etlink, self.early_notes = None, []
        if not adoption.is_wanted():
            return
        settings = adopted_settings(output, {**options, **given})
        old = attempt(old_files, settings["output"]) or []
        if old and not is_to_be_replaced(output, overwrite):
            refuse_old(old)
        try:
            self.etlink = adoption.adopt(torch, settings, old, self)
        except Exception as error:
            if is_programs(error):
                raise
            self.early_notes.append(describe(error))

    @property
    def notes(self):
        """Reasons why this process was not recorded; empty if it was."""
        noted = [] if self.etlink is None else self.etlink.session.report.content["notes"]
        return self.early_notes + list(noted)

    def step(self):
        if self.etlink is not None:
            attempt(self.etlink.session.step)
        super().step()

    def export_chrome_trace(self, path, *arguments, **named):
        handlers = self.on_trace_ready
        if isinstance(handlers, Handlers) and handlers.copy(path):
            return
        super().export_chrome_trace(path, *arguments, **named)
        if isinstance(handlers, Handlers):
            handlers.exported = path


def kind_of_activity(kind):
    """Returns the activity of a name such as "cuda", which `Recording` accepts too."""
    if not isinstance(kind, str):
        return kind
    try:
        return getattr(torch.profiler.ProfilerActivity, kind.upper())
    except AttributeError:
        raise ValueError("activities has {}, which this version of PyTorch does not know".format(kind)) from None


def adopted_settings(output, options):
    allowed = {name: options[name] for name in ("ranks", "tensorboard", "max_size") if name in options}
    chosen = {name: options[name] for name in OPTIONS if name in options}
    settings = folder_settings(
        output, allowed.get("ranks"), allowed.get("tensorboard"), allowed.get("max_size"), chosen
    )
    settings.update(schedule=None, own_profiler="adopt", activities=None, step_on=None)
    return settings


def old_files(output):
    """Returns the files of an earlier recording of this rank."""
    return [] if adoption.is_known(output) else files.recorded_files(output, rank_and_world(torch)[0])


class Handlers:
    """Several handlers of a trace, which PyTorch saves only once: the first handler's export is copied for the others."""

    def __init__(self, handlers):
        self.handlers, self.is_called, self.exported = list(handlers), False, None

    def __call__(self, profiler):
        self.is_called, self.exported = True, None
        try:
            for handler in self.handlers:
                handler(profiler)
        finally:
            self.is_called, self.exported = False, None

    def copy(self, path):
        """Copies a trace that was already exported to the path. Returns false if there is none."""
        if not self.is_called or self.exported is None:
            return False
        path = os.fspath(path)
        if os.path.exists(path) and os.path.samefile(self.exported, path):
            return True
        temporary = path + ".new"
        try:
            self.copy_whole(temporary, path.endswith(".gz"))
            os.replace(temporary, path)
        except BaseException:
            attempt(os.remove, temporary)
            raise
        return True

    def copy_whole(self, target, is_packed):
        if is_packed:
            opened = gzip.open(self.exported, "rb") if files.is_packed(self.exported) else open(self.exported, "rb")
            with opened as source, gzip.open(target, "wb") as packed:
                shutil.copyfileobj(source, packed)
        else:
            files.copy_plain(self.exported, target)


def owns(profiler):
    """Returns the recording of this profiler; other profilers of the script are not watched."""
    recording = profiler.__dict__.get("etlink")
    return () if recording is None else (recording.session.own,)


def of_base(name):
    """Returns a method that calls PyTorch's current one, because others may replace it."""

    def call(self, *arguments, **named):
        return getattr(super(profile, self), name)(*arguments, **named)

    call.__name__ = name
    return call


for _, name, first, last in calls_of_profilers(torch):
    if hasattr(torch_profile, name):
        setattr(profile, name, around(of_base(name), first, last, owns))
