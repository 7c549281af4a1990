"""Trains a small model inside of `profile`: train.py STEPS OPTIONS [fail STEP]; OPTIONS are Python's, prints its loss and nothing else."""

import sys

import torch
from torch import nn

from etlink_torch import profile

torch.manual_seed(7)
if torch.distributed.is_torchelastic_launched():
    torch.distributed.init_process_group("gloo")
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 100)
inputs, labels = torch.randn(8, 32), torch.randint(0, 10, (8,))
with eval("profile('traces', {})".format(sys.argv[2])) as prof:
    for step in range(int(sys.argv[1])):
        if sys.argv[3:] == ["fail", str(step)]:
            raise SystemExit(9)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
        prof.step()
optimizer.step()
print(f"loss {loss.item():.3f}")
