"""`profile` with a schedule in its own arguments: `etlink record` for a part of a script. Prints nothing."""

import gc
import os
import socket

from . import hook, steps
from .guard import attempt, describe, guarded, is_programs
from .output_folder import OutputFolder
from .phases import Phases
from .signals import deferred
from .window import DEVICES, is_profiled

OUTPUT = "etlink_traces"
"""Default output folder."""

OPTIONS = {
    "record_shapes": False,
    "with_stack": False,
    "profile_memory": False,
    "with_flops": False,
    "cuda_sync_events": True,
    "thread_waits": True,
    "memory_snapshot": False,
    "cuda_graph_nodes": False,
    "gzip": False,
    "interleave": False,
}
OF_ALL = ("ranks", "tensorboard", "overwrite", "max_size", "activities")
"""Further arguments of all recordings."""
SCHEDULE = {
    "skip_first": (0, 0),
    "wait": (0, 0),
    "warmup": (0, 0),
    "active": (1, 1),
    "repeat": (1, 0),
    "skip_first_wait": (0, None),
}
"""Arguments of the schedule: default and minimum."""


def folder_settings(output, ranks, tensorboard, max_size, options):
    """Returns the settings that all recordings without a launcher share."""
    output = os.path.abspath(OUTPUT if output is None else output)
    return {
        "work": os.path.join(output, ".etlink"),
        "output": output,
        "launcher": attempt(socket.gethostname) or "local",
        "hook": None,
        "ranks": None if ranks is None else [[int(rank), int(rank)] for rank in ranks],
        "tensorboard": tensorboard and os.path.abspath(tensorboard),
        "max_size": None if max_size is None else int(max_size),
        "options": {name: bool(options.get(name, usual)) for name, usual in OPTIONS.items()},
    }


def is_to_be_replaced(output, overwrite):
    """Returns true if an earlier recording may be replaced: in a given folder, only on request."""
    return output is None if overwrite is None else overwrite


def refuse_old(old):
    raise FileExistsError(
        "{} already exists; choose another folder, or use overwrite=True to replace the recording".format(old[0])
    )


def checked_schedule(options):
    """Removes the arguments of a schedule from the options. Raises for invalid numbers."""
    schedule = {name: int(options.pop(name, usual)) for name, (usual, _) in SCHEDULE.items()}
    for name, (_, least) in SCHEDULE.items():
        if least is not None and schedule[name] < least:
            raise ValueError("{} is {}, needs to be at least {}".format(name, schedule[name], least))
    return schedule


def checked_phases(phases):
    checked = {}
    for phase, given in phases.items():
        given = dict(given)
        checked[phase] = checked_schedule(given)
        if given:
            raise TypeError("the schedule of {} has no argument {}".format(phase, ", ".join(sorted(given))))
    return checked


def activity_names(activities):
    """Returns the names of activities. Raises for unknown ones."""
    if activities is None:
        return None
    names = [str(getattr(kind, "name", kind)).lower() for kind in activities]
    unknown = [name for name in names if name != "cpu" and name not in DEVICES]
    if unknown:
        raise ValueError("activities has {}; known are cpu, {}".format(", ".join(unknown), ", ".join(DEVICES)))
    return names


OPEN = []
"""The recording of this process, if any."""


class Recording:
    """Records both traces of scheduled steps, with the options of `etlink record` under the same names.

    output: folder for traces and `etlink.json`, created if missing; default "etlink_traces"
    wait, warmup, active, repeat, skip_first, skip_first_wait: as in `torch.profiler.schedule`, but `repeat` is 1 by default
    step_on: None (a step ends at each call of `step()`), or a value of `etlink record --step-on`, such as "optimizer"
    ranks: ranks to record, such as [0, 8]; None: all
    tensorboard: also write device traces here, for TensorBoard's profiler plugin
    overwrite: replace an earlier recording of this rank; None: only in the default folder
    max_size: start no cycle that would make the traces in the folder larger than this, bytes; None: no limit
    activities: activities to record, as `torch.profiler.ProfilerActivity` or by name ("cpu", "cuda"); cpu is always
        recorded; None: all available
    and record_shapes, with_stack, profile_memory, with_flops, cuda_sync_events, thread_waits,
    memory_snapshot, cuda_graph_nodes, gzip, interleave.

    Raises TypeError or ValueError for invalid arguments, and FileExistsError if there is a recording already.
    Other failures are in `notes`, and the program continues without a recording. Under `etlink record`, that
    command records and this does nothing; so does a recording inside another one.
    """

    def __init__(self, output=None, step_on=None, ranks=None, tensorboard=None, overwrite=None, max_size=None, activities=None, **options):
        self.overwrite, self.folder = is_to_be_replaced(output, overwrite), None
        self.undo, self.early_notes = [], []
        self.patches, self.early = None, []
        phases = options.pop("phases", None)
        schedule = None if phases else checked_schedule(options)
        unknown = sorted(set(options) - set(OPTIONS))
        if unknown:
            raise TypeError("profile() has no option {}".format(", ".join(unknown)))
        self.settings = folder_settings(output, ranks, tensorboard, max_size, options)
        self.settings.update(
            schedule=schedule, own_profiler="leave", activities=activity_names(activities), step_on=step_on
        )
        is_interleaved = self.settings["options"]["interleave"]
        if phases:
            self.settings.update(phases=checked_phases(phases), step_on="phase")
            if is_interleaved:
                raise ValueError("interleave does not support schedules of phases")
        elif is_interleaved and schedule["active"] % 2:
            raise ValueError(
                "active is {}, but interleave needs an even number: half of the steps are in each "
                "trace".format(schedule["active"])
            )

    @property
    def session(self):
        return None if self.folder is None else self.folder.session

    @property
    def notes(self):
        """Reasons why this process was not recorded; empty if it was."""
        noted = [] if self.session is None else self.session.report.content["notes"]
        return self.early_notes + list(noted)

    def fail(self, why):
        """Ends the recording. Never raises."""
        self.early_notes.append(why)
        if self.session is not None:
            self.session.off = True
            attempt(self.session.close)

    def __enter__(self):
        try:
            with deferred(has_defaults=False):
                self.enter()
        except BaseException:
            # then Python does not call `__exit__`
            self.end()
            raise
        return self

    def enter(self):
        self.begin()
        old = self.old_files()
        if old and not self.overwrite:
            self.give_up()
            refuse_old(old)
        self.start(old)

    @guarded
    def begin(self):
        if hook.is_recorded_by_command():
            return
        if OPEN:
            self.fail("another `profile` is already recording, so this one does nothing")
            return
        import torch

        if is_profiled(torch) or has_prepared_profiler(torch):
            self.fail("a profiler of the program is already recording, so this one does nothing")
            return
        self.folder = OutputFolder(torch, self.settings)

    @guarded
    def old_files(self):
        """Returns the files of an earlier recording of this rank."""
        if self.session is None or self.session.closed:
            return []
        return self.folder.old_files()

    @guarded
    def give_up(self):
        if self.folder is not None:
            self.folder.leave()
            self.folder = None

    @guarded
    def start(self, old):
        session = self.session
        if session is None or session.closed:
            return
        self.folder.list_old(old or [])
        OPEN.append(self)
        self.undo = hook.watch_profilers(session.torch, session)
        self.early = hook.watch_waits(session.torch, session)
        os.register_at_fork(after_in_child=session.forked)
        if "phases" in self.settings:
            session.phases = Phases(session, self.settings["phases"])
        elif self.settings["step_on"] is not None:
            self.patches = steps.count(session.torch, session, None, self.settings["step_on"])
        session.begin()

    @guarded
    def step(self):
        """Ends a step."""
        if self.session is not None and self.settings["step_on"] is None:
            self.session.step()

    def __exit__(self, *_):
        self.end()

    @guarded
    def end(self):
        with deferred(has_defaults=False):
            self.end_now()

    def end_now(self):
        if self in OPEN:
            OPEN.remove(self)
        session = self.session
        if session is None or os.getpid() != session.report.pid:
            return
        session.leave()
        session.close()
        if self.patches is not None:
            attempt(self.patches.undo)
        for patches in self.early:
            attempt(patches.undo)
        for owner, name, original in self.undo:
            attempt(setattr, owner, name, original)
        try:
            self.folder.end()
        except Exception as error:
            if is_programs(error):
                raise
            self.early_notes.append(describe(error))
        self.folder.leave()


def has_prepared_profiler(torch):
    """Returns true if a profiler of the program is in its warmup: Kineto supports one at a time."""
    kind = torch.autograd.profiler.profile
    for found in gc.get_objects():
        if type(found) is kind and found.entered and found.kineto_results is None:
            return True
    return False
