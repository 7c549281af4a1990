"""Trains a small model: train.py STEPS [die STEP HOW]; prints its loss and nothing else."""

import os
import signal
import sys

import torch
from torch import nn

HOW = {
    "raise": lambda: 1 / 0,
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "term": lambda: os.kill(os.getpid(), signal.SIGTERM),
    "_exit": lambda: os._exit(5),
    "exec": lambda: os.execlp("echo", "echo", "another program"),
}

torch.manual_seed(7)
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
inputs, labels = torch.randn(8, 32), torch.randint(0, 10, (8,))
loss = torch.zeros(())


def train_step():
    global loss
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(inputs), labels)
    loss.backward()
    optimizer.step()


for step in range(int(sys.argv[1])):
    if sys.argv[2:3] == ["die"] and step == int(sys.argv[3]):
        HOW[sys.argv[4]]()
    train_step()
print(f"loss {loss.item():.3f}")
