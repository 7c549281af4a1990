"""A schedule for each phase of a program: training, validation, test and prediction, whose batches are the steps."""

from time import perf_counter_ns

from . import steps
from .guard import guarded
from .signals import deferred
from .timing import StepTimes

PHASES = ("train", "validate", "test", "predict")


class Phases:
    """Records the steps of each phase that its schedule names.

    There is one profiler, and phases interrupt each other: validation comes between two batches of the training.
    So a cycle is cut where another phase begins. Its other steps are a pair of traces of their own. A step
    lasts from the begin of its batch to that of the next, the last one of a pair to the end of its batch.
    """

    def __init__(self, session, schedules):
        self.session, self.schedules = session, schedules
        # batches that have ended, of each phase
        self.made = {phase: 0 for phase in PHASES}
        self.times = {phase: StepTimes() for phase in PHASES}
        # the phase whose steps are being recorded, and whether the last of these has ended
        self.open, self.has_ended = None, False

    def fail(self, why):
        self.open = None
        self.session.fail(why)

    @guarded
    def begin(self, phase):
        """A batch of the phase begins."""
        session = self.session
        if session.closed or not session.recordable() or phase not in self.schedules:
            return
        with deferred(has_defaults=False):
            self.begin_batch(phase)

    def begin_batch(self, phase):
        if self.open not in (None, phase):
            self.cut()
        if self.session.window is None:
            self.enter(phase)
        elif self.has_ended:
            self.session.window.step()
        self.has_ended = False
        self.times[phase].start()

    def enter(self, phase):
        """Begins to record if the step is one to be recorded, or of the warmup; a part of a cycle has none."""
        session, schedule, step = self.session, self.schedules[phase], self.made[phase]
        self.open = None
        if session.off or steps.action(schedule, step) == steps.NONE or not session.claim_rank():
            return
        session.open_window(step, dict(session.settings, schedule=schedule))
        if session.window is not None:
            session.window.phase, session.times = phase, self.times[phase]
            self.open = phase

    @guarded
    def end(self, phase):
        """A batch of the phase has ended."""
        now = perf_counter_ns()
        if not self.session.closed and self.session.recordable():
            with deferred(has_defaults=False):
                self.end_batch(phase, now)

    def end_batch(self, phase, now):
        session, step = self.session, self.made[phase]
        self.made[phase] += 1
        session.made += 1
        if self.open == phase and session.window is not None:
            if session.window.is_recorded(step):
                self.times[phase].end_recorded(now)
            self.has_ended = True
            if steps.action(self.schedules[phase], step) == steps.RECORD_AND_SAVE:
                self.cut()
        elif phase in self.schedules:
            self.times[phase].end_plain(now)
        session.report.count(session.made, now)

    @guarded
    def cut(self):
        """Another phase begins, or this one has come to its end for now."""
        if self.open is not None and self.session.window is not None:
            self.session.finish()
        self.open = None

    def note_missing(self):
        """Names the phases of which nothing was recorded."""
        content = self.session.report.content
        if content["excluded"] or content["duplicate"]:
            return
        recorded = {cycle["phase"] for cycle in content["cycles"]}
        for phase, schedule in self.schedules.items():
            if phase not in recorded:
                first = schedule["skip_first"] + schedule["warmup"]
                first += 0 if schedule["skip_first_wait"] else schedule["wait"]
                self.session.report.note(
                    "nothing was recorded of phase {}: the program made {} batches of it, but recording starts at "
                    "step {} (steps count from 0)".format(phase, self.made[phase], first)
                )
