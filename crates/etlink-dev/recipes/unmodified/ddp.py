"""DistributedDataParallel over gloo for torchrun; ends with the exit code that it is given."""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo")
torch.manual_seed(7)
net = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
model = nn.parallel.DistributedDataParallel(net, bucket_cap_mb=0.01)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
inputs, labels = torch.randn(8, 32), torch.randint(0, 10, (8,))
for _ in range(8):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(inputs), labels).backward()
    optimizer.step()
dist.barrier()
if dist.get_rank() == 0:
    print("done")
dist.destroy_process_group()
sys.stdout.flush()
# Gloo's threads may still want the interpreter lock; leaving normally then aborts now and then.
os._exit(int(sys.argv[1]))
