"""Calls of wrapped functions become steps."""

import functools
import threading


class Dynamo:
    """Keeps our frames out of what `torch.compile` makes. Does not import torch._dynamo itself."""

    def __init__(self, torch):
        from torch._C._dynamo import eval_frame

        self.frames = eval_frame
        self.set_eval_frame = eval_frame.set_eval_frame
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

    `counts(key)` decides whether a call that has ended was a step.
    """

    def __init__(self, torch, session, patches, counts):
        self.session, self.patches, self.counts = session, patches, counts
        self.dynamo = Dynamo(torch)
        self.inside, self.thread = False, None

    def wrap(self, function, key_of):
        """`function` with the same signature; `key_of(arguments, named)` says what is called."""
        is_tracing, set_eval_frame = self.dynamo.is_tracing, self.dynamo.set_eval_frame

        @functools.wraps(function)
        def wrapper(*arguments, **named):
            # first of all, so that nothing else of ours gets into the graph
            if is_tracing():
                return function(*arguments, **named)
            # Dynamo would compile our functions too; it is on for `function` alone
            compiler = set_eval_frame(None)
            is_outermost = self.begin(arguments)
            set_eval_frame(compiler)
            if not is_outermost:
                return function(*arguments, **named)
            try:
                result = function(*arguments, **named)
            except BaseException:
                self.leave()
                raise
            set_eval_frame(None)
            self.end(key_of, arguments, named)
            set_eval_frame(compiler)
            return result

        self.dynamo.skip(wrapper)
        return wrapper

    def begin(self, arguments):
        """Whether this call may be a step: not one within another, nor of another thread."""
        if self.inside or not self.patches.active:
            return False
        thread = threading.get_ident()
        if self.thread is None:
            self.thread = thread
        elif thread != self.thread:
            return False
        self.inside = True
        if not self.session.begun:
            self.session.begin()
        return True

    def leave(self):
        """Of each call that `begin` was true of, also of one that raised."""
        self.inside = False

    def end(self, key_of, arguments, named):
        self.leave()
        try:
            if self.counts(key_of(arguments, named)):
                self.session.step()
        except Exception as error:
            self.session.fail("{}: {}".format(type(error).__name__, error))


def announce(session, name):
    """What is counted, for summary and manifest."""
    if session.report.content.get("counted") != name:
        session.report.content["counted"] = name
        session.report.write()


class Leader:
    """Of several objects that are called in one loop only one counts: the first.

    Another takes its place when it is called twice without it.
    """

    def __init__(self):
        self.key, self.other = None, None

    def counts(self, key):
        if key == self.key:
            self.other = None
            return True
        if self.key is None or key == self.other:
            self.key, self.other = key, None
            return True
        self.other = key
        return False
