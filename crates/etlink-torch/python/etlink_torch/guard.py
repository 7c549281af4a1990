"""Nothing of ours reaches the program: what can fail runs inside of these.

No statement that may raise stands outside of a `try` here, so that these hold when everything fails.
"""

import functools


class Failure(Exception):
    """Its text says to people what is missing and what to do."""


def describe(error):
    if isinstance(error, Failure):
        return str(error)
    return "{}: {}".format(type(error).__name__, error)


def attempt(function, *arguments):
    """The result of a call, or None if it raised."""
    try:
        return function(*arguments)
    except Exception:
        return None


def guarded(method):
    """For entry points of an object with `fail(why)`: an error ends the recording, not the program."""

    @functools.wraps(method)
    def call(self, *arguments):
        try:
            return method(self, *arguments)
        except Exception as error:
            try:
                self.fail(describe(error))
            except Exception:
                pass
        return None

    return call


def silent(method):
    """For entry points that have nobody to report to: an error is dropped."""

    @functools.wraps(method)
    def call(*arguments):
        try:
            return method(*arguments)
        except Exception:
            return None

    return call
