"""Starts the recording in a process that has imported torch."""

import atexit
import functools
import json
import os

from . import steps
from .report import Report
from .session import Session
from .window import OWN

ACTIVE = []
"""The session of `etlink record` in this process, if there is one."""


def install(torch, after_import):
    """Starts counting; what goes wrong is reported."""
    settings = json.loads(os.environ["ETLINK_RECORD"])
    report = Report(settings["work"], versions(torch))
    try:
        session = Session(torch, settings, report)
        steps.count(torch, session, after_import, settings["step_on"])
        watch_profilers(torch, session)
        atexit.register(session.leave)
        os.register_at_fork(after_in_child=session.forked)
        leave_first(session)
        ACTIVE.append(session)
    except Exception as error:
        report.note("{}: {}".format(type(error).__name__, error))


def versions(torch):
    device = torch.version.cuda or getattr(torch.version, "hip", None)
    return {"torch": str(torch.__version__), "device": device}


def leave_first(session):
    """`os._exit` skips all that Python does at exit."""
    leave = os._exit

    @functools.wraps(leave)
    def wrapper(status):
        session.leave()
        leave(status)

    os._exit = wrapper


def watch_profilers(torch, session):
    """A profiler or observer that the program makes ends the recording. Gives what was there before: owner, name, function."""
    watched = [
        (torch.profiler.profile, "__init__"),
        (torch.autograd.profiler.profile, "__init__"),
        (torch.profiler.ExecutionTraceObserver, "register_callback"),
    ]
    before = [(owner, name, getattr(owner, name)) for owner, name in watched]
    for owner, name, original in before:
        setattr(owner, name, wrapped(original, session))
    return before


def wrapped(original, session):
    @functools.wraps(original)
    def wrapper(*arguments, **named):
        if not OWN["making"]:
            session.foreign()
        return original(*arguments, **named)

    return wrapper
