"""Which action a step has: `torch.profiler.schedule`, with the `skip_first_wait` of PyTorch 2.6."""

NONE, WARMUP, RECORD, RECORD_AND_SAVE = "NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE"


NEVER = float("inf")


def action(schedule, step):
    """The action of step number `step`, from 0, of a schedule as a dict of its arguments."""
    wait, warmup, active = schedule["wait"], schedule["warmup"], schedule["active"]
    if step < schedule["skip_first"]:
        return NONE
    step -= schedule["skip_first"]
    if schedule["skip_first_wait"]:
        step += wait
    cycle, position = divmod(step, wait + warmup + active)
    if 0 < schedule["repeat"] <= cycle or position < wait:
        return NONE
    if position < wait + warmup:
        return WARMUP
    return RECORD if position < wait + warmup + active - 1 else RECORD_AND_SAVE


def next_action(schedule, step):
    """The first step from `step` on that has another action than `NONE`, or `NEVER`."""
    wait, skip_first = schedule["wait"], schedule["skip_first"]
    length = wait + schedule["warmup"] + schedule["active"]
    # where the wait of the first cycle would begin
    origin = skip_first - wait if schedule["skip_first_wait"] else skip_first
    cycle, position = divmod(max(step, skip_first) - origin, length)
    if 0 < schedule["repeat"] <= cycle:
        return NEVER
    return origin + cycle * length + max(position, wait)
