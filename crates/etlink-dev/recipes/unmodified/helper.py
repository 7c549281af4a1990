"""A helper makes an optimizer before the process that trains, which loads data by spawned workers."""

import multiprocessing

import torch
from torch import nn

data = torch.utils.data.TensorDataset(torch.randn(64, 32), torch.randint(0, 10, (64,)))


def prepare():
    model = nn.Linear(32, 10)
    return model, torch.optim.SGD(model.parameters(), lr=0.01)


def help_along(is_ready, is_done):
    prepare()
    is_ready.set()
    is_done.wait()


if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    is_ready, is_done = context.Event(), context.Event()
    helper = context.Process(target=help_along, args=(is_ready, is_done))
    helper.start()
    is_ready.wait()
    model, optimizer = prepare()
    loader = torch.utils.data.DataLoader(data, 8, num_workers=2, multiprocessing_context="spawn")
    for inputs, labels in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
    is_done.set()
    helper.join()
