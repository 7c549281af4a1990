"""A signal that asks for a recording, where the program has no use for it."""

import signal
import threading


class TriggerSignal:
    """`chosen`: such as "SIGUSR2", or None."""

    def __init__(self, chosen):
        self.chosen, self.number, self.arrived = chosen, None, False

    def install(self):
        """Not outside of the main thread, and not over a handler of the program, of Python or of C."""
        number = None if self.chosen is None else getattr(signal, self.chosen, None)
        if number is None or threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(number) is not signal.SIG_DFL or is_handled(number):
            return
        signal.signal(number, self.handle)
        # calls of the system that wait go on
        signal.siginterrupt(number, False)
        self.number = number

    def handle(self, number, frame):
        self.arrived = True

    def take(self):
        """Whether it has arrived since the last look."""
        arrived, self.arrived = self.arrived, False
        return arrived

    def name(self):
        """None: it is not ours, or no longer."""
        if self.number is None or signal.getsignal(self.number) != self.handle:
            return None
        return self.chosen

    def uninstall(self):
        if self.name() is not None and threading.current_thread() is threading.main_thread():
            signal.signal(self.number, signal.SIG_DFL)


def is_handled(number):
    """Whether C code handles or ignores a signal, of which Python knows nothing. Needs /proc, as Linux has it."""
    try:
        with open("/proc/self/status") as file:
            lines = [line.split(":") for line in file if line.startswith(("SigCgt:", "SigIgn:"))]
    except OSError:
        return False
    return any(int(mask, 16) >> (number - 1) & 1 for _, mask in lines)
