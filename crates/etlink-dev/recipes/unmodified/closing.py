"""Closes descriptors that it does not know, as daemons do, opens files of its own, and prints what is in these at its end."""

import os

import torch

opened = []
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(8):
    if step == 1:
        os.closerange(3, 64)
        opened = [os.open(f"own_{number}", os.O_RDWR | os.O_CREAT) for number in range(20)]
        for descriptor in opened:
            os.write(descriptor, b"CHECKPOINT")
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
print({os.pread(descriptor, 100, 0) for descriptor in opened})
