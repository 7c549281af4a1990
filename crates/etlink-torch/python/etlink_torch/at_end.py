"""What this process does when it ends, also where `os._exit` skips what Python does: forked processes end by it."""

import atexit
import functools
import os

from .guard import attempt

ACTIONS = []
"""Functions; each knows whether it is for this process or for the one that it was forked from."""


def call(function):
    if not ACTIONS:
        atexit.register(leave)
        leave_first()
    ACTIONS.append(function)


def leave():
    for function in list(ACTIONS):
        attempt(function)


def leave_first():
    original = os._exit

    @functools.wraps(original)
    def wrapper(status):
        try:
            leave()
        finally:
            original(status)

    os._exit = wrapper
