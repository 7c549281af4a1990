"""Signals while a cycle is recorded or saved.

Python runs its handlers between two bytecodes of the main thread. A main thread that stands in C++, such
as in a collective whose peer never comes, runs none: a thread of our own then saves what there is and ends
the process. It needs the interpreter lock, which PyTorch releases where it waits.
"""

import _thread
import contextlib
import ctypes
import os
import signal
import threading
import time

from .guard import attempt
from .trigger_signal import is_handled

DEFERRED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM")
GRACE_S = 2.0
"""How long the main thread has to come back to Python."""
SAVING_S = 20
"""How long the other thread has to save the cycle before the process ends anyway."""


@contextlib.contextmanager
def deferred():
    """What arrives meanwhile is delivered afterwards, to the handlers that the program has set."""
    before, arrived = {}, []
    try:
        if threading.current_thread() is threading.main_thread():
            for name in DEFERRED:
                number = getattr(signal, name, None)
                handler = None if number is None else signal.getsignal(number)
                # None: set by C code, which Python could not put back
                if handler is None or handler is signal.SIG_IGN:
                    continue
                # nor the handler of `faulthandler.register`, which it takes for none
                if handler is signal.SIG_DFL and is_handled(number):
                    continue
                before[number] = handler
                signal.signal(number, lambda number, frame: arrived.append(number))
        yield
    finally:
        for number, handler in before.items():
            restore(number, handler)
        for number in arrived:
            os.kill(os.getpid(), number)


def restore(number, handler):
    """Once more if it fails: a program must not lose its handler."""
    try:
        signal.signal(number, handler)
    except Exception:
        attempt(signal.signal, number, handler)


def die(number):
    """Ends this process by a signal, from any thread, whatever handler Python has for it."""
    attempt(set_default, number)
    os.kill(os.getpid(), number)


def set_default(number):
    """`signal.signal` works in the main thread alone."""
    libc = ctypes.CDLL(None)
    libc.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
    libc.signal(number, None)


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
        reading, writing = os.pipe()
        self.ends = (reading, writing)
        os.set_blocking(writing, False)
        before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        if before != -1:
            signal.set_wakeup_fd(before)
            self.close()
            return
        self.installed = True
        try:
            _thread.start_new_thread(self.watch, (reading,))
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
        attempt(os.write, self.ends[1], b"\0")
        attempt(os.close, self.ends[1])

    def leave_handler(self):
        if signal.getsignal(signal.SIGTERM) == self.handle:
            restore(signal.SIGTERM, signal.SIG_DFL)

    def leave_wakeup(self):
        current = signal.set_wakeup_fd(-1)
        if current not in (-1, self.ends[1]):
            signal.set_wakeup_fd(current)

    def close(self):
        for end in self.ends:
            attempt(os.close, end)

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
            while True:
                arrived = os.read(reading, 256)
                if not arrived or 0 in arrived:
                    break
                if signal.SIGTERM in arrived and not self.is_handled_in_time():
                    self.end_from_here()
        except Exception:
            pass
        finally:
            attempt(os.close, reading)

    def is_handled_in_time(self):
        """Whether the main thread takes the signal; it may be busy with saving, which is waited for."""
        deadline = time.monotonic() + GRACE_S
        while time.monotonic() < deadline:
            if self.turn.locked() or not self.installed:
                return True
            time.sleep(0.02)
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
