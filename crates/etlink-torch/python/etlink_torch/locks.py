"""Locks of Python while a cycle is recorded: who waits for one, and who has let it go.

Locks are objects of C, and stay what they are, as do their types and what makes them. A type of C takes no
attribute, but looks its methods up in a dictionary. In there `acquire` and `__enter__` are ours while a
cycle is recorded, and those of C before and after it.

Waits of the program's own modules are recorded: those of Python itself and of installed packages are parts of calls
that have a row of their own, or none.
"""

import _thread
import ctypes
import functools
import gc
import os
import site
import sys
import sysconfig
import threading
from sys import _getframe
from time import time_ns

from .guard import Failure, attempt
from .known import Known
from .steps.patches import Patches

RECORDERS = []
"""What records waits now: empty, or one `Waits`."""
HOLDERS = Known()
"""Of each lock that the program's own modules have taken: a list of the thread that took it last."""
KINDS = {"Lock": _thread.LockType, "RLock": _thread.RLock}
CONDITION_ENTERS = getattr(threading.Condition.__enter__, "__code__", None)
HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def installed_folders():
    """Where modules lie that are not the program's own."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    found = [sysconfig.get_paths().get(name) for name in names]
    found += attempt(site.getsitepackages) or []
    found.append(attempt(site.getusersitepackages))
    return tuple({place for place in found if place})


INSTALLED = (*installed_folders(), HERE)


@functools.lru_cache(maxsize=4096)
def is_own_file(file):
    return type(file) is str and not file.startswith(INSTALLED)


def is_of_program(frame):
    """Whether a call comes from the program's own code."""
    if frame.f_code is CONDITION_ENTERS:
        # `with condition` takes its lock
        frame = frame.f_back
    return is_own_file(frame.f_globals.get("__file__"))


def taker(lock):
    """What is to be done about a lock that is taken: (what records it, whether a wait has a row); None: nothing."""
    if not RECORDERS:
        # conditions keep the method that a lock has when they are made
        return None
    # above `attempt` and the method. None is above a method that C calls in a thread of its own: that raises
    has_row = is_of_program(_getframe(3))
    # of a lock that both take it is known who had it
    return (RECORDERS[0], has_row) if has_row or HOLDERS.get(lock) is not None else None


def note_holder(lock, thread):
    """This thread has the lock now; the one that had it before."""
    holder = HOLDERS.get(lock)
    if holder is None:
        HOLDERS.set(lock, [thread])
        return None
    before, holder[0] = holder[0], thread
    return before


def note_taken_again(lock, thread):
    """By the methods of C, as after the wait for a condition."""
    if HOLDERS.get(lock) is not None:
        note_holder(lock, thread)


def note_taken(lock, kind, recorder, has_row, start, has_waited):
    """This thread has the lock. If it had to wait for that, whoever had it before has let it go just now."""
    here = recorder.local.thread
    before = note_holder(lock, here)
    if has_waited and has_row and before not in (None, here):
        recorder.lock_taken(start, before, time_ns(), kind)


def take_lock(lock, original, release, *arguments):
    """Calls `original(lock, …)`; each argument is a tuple of one.

    Where this raises the lock is not held: a handler of a signal may raise anywhere in here.
    """
    taken = []
    try:
        # `extend` adds the answer in C: no handler runs between the taking of a lock and the note of it
        taken.extend(map(original, (lock,), *arguments))
        return taken[0]
    except BaseException:
        if taken and taken[0]:
            original = release
            original(lock)
        raise


def watch_lock(lock, kind, original, release, blocking, timeout, note):
    """As `take_lock`, and records what was waited for."""
    recorder, has_row = note
    start, taken = attempt(time_ns), []
    try:
        can_wait = blocking and (timeout == -1 or 0 <= timeout <= threading.TIMEOUT_MAX)
        if can_wait:
            taken.extend(map(original, (lock,), (False,)))
        has_to_wait = can_wait and not taken[-1]
        if has_to_wait or not can_wait:
            taken.extend(map(original, (lock,), (blocking,), (timeout,)))
        if taken[-1] and start is not None:
            attempt(note_taken, lock, kind, recorder, has_row, start, has_to_wait)
        return taken[-1]
    except BaseException:
        if taken and taken[-1]:
            original = release
            original(lock)
        raise


def acquire_for(kind, original, release):
    """What takes the place of a method that takes locks of this kind."""

    def acquire(self, blocking=True, timeout=-1):
        note = attempt(taker, self)
        if note is None:
            return take_lock(self, original, release, (blocking,), (timeout,))
        return watch_lock(self, kind, original, release, blocking, timeout, note)

    return acquire


def enter_for(kind, original, release):
    def __enter__(self):
        note = attempt(taker, self)
        if note is None:
            return take_lock(self, original, release)
        return watch_lock(self, kind, original, release, True, -1, note)

    return __enter__


def methods_of(kind):
    """The dictionary in which a type of C looks up its methods."""
    (found,) = [thing for thing in gc.get_referents(vars(kind)) if type(thing) is dict]
    return found


def forget_looked_up(kind):
    """What Python has looked up in a type."""
    modified = ctypes.pythonapi.PyType_Modified
    modified(ctypes.py_object(kind))
    return True


def replace_method(patches, kind, name, new):
    methods = methods_of(kind)
    before = methods[name]
    for attribute in ("__name__", "__qualname__", "__doc__", "__text_signature__"):
        attempt(setattr, new, attribute, getattr(before, attribute, None))

    def restore():
        if methods.get(name) is new:
            methods[name] = before
            attempt(forget_looked_up, kind) or attempt(forget_looked_up, kind)

    patches.on_undo(restore)
    methods[name] = new
    forget_looked_up(kind)
    if getattr(kind, name) is not new:
        raise Failure("this version of Python looks up lock methods elsewhere")


def has_threads_side_by_side():
    """Python without its global lock, where no dictionary of a type may be changed."""
    is_locked = getattr(sys, "_is_gil_enabled", None)
    return is_locked is not None and not is_locked()


def restore_for(kind, original):
    """Takes a lock again after the wait for a condition, in as few lines as Python itself: a handler may raise between them."""

    def _acquire_restore(self, nothing):
        lock = self._lock
        if lock.__class__ is kind:
            original(lock)
        else:
            function = lock.acquire
            function()

    return _acquire_restore


def watch(patches):
    """While something is recorded; all of it or nothing.

    All that lets a lock go stays that of C: a handler of a signal that raises before it would leave it held.
    """
    HOLDERS.clear()
    if has_threads_side_by_side():
        return
    mine = Patches()
    patches.on_undo(mine.undo)
    try:
        plain = KINDS["Lock"]
        mine.replace(threading.Condition, "_acquire_restore", restore_for(plain, methods_of(plain)["acquire"]))
        for name, kind in KINDS.items():
            methods = methods_of(kind)
            # by `acquire` in both: `__enter__` takes no arguments
            replace_method(mine, kind, "__enter__", enter_for(name, methods["acquire"], methods["release"]))
            replace_method(mine, kind, "acquire", acquire_for(name, methods["acquire"], methods["release"]))
    except Exception:
        mine.undo()
        raise
