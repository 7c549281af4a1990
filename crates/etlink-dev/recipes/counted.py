"""What a step costs that is counted and not recorded, in ns: counted.py. Run by overhead.py.

Each figure is the least of many rounds: other work on the machine only adds to it. The functions that
are wrapped do nothing, so what is left is the hook's own.
"""

import json
import tempfile
import time

import torch
from torch import nn

from etlink_torch import arm, profile
from etlink_torch.steps import forward, optimizer, patches

ROUNDS, CALLS = 3000, 100


def least(function, argument) -> float:
    times = []
    for _ in range(ROUNDS):
        begin = time.perf_counter_ns()
        for _ in range(CALLS):
            function(argument)
        times.append((time.perf_counter_ns() - begin) / CALLS)
    return min(times)


def nothing(argument):
    return None


def next_number():
    """As after a backward: autograd's counter has gone on."""
    next_number.value += 1
    return next_number.value


next_number.value = 0


def counted(session) -> dict[str, float]:
    model = nn.Linear(4, 4)
    made = torch.optim.SGD(model.parameters(), 0.1)
    bare = least(nothing, made)
    steps = optimizer.OptimizerSteps(torch, session, patches.Patches())
    real = steps.activity.sequence_number
    steps.activity.sequence_number = next_number
    # in its place autograd's own function is called
    replaced = least(lambda _: next_number(), made) - least(lambda _: real(), made)
    step = steps.calls.wrap(nothing, steps.counts_step)
    calls = forward.ForwardSteps(torch, session, patches.Patches())
    call = calls.calls.wrap(nothing, calls.counts)
    figures = {
        "optimizer.step()": least(step, made) - bare - replaced,
        "call of the model": least(call, model) - bare,
    }
    calls.calls.inside = True
    figures["call inside of the model"] = least(call, model) - bare
    return figures


def mean(function, seconds: float = 3) -> float:
    """Over all calls of some seconds, with whatever other threads of this process take away."""
    made, begin = 0, time.perf_counter_ns()
    end = begin + int(seconds * 1e9)
    while True:
        for _ in range(CALLS):
            function()
        made += CALLS
        now = time.perf_counter_ns()
        if now >= end:
            return (now - begin) / made


def idle(session, name: str) -> dict[str, float]:
    """Of a session that has nothing to record, its end of a step."""
    session.end_step()
    mean(session.end_step, 0.2)
    begin = time.process_time_ns()
    time.sleep(3)
    thread = (time.process_time_ns() - begin) / 3
    return {
        f"{name}, least": least(lambda _: session.end_step(), None) - least(nothing, None),
        f"{name}, mean": mean(session.end_step) - mean(lambda: None),
        f"{name}, its thread in a second": thread,
    }


with tempfile.TemporaryDirectory() as folder:
    with profile(folder + "/scheduled", wait=10**9) as made:
        figures = {**counted(made.session), **idle(made.session, "step of a schedule")}
    figures.update(idle(arm(folder + "/armed").session, "step that is armed"))
    print(json.dumps(figures))
