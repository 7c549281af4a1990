"""Trains until a file appears: looping.py STOP [ddp] [SECONDS]; each iteration is a range with its number, and takes SECONDS.

Ranks by `ddp` wait for each other in each iteration; others are each by itself, as RANK says.
"""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.profiler import record_function

stop, is_ddp = sys.argv[1], "ddp" in sys.argv
pause = float(sys.argv[-1]) if sys.argv[-1][0].isdigit() else 0.005
torch.manual_seed(7)
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10))
if is_ddp:
    dist.init_process_group("gloo")
    model = nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
inputs, labels = torch.randn(8, 32), torch.randint(0, 10, (8,))


def is_over():
    found = torch.tensor([float(os.path.exists(stop))])
    if is_ddp:
        dist.all_reduce(found, dist.ReduceOp.MAX)
    return bool(found.item())


made = 0
while not is_over():
    with record_function(f"iteration {made}"):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        # a file of the test's own, which makes one iteration slow
        time.sleep(1000 * pause if os.path.exists(stop + ".slow") and made % 50 == 0 else pause)
    optimizer.step()
    made += 1
    if made == 25:
        print("running", os.getpid(), flush=True)
if is_ddp:
    dist.barrier()
    dist.destroy_process_group()
print("done", flush=True)
# Gloo's threads may still want the interpreter lock; leaving normally then aborts now and then.
# torchrun ends all ranks once one of them has failed: those have to end in order.
os._exit(0 if is_ddp else 3)
