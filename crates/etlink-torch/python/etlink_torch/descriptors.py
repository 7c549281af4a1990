"""Descriptors that stay open. Programs close those that they do not know, as daemons do; the number is then another file's.

So ours have numbers that such programs hardly come to. And while a cycle is recorded, or a thread of ours works with
files, `os.close` and `os.closerange` leave ours open, and say nothing: the program may have found them in a list of
what is open.
"""

import contextlib
import os
import threading

from .guard import attempt
from .steps.patches import Patches

MOST_OPENED = 20
"""So often a file is opened again: there are file systems on which it is another one each time that it is looked at."""
CLOSED = "the program closed {}"
LEAST = 512
"""Numbers of ours begin here, if the process may have twice as many. `select` takes those up to 1,023."""
OPEN = {}
"""Each `Descriptor` by its number."""
CLOSE = os.close
"""The program's is replaced, so that it closes none of ours."""
TURN = threading.RLock()
"""Of who opens a file of ours and looks at its number, and of who closes numbers that are not known."""
LISTED = []
"""Folders that are listed at this moment. Python does not say under which number it has one open."""
MOST_WAITED_S = 1
"""A file system may hang. The program does not."""


def identity(number):
    """Which file it is; None: it is closed."""
    return identity_by(os.fstat, number)


def identity_at(path):
    """Which file is there; None: none is."""
    return identity_by(os.stat, path)


def identity_by(look, place):
    try:
        status = look(place)
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
        self.number, self.identity = number, None
        # False: a file system on which no look says that it is this file
        self.is_known = True
        # whether it is open for longer than a moment
        self.stays = False
        # before the look: from then on the program closes it no more
        OPEN[number] = self
        self.identity = identity(number)

    def is_ours(self):
        return self.identity is not None and identity(self.number) == self.identity

    def check(self):
        if self.is_known and not self.is_ours():
            raise OSError(CLOSED.format("a file of the recording"))

    def read(self, most):
        """The first bytes."""
        self.check()
        return os.pread(self.number, most, 0)

    def write(self, text):
        data = memoryview(text.encode())
        while data:
            self.check()
            data = data[os.write(self.number, data) :]

    def sync(self):
        self.check()
        os.fsync(self.number)

    def forget(self):
        if OPEN.get(self.number) is self:
            del OPEN[self.number]

    def close(self):
        """The number stays known until it is closed: the program may close it just now, and open another file."""
        try:
            if self.is_ours() or not self.is_known:
                CLOSE(self.number)
        finally:
            self.forget()


def opened(path, flags, mode=0o600):
    """Stays open."""
    import fcntl

    with held(path, flags, mode) as low:
        higher = attempt(duplicate, fcntl.F_DUPFD_CLOEXEC, low.number)
        if higher is None:
            low.stays = True
            return low
        descriptor = Descriptor(higher)
        if low.is_known and descriptor.identity != low.identity:
            descriptor.forget()
            raise OSError(CLOSED.format(path))
        return descriptor


@contextlib.contextmanager
def held(path, flags, mode=0o666):
    """Opens a file for a moment, on any thread.

    Another thread of the program may close all that it does not know just then, and open a file of its own, which gets
    our number. That file is not written to, and stays open.
    """
    descriptor = certain(path, flags, mode)
    try:
        yield descriptor
    finally:
        if not descriptor.stays:
            descriptor.close()


def certain(path, flags, mode):
    """An open file, whose number the program had not closed when it was looked at. From then on `Keeper` keeps it."""
    before = identity_at(path)
    for _ in range(MOST_OPENED):
        with turn():
            descriptor = Descriptor(os.open(path, flags, mode))
            if is_at(descriptor.number, path, before):
                # there are file systems on which it is another one each time that it is looked at
                descriptor.is_known = descriptor.is_ours()
                return descriptor
        descriptor.forget()
        # it was made here
        flags &= ~os.O_EXCL
    raise OSError("{} was opened {} times already".format(path, MOST_OPENED))


def is_at(number, path, before):
    """Whether a number leads to the file that was opened at a path, where by now another one may be. `before`: what was there."""
    link = attempt(os.readlink, "/proc/self/fd/{}".format(number))
    if link is None:
        # it is closed, or the system does not say it
        found = identity(number)
        return found is not None and found in (before, identity_at(path))
    place = os.path.realpath(path)
    return link in (place, place + " (deleted)")


def names_in(folder):
    """As `os.listdir`. The program closes nothing meanwhile."""
    LISTED.append(folder)
    try:
        with turn():
            return os.listdir(folder)
    finally:
        LISTED.remove(folder)


def forked():
    """In a forked child, which has not the thread whose turn it was."""
    global TURN
    TURN = threading.RLock()
    LISTED.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forked)


@contextlib.contextmanager
def turn():
    lock = take_turn()
    try:
        yield
    finally:
        end_turn(lock)


def take_turn():
    """The lock that `end_turn` gives back; None: it was not to be had."""
    lock = TURN
    return lock if lock.acquire(timeout=MOST_WAITED_S) else None


def end_turn(lock):
    if lock is not None:
        lock.release()


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


# While a cycle is recorded, or a thread of ours works with files.


class Keeper:
    """From the first user on until the last one has gone the program closes none of ours."""

    def __init__(self):
        self.users, self.patches = [], None

    def keep(self, user):
        if user in self.users:
            return
        self.users.append(user)
        if self.patches is None:
            self.patches = replace_closing()

    def let_go(self, user):
        """Of one that is no user, nothing."""
        if user in self.users:
            self.users.remove(user)
        patches = self.patches
        if patches is not None and not self.users:
            self.patches = None
            patches.undo()


KEEPER = Keeper()


def is_kept(number):
    """Whether a number that the program closes is one of ours, and still our file."""
    descriptor = OPEN.get(number)
    return descriptor is not None and descriptor.is_ours()


def replace_closing():
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
        lock = attempt(take_turn) if LISTED else None
        try:
            return original(fd)
        finally:
            attempt(end_turn, lock)

    return named_as(original, close)


def close_others_of_range(original):
    def closerange(fd_low, fd_high):
        lock = attempt(take_turn)
        try:
            for low, high in attempt(gaps, fd_low, fd_high) or [(fd_low, fd_high)]:
                original(low, high)
        finally:
            attempt(end_turn, lock)

    return named_as(original, closerange)


def gaps(low, high):
    """Parts of a range of numbers without ours. None: there are none."""
    kept = sorted(number for number in list(OPEN) if low <= number < high and is_kept(number))
    return list(zip([low, *(number + 1 for number in kept)], [*kept, high]))
