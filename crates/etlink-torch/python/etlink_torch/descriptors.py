"""Descriptors that stay open. Programs close those that they do not know, as daemons do; the number is then another file's.

So ours have numbers that such programs hardly come to. And while a cycle is recorded, or a thread of ours works with
files, `os.close` and `os.closerange` leave ours open, and say nothing: the program may have found them in a list of
what is open.
"""

import contextlib
import os
import time
from threading import get_ident

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
CLOSING = []
"""Calls that close numbers in this moment, as (thread, when it began): they may not know of one that is ours since."""
LISTED = []
"""Folders that are listed in this moment, as `identity` calls them. Python does not say under which number it has one open."""
MOST_WAITED_S = 1
"""A call that began earlier to close numbers ended, and could not say so: a handler of the program raised in it."""
PAUSE_S = 0.0001
"""So often it is looked at whether such a call has ended."""
PLAIN = []
"""The path of a file that is another one at each look, and of which the system does not say the number: from then on files
are opened without a look, as it says nothing."""
DELETED = " (deleted)"


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
    """A number under which a file of ours is open, until the program closes it by other means than those of Python."""

    def __init__(self, number, path=None):
        self.number, self.identity = number, None
        # the path of our file, if the system says that this number leads to it
        self.link = None
        # whether it is open for a moment, which a forked child has not part in
        self.is_brief = False
        # whether the program closes it no more; before that it may be another file's already
        self.is_certain = path is None
        OPEN[number] = self
        self.identity = identity(number)

    def is_ours(self):
        if self.identity is not None and identity(self.number) == self.identity:
            return True
        # a file system on which it is another one at each look
        return self.link is not None and link_of(self.number) in (self.link, self.link + DELETED)

    def is_at(self, path, before):
        """Whether it leads to the file that was opened at a path, where by now another one may be. `before`: what was there."""
        place, link = os.path.realpath(path), link_of(self.number)
        if link in (place, place + DELETED):
            self.link = link
            return True
        # it is called otherwise there, as where capitals do not count, or the system does not say it
        return self.identity is not None and self.identity in (before, identity_at(path))

    def make_certain(self):
        """Says whether it is ours by now. From then on it stays so."""
        self.is_certain = True
        wait_for_closing()
        return self.is_ours()

    def is_lost(self):
        """Where looks say nothing, it never is."""
        return not PLAIN and not self.is_ours()

    def check(self):
        if self.is_lost():
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
            if self.is_ours() or PLAIN and self.is_brief:
                CLOSE(self.number)
        finally:
            self.forget()


def link_of(number):
    """Where a number leads to; None: the system does not say it, or it is closed."""
    try:
        return os.readlink("/proc/self/fd/{}".format(number))
    except OSError:
        return None


def opened(path, flags, mode=0o600):
    """Stays open."""
    import fcntl

    with held(path, flags, mode) as low:
        higher = attempt(duplicate, fcntl.F_DUPFD_CLOEXEC, low.number)
        if higher is None:
            low.is_brief = False
            return low
        descriptor = Descriptor(higher, path)
        if PLAIN or descriptor.is_at(path, low.identity) and descriptor.make_certain():
            return descriptor
        descriptor.forget()
        raise OSError(CLOSED.format(path))


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
        if descriptor.is_brief:
            descriptor.close()


def certain(path, flags, mode):
    """An open file that the program closes no more."""
    before = identity_at(path)
    for _ in range(0 if PLAIN else MOST_OPENED):
        descriptor = Descriptor(os.open(path, flags, mode), path)
        descriptor.is_brief = True
        try:
            if descriptor.is_at(path, before) and descriptor.make_certain():
                return descriptor
        except BaseException:
            descriptor.close()
            raise
        # the program has closed it, and may have a file of its own there
        descriptor.forget()
        if is_unknowable(path):
            PLAIN.append(path)
        # it was made here
        flags &= ~os.O_EXCL
        if PLAIN:
            break
    if not PLAIN:
        raise OSError("{} was already opened {} times".format(path, MOST_OPENED))
    descriptor = Descriptor(os.open(path, flags, mode))
    descriptor.is_brief, descriptor.is_certain = True, False
    return descriptor


def is_unknowable(path):
    """Whether a file system says of a file at each look that it is another one."""
    looks = {identity_at(path) for _ in range(4)}
    return len(looks) == 4


def names_in(folder):
    """As `os.listdir`. The program does not close the folder meanwhile."""
    listed = identity_at(folder)
    LISTED.append(listed)
    try:
        wait_for_closing()
        return os.listdir(folder)
    finally:
        LISTED.remove(listed)


def wait_for_closing():
    """For calls of other threads that close numbers, and may have looked before what is ours."""
    for call in list(CLOSING):
        thread, begun = call
        while call in CLOSING and thread != get_ident() and time.monotonic() < begun + MOST_WAITED_S:
            time.sleep(PAUSE_S)
        if time.monotonic() >= begun + MOST_WAITED_S:
            attempt(CLOSING.remove, call)


def forked():
    """In a forked child, which has only the thread that made it."""
    CLOSING.clear()
    LISTED.clear()
    for descriptor in list(OPEN.values()):
        if descriptor.is_brief:
            descriptor.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forked)


class OwnFile:
    """A file that is written to, a little at a time."""

    def __init__(self, path):
        self.path, self.descriptor, self.opened = path, None, 0
        self.open(os.O_CREAT | os.O_TRUNC)

    def open(self, flags=0):
        self.opened += 1
        if self.opened > MOST_OPENED:
            raise OSError("{} was already opened {} times".format(self.path, MOST_OPENED))
        if self.descriptor is not None:
            self.descriptor.forget()
        self.descriptor = opened(self.path, os.O_WRONLY | flags)

    def write(self, data, place):
        """Whether the program had closed it."""
        was_closed = self.descriptor.is_lost()
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
    if not isinstance(number, int):
        return False
    descriptor = OPEN.get(number)
    if descriptor is not None and descriptor.is_certain and descriptor.is_ours():
        return True
    return bool(LISTED) and identity(number) in LISTED


def replace_closing():
    import posix

    patches = Patches()
    pairs = ("close", close_others(os.close)), ("closerange", close_others_of_range(os.closerange))
    for module in (os, posix):
        for name, function in pairs:
            patches.replace(module, name, function)
    return patches


def named_as(original, function):
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        attempt(setattr, function, name, getattr(original, name, None))
    return function


def close_others(original):
    def close(fd):
        call = attempt(begin_closing)
        try:
            if attempt(is_kept, fd):
                # an error would be ours, where the program closes all that it finds open
                return None
            return original(fd)
        finally:
            attempt(CLOSING.remove, call)

    return named_as(original, close)


def close_others_of_range(original):
    def closerange(fd_low, fd_high, /):
        call = attempt(begin_closing)
        try:
            for low, high in attempt(gaps, fd_low, fd_high) or [(fd_low, fd_high)]:
                # a folder may be listed since a moment ago, under a number of its own
                if not (LISTED and attempt(is_kept, low)):
                    original(low, high)
        finally:
            attempt(CLOSING.remove, call)

    return named_as(original, closerange)


def begin_closing():
    call = get_ident(), time.monotonic()
    CLOSING.append(call)
    return call


def gaps(low, high):
    """Parts of a range of numbers without ours; while a folder is listed, each open number by itself. None: there are none."""
    kept = sorted(number for number in list(OPEN) if low <= number < high and is_kept(number))
    if LISTED:
        numbers = sorted(set(map(int, os.listdir("/dev/fd"))).difference(kept))
        return [(number, number + 1) for number in numbers if low <= number < high]
    return list(zip([low, *(number + 1 for number in kept)], [*kept, high]))
