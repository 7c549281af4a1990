"""How long steps take while they are recorded, and otherwise."""

import statistics
import time

KEPT = 256
"""Plain steps that are remembered, the latest."""


class StepTimes:
    """Durations of steps in ns, without the time that the recording itself takes between two steps."""

    def __init__(self):
        self.plain, self.recorded, self.started = [], [], None

    def start(self):
        self.started = time.perf_counter_ns()

    def end(self, is_first, is_recorded, is_plain):
        """The first step of a process compiles and allocates: it counts for nothing."""
        if self.started is None or is_first:
            return
        duration = time.perf_counter_ns() - self.started
        if is_recorded:
            self.recorded.append(duration)
        elif is_plain:
            self.plain.append(duration)
            del self.plain[:-KEPT]

    def summary(self):
        """Medians, or None if there are not both."""
        if not self.plain or not self.recorded:
            return None
        return {
            "plain_ns": int(statistics.median(self.plain)),
            "plain_steps": len(self.plain),
            "recorded_ns": int(statistics.median(self.recorded)),
            "recorded_steps": len(self.recorded),
        }
