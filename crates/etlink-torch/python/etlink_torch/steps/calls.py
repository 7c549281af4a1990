"""Calls of wrapped functions become steps."""

import functools
import weakref
from threading import get_ident

from ..guard import attempt, describe, is_programs

KEYS = 4096
"""Objects that are remembered; some programs make new ones all the time."""


class Dynamo:
    """Keeps our frames out of what `torch.compile` makes. Does not import torch._dynamo itself."""

    def __init__(self, torch):
        from torch._C._dynamo import eval_frame

        self.frames = eval_frame
        self.set_eval_frame = eval_frame.set_eval_frame
        # older ones switch it off with the same call; a handler of a signal that raises behind that loses it
        switch_off = functools.partial(self.set_eval_frame, None)
        self.eval_frame_callback = getattr(eval_frame, "get_eval_frame_callback", switch_off)
        self.is_tracing = self.constant(torch)

    @staticmethod
    def constant(torch):
        """Constant to Dynamo: true where it traces, false where Python runs."""
        if hasattr(torch.compiler, "is_dynamo_compiling"):
            return torch.compiler.is_dynamo_compiling
        return getattr(torch.compiler, "is_compiling", torch._utils.is_compiling)

    def skip(self, function):
        """The frame itself always runs as Python; what it calls is compiled as if it was not there.

        This is `skip_code` of torch/_dynamo/eval_frame.py, a part of the C module before 2.6.
        """
        frames, code = self.frames, function.__code__
        if hasattr(frames, "set_code_exec_strategy"):
            action = frames._FrameAction
            strategy = frames._FrameExecStrategy(action.SKIP, action.DEFAULT)
            frames.set_code_exec_strategy(code, strategy)
        elif hasattr(frames, "skip_code"):
            frames.skip_code(code)


class StepCalls:
    """The outermost calls of wrapped functions, on the thread that made the first one.

    What is here runs inside of the program's own calls: nothing may be raised into them. In a run
    of millions of steps it costs time in each, recorded or not, so it makes few calls
    (`cargo dev overhead`).
    """

    def __init__(self, torch, session, patches):
        self.session, self.patches = session, patches
        self.dynamo = Dynamo(torch)
        self.inside, self.thread = False, None
        patches.on_undo(self.retire)

    def wrap(self, function, counts):
        """`function` with the same signature; `counts(arguments, named)` decides whether a call that
        has ended was a step."""
        is_tracing, set_eval_frame = self.dynamo.is_tracing, self.dynamo.set_eval_frame
        eval_frame_callback, passes = self.dynamo.eval_frame_callback, self.passes
        begin, leave, end_step = self.begin, self.leave, self.session.end_step

        @functools.wraps(function)
        def wrapper(*arguments, **named):
            # first of all, so that nothing else of ours gets into the graph
            if is_tracing() or self.inside:
                return function(*arguments, **named)
            # Dynamo would compile our functions too; it is on for `function` alone
            compiler = eval_frame_callback()
            try:
                if compiler is not None:
                    set_eval_frame(None)
                is_outermost = begin(arguments)
            except BaseException as error:
                is_outermost = False
                if passes(error, compiler):
                    raise
            if compiler is not None:
                set_eval_frame(compiler)
            if not is_outermost:
                return function(*arguments, **named)
            try:
                result = function(*arguments, **named)
            except BaseException:
                attempt(leave)
                raise
            try:
                if compiler is not None:
                    set_eval_frame(None)
                leave()
                if counts(arguments, named):
                    end_step()
            except BaseException as error:
                if passes(error, compiler):
                    raise
            if compiler is not None:
                set_eval_frame(compiler)
            return result

        self.dynamo.skip(wrapper)
        return wrapper

    def begin(self, arguments):
        """Whether this call may be a step: not one within another, nor of another thread."""
        if self.thread != get_ident() and not self.take_thread():
            return False
        self.inside = True
        return True

    def take_thread(self):
        """Whether this is the thread whose calls count; the first one is."""
        if self.thread is not None or not self.patches.active:
            return False
        self.thread = get_ident()
        self.session.begin()
        return True

    def leave(self):
        """Of each call that `begin` was true of, also of one that raised."""
        self.inside = False

    def passes(self, error, compiler):
        """Whether an error is meant for the program, which then goes on as it was; one of ours ends the recording."""
        if isinstance(error, Exception) and not is_programs(error):
            attempt(self.give_up, error)
            return False
        if self.thread == get_ident():
            attempt(self.leave)
        if compiler is not None:
            self.dynamo.set_eval_frame(compiler)
        return True

    def retire(self):
        """What is wrapped does nothing any more; no thread has this number."""
        self.thread = 0

    def give_up(self, error):
        """The recording ends."""
        self.inside = False
        self.session.fail(describe(error))


def announce(session, name):
    """What is counted, for summary and manifest."""
    # in a forked child that is not recorded the report is the parent's
    if not session.closed and session.report.content.get("counted") != name:
        is_first = session.report.content.get("counted") is None
        session.report.content["counted"] = name
        # later ones are written with what is written next: objects of two names can lead by turns
        if is_first:
            session.report.write()


class Leader:
    """Of several objects that are called in one loop one counts: at first the one that is called first.

    Another takes its place when the leader is gone, when it is new (made since the leader's last call, as in
    each trial of a search), or when it is called more than `patience` times without the leader in between.
    Where new ones come all the time, as the inner optimizers of meta-learning do, the one that outlasts two of
    them leads; as many calls as the last of these had are no sign that it is out of use.

    Where objects lead by turns, several calls each, the first call of a turn is a step too.
    """

    def __init__(self, session):
        self.session, self.key, self.reference = session, None, None
        # calls of this one count without being looked at
        self.quick = None
        # those that were made since the leader's last call, and how often others were called since then
        self.fresh, self.calls, self.patience = set(), {}, 1
        # whether the leader was new when it became that, and the steps that were made then
        self.is_young, self.began = False, 0
        # how many new ones have led, and how many had when others were called last
        self.young, self.met, self.outlasts = 0, {}, False
        # the object that was called last, how often in a row, and the steps that were made before
        self.last, self.in_row, self.row_began = None, 0, 0
        # how often others were called in a row, the last time that they were
        self.rows = {}

    def add(self, key):
        """A new one: what is known of the number was of another, which is gone."""
        self.fresh.add(key)
        self.calls.pop(key, None)
        self.met.pop(key, None)
        self.rows.pop(key, None)

    def counts(self, key, made):
        """Whether a call of the object `made` is a step."""
        is_new, begins = key in self.fresh, self.begins_row(key)
        if key == self.key and not is_new:
            self.fresh.clear()
            self.calls.clear()
            self.quick = key
            return True
        self.quick = None
        if self.is_young and not is_new:
            if self.met.get(key, self.young) < self.young:
                self.outlast(key, made)
                # the call of the new one was the step
                return False
            self.meet(key)
        if self.key is None or self.reference() is None or (is_new and not self.outlasts):
            self.take(key, made, is_new)
            return True
        self.calls[key] = self.calls.get(key, 0) + 1
        if self.calls[key] <= self.patience and not (begins and self.is_turn_of(key)):
            return False
        self.take(key, made, is_new)
        return True

    def begins_row(self, key):
        """Whether another was called before."""
        if key == self.last:
            self.in_row += 1
            return False
        if len(self.rows) > KEYS:
            self.rows.clear()
        # calls of the leader are not looked at, and all of them are steps
        is_leader = self.last is not None and self.last == self.key
        self.rows[self.last] = self.session.made - self.row_began if is_leader else self.in_row
        self.last, self.in_row, self.row_began = key, 1, self.session.made
        return True

    def is_turn_of(self, key):
        """Whether this one and the leader were both called several times in a row: not as parts of one iteration."""
        is_plain = self.patience == 1 and not self.is_young
        return is_plain and min(self.rows.get(key, 0), self.rows.get(self.key, 0)) > 1

    def meet(self, key):
        if len(self.met) > KEYS:
            self.met.clear()
        self.met[key] = self.young

    def outlast(self, key, made):
        patience = max(1, self.session.made - self.began)
        self.take(key, made, False)
        self.patience, self.outlasts = patience, True

    def take(self, key, made, is_new):
        self.key, self.reference = key, weakref.ref(made)
        self.row_began = self.session.made - (self.in_row - 1)
        self.fresh.clear()
        self.calls.clear()
        self.patience, self.outlasts = 1, False
        self.is_young, self.began = is_new, self.session.made
        self.young += is_new
