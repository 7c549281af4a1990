"""Two optimizers, and a DataLoader that forks two workers in every epoch."""

import torch
from torch import nn

data = torch.utils.data.TensorDataset(torch.randn(32, 32), torch.randint(0, 10, (32,)))
body, head = nn.Linear(32, 64), nn.Linear(64, 10)
optimizers = [torch.optim.SGD(body.parameters(), 0.01), torch.optim.AdamW(head.parameters())]
for _ in range(3):
    for inputs, labels in torch.utils.data.DataLoader(data, 8, num_workers=2):
        nn.functional.cross_entropy(head(body(inputs)), labels).backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
