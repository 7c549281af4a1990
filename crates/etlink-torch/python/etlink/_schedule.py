"""Actions of steps under a schedule of PyTorch's profiler."""

from __future__ import annotations

from ._etlink import Schedule


def schedule(
    *,
    wait: int,
    warmup: int,
    active: int,
    repeat: int = 0,
    skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Schedule:
    """Returns the schedule of `torch.profiler.schedule` with the same arguments, without PyTorch.

    Called with the number of a step, it returns the name of the action: "NONE", "WARMUP", "RECORD"
    or "RECORD_AND_SAVE". `first_recorded` is the first recorded step.
    """
    return Schedule(wait, warmup, active, repeat, skip_first, skip_first_wait)
