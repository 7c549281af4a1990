"""`arm`: one line in a script that makes a job record on request. Prints nothing."""

import os
import re

from . import at_end, files, hook, steps
from .armed import ArmedSession
from .context import OPTIONS, activity_names, folder_settings, refuse_old
from .guard import attempt, describe, is_programs
from .output_folder import OutputFolder
from .process import rank_and_world
from .window import is_profiled

WHEN = re.compile(r"\s*step_time\s*>\s*(\d+(?:\.\d+)?)\s*(x\s*median|us|ms|s)\s*")
NS = {"us": 1e3, "ms": 1e6, "s": 1e9}
SIGNALS = ("SIGUSR1", "SIGUSR2", None)
OPEN = []
"""The armed recording of this process, if any."""


def limit_of(when):
    """Parses `step_time > 1.5 x median` or `step_time > 200 ms`. Raises for anything else."""
    if when is None:
        return None
    found = WHEN.fullmatch(when)
    if found is None or float(found.group(1)) <= 0:
        raise ValueError("when is {!r}; use `step_time > 1.5 x median` or `step_time > 200 ms`".format(when))
    value, unit = float(found.group(1)), found.group(2)
    return {"ns": int(value * NS[unit])} if unit in NS else {"factor": value}


def positive(name, value):
    if value is not None and int(value) < 1:
        raise ValueError("{} is {}, needs to be at least 1".format(name, value))
    return None if value is None else int(value)


class arm:
    """Makes this process record on request from now on, as under `etlink record --armed`.

    output: folder for traces and `etlink.json`; `etlink trigger` takes this folder, or the id of the process
    step_on: what counts as a step, as in `etlink record --step-on`
    steps: steps per recording, if the request has no number
    every: record at each step whose number is a multiple of this
    when: record after a slow step: "step_time > 1.5 x median" or "step_time > 200 ms"
    keep: keep only this number of latest recordings, and remove older ones of this process
    signal: signal that requests a recording, "SIGUSR2", "SIGUSR1" or None; not used if the program handles it
    ranks, overwrite, max_size, activities and the other options: as in `profile`

    Raises TypeError or ValueError for invalid arguments, and FileExistsError if there is a recording already.
    Other failures are in `notes`, and the program continues. Under `etlink record`, that command records and
    this does nothing; so does a second `arm`.
    """

    def __init__(
        self,
        output,
        step_on="optimizer",
        steps=2,
        every=None,
        when=None,
        keep=None,
        signal="SIGUSR2",
        ranks=None,
        overwrite=False,
        max_size=None,
        activities=None,
        **options
    ):
        self.folder, self.early_notes, self.patches, self.watched = None, [], [], []
        chosen = {name: bool(options.pop(name, usual)) for name, usual in OPTIONS.items()}
        if options or chosen["interleave"]:
            raise TypeError("arm() has no option {}".format(", ".join(sorted(options)) or "interleave"))
        if signal not in SIGNALS:
            raise ValueError("signal is {!r}; use SIGUSR1, SIGUSR2 or None".format(signal))
        armed = {"warmup": 1, "steps": positive("steps", steps), "every": positive("every", every)}
        armed.update(keep=positive("keep", keep), when=limit_of(when), signal=signal)
        if armed["every"] is not None and armed["every"] <= armed["steps"] + armed["warmup"]:
            raise ValueError("every is {}, but must exceed steps plus 1 warmup step".format(every))
        self.settings = folder_settings(output, ranks, None, max_size, chosen)
        self.settings.update(
            schedule=None, armed=armed, own_profiler="leave", activities=activity_names(activities), step_on=step_on
        )
        output = self.settings["output"]
        if hook.is_recorded_by_command():
            return
        if OPEN:
            self.early_notes.append("another `arm` is already open, so this one does nothing")
            return
        old = attempt(self.old_files) or []
        if old and not overwrite:
            refuse_old(old)
        self.settings["old"] = [os.path.relpath(path, output) for path in old]
        is_new = not os.path.exists(output)
        try:
            self.begin()
        except Exception as error:
            if is_programs(error):
                raise
            self.early_notes.append(describe(error))
            attempt(self.undo)
            if self.folder is not None:
                self.folder.leave()
            if is_new:
                attempt(os.rmdir, output)

    @property
    def session(self):
        return None if self.folder is None else self.folder.session

    @property
    def notes(self):
        """Reasons why this process is not recorded; empty if it is."""
        noted = [] if self.session is None else self.session.report.content["notes"]
        return self.early_notes + list(noted)

    def old_files(self):
        import torch

        return files.recorded_files(self.settings["output"], rank_and_world(torch)[0])

    def begin(self):
        import torch

        if is_profiled(torch):
            self.early_notes.append("a profiler of the program is already recording, so nothing is armed")
            return
        self.folder = OutputFolder(torch, self.settings, ArmedSession)
        session = self.session
        self.watched = hook.watch_profilers(torch, session)
        self.patches += hook.watch_waits(torch, session)
        os.register_at_fork(after_in_child=session.forked)
        self.patches.append(steps.count(torch, session, None, self.settings["step_on"]))
        session.watcher.handle_signal()
        # children of multiprocessing end by `os._exit`
        at_end.call(self.close)
        OPEN.append(self)

    def undo(self):
        session = self.session
        if session is not None:
            session.close()
        for patches in self.patches:
            attempt(patches.undo)
        for owner, name, original in self.watched:
            attempt(setattr, owner, name, original)

    def close(self):
        """Stops recording, as the end of the process also does. Never raises."""
        attempt(self.end)

    def end(self):
        session = self.session
        if self not in OPEN or session is None or os.getpid() != session.report.pid:
            return
        OPEN.remove(self)
        session.leave()
        self.undo()
        try:
            self.folder.end()
        except Exception as error:
            if is_programs(error):
                raise
            self.early_notes.append(describe(error))
        self.folder.leave()
