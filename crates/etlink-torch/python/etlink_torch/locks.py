"""`threading.Lock` and `RLock` of the program's own modules, so that waits for them are known.

A lock is an object of C, whose class takes no wrapper: where the program makes one, it gets one of ours
around it, or derived from it. Modules of Python itself and installed packages get the plain one. While
nothing is recorded its methods are those of the lock of C. What is pickled has the names of Python itself:
who reads it may never have heard of us.
"""

import _thread
import copyreg
import importlib
import operator
import site
import sys
import sysconfig
import threading
import typing
from threading import get_native_id
from time import time_ns

from .guard import PACKAGE, attempt, is_programs
from .steps.patches import Patches

RECORDERS = []
"""What records waits now: empty, or one `Waits`."""
RECORDINGS = [0]
"""How many have begun: what was noted of a lock in an earlier one says nothing of this one."""
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
    file, name = variables.get("__file__"), variables.get("__name__")
    # our own modules lie in no installed folder
    if not isinstance(file, str) or (isinstance(name, str) and name.startswith(PACKAGE + ".")):
        return False
    return not file.startswith(INSTALLED)


class Module:
    """A module as pickles have it, which take none by itself."""

    def __init__(self, name):
        self.name = name

    def __reduce__(self):
        return importlib.import_module, (self.name,)


class PicklerOfDill:
    """What dill's functions for locks of C are called with: they tell a pickler what makes such a lock."""

    reduced = None

    def save_reduce(self, function, arguments, obj=None):
        self.reduced = function, arguments


def reduced_by_dill(lock, kind, frame):
    """What dill writes of a lock of C, if it is dill that pickles this one; `frame`: of who asks for that."""
    if frame.f_globals.get("__name__") != "pickle" or "dill" not in sys.modules:
        return None
    save = getattr(type(frame.f_locals.get("self")), "dispatch", {}).get(kind)
    if save is None:
        return None
    pickler = PicklerOfDill()
    save(pickler, lock)
    return pickler.reduced


def reduced_by_program(lock, kind):
    """What the program has registered for locks of C (`copyreg.pickle`, `ForkingPickler.register`), which a pickler asks by their type."""
    reducers = [copyreg.dispatch_table]
    reduction = sys.modules.get("multiprocessing.reduction")
    if reduction is not None:
        reducers.append(getattr(reduction.ForkingPickler, "_extra_reducers", {}))
    for registered in reducers:
        reducer = registered.get(kind)
        if reducer is not None:
            return reducer(lock)
    return None


def reduce_lock(lock, kind, frame):
    """What is pickled of a lock that stands for one of this kind; `frame`: of who asks for that."""
    reduced = attempt(reduced_by_dill, lock, kind, frame)
    if reduced is None:
        reduced = reduced_by_program(lock, kind)
    if reduced is None:
        raise TypeError("cannot pickle '_thread.{}' object".format(kind.__name__))
    return reduced


class LockKind(type):
    """Makes plain locks for all but the program's own modules; both kinds are instances."""

    def __call__(cls):
        try:
            if is_own(sys._getframe(1).f_globals):
                return super().__call__()
        except Exception as error:
            if is_programs(error):
                raise
        original = PLAIN
        return original()

    def __instancecheck__(cls, thing):
        return type(thing) is cls or isinstance(thing, KIND)

    def __subclasscheck__(cls, kind):
        return kind is cls or kind is KIND


class MethodOfC(property):
    """The method of the plain lock within, looked up in C.

    A handler of a signal may raise between any two lines of Python, so a method of ours around `acquire` or
    `release` would leave locks held for ever that the plain one does not. It also takes twice the time.
    """

    def __init__(self, name):
        super().__init__(operator.attrgetter("_plain." + name))

    def __call__(self, lock, *arguments, **named):
        """`threading.Lock.acquire(lock)`"""
        original = self.fget(lock)
        return original(*arguments, **named)


def kind_of_c(lock):
    return KIND


def reduce_lock_kind(kind):
    """For pickles of `threading.Lock` itself, such as of a `defaultdict` that makes locks."""
    if vars(threading).get("Lock") is kind:
        return "Lock"
    # somebody still has it after the recording
    return getattr, (Module("threading"), "Lock")


class Lock(metaclass=LockKind):
    """As `threading.Lock`, which cannot be derived from either, until `watch` gives it methods that record waits."""

    # `_before`: see `Holder`
    __slots__ = ("_plain", "_before", "__weakref__")

    def __init__(self):
        self._plain, self._before = PLAIN(), None

    def __init_subclass__(cls):
        raise TypeError("type '_thread.lock' is not an acceptable base type")

    acquire = acquire_lock = MethodOfC("acquire")
    release = release_lock = MethodOfC("release")
    locked = locked_lock = MethodOfC("locked")
    __enter__, __exit__ = MethodOfC("__enter__"), MethodOfC("__exit__")
    _at_fork_reinit = MethodOfC("_at_fork_reinit")

    # `isinstance(lock, _thread.LockType)` asks for it
    __class__ = property(kind_of_c)
    # by these names it is looked up when it is pickled
    __module__, __qualname__ = "threading", "Lock"

    def __reduce_ex__(self, protocol):
        return reduce_lock(self, KIND, sys._getframe(1))

    # By these a condition leaves and takes a lock, which it does itself where there are none. A handler that raises while
    # it takes it again must find as few lines as there.

    def _release_save(self):
        self._plain.release()

    def _acquire_restore(self, nothing):
        self._plain.acquire()

    def _is_owned(self):
        if self._plain.acquire(False):
            self._plain.release()
            return False
        return True

    def __repr__(self):
        return repr(self._plain)


def reduce_reentrant_kind(kind):
    if kind is not RLock:
        # the program's own, derived from ours
        return kind.__qualname__
    return getattr, (Module("_thread"), "RLock")


class ReentrantKind(type):
    """Those that others made are instances too."""

    def __instancecheck__(cls, thing):
        # classes that the program derives have their own instances alone
        if cls is not RLock:
            return type.__instancecheck__(cls, thing)
        return attempt(isinstance, thing, REENTRANT) or False

    def __subclasscheck__(cls, kind):
        if cls is not RLock:
            return type.__subclasscheck__(cls, kind)
        return attempt(issubclass, kind, REENTRANT) or False


class RLock(REENTRANT, metaclass=ReentrantKind):
    """As its base, until `watch` gives it methods that record waits."""

    # see `Holder`; unset before the first time
    __slots__ = ("_before",)

    def __reduce_ex__(self, protocol):
        return reduce_lock(self, REENTRANT, sys._getframe(1))


copyreg.pickle(LockKind, reduce_lock_kind)
copyreg.pickle(ReentrantKind, reduce_reentrant_kind)


class Holder(typing.NamedTuple):
    """Who took a lock last, and in which recording."""

    thread: int
    recording: int


def note_taken(lock, kind, start, has_waited):
    """This thread has the lock. If it had to wait for that, whoever had it before has let it go just now."""
    before, here = getattr(lock, "_before", None), get_native_id()
    lock._before = Holder(here, RECORDINGS[0])
    if has_waited and before is not None and before.recording == RECORDINGS[0] and before.thread != here and RECORDERS:
        RECORDERS[0].lock_taken(start, before.thread, time_ns(), kind)


def take_lock(lock, kind, original, release, blocking, timeout):
    """Calls `original(blocking, timeout)` and records what was waited for.

    Where this raises the lock is not held: a handler of a signal may raise anywhere in here.
    """
    start, taken = attempt(time_ns), []
    try:
        # `extend` adds the answer in C: no handler runs between the taking of a lock and the note of it
        can_wait = blocking and (timeout == -1 or 0 <= timeout <= threading.TIMEOUT_MAX)
        if can_wait:
            taken.extend(map(original, (False,)))
        has_to_wait = can_wait and not taken[-1]
        if has_to_wait or not can_wait:
            taken.extend(map(original, (blocking,), (timeout,)))
        if taken[-1] and start is not None:
            attempt(note_taken, lock, kind, start, has_to_wait)
        return taken[-1]
    except BaseException:
        if taken and taken[-1]:
            original = release
            original()
        raise


def acquire(self, blocking=True, timeout=-1):
    plain = self._plain
    return take_lock(self, "Lock", plain.acquire, plain.release, blocking, timeout)


def acquire_reentrant(self, blocking=True, timeout=-1):
    plain = super(RLock, self)
    return take_lock(self, "RLock", plain.acquire, plain.release, blocking, timeout)


def watch(patches):
    """While something is recorded. Conditions keep the methods that a lock has when they are made.

    All that lets a lock go stays that of C: a handler of a signal that raises before it would leave it held. So do
    the methods by which a condition leaves and takes a lock.
    """
    RECORDINGS[0] += 1
    for kind, name, method in (
        (Lock, "acquire", acquire),
        (Lock, "__enter__", acquire),
        (RLock, "acquire", acquire_reentrant),
        (RLock, "__enter__", acquire_reentrant),
    ):
        patches.replace(kind, name, method)


def make_reentrant(*arguments, **named):
    """In the place of the class that `threading.RLock` makes one of: that function stays itself, as pickles of it need."""
    try:
        if is_own(sys._getframe(2).f_globals):
            return RLock(*arguments, **named)
    except Exception as error:
        if is_programs(error):
            raise
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
