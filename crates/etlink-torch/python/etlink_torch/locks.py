"""`threading.Lock` and `RLock` of the program's own modules, so that waits for them are known.

A lock is an object of C, whose class takes no wrapper: where the program makes one, it gets one of ours
around it, or derived from it. Modules of Python itself and installed packages get the plain one. While
nothing is recorded it passes calls on.
"""

import _thread
import site
import sys
import sysconfig
import threading
from threading import get_native_id
from time import time_ns

from .guard import attempt
from .steps.patches import Patches

RECORDERS = []
"""What records waits now: empty, or one `Waits`."""
PLAIN = _thread.allocate_lock
KIND = _thread.LockType
REENTRANT = _thread.RLock
PLAIN_REENTRANT = threading.RLock
"""A function that makes one, up to Python 3.14 at least."""


def installed_folders():
    """Where modules lie that are not the program's own."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    found = [sysconfig.get_paths().get(name) for name in names]
    found += attempt(site.getsitepackages) or []
    found.append(attempt(site.getusersitepackages))
    return tuple({place for place in found if place})


INSTALLED = installed_folders()


def is_own(variables):
    """Whether a module's variables are those of the program's own code."""
    file = variables.get("__file__")
    return isinstance(file, str) and not file.startswith(INSTALLED)


class LockKind(type):
    """Makes plain locks for all but the program's own modules; both kinds are instances."""

    def __call__(cls):
        try:
            if is_own(sys._getframe(1).f_globals):
                return super().__call__()
        except Exception:
            pass
        original = PLAIN
        return original()

    def __instancecheck__(cls, thing):
        return type(thing) is cls or isinstance(thing, KIND)

    def __subclasscheck__(cls, kind):
        return kind is cls or kind is KIND


class Lock(metaclass=LockKind):
    """As `threading.Lock`, which cannot be derived from either."""

    __slots__ = ("_plain", "_before", "__weakref__")

    def __init__(self):
        # `_before`: the thread that let it go last, and when
        self._plain, self._before = PLAIN(), None

    def __init_subclass__(cls):
        raise TypeError("type '_thread.lock' is not an acceptable base type")

    def acquire(self, blocking=True, timeout=-1):
        original, start = self._plain.acquire, attempt(time_ns) if RECORDERS else None
        if not original(blocking, timeout):
            return False
        if start is not None:
            attempt(self._taken, start)
        return True

    def __enter__(self):
        original, start = self._plain.acquire, attempt(time_ns) if RECORDERS else None
        original()
        if start is not None:
            attempt(self._taken, start)
        return True

    def _taken(self, start):
        """Only what another thread has held before is a reason to wait."""
        before = self._before
        if before is not None and before[0] != get_native_id() and RECORDERS:
            RECORDERS[0].lock_taken(start, *before)

    def release(self):
        original = self._plain.release
        self._before = attempt(self._now) if RECORDERS else None
        original()

    def __exit__(self, *_):
        original = self._plain.release
        self._before = attempt(self._now) if RECORDERS else None
        original()

    @staticmethod
    def _now():
        return get_native_id(), time_ns()

    def locked(self):
        original = self._plain.locked
        return original()

    acquire_lock, release_lock, locked_lock = acquire, release, locked

    def _at_fork_reinit(self):
        original, self._before = self._plain._at_fork_reinit, None
        original()

    def __reduce_ex__(self, protocol):
        raise TypeError("cannot pickle '_thread.lock' object")

    def __repr__(self):
        return repr(self._plain)


class ReentrantKind(type):
    """Those that others made are instances too."""

    def __instancecheck__(cls, thing):
        return attempt(isinstance, thing, REENTRANT) or False

    def __subclasscheck__(cls, kind):
        return attempt(issubclass, kind, REENTRANT) or False


class RLock(REENTRANT, metaclass=ReentrantKind):
    """As its base, until `watch_reentrant` gives it methods that record waits."""

    # the thread that let it go last, and when; unset before the first time
    __slots__ = ("_before",)

    def __reduce_ex__(self, protocol):
        # dill makes a new lock of one, by the type that it has elsewhere
        if "dill" in sys.modules:
            return PLAIN_REENTRANT, ()
        raise TypeError("cannot pickle '_thread.RLock' object")


def acquire(self, blocking=True, timeout=-1):
    original, start = REENTRANT.acquire, attempt(time_ns) if RECORDERS else None
    if not original(self, blocking, timeout):
        return False
    if start is not None:
        attempt(taken, self, start)
    return True


def acquire_restore(self, state):
    """After the wait of a condition."""
    original, start = REENTRANT._acquire_restore, attempt(time_ns) if RECORDERS else None
    original(self, state)
    if start is not None:
        attempt(taken, self, start)


def taken(lock, start):
    """A thread that has it already does not wait for it."""
    before, lock._before = lock._before, None
    if before is not None and before[0] != get_native_id() and RECORDERS:
        RECORDERS[0].lock_taken(start, *before, "RLock")


def release(self, *_):
    original = REENTRANT.release
    self._before = attempt(Lock._now) if RECORDERS else None
    original(self)


def release_save(self):
    """Before the wait of a condition."""
    original = REENTRANT._release_save
    self._before = attempt(Lock._now) if RECORDERS else None
    return original(self)


def watch_reentrant(patches):
    """While something is recorded. Conditions keep the methods that a lock has when they are made."""
    for name, method in (
        ("acquire", acquire),
        ("__enter__", acquire),
        ("release", release),
        ("__exit__", release),
        ("_release_save", release_save),
        ("_acquire_restore", acquire_restore),
    ):
        patches.replace(RLock, name, method)


def make_reentrant(*arguments, **named):
    """In the place of the class that `threading.RLock` makes one of: that function stays itself, as pickles of it need."""
    try:
        if is_own(sys._getframe(2).f_globals):
            return RLock(*arguments, **named)
    except Exception:
        pass
    original = REENTRANT
    return original(*arguments, **named)


def replace():
    """`undo()` of the result takes it back; locks that were made pass calls on."""
    patches = Patches()
    patches.replace(threading, "Lock", Lock)
    # What others have put there is theirs: locks of gevent are no threads'.
    is_plain = getattr(PLAIN_REENTRANT, "__module__", None) == threading.__name__
    if is_plain and getattr(threading, "_CRLock", None) is REENTRANT:
        patches.replace(threading, "_CRLock", make_reentrant)
    return patches
