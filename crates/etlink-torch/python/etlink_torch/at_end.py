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
        wrap_ends(leave, leave, stay)
    ACTIONS.append(function)


def leave():
    for function in list(ACTIONS):
        attempt(function)


def stay(error):
    """What has ended stays so."""


def wrap_ends(leave, leave_by_exec, stay):
    """Calls the functions before `os._exit`, and before the process becomes another program; `stay(error)` where it does not."""
    os._exit = before_exit(os._exit, leave)
    # the others of their family call these two of `os`; it has them from `posix`
    for name in ("execv", "execve"):
        wrapper = before_exec(getattr(os, name), leave_by_exec, stay)
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


def before_exec(original, leave, stay):
    @functools.wraps(original)
    def wrapper(path, *arguments, **named):
        has_left = attempt(can_be_run, path)
        if has_left:
            attempt(leave)
        try:
            return original(path, *arguments, **named)
        except BaseException as error:
            # the system takes not all programs that look as if they could be run
            if has_left:
                attempt(stay, error)
            raise

    return wrapper


def can_be_run(path):
    """Not where `execvp` tries one folder after another, nor where what a script is to be run by is not there."""
    if isinstance(path, int):
        return True
    if not os.path.isfile(path) or not os.access(path, os.X_OK):
        return False
    line = attempt(first_line, path)
    if line is None or not line.startswith(b"#!"):
        return True
    interpreter = line[2:].split()[:1]
    return bool(interpreter) and os.path.isfile(interpreter[0]) and os.access(interpreter[0], os.X_OK)


def first_line(path):
    """None: it may not be read, though it may be run."""
    with open(path, "rb") as file:
        return file.readline(256)
