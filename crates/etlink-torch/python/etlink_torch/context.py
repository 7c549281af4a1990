"""`profile`: what `etlink record` does, for a part of a script. Prints nothing."""

import os
import sys

from . import hook, steps
from .manifest import recorded_files, update
from .report import Report
from .session import Session

OPTIONS = {"record_shapes": False, "with_stack": False, "profile_memory": False, "with_flops": False, "cuda_sync_events": True, "gzip": False}
SCHEDULE = {"skip_first": (0, 0), "wait": (0, 0), "warmup": (0, 0), "active": (1, 1), "repeat": (1, 0), "skip_first_wait": (0, None)}
"""Arguments of the schedule: what goes without saying, and the least."""


class profile:
    """Records both traces of the steps that the schedule names, with the options of `etlink record` under their names there.

    output: folder for the traces and `etlink.json`, made if it is not there
    wait, warmup, active, repeat, skip_first, skip_first_wait: as `torch.profiler.schedule`, one cycle unless `repeat` says otherwise
    step_on: None (a step ends at each call of `step()`), or "optimizer", "forward", "module:function"
    ranks: ranks to record, such as [0, 8], or None for all
    tensorboard: folder that gets the device traces under names that TensorBoard's plugin knows, too
    force: replace the traces that an earlier recording left of this rank
    and record_shapes, with_stack, profile_memory, with_flops, cuda_sync_events, gzip.

    Under `etlink record` that command decides, and this does nothing.
    """

    def __init__(self, output, step_on=None, ranks=None, tensorboard=None, force=False, **options):
        self.force, self.session, self.undo, self.patches = force, None, [], None
        schedule = {name: int(options.pop(name, usual)) for name, (usual, _) in SCHEDULE.items()}
        for name, (_, least) in SCHEDULE.items():
            if least is not None and schedule[name] < least:
                raise ValueError("{} is {}, needs to be at least {}".format(name, schedule[name], least))
        chosen = {name: bool(options.pop(name, usual)) for name, usual in OPTIONS.items()}
        if options:
            raise TypeError("profile() has no option {}".format(", ".join(sorted(options))))
        self.settings = {
            "work": os.path.join(os.path.abspath(output), ".etlink"),
            "output": os.path.abspath(output),
            "schedule": schedule,
            "step_on": step_on,
            "ranks": None if ranks is None else [[int(rank), int(rank)] for rank in ranks],
            "tensorboard": tensorboard and os.path.abspath(tensorboard),
            "options": chosen,
        }

    @property
    def notes(self):
        """What kept this process from being recorded; empty if nothing did."""
        return [] if self.session is None else list(self.session.report.content["notes"])

    def __enter__(self):
        if hook.ACTIVE:
            return self
        import torch

        for folder in (self.settings["work"], self.settings["tensorboard"]):
            if folder:
                os.makedirs(folder, exist_ok=True)
        self.session = Session(torch, self.settings, Report(self.settings["work"], hook.versions(torch)))
        self.make_room(self.session.rank()[0])
        self.undo = hook.watch_profilers(torch, self.session)
        os.register_at_fork(after_in_child=self.session.forked)
        if self.settings["step_on"] is not None:
            self.patches = steps.count(torch, self.session, None, self.settings["step_on"])
        self.session.begin()
        return self

    def make_room(self, rank):
        """Nothing is overwritten unasked."""
        old = recorded_files(self.settings["output"], rank)
        if old and not self.force:
            self.session.report.remove()
            raise FileExistsError("{} is there already; choose another folder, or use force=True to replace the recording".format(old[0]))
        for path in old:
            os.remove(path)

    def step(self):
        """The end of a step."""
        if self.session is not None and self.settings["step_on"] is None:
            self.session.step()

    def __exit__(self, *_):
        if self.session is None or os.getpid() != self.session.report.pid:
            return
        self.session.leave()
        self.session.close()
        if self.patches is not None:
            self.patches.undo()
        for owner, name, original in self.undo:
            setattr(owner, name, original)
        self.session.tell_end()
        update(self.settings, self.session.process(), sys.argv)
        self.session.report.remove()
