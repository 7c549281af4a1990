"""Its disk takes a second for each file: slow_disk.py SAVING; that file appears when the first one is saved."""

import os
import sys
import time

import torch

sync = os.fsync


def slow_sync(descriptor):
    # reports are short, traces are not
    if os.fstat(descriptor).st_size > 4000:
        open(sys.argv[1], "w").close()
        time.sleep(1)
    sync(descriptor)


os.fsync = slow_sync
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(1000):
    model(torch.randn(2, 8)).sum().backward()
    optimizer.step()
    time.sleep(0.01)
