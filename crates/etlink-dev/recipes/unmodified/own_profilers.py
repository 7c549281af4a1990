"""Profiles itself: own_profilers.py CASE; prints what it found out itself, and leaves its files in the folder it runs in."""

import glob
import gzip
import json
import sys

import torch
from torch import nn
from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile, schedule, tensorboard_trace_handler

torch.manual_seed(7)
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
inputs, labels = torch.randn(8, 32), torch.randint(0, 10, (8,))
CPU = {"activities": [ProfilerActivity.CPU]}


def steps(number, profiler=None):
    for _ in range(number):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
        if profiler is not None:
            profiler.step()


def counted(profiler):
    return sum(event.count for event in profiler.key_averages() if event.key.startswith("Optimizer.step"))


def tensorboard():
    """Two cycles by a schedule, packed for TensorBoard."""
    handler = tensorboard_trace_handler("board", worker_name="mine", use_gzip=True)
    plan = schedule(wait=1, warmup=1, active=2, repeat=2)
    with profile(**CPU, schedule=plan, on_trace_ready=handler, record_shapes=True) as profiler:
        steps(10, profiler)
    ops = []
    for path in sorted(glob.glob("board/*")):
        with gzip.open(path) as file:
            ops.append(sum(event.get("cat") == "cpu_op" for event in json.load(file)["traceEvents"]))
    return ops


def plain():
    """No schedule; exported when all is over."""
    with profile(**CPU) as profiler:
        steps(2)
    steps(2)
    profiler.export_chrome_trace("plain.json")
    return counted(profiler)


def observed():
    """The host trace is the program's own."""
    observer = ExecutionTraceObserver()
    observer.register_callback("host.json")
    plan = schedule(wait=1, warmup=1, active=2, repeat=2)
    exports = []

    def export(profiler):
        exports.append("device_{}.json".format(len(exports)))
        profiler.export_chrome_trace(exports[-1])

    with profile(**CPU, schedule=plan, on_trace_ready=export, execution_trace_observer=observer) as profiler:
        steps(10, profiler)
    with open("host.json") as file:
        return exports, len([node for node in json.load(file)["nodes"] if node["name"].startswith("ProfilerStep#")])


def two():
    """One after the other, both exported at the end, the first one last."""
    with profile(**CPU) as first:
        steps(1)
    with profile(**CPU, schedule=schedule(wait=0, warmup=0, active=2)) as second:
        steps(4, second)
    second.export_chrome_trace("second.json")
    first.export_chrome_trace("first.json")
    return counted(first), counted(second)


def unexported():
    """Nothing is exported: a table is all that the program wants."""
    found = []
    plan = schedule(wait=0, warmup=1, active=1, repeat=2)
    with profile(**CPU, schedule=plan, on_trace_ready=lambda profiler: found.append(counted(profiler))) as profiler:
        steps(5, profiler)
    profiler = profile(**CPU)
    profiler.start()
    steps(1)
    profiler.stop()
    return found, counted(profiler)


def fails():
    """The handler raises, and a second export is refused."""

    def handler(profiler):
        profiler.export_chrome_trace("once.json")
        profiler.export_chrome_trace("twice.json")

    try:
        with profile(**CPU, on_trace_ready=handler):
            steps(2)
    except RuntimeError as error:
        return str(error)


steps(2)
print(globals()[sys.argv[1]]())
steps(3)
