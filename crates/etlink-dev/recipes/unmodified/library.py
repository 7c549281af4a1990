"""Is what imports torch, and has the step as functions of several kinds."""

import torch
from torch import nn

model = nn.Linear(32, 10)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def train_step():
    optimizer.zero_grad()
    model(torch.randn(8, 32)).sum().backward()
    optimizer.step()


class Trainer:
    def train_step(self):
        train_step()

    @staticmethod
    def static_step():
        train_step()
