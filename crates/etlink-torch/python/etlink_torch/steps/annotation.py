"""A step is one range of `torch.profiler.record_function` that has a chosen name: it ends where the range does.

Serving engines have no optimizer, and one program may have many models; the ranges say what is a step. Of
an asyncio server the ranges of several requests are open at a time on one thread, so ends are counted and
nothing is asked about nesting.
"""

import functools
from threading import get_ident

from ..guard import attempt, describe, is_programs
from .calls import Dynamo, announce


class AnnotationSteps:
    """`name`: that of the range; one that ends with `*` stands for all that begin so."""

    def __init__(self, torch, session, patches, name):
        self.session, self.patches, self.name = session, patches, name
        self.ranges = torch.autograd.profiler.record_function
        self.dynamo, self.thread = Dynamo(torch), None
        self.is_prefix = name.endswith("*")
        self.prefix = name[:-1]
        patches.on_undo(self.retire)

    def install(self):
        for name, follow in (("__enter__", self.entering), ("__exit__", self.leaving)):
            wrapper = follow(vars(self.ranges)[name])
            self.dynamo.skip(wrapper)
            self.patches.replace(self.ranges, name, wrapper)

    def entering(self, original):
        is_tracing, opened, give_up = self.dynamo.is_tracing, self.opened, self.give_up

        @functools.wraps(original)
        def __enter__(opening):
            # first of all, so that nothing of ours gets into a compiled graph
            if not is_tracing() and self.thread is None:
                try:
                    opened(opening)
                except Exception as error:
                    if is_programs(error):
                        raise
                    attempt(give_up, error)
            return original(opening)

        return __enter__

    def leaving(self, original):
        is_tracing, closed, give_up = self.dynamo.is_tracing, self.closed, self.give_up

        @functools.wraps(original)
        def __exit__(closing, *arguments):
            result = original(closing, *arguments)
            if not is_tracing():
                try:
                    closed(closing)
                except Exception as error:
                    if is_programs(error):
                        raise
                    attempt(give_up, error)
            return result

        return __exit__

    def is_step(self, made):
        name = made.name
        return name.startswith(self.prefix) if self.is_prefix else name == self.name

    def opened(self, made):
        """The first range of the name decides on the thread: those of others do not count."""
        if self.is_step(made):
            self.thread = get_ident()
            self.session.begin()
            announce(self.session, self.name)

    def closed(self, made):
        if self.thread == get_ident() and self.is_step(made):
            self.session.end_step()

    def give_up(self, error):
        """The recording ends."""
        self.session.fail(describe(error))

    def retire(self):
        """What is wrapped does nothing any more; no thread has this number."""
        self.thread = 0
