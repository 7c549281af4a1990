"""`profile` with a schedule in its own arguments: what `etlink record` does, for a part of a script. Prints nothing."""

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
"""The folder where none is given."""

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
"""Arguments of the schedule: what goes without saying, and the least."""


def folder_settings(output, ranks, tensorboard, max_size, options):
    """What all recordings without a launcher have in common."""
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
    """Whether an earlier recording is: one in a folder that was named only if that is asked for."""
    return output is None if overwrite is None else overwrite


def refuse_old(old):
    raise FileExistsError(
        "{} is there already; choose another folder, or use overwrite=True to replace the recording".format(old[0])
    )


def checked_schedule(options):
    """Takes the arguments of a schedule out of the options. Raises for numbers that make none."""
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
    """Names of kinds of activity. Raises for what is none."""
    if activities is None:
        return None
    names = [str(getattr(kind, "name", kind)).lower() for kind in activities]
    unknown = [name for name in names if name != "cpu" and name not in DEVICES]
    if unknown:
        raise ValueError("activities has {}, knows cpu, {}".format(", ".join(unknown), ", ".join(DEVICES)))
    return names


OPEN = []
"""The one that records in this process, if there is one."""


class Recording:
    """Records both traces of the steps that the schedule names, with the options of `etlink record` under their names there.

    output: folder for the traces and `etlink.json`, made if it is not there; "etlink_traces" if none is given
    wait, warmup, active, repeat, skip_first, skip_first_wait: as `torch.profiler.schedule`, one cycle unless `repeat` says otherwise
    step_on: None (a step ends at each call of `step()`), or "optimizer", "forward", "module:function"
    ranks: ranks to record, such as [0, 8], or None for all
    tensorboard: folder that gets the device traces under names that TensorBoard's plugin knows, too
    overwrite: replace the traces that an earlier recording left of this rank; None: if no output is given
    max_size: bytes that the traces in the folder may take, or None
    activities: what is recorded, as `torch.profiler.ProfilerActivity` or by name ("cpu", "cuda"), with that of the CPU in any
        case; None: all that is there
    and record_shapes, with_stack, profile_memory, with_flops, cuda_sync_events, thread_waits,
    memory_snapshot, cuda_graph_nodes, gzip, interleave.

    Raises for wrong arguments (TypeError, ValueError) and where a recording is there already
    (FileExistsError). Whatever else goes wrong is in `notes`, and the program goes on without a recording.
    Under `etlink record` that command decides, and this does nothing; so does one inside of another.
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
                raise ValueError("interleave needs a schedule that is not of a phase")
        elif is_interleaved and schedule["active"] % 2:
            raise ValueError(
                "active is {}, needs to be even with interleave: half of the steps are in each "
                "trace".format(schedule["active"])
            )

    @property
    def session(self):
        return None if self.folder is None else self.folder.session

    @property
    def notes(self):
        """What kept this process from being recorded; empty if nothing did."""
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
            # Python calls no `__exit__` then
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
            self.fail("another `profile` records already: this one does nothing")
            return
        import torch

        if is_profiled(torch) or has_prepared_profiler(torch):
            self.fail("a profiler of the program records already: this one does nothing")
            return
        self.folder = OutputFolder(torch, self.settings)

    @guarded
    def old_files(self):
        """What an earlier recording left of this rank."""
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
        """The end of a step."""
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
    """Whether a profiler of the program is in its warmup: Kineto knows one at a time."""
    kind = torch.autograd.profiler.profile
    for found in gc.get_objects():
        if type(found) is kind and found.entered and found.kineto_results is None:
            return True
    return False
