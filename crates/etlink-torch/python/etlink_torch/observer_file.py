"""The file of an execution trace observer: PyTorch opens it, and writes into it with each op until the observer is unregistered."""

import os

from .descriptors import KEEPER, Descriptor, high_numbers, number_of
from .guard import Failure, attempt

CLOSED = "the program closed the file of PyTorch's host trace: the cycle is discarded"


class ObserverFile:
    """An observer of ours that is registered, with the file that it has open."""

    def __init__(self, observer, path):
        self.observer, self.path = observer, path
        # None: not known, as on a system that does not say what a process has open
        self.descriptor = None
        self.is_registered = False

    def register(self):
        """Says what registering raises; the file may not be there afterwards."""
        self.is_registered = True
        with high_numbers():
            self.observer.register_callback(self.path)
        attempt(self.keep_open)

    def keep_open(self):
        number = number_of(self.path)
        if number is None:
            return
        KEEPER.keep(self)
        self.descriptor = Descriptor(number)
        if not self.descriptor.is_ours():
            # a file system on which it is another one each time
            self.forget()

    def is_lost(self):
        """Whether the program has closed it: what PyTorch writes would go into a file of the program."""
        return self.descriptor is not None and not self.descriptor.is_ours()

    def check(self):
        if self.is_lost():
            raise Failure(CLOSED)

    def unregister(self):
        """PyTorch writes the rest and closes the file. Further calls do nothing."""
        if not self.is_registered:
            return
        self.is_registered = False
        if self.is_lost():
            aside(self.descriptor.number, self.observer.unregister_callback)
        else:
            self.observer.unregister_callback()
        self.forget()

    def release(self):
        """The program may close what it likes again."""
        attempt(KEEPER.let_go, self)

    def forget(self):
        self.release()
        descriptor, self.descriptor = self.descriptor, None
        if descriptor is not None:
            descriptor.forget()


def aside(number, function):
    """Calls a function that writes to a number and closes it; whose number that is by now keeps its file."""
    saved = attempt(os.dup, number)
    is_inherited = saved is not None and os.get_inheritable(number)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        if nowhere != number:
            os.dup2(nowhere, number)
        function()
    finally:
        if saved is not None:
            attempt(os.dup2, saved, number, is_inherited)
            attempt(os.close, saved)
        if nowhere != number:
            attempt(os.close, nowhere)
