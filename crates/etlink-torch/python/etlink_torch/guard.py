"""Nothing of ours reaches the program: what can fail runs inside of these.

No statement that may raise stands outside of a `try` here, so that these hold when everything fails.
"""

import functools
import inspect
import signal
import types

PACKAGE = __name__.rpartition(".")[0]


class Failure(Exception):
    """Its text says to people what is missing and what to do."""


def describe(error):
    if isinstance(error, Failure):
        return str(error)
    return "{}: {}".format(type(error).__name__, error)


def is_programs(error):
    """Whether a handler of a signal raised it, which Python runs between any two lines, ours as well: it is meant for the program.

    Handlers are known by their arguments: a number and a frame. Functions of `sys.settrace` and `sys.setprofile`
    get a frame and a text.
    """
    trace = error.__traceback__
    while trace is not None:
        if is_handler(trace.tb_frame):
            return True
        trace = trace.tb_next
    return False


def is_handler(frame):
    """Whether a frame is that of a handler of the program: it may have more arguments, or all of them in one."""
    code, name = frame.f_code, frame.f_globals.get("__name__")
    if type(name) is str and name.startswith(PACKAGE + "."):
        return False
    values, before = frame.f_locals, None
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
