"""Two ranks; rank 1 stays away from the sixth collective, rank 0 waits for it in C++: stuck.py STORE PIDS."""

import os
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def rank(number, store, pids):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=number, world_size=2)
    model = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(8):
        if number == 1 and step == 5:
            time.sleep(600)
        model(torch.randn(2, 8)).sum().backward()
        if number == 0 and step == 5:
            with open(pids, "w") as file:
                file.write(f"{os.getpid()}\n")
        dist.all_reduce(model.weight.grad)
        optimizer.step()


if __name__ == "__main__":
    context = mp.get_context("spawn")
    ranks = [context.Process(target=rank, args=(number, *sys.argv[1:]), daemon=True) for number in (0, 1)]
    for process in ranks:
        process.start()
    ranks[0].join()
    print("rank 0 ended with", ranks[0].exitcode)
