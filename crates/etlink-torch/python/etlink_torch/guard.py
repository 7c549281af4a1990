"""Nothing of ours reaches the program: what can fail runs inside of these.

No statement that may raise stands outside of a `try` here, so that these hold when everything fails.
"""

import functools
import inspect
import signal
import types
from _signal import getsignal as handler_of

PACKAGE = __name__.rpartition(".")[0]
NUMBERS = sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})
"""Of signals that can be handled."""


class Failure(Exception):
    """Its text says to people what is missing and what to do."""


def describe(error):
    if isinstance(error, Failure):
        return str(error)
    return "{}: {}".format(type(error).__name__, error)


def is_programs(error):
    """Whether a handler of a signal raised it, which Python runs between any two lines, ours as well: it is meant for the program.

    Handlers are known by their arguments: a number and a frame. Functions of `sys.settrace` and `sys.setprofile`
    get a frame and a text. One that has dropped its arguments, or is compiled by Cython, is one of those that are set
    now. One of C has no frame, but that of the function by which we have called it.
    """
    trace, known = error.__traceback__, None
    while trace is not None:
        frame = trace.tb_frame
        if frame.f_code in CALLERS or is_handler(frame):
            return True
        if not is_ours(frame):
            known = handlers() if known is None else known
            if frame.f_code in known or (frame.f_code.co_name, frame.f_globals.get("__name__")) in known:
                return True
        trace = trace.tb_next
    return False


def handlers():
    """What frames of the handlers that are set now have: their code, or their name and module if they have none."""
    known = set()
    for handler in map(handler_of, NUMBERS):
        if callable(handler):
            known.update(marks(handler))
    return known


def marks(handler):
    try:
        function = getattr(handler, "__func__", handler)
        while type(function) is functools.partial:
            function = function.func
        code = getattr(function, "__code__", None)
        if type(code) is types.CodeType:
            return [code]
        call = getattr(type(handler), "__call__", None)
        code = getattr(call, "__code__", None)
        if type(code) is types.CodeType:
            return [code]
        return [(function.__name__, function.__module__)]
    except Exception:
        return []


def is_ours(frame):
    name = frame.f_globals.get("__name__")
    return type(name) is str and name.startswith(PACKAGE + ".")


def call_handler(handler, number, frame):
    """What this raises is the handler's."""
    handler(number, frame)


CALLERS = {call_handler.__code__}
"""What runs nothing but a handler of the program."""


def is_handler(frame):
    """Whether a frame is that of a handler of the program: it may have more arguments, or all of them in one."""
    if is_ours(frame):
        return False
    code, values, before = frame.f_code, frame.f_locals, None
    arguments = [values.get(name) for name in code.co_varnames[: code.co_argcount]]
    if code.co_flags & inspect.CO_VARARGS:
        rest = values.get(code.co_varnames[code.co_argcount + code.co_kwonlyargcount])
        arguments += rest if type(rest) is tuple else ()
    for argument in arguments:
        # `isinstance` would ask the program's own objects
        if type(before) in (int, signal.Signals) and type(argument) is types.FrameType:
            return True
        before = argument
    return False


def attempt(function, *arguments):
    """The result of a call, or None if it raised. What handlers of the program raise is the program's."""
    try:
        return function(*arguments)
    except Exception as error:
        if is_programs(error):
            raise
        return None


def fail(guarded, error):
    guarded.fail(describe(error))


def guarded(method):
    """For entry points of an object with `fail(why)`: an error ends the recording, not the program."""

    @functools.wraps(method)
    def call(self, *arguments):
        try:
            return method(self, *arguments)
        except Exception as error:
            if is_programs(error):
                raise
            attempt(fail, self, error)
        return None

    return call


def silent(method):
    """For entry points that have nobody to report to: an error is dropped."""

    @functools.wraps(method)
    def call(*arguments):
        try:
            return method(*arguments)
        except Exception as error:
            if is_programs(error):
                raise
            return None

    return call
