"""What this process does when it ends, also where `os._exit` and `exec` skip what Python does: forked processes end by the former."""

import atexit
import functools
import os
import sys

from .guard import attempt

ACTIONS = []
"""Functions; each knows whether it is for this process or for the one that it was forked from."""


def call(function):
    if not ACTIONS:
        atexit.register(leave)
        wrap_ends(leave, leave)
    ACTIONS.append(function)


def leave():
    for function in list(ACTIONS):
        attempt(function)


def wrap_ends(leave, leave_by_exec):
    """Calls the functions before `os._exit`, and before the process becomes another program."""
    os._exit = before_exit(os._exit, leave)
    # the others of their family call these two of `os`; it has them from `posix`
    for name in ("execv", "execve"):
        wrapper = before_exec(getattr(os, name), leave_by_exec)
        for module in (os, sys.modules.get("posix")):
            if hasattr(module, name):
                setattr(module, name, wrapper)


def before_exit(original, leave):
    @functools.wraps(original)
    def wrapper(status):
        try:
            leave()
        finally:
            original(status)

    return wrapper


def before_exec(original, leave):
    @functools.wraps(original)
    def wrapper(path, *arguments, **named):
        if attempt(can_be_run, path):
            attempt(leave)
        return original(path, *arguments, **named)

    return wrapper


def can_be_run(path):
    """Not where `execvp` tries one folder after another."""
    return isinstance(path, int) or (os.path.isfile(path) and os.access(path, os.X_OK))
