"""Records inside of a recording, and of the program's own profiler: nested.py OURS|THEIRS|WARMUP."""

import sys

import torch
from etlink_torch import profile

model = torch.nn.Linear(8, 8)


def steps(number, *profilers):
    for _ in range(number):
        model(torch.randn(2, 8)).sum().backward()
        for profiler in profilers:
            profiler.step()


CPU = [torch.profiler.ProfilerActivity.CPU]
if sys.argv[1] == "OURS":
    with profile("outer", warmup=1, active=2) as outer, profile("inner", active=2) as inner:
        steps(6, outer, inner)
    print(outer.notes, inner.notes)
elif sys.argv[1] == "THEIRS":
    with torch.profiler.profile(activities=CPU) as theirs:
        with profile("inner", active=2) as inner:
            steps(4, inner)
    print(sum(event.key == "aten::linear" for event in theirs.key_averages()), inner.notes)
else:
    schedule = torch.profiler.schedule(wait=0, warmup=1, active=3, repeat=1)
    with torch.profiler.profile(activities=CPU, schedule=schedule) as theirs:
        with profile("inner", active=2) as inner:
            steps(4, theirs, inner)
    print(sum(event.key == "aten::linear" for event in theirs.key_averages()), inner.notes)
