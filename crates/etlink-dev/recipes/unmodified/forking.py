"""Forks after its steps; the child ends normally, with a code that the parent prints."""

import os
import sys

import torch

model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(8):
    model(torch.randn(2, 8)).sum().backward()
    optimizer.step()
child = os.fork()
if child == 0:
    print("child")
    sys.exit(3)
_, status = os.waitpid(child, 0)
print("ended with", os.waitstatus_to_exitcode(status))
