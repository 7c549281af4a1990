"""Ways to train one model on several ranks, by PyTorch's own means: `fsdp2`, `tensor`, `pipeline`."""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

STEPS = 8


def train(model, optimizer, inputs):
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = model(inputs).square().mean()
        loss.backward()
        optimizer.step()
    return loss


def fsdp2():
    from torch.distributed.fsdp import fully_shard

    model = nn.Sequential(*(nn.Sequential(nn.Linear(32, 32), nn.ReLU()) for _ in range(3)))
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return train(model, torch.optim.AdamW(model.parameters(), lr=0.001), torch.randn(4, 32))


def tensor():
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32))
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    return train(model, torch.optim.SGD(model.parameters(), lr=0.01), torch.randn(4, 32))


def pipeline():
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    rank, world = dist.get_rank(), dist.get_world_size()
    module = nn.Sequential(nn.Linear(32, 32), nn.ReLU())
    stage = PipelineStage(module, rank, world, torch.device("cpu"))
    schedule = Schedule1F1B(stage, n_microbatches=4, loss_fn=lambda output, target: (output - target).square().mean())
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01)
    inputs, target = torch.randn(8, 32), torch.randn(8, 32)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        losses = []
        if rank == 0:
            schedule.step(inputs)
        else:
            schedule.step(target=target, losses=losses)
        optimizer.step()
    loss = torch.stack(losses).mean() if losses else torch.zeros(())
    # the last rank has the losses, the first one prints
    dist.broadcast(loss, world - 1)
    return loss


dist.init_process_group("gloo")
torch.manual_seed(7)
loss = globals()[sys.argv[1]]()
dist.barrier()
if dist.get_rank() == 0:
    print(f"{loss.item():.6f}")
dist.destroy_process_group()
sys.stdout.flush()
# Gloo's threads may still want the interpreter lock; leaving normally then aborts now and then.
os._exit(0)
