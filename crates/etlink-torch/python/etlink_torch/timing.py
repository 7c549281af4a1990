"""How long steps take while they are recorded, and otherwise."""

import statistics
import time
from collections import deque

KEPT = 256
"""Plain steps that are remembered, the latest."""


class StepTimes:
    """Durations of steps in ns, without the time that the recording itself takes between two steps."""

    def __init__(self):
        self.plain, self.recorded, self.started = deque(maxlen=KEPT), [], None

    def start(self):
        self.started = time.perf_counter_ns()

    def end_plain(self, now):
        """A step without a recording has ended; the next one begins.

        The first step of a process compiles and allocates: it is not started, and counts for nothing.
        """
        if self.started is not None:
            self.plain.append(now - self.started)
        self.started = now

    def end_recorded(self, now):
        if self.started is not None:
            self.recorded.append(now - self.started)

    def summary(self):
        """Medians, or None if there are not both. Of two recorded steps it is the quicker one.

        A step that waited for a child, or paged, is then no cost of the recording: their mean would call it one.
        """
        if not self.plain or not self.recorded:
            return None
        return {
            "plain_ns": int(statistics.median(self.plain)),
            "plain_steps": len(self.plain),
            "recorded_ns": int(statistics.median_low(self.recorded)),
            "recorded_steps": len(self.recorded),
        }
