"""Signals while a cycle is recorded or saved.

Python runs its handlers between two bytecodes of the main thread. A main thread that stands in C++, such
as in a collective whose peer never comes, runs none: a thread of our own then saves what there is and ends
the process. It needs the interpreter lock, which PyTorch releases where it waits.
"""

import _thread
import ctypes
import functools
import os
import signal
import sys
import threading
import time
from _signal import getsignal as handler_of
from _signal import signal as set_handler

from .descriptors import Descriptor, raised
from .guard import NUMBERS, attempt, call_handler
from .trigger_signal import Handler, action, is_handled, set_action

ENDING = {getattr(signal, name, None) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM")}
"""What ends a process that does not handle it, and is sent for that."""
GRACE_S = 2.0
"""How long the main thread has to come back to Python."""
SAVING_S = 20
"""How long the other thread has to save the cycle before the process ends anyway."""
PROBES = []
"""Functions that C has: they stay, as it may call them late."""
MOST_RAISED = 20
"""So often handlers may raise while they are being replaced."""
OPEN = []
"""What is deferred now, the innermost last."""


class deferred:
    """What arrives meanwhile is delivered afterwards, to the handlers that the program has set.

    has_defaults: also what would end the process; otherwise only what may raise in it. Raises what these handlers
    raise, and nothing by itself.
    """

    def __init__(self, has_defaults=True):
        self.has_defaults, self.before, self.arrived = has_defaults, {}, []
        # what handlers have raised that were not replaced yet: it waits as well
        self.raised = []

    def __enter__(self):
        for _ in range(MOST_RAISED):
            try:
                attempt(self.begin)
                return
            except BaseException as error:
                self.raised.append(error)

    def __exit__(self, *_):
        try:
            attempt(self.restore)
        finally:
            try:
                self.deliver()
            finally:
                if self.raised:
                    raise self.raised[0]

    def begin(self):
        if threading.current_thread() is not threading.main_thread():
            return
        if self not in OPEN:
            OPEN.append(self)
        for number, handler in zip(NUMBERS, map(handler_of, NUMBERS)):
            # most are not handled, as numbers say here
            if (type(handler) is not int or self.has_defaults) and self.is_to_defer(number, handler):
                before = attempt(action, number)
                self.before.setdefault(number, (handler, before))
                set_handler(number, self.arrive)
                if callable(handler) and not has_one_handler(before, attempt(action, number)):
                    # C code takes the signal before Python, as `faulthandler` does with `chain`
                    attempt(put_back, number, handler, before)
                    self.before.pop(number, None)

    def is_to_defer(self, number, handler):
        if handler == self.arrive:
            return False
        if callable(handler):
            # ours never raise, and are in no hurry to be put back
            return self.has_defaults or not is_ours(handler)
        # None: set by C code, which Python could not put back; the handler of `faulthandler.register` is
        # taken for none
        is_default = handler == signal.SIG_DFL and number in ENDING
        return is_default and self.has_defaults and not is_handled(number)

    def arrive(self, number, frame):
        self.arrived.append((os.getpid(), number))

    def restore(self):
        """All of them, though a handler that is back may raise at once."""
        try:
            if self in OPEN:
                OPEN.remove(self)
            for number in list(self.before):
                attempt(put_back, number, *self.before[number]) or attempt(put_back, number, *self.before[number])
                self.before.pop(number, None)
        finally:
            if self.before:
                self.restore()

    def forked(self):
        """In a forked child: what arrived before is the parent's."""
        own = os.getpid()
        self.arrived[:] = [arrived for arrived in self.arrived if arrived[0] == own]
        attempt(self.restore)
        attempt(self.deliver)

    def deliver(self):
        """All of them, though one raises. asyncio knows of them already, by its descriptor."""
        try:
            while self.arrived:
                _, number = self.arrived.pop(0)
                original = handler_of(number)
                if not callable(original):
                    os.kill(os.getpid(), number)
                elif original != self.arrive:
                    call_handler(original, number, sys._getframe())
        finally:
            if self.arrived:
                self.deliver()


def is_ours(handler):
    owner = getattr(handler, "__self__", handler)
    return type(owner) in (Termination, Handler)


def put_back(number, handler, before=None):
    """`before` is what the system knew of it: Python says to it neither that calls go on (SA_RESTART), nor what C code has set."""
    # an enumeration of `signal` is no handler to `_signal`
    set_handler(number, handler if callable(handler) else int(handler))
    if before is not None:
        attempt(set_action, number, before)
    return True


def has_one_handler(before, after):
    """Whether the system had the handler that all of Python's have. `after` is an action with that."""
    return before is None or after is None or before.handler == after.handler


def forked():
    """In a forked child, whose main thread is not in what was deferred."""
    for one in reversed(list(OPEN)):
        attempt(one.forked)


def pass_of_main():
    """A list that is filled when the main thread comes by where Python handles signals, which it does first."""
    passed = []

    def note(_):
        passed.append(True)
        return 0

    probe = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(note)
    PROBES.append(probe)
    ctypes.pythonapi.Py_AddPendingCall(probe, None)
    return passed


def die(number):
    """Ends this process by a signal, from any thread, whatever handler Python has for it."""
    attempt(set_default, number)
    os.kill(os.getpid(), number)


def set_default(number):
    """`signal.signal` works in the main thread alone."""
    libc = ctypes.CDLL(None)
    libc.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
    libc.signal(number, None)


def replace_wakeup(number, ours):
    """Python writes the numbers of signals into `number` from now on; whether nobody else had a descriptor set for that.

    Python does not tell which one is set, so that it is replaced in any case. What comes meanwhile goes where it belongs.
    """
    # none: the program has too many files open
    reading, writing = attempt(nonblocking_pipe) or (-1, -1)
    try:
        before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        is_free = before == -1 or before in ours
        after = number if is_free else before
        # programs have it said when theirs is full, unless they ask for silence
        signal.set_wakeup_fd(after, warn_on_full_buffer=not is_free)
        came = attempt(os.read, reading, 256)
        if came and after != -1:
            attempt(os.write, after, came)
        return is_free
    finally:
        attempt(os.close, reading)
        attempt(os.close, writing)


def nonblocking_pipe():
    ends = os.pipe()
    for end in ends:
        os.set_blocking(end, False)
    return ends


IS_BLOCKED_IN_FORKS = []


def block_in_forks():
    """From now on SIGTERM waits while this process forks, in the child until it has the handlers of the program.

    A child begins with the parent's handler, and Python then forgets what came before it has set up the child: without
    this half of the children that are ended at once go on. Python calls these functions around a fork. They are C
    alone: no handler of the program runs within, whose exception would be lost.
    """
    if IS_BLOCKED_IN_FORKS:
        return
    IS_BLOCKED_IN_FORKS.append(True)
    libc = ctypes.PyDLL(None)
    # more than any system's sigset_t
    one, before = ctypes.create_string_buffer(256), ctypes.create_string_buffer(256)
    libc.sigemptyset(one)
    libc.sigemptyset(before)
    libc.sigaddset(one, int(signal.SIGTERM))
    mask = libc.pthread_sigmask
    restore = functools.partial(mask, int(signal.SIG_SETMASK), before, None)
    os.register_at_fork(
        before=functools.partial(mask, int(signal.SIG_BLOCK), one, before),
        after_in_parent=restore,
        # behind those of the session, which has put the handlers back
        after_in_child=restore,
    )


class Termination:
    """SIGTERM while a cycle is recorded: `save()` is called, then the process dies by the signal.

    Nothing is changed where the program handles SIGTERM or has a wakeup descriptor (asyncio), and
    outside of the main thread.
    """

    def __init__(self, save, is_saved_anywhere):
        self.save, self.is_saved_anywhere = save, is_saved_anywhere
        self.pid, self.installed, self.ends = os.getpid(), False, None
        self.turn = threading.Lock()

    def install(self):
        if threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
            return
        reading, writing = map(raised, os.pipe())
        self.ends = Descriptor(reading), Descriptor(writing)
        os.set_blocking(writing, False)
        if not replace_wakeup(writing, set()):
            self.close()
            return
        self.installed = True
        attempt(block_in_forks)
        try:
            _thread.start_new_thread(self.watch, (self.ends[0],))
            signal.signal(signal.SIGTERM, self.handle)
        except BaseException:
            self.uninstall()
            raise

    def uninstall(self):
        """The program's own choice stays, if it has made one meanwhile."""
        if not self.installed or os.getpid() != self.pid:
            return
        if threading.current_thread() is not threading.main_thread():
            return
        self.installed = False
        attempt(self.leave_handler)
        attempt(self.leave_wakeup)
        # no signal has number 0
        if attempt(self.ends[1].is_ours):
            attempt(os.write, self.ends[1].number, b"\0")
            attempt(self.ends[1].close)

    def leave_handler(self):
        if signal.getsignal(signal.SIGTERM) == self.handle:
            attempt(put_back, signal.SIGTERM, signal.SIG_DFL) or attempt(put_back, signal.SIGTERM, signal.SIG_DFL)

    def leave_wakeup(self):
        replace_wakeup(-1, {self.ends[1].number})

    def close(self):
        for end in self.ends:
            attempt(end.close)

    def look(self):
        """Python writes a signal's number to that descriptor, which the program may have closed meanwhile."""
        if self.installed and not self.ends[1].is_ours():
            self.leave_wakeup()

    def forked(self):
        """In a forked child: its signals are none of the parent's."""
        if self.installed:
            self.leave_wakeup()
            self.leave_handler()

    def handle(self, number, frame):
        """In the main thread."""
        if attempt(self.turn.acquire, False) is not False:
            attempt(self.save)
            die(number)

    def watch(self, reading):
        """In a thread of our own, until a byte 0 arrives."""
        try:
            while reading.is_ours():
                arrived = os.read(reading.number, 256)
                if not arrived or 0 in arrived:
                    break
                if signal.SIGTERM in arrived and not self.is_handled_in_time():
                    self.end_from_here()
        except Exception:
            pass
        finally:
            attempt(reading.close)

    def is_handled_in_time(self):
        """Whether the main thread takes the signal; it may be busy with saving, which is waited for.

        A child that was forked just now has our descriptor, so that its signals show here as well. A main thread that
        comes by where Python handles signals, and handles none, has got none.
        """
        deadline, passed = time.monotonic() + GRACE_S, attempt(pass_of_main)
        while time.monotonic() < deadline:
            if self.turn.locked() or not self.installed:
                return True
            time.sleep(0.02)
            # looked at after the handler had its turn
            if passed and not self.turn.locked():
                return True
        return False

    def end_from_here(self):
        if signal.getsignal(signal.SIGTERM) != self.handle or not self.turn.acquire(False):
            return
        if self.is_saved_anywhere():
            # whatever happens while it is saved: the process ends
            attempt(set_default, signal.SIGALRM)
            attempt(signal.alarm, SAVING_S)
            attempt(self.save)
        die(signal.SIGTERM)
