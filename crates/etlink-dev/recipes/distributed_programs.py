"""The multi-rank programs. The default process group exists already when they are called."""

import time
from typing import Callable

import torch
import torch.distributed as dist
from torch import nn

Step = Callable[[], None]


def subgroup(rank: int, members: list[list[int]], description: str):
    """Create one group per list (every rank must create all of them) and return the one with `rank`."""
    groups = [dist.new_group(ranks, group_desc=description) for ranks in members]
    return next(group for group, ranks in zip(groups, members) if rank in ranks)


class GatherTokens(torch.autograd.Function):
    """All-gather along the batch; the backward of it is a reduce-scatter."""

    @staticmethod
    def forward(ctx, part, group):
        ctx.group = group
        whole = part.new_empty(part.shape[0] * dist.get_world_size(group), *part.shape[1:])
        dist.all_gather_into_tensor(whole, part, group=group)
        return whole

    @staticmethod
    def backward(ctx, gradient):
        return scatter_sum(gradient, ctx.group), None


class ScatterTokens(torch.autograd.Function):
    """Reduce-scatter along the batch; the backward of it is an all-gather."""

    @staticmethod
    def forward(ctx, whole, group):
        ctx.group = group
        return scatter_sum(whole, group)

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.contiguous()
        whole = gradient.new_empty(
            gradient.shape[0] * dist.get_world_size(ctx.group), *gradient.shape[1:]
        )
        dist.all_gather_into_tensor(whole, gradient, group=ctx.group)
        return whole, None


def scatter_sum(whole, group):
    part = whole.new_empty(whole.shape[0] // dist.get_world_size(group), *whole.shape[1:])
    dist.reduce_scatter_tensor(part, whole.contiguous(), group=group)
    return part


def tpdp4(rank: int, world: int) -> Step:
    """Tensor x data parallel on 2 x 2 ranks, tokens split over the tensor group outside the linear layers."""
    tensor_group = subgroup(rank, [[0, 1], [2, 3]], "tensor")
    data_group = subgroup(rank, [[0, 2], [1, 3]], "data")
    column, row = nn.Linear(32, 32), nn.Linear(32, 32, bias=False)
    weights = [*column.parameters(), *row.parameters()]
    optimizer = torch.optim.SGD(weights, lr=0.01)
    inputs = torch.randn(4, 32)

    def step() -> None:
        optimizer.zero_grad()
        tokens = GatherTokens.apply(inputs, tensor_group)
        partial = row(torch.relu(column(tokens)))
        ScatterTokens.apply(partial, tensor_group).square().mean().backward()
        pending = [dist.all_reduce(w.grad, group=data_group, async_op=True) for w in weights]
        for work in pending:
            work.wait()
        optimizer.step()
        dist.barrier()

    return step


def stuck4(rank: int, world: int) -> Step:
    """The others wait for rank 2 when they are asked what they do."""
    weights = torch.ones(64)

    def step() -> None:
        for _ in range(3):
            dist.all_reduce(weights)
        if rank != 2:
            dist.all_reduce(weights[:32], async_op=True)
        time.sleep(2)

    return step


def pipeline4(rank: int, world: int) -> Step:
    """All micro batches forward, then all backward; the loss is on the last rank."""
    stage = nn.Linear(32, 32)
    optimizer = torch.optim.SGD(stage.parameters(), lr=0.01)
    first, last = rank == 0, rank == world - 1
    micro_batches = [torch.randn(4, 32) for _ in range(2)]

    def forward(inputs: torch.Tensor) -> tuple:
        if not first:
            inputs = torch.empty(4, 32)
            dist.recv(inputs, rank - 1)
            inputs.requires_grad_()
        outputs = torch.relu(stage(inputs))
        if not last:
            dist.send(outputs.detach(), rank + 1)
        return inputs, outputs

    def backward(inputs: torch.Tensor, outputs: torch.Tensor) -> None:
        if last:
            outputs.square().mean().backward()
        else:
            gradient = torch.empty(4, 32)
            dist.recv(gradient, rank + 1)
            outputs.backward(gradient)
        if not first:
            dist.send(inputs.grad, rank - 1)

    def step() -> None:
        optimizer.zero_grad()
        for inputs, outputs in [forward(micro_batch) for micro_batch in micro_batches]:
            backward(inputs, outputs)
        optimizer.step()

    return step


def experts2(rank: int, world: int) -> Step:
    """Rank 0 keeps 3 of its 8 tokens, rank 1 keeps 6 of its 8; the rest goes to the other rank."""
    expert = nn.Linear(16, 16)
    tokens = torch.randn(8, 16)
    sent = [[3, 5], [2, 6]][rank]
    received = [[3, 2], [5, 6]][rank]

    def step() -> None:
        with torch.no_grad():
            arrived = torch.empty(sum(received), 16)
            dist.all_to_all_single(arrived, tokens, received, sent)
            back = torch.empty(8, 16)
            dist.all_to_all_single(back, expert(arrived), sent, received)

    return step


def fsdp2(rank: int, world: int) -> Step:
    """Each Linear is sharded by itself: gathered before forward and again before backward, gradients scattered."""
    # here, since the cases above run on versions that do not have them
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (world,))
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    inputs, labels = torch.randn(8, 32), torch.randint(0, 10, (8,))

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()

    return step
