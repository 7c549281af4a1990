"""Uses the profiler itself, from its third step on."""

import torch
from torch import nn

model = nn.Linear(32, 10)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def steps(number):
    for _ in range(number):
        model(torch.randn(8, 32)).sum().backward()
        optimizer.step()


steps(2)
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
    steps(2)
steps(6)
print(sum(event.count for event in profiler.key_averages() if event.key.startswith("Optimizer.step")))
