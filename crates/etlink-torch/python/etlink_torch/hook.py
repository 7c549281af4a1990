"""Starts the recording in a process that has imported torch."""

import atexit
import functools
import json
import os
import sys

from . import at_end, files, lightning_hooks, manifest, own_profiler, step_ranges, steps, workers
from .guard import attempt, describe, is_programs, silent
from .report import Report
from .session import Session
from .signals import deferred
from .steps.patches import Patches
from .window import OWN

ACTIVE = []
"""The session of `etlink record` in this process, if there is one."""
PRIVATE = "_etlink_hook"
"""The name under which `sitecustomize` loads this package."""


def install(torch, after_import):
    """Starts counting; what goes wrong is reported."""
    with deferred(has_defaults=False):
        install_now(torch, after_import)


def install_now(torch, after_import):
    settings = json.loads(os.environ["ETLINK_RECORD"])
    # before the report, and before what may fail: the folder stays as long as this process needs it
    held = attempt(files.hold_shared, os.path.join(settings["work"], "running"))
    report = Report(settings, versions(torch))
    report.held = held
    try:
        # of a program that became this one
        attempt(remove_if_there, left_path(settings["hook"]))
        session = session_of(torch, settings, report)
        # first: a child must never count in the place of its parent
        os.register_at_fork(after_in_child=session.forked)
        count(torch, session, after_import)
        watch_profilers(torch, session)
        watch_waits(torch, session)
        atexit.register(leave, session)
        at_end.wrap_ends(functools.partial(leave, session), functools.partial(leave_by_exec, session), functools.partial(stay, session))
        ACTIVE.append(session)
    except Exception as error:
        if is_programs(error):
            raise
        report.note(describe(error))


def session_of(torch, settings, report):
    if not settings["armed"]:
        return Session(torch, settings, report)
    from .armed import ArmedSession

    session = ArmedSession(torch, settings, report)
    session.watcher.handle_signal()
    return session


def count(torch, session, after_import):
    """Steps, or batches where phases have schedules of their own."""
    settings = session.settings
    if settings.get("phases"):
        lightning_hooks.watch(session, settings["phases"], Patches(), after_import)
    else:
        steps.count(torch, session, after_import, settings["step_on"])


def is_recorded_by_command():
    """Whether `etlink record` records this process; it has the hook under a private name."""
    others = sys.modules.get(PRIVATE + ".hook")
    return bool(ACTIVE or getattr(others, "ACTIVE", None))


def versions(torch):
    device = torch.version.cuda or getattr(torch.version, "hip", None)
    return {"torch": str(torch.__version__), "device": device, "nccl": attempt(nccl_version, torch)}


def nccl_version(torch):
    """As torch.cuda.nccl has it, which is not imported for this; raises where PyTorch has no NCCL."""
    number = torch._C._nccl_version()
    return "{}.{}.{}".format(number >> 32, number >> 16 & 0xFFFF, number & 0xFFFF)


@silent
def leave(session):
    """The process ends; its launcher may have ended before it, and so writes the manifest no more."""
    session.leave()
    settings = session.settings
    if os.getpid() != session.report.pid:
        return
    if is_left_to_launcher(settings["hook"]):
        # the launcher holds the folder until it has read the report
        session.report.release_folder()
        return
    if session.made:
        session.note_end()
        attempt(session.complete)
        attempt(manifest.update, settings, session.process(), sys.argv)
    session.report.remove()


def is_left_to_launcher(hook):
    """Whether the launcher puts this process into the manifest: it has not ended, or has seen that this one has left.

    A process lives for a while after it has left. The launcher may end just then, and would wait for its word.
    """
    ended, left = os.path.join(hook, "ended"), left_path(hook)
    # a launcher that knows of no process removes the folder when it ends
    if os.path.exists(ended) or not os.path.isdir(hook):
        return False
    attempt(touch, left)
    if not os.path.exists(ended):
        # the launcher looks for the file after it has made its own
        return True
    # both at once: who removes the file writes
    try:
        os.remove(left)
    except OSError:
        return True
    return False


def left_path(hook):
    return os.path.join(hook, "{}.left".format(os.getpid()))


def remove_if_there(path):
    if os.path.exists(path):
        os.remove(path)


def touch(path):
    with open(path, "w"):
        pass


def leave_by_exec(session):
    """The process becomes another program; in a forked child nothing of the session is its own."""
    if os.getpid() == session.report.pid and session.window is not None:
        attempt(session.report.note, became_another(session))
    leave(session)


def became_another(session):
    """The only note that the manifest has of a cycle that this ends."""
    return "it became another program (exec) in step {}, which is recorded up to the exec".format(session.made)


def stay(session, error):
    """The process has not become another program: it goes on being recorded."""
    report = session.report
    if os.getpid() != report.pid:
        return
    attempt(remove_if_there, left_path(session.settings["hook"]))
    if report.counter is None:
        # the launcher has ended, so that all was removed
        attempt(report.restore)
    elif report.held is None:
        attempt(report.hold_folder)
        if report.held is None:
            # it has ended since
            attempt(report.counter.close)
            attempt(report.restore)
    notes, became = report.content["notes"], became_another(session)
    if became in notes:
        notes.remove(became)
        why = "it tried to become another program (exec) in step {}, which failed: {}; a recorded step ends there"
        report.note(why.format(session.made, describe(error)))


def watch_profilers(torch, session):
    """A profiler of the program that warms up or records, or its observer, ends our schedule.

    Gives what was there before: owner, name, function. It is adopted, if that is wanted; one of `torch.autograd` never is,
    which has no schedule and no observer. An armed session goes on when the program's has stopped.
    """
    legacy, observer = torch.autograd.profiler.profile, torch.profiler.ExecutionTraceObserver
    watched = [(legacy, "_prepare_trace"), (legacy, "_start_trace")]
    if session.settings.get("armed") or session.own is None:
        watched.append((observer, "register_callback"))
    before = [(owner, name, getattr(owner, name)) for owner, name in watched]
    for owner, name, original in before:
        setattr(owner, name, wrapped(original, session))
    before += step_ranges.watch(torch, session)
    if session.own is not None:
        before += own_profiler.watch(torch, session.own)
    return before


def watch_waits(torch, session):
    """What has to be in place before the program makes it: workers of a DataLoader.

    What was replaced; without it the recording has fewer waits.
    """
    if not session.settings["options"]["thread_waits"]:
        return []
    replaced = attempt(workers.replace, torch, session)
    return [] if replaced is None else [replaced]


def wrapped(original, session):
    @functools.wraps(original)
    def wrapper(self, *arguments, **named):
        if not OWN["making"]:
            session.foreign(self)
        return original(self, *arguments, **named)

    return wrapper
