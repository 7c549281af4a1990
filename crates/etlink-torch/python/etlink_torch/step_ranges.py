"""Ranges `ProfilerStep#` of a profiler of the program that records nothing, while we do: our traces would have each step twice."""

import functools
import os
import weakref

from .guard import attempt
from .window import OWN


def watch(torch, session):
    """What was there before: owner, name, function."""
    kind = torch.profiler.profile
    original = kind._transit_action
    kind._transit_action = without_ranges(original, session)
    return [(kind, "_transit_action", original)]


def without_ranges(original, session):
    """A profiler calls this between the ranges of two steps; where it begins to record here, our window ends in it."""
    hidden = weakref.WeakSet()

    @functools.wraps(original)
    def wrapper(profiler, *arguments, **named):
        if OWN["making"]:
            return original(profiler, *arguments, **named)
        attempt(show, profiler, hidden)
        result = original(profiler, *arguments, **named)
        if session.window is not None and os.getpid() == session.report.pid:
            attempt(hide, profiler, hidden)
        return result

    return wrapper


def hide(profiler, hidden):
    if profiler.record_steps:
        # first: what cannot be in a set stays as it is
        hidden.add(profiler)
        profiler.record_steps = False


def show(profiler, hidden):
    if profiler in hidden:
        hidden.discard(profiler)
        profiler.record_steps = True
