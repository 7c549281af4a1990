"""Descriptors that stay open. Programs close those that they do not know, as daemons do; the number is then another file's."""

import os

MOST_OPENED = 20
"""So often a file is opened again: there are file systems on which it is another one each time that it is looked at."""


def identity(number):
    """Which file it is; None: it is closed."""
    try:
        status = os.fstat(number)
        return status.st_dev, status.st_ino
    except OSError:
        return None


class Descriptor:
    def __init__(self, number):
        self.number, self.identity = number, identity(number)

    def is_ours(self):
        return self.identity is not None and identity(self.number) == self.identity

    def close(self):
        if self.is_ours():
            os.close(self.number)


class OwnFile:
    """A file that is written to, a little at a time."""

    def __init__(self, path):
        self.path, self.descriptor, self.opened = path, None, 0
        self.open(os.O_CREAT | os.O_TRUNC)

    def open(self, flags=0):
        self.opened += 1
        if self.opened > MOST_OPENED:
            raise OSError("{} was opened {} times already".format(self.path, MOST_OPENED))
        self.descriptor = Descriptor(os.open(self.path, os.O_WRONLY | flags, 0o600))

    def write(self, data, place):
        """Whether the program had closed it."""
        was_closed = not self.descriptor.is_ours()
        if was_closed:
            self.open()
        os.pwrite(self.descriptor.number, data, place)
        return was_closed

    def close(self):
        self.descriptor.close()
