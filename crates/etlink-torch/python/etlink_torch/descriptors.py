"""Descriptors that stay open. Programs close those that they do not know, as daemons do; the number is then another file's.

So ours have numbers that such programs hardly come to. And while a cycle is recorded, `os.close` and
`os.closerange` leave ours open, and say nothing: the program may have found them in a list of what is open.
"""

import contextlib
import os

from .guard import attempt
from .steps.patches import Patches

MOST_OPENED = 20
"""So often a file is opened again: there are file systems on which it is another one each time that it is looked at."""
LEAST = 512
"""Numbers of ours begin here, if the process may have twice as many. `select` takes those up to 1,023."""
OPEN = {}
"""Each `Descriptor` by its number."""


def identity(number):
    """Which file it is; None: it is closed."""
    try:
        status = os.fstat(number)
        return status.st_dev, status.st_ino
    except OSError:
        return None


def least():
    import resource

    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return LEAST if allowed == resource.RLIM_INFINITY else min(LEAST, allowed // 2)


def raised(number):
    """The same open file under a higher number, which takes the place of this one."""
    import fcntl

    higher = attempt(duplicate, fcntl.F_DUPFD_CLOEXEC, number)
    if higher is None:
        return number
    os.close(number)
    return higher


def duplicate(how, number):
    import fcntl

    return fcntl.fcntl(number, how, least())


@contextlib.contextmanager
def high_numbers():
    """What is opened meanwhile, by code that takes the lowest free number, gets one of ours."""
    taken = []
    end = attempt(least) or 0
    attempt(take_low_numbers, taken, end)
    try:
        close_from(taken, end)
        yield
    finally:
        close_from(taken, 0)


def take_low_numbers(taken, end):
    """No more than needed: another thread of the program is to have numbers left."""
    taken.append(os.open(os.devnull, os.O_RDONLY))
    while taken[-1] < end:
        taken.append(os.dup(taken[0]))


def close_from(taken, first):
    for number in [number for number in taken if number >= first]:
        taken.remove(number)
        attempt(os.close, number)


def number_of(path):
    """Under which number this process has a file open; None: it has not, or the system does not say it."""
    status = os.stat(path)
    wanted = status.st_dev, status.st_ino
    for number in map(int, os.listdir("/dev/fd")):
        if identity(number) == wanted:
            return number
    return None


class Descriptor:
    def __init__(self, number):
        self.number, self.identity = number, identity(number)
        OPEN[number] = self

    def is_ours(self):
        return self.identity is not None and identity(self.number) == self.identity

    def forget(self):
        if OPEN.get(self.number) is self:
            del OPEN[self.number]

    def close(self):
        self.forget()
        if self.is_ours():
            os.close(self.number)


def opened(path, flags, mode=0o600):
    return Descriptor(raised(os.open(path, flags, mode)))


class OwnFile:
    """A file that is written to, a little at a time."""

    def __init__(self, path):
        self.path, self.descriptor, self.opened = path, None, 0
        self.open(os.O_CREAT | os.O_TRUNC)

    def open(self, flags=0):
        self.opened += 1
        if self.opened > MOST_OPENED:
            raise OSError("{} was opened {} times already".format(self.path, MOST_OPENED))
        if self.descriptor is not None:
            self.descriptor.forget()
        self.descriptor = opened(self.path, os.O_WRONLY | flags)

    def write(self, data, place):
        """Whether the program had closed it."""
        was_closed = not self.descriptor.is_ours()
        if was_closed:
            self.open()
        os.pwrite(self.descriptor.number, data, place)
        return was_closed

    def close(self):
        self.descriptor.close()


# While a cycle is recorded.


def is_kept(number):
    """Whether a number that the program closes is one of ours, and still our file."""
    descriptor = OPEN.get(number)
    return descriptor is not None and descriptor.is_ours()


def keep_open():
    """From here on the program closes none of ours; `undo()` of the result ends that."""
    import posix

    patches = Patches()
    pairs = ("close", close_others(os.close)), ("closerange", close_others_of_range(os.closerange))
    for module in (os, posix):
        for name, function in pairs:
            patches.replace(module, name, function)
    return patches


def named_as(original, function):
    for name in ("__module__", "__name__", "__qualname__", "__doc__", "__text_signature__"):
        attempt(setattr, function, name, getattr(original, name, None))
    return function


def close_others(original):
    def close(fd):
        if attempt(is_kept, fd):
            # an error would be ours, where the program closes all that it finds open
            return None
        return original(fd)

    return named_as(original, close)


def close_others_of_range(original):
    def closerange(fd_low, fd_high):
        for low, high in attempt(gaps, fd_low, fd_high) or [(fd_low, fd_high)]:
            original(low, high)

    return named_as(original, closerange)


def gaps(low, high):
    """Parts of a range of numbers without ours. None: there are none."""
    kept = sorted(number for number in list(OPEN) if low <= number < high and is_kept(number))
    return list(zip([low, *(number + 1 for number in kept)], [*kept, high]))
