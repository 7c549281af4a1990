"""Becomes a daemon, which closes all descriptors, and makes its steps when the command has ended: daemon.py ENDED."""

import os
import pathlib
import sys
import time

import torch

if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
os.closerange(3, 1024)
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.05)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(8):
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
