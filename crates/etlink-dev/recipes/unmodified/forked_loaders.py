"""Two ranks that are forked, each of which takes its batches from forked workers before it has made a step."""

import multiprocessing
import sys

import torch
import torch.distributed as dist
from torch import nn


def rank(number, store):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=number, world_size=2)
    loader = iter(torch.utils.data.DataLoader(torch.ones(24, 8), 2, num_workers=1))
    batch = next(loader)
    model = nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(8):
        optimizer.zero_grad()
        model(batch).sum().backward()
        optimizer.step()
        batch = next(loader)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    forked = multiprocessing.get_context("fork")
    ranks = [forked.Process(target=rank, args=(number, sys.argv[1])) for number in range(2)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
        assert process.exitcode == 0
