"""What a step costs that is counted and not recorded, in ns: counted.py. Run by overhead.py.

Each figure is the least of many rounds: other work on the machine only adds to it. The functions that
are wrapped do nothing, so what is left is the hook's own.
"""

import json
import tempfile
import time

import torch
from torch import nn

from etlink_torch import profile
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


with tempfile.TemporaryDirectory() as folder, profile(folder, wait=10**9) as made:
    print(json.dumps(counted(made.session)))
