"""A signal that asks for a recording, where the program has no use for it."""

import ctypes
import functools
import signal
import threading

ACTION_BYTES = 256
"""More than `struct sigaction` has, which begins with the handler."""


class TriggerSignal:
    """`chosen`: such as "SIGUSR2", or None."""

    def __init__(self, chosen):
        self.chosen, self.number, self.address = chosen, None, None
        self.handler, self.is_missed = Handler(), False

    def install(self):
        """Not outside of the main thread, and not over a handler of the program, of Python or of C."""
        number = None if self.chosen is None else getattr(signal, self.chosen, None)
        if number is None or self.number is not None:
            return
        if signal.getsignal(number) is not signal.SIG_DFL or is_handled(number):
            return
        self.is_missed = threading.current_thread() is not threading.main_thread()
        if self.is_missed:
            return
        signal.signal(number, self.handler)
        # calls of the system that wait go on
        signal.siginterrupt(number, False)
        self.number, self.address = number, address(number)

    def wake_main(self):
        """By the thread that makes the steps: a main thread that only waits for it runs no handler unless its wait is interrupted."""
        if self.name() is not None and threading.current_thread() is not threading.main_thread():
            signal.siginterrupt(self.number, True)

    def take(self):
        """Whether it has arrived since the last look."""
        arrived, self.handler.arrived = self.handler.arrived, False
        return arrived

    def name(self):
        """None: it is not ours, or no longer."""
        if self.number is None or signal.getsignal(self.number) is not self.handler:
            return None
        return self.chosen if address(self.number) == self.address else None

    def uninstall(self):
        if self.name() is not None and threading.current_thread() is threading.main_thread():
            signal.signal(self.number, signal.SIG_DFL)


class Handler:
    """Equal to `SIG_DFL`: a program that looks whether anybody handles the signal is to install its own.

    Lightning compares so before it handles the signal by which Slurm asks to requeue a job.
    """

    def __init__(self):
        self.arrived = False

    def __call__(self, number, frame):
        self.arrived = True

    def __eq__(self, other):
        return self is other or other is signal.SIG_DFL

    __hash__ = object.__hash__


class Action:
    """A `struct sigaction`."""

    def __init__(self, raw):
        self.raw, self.handler = raw, raw[: ctypes.sizeof(ctypes.c_void_p)]


@functools.lru_cache(maxsize=None)
def libc():
    return ctypes.CDLL(None)


def action(number):
    """What the system knows of a signal; raises where it does not say."""
    found = ctypes.create_string_buffer(ACTION_BYTES)
    if libc().sigaction(int(number), None, found) != 0:
        raise OSError("sigaction")
    return Action(found.raw)


def set_action(number, wanted):
    libc().sigaction(int(number), ctypes.create_string_buffer(wanted.raw, ACTION_BYTES), None)


def address(number):
    """The handler that the system knows: C code, as that of `faulthandler`, takes a signal without a word to Python."""
    return action(number).handler


def is_handled(number):
    """Whether C code handles or ignores a signal, of which Python knows nothing. Needs /proc, as Linux has it."""
    try:
        with open("/proc/self/status") as file:
            lines = [line.split(":") for line in file if line.startswith(("SigCgt:", "SigIgn:"))]
    except OSError:
        return False
    return any(int(mask, 16) >> (number - 1) & 1 for _, mask in lines)
