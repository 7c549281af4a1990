"""A training loop of accelerate: gradients of two batches a step, and a scheduler."""

import accelerate
import torch
from torch import nn

accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10))
optimizer = torch.optim.AdamW(model.parameters())
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
data = torch.utils.data.TensorDataset(torch.randn(96, 32), torch.randint(0, 10, (96,)))
loader = torch.utils.data.DataLoader(data, 8)
model, optimizer, scheduler, loader = accelerator.prepare(model, optimizer, scheduler, loader)
for inputs, labels in loader:
    with accelerator.accumulate(model):
        accelerator.backward(nn.functional.cross_entropy(model(inputs), labels))
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
