"""A transformer's training steps, timed: timed.py OUT.json none|kineto|profiler|etlink|interleaved. Run by overhead.py."""

import json
import sys
import time

import torch
from torch import nn
from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile, schedule

WAIT, WARMUP, ACTIVE = 5, 5, 20

torch.manual_seed(7)
torch.set_num_threads(1)
layer = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True)
model = nn.Sequential(nn.TransformerEncoder(layer, 4), nn.Linear(128, 10))
optimizer = torch.optim.AdamW(model.parameters())
inputs, labels = torch.randn(8, 64, 128), torch.randint(0, 10, (8, 64))
times, way = [], sys.argv[2]
# the steps of the host trace, which are not those that are timed
before = WAIT + WARMUP + (ACTIVE if way == "interleaved" else 0)


def steps(ended=lambda: None):
    for _ in range(before + ACTIVE + 2):
        times.append((time.perf_counter_ns(), time.process_time_ns()))
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs).flatten(0, 1), labels.flatten()).backward()
        optimizer.step()
        ended()


if way in ("kineto", "profiler"):
    observer = None
    if way == "profiler":
        observer = ExecutionTraceObserver()
        observer.register_callback(sys.argv[1] + ".host.json")
    chosen = {
        "activities": [ProfilerActivity.CPU],
        "schedule": schedule(wait=WAIT, warmup=WARMUP, active=ACTIVE, repeat=1),
        "on_trace_ready": lambda made: made.export_chrome_trace(sys.argv[1] + ".device.json"),
        "execution_trace_observer": observer,
    }
    with profile(**chosen) as profiler:
        steps(profiler.step)
else:
    steps()

# of the last recorded step the end is not its own: there the files are written
recorded = times[before : before + ACTIVE]
spans = [[after[clock] - before[clock] for before, after in zip(recorded, recorded[1:])] for clock in (0, 1)]
with open(sys.argv[1], "w") as file:
    json.dump(spans, file)
