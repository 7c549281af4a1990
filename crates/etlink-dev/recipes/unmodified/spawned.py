"""Two ranks by multiprocessing spawn: nothing in the environment tells the rank."""

import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn


def rank(number, store):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=number, world_size=2)
    torch.manual_seed(7)
    model = nn.parallel.DistributedDataParallel(nn.Linear(32, 10))
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(6):
        optimizer.zero_grad()
        model(torch.randn(8, 32)).sum().backward()
        optimizer.step()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(rank, (sys.argv[1],), nprocs=2)
