"""The single-process programs and the table of all programs.

A program is a function `(rank, world) -> step`; everything before the window happens in the function,
`step()` is one training or inference step.
"""

import threading
from typing import Callable

import torch
from torch import nn

import distributed_programs

Step = Callable[[], None]


def mlp_model() -> nn.Module:
    return nn.Sequential(
        nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)
    )


def train_step(model: nn.Module, batch: Callable[[], tuple], optimizer=None) -> Step:
    """Forward, cross entropy, backward and optimizer step on what `batch` returns."""
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step() -> None:
        inputs, labels = batch()
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()

    return step


def random_batch(*shape: int) -> Callable[[], tuple]:
    """Always the same random inputs with labels 0 to 9; made once, outside the window."""
    batch = torch.randn(*shape), torch.randint(0, 10, (shape[0],))
    return lambda: batch


def mlp(rank: int, world: int) -> Step:
    return train_step(mlp_model(), random_batch(8, 32))


def conv(rank: int, world: int) -> Step:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(16, 10),
    )
    return train_step(model, random_batch(8, 3, 16, 16))


class Classifier(nn.Module):
    """A small transformer encoder, averaged over the sequence, with a linear head."""

    def __init__(self, dropout: float = 0.1):
        super().__init__()
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(32, 10)

    def forward(self, inputs):
        return self.head(self.encoder(inputs).mean(dim=1))


def transformer(rank: int, world: int) -> Step:
    model = Classifier()
    return train_step(model, random_batch(8, 12, 32), torch.optim.Adam(model.parameters()))


def inference(rank: int, world: int) -> Step:
    model = Classifier().eval()
    inputs = torch.randn(8, 12, 32)

    def step() -> None:
        with torch.inference_mode():
            model(inputs)

    return step


def loader(rank: int, world: int) -> Step:
    """The workers are forked here, before the observer exists: a fork in the window breaks its file."""
    data = torch.utils.data.TensorDataset(torch.randn(64, 32), torch.randint(0, 10, (64,)))
    batches = iter(torch.utils.data.DataLoader(data, 8, num_workers=2, persistent_workers=True))
    return train_step(mlp_model(), lambda: next(batches))


def open_range(rank: int, world: int) -> Step:
    """Ranges that overlap the steps: opened before the backward pass, closed after the next forward pass."""
    model, batch = mlp_model(), random_batch(8, 32)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    opened = []

    def step() -> None:
        inputs, labels = batch()
        loss = nn.functional.cross_entropy(model(inputs), labels)
        while opened:
            opened.pop().__exit__(None, None, None)
        opened.append(torch.profiler.record_function("across steps"))
        opened[0].__enter__()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def branch(inputs: torch.Tensor) -> torch.Tensor:
    return torch.relu(inputs @ inputs.t())


def forked(inputs: torch.Tensor) -> torch.Tensor:
    future = torch.jit.fork(branch, inputs)
    return branch(inputs + 1) + torch.jit.wait(future)


def threads(rank: int, world: int) -> Step:
    train = [mlp(rank, world), mlp(rank, world)]
    inputs, forking = torch.randn(8, 8), torch.jit.script(forked)

    def step() -> None:
        users = [threading.Thread(target=one) for one in train]
        for user in users:
            user.start()
        forking(inputs)
        for user in users:
            user.join()

    return step


def ddp(rank: int, world: int) -> Step:
    """The bucket size splits the gradients: two all-reduces per step, the first during backward."""
    model = nn.parallel.DistributedDataParallel(mlp_model(), bucket_cap_mb=0.01)
    return train_step(model, random_batch(8, 32))


PROGRAMS: dict[str, Callable[[int, int], Step]] = {
    "mlp": mlp,
    "conv": conv,
    "transformer": transformer,
    "loader": loader,
    "inference": inference,
    "open_range": open_range,
    "threads": threads,
    "threads_unprofiled": threads,
    "ddp2": ddp,
    "ddp2_gloo": ddp,
    "tpdp4": distributed_programs.tpdp4,
    "stuck4": distributed_programs.stuck4,
    "pipeline4": distributed_programs.pipeline4,
    "experts2": distributed_programs.experts2,
    "fsdp2": distributed_programs.fsdp2,
}
