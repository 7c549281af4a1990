"""A model without an optimizer; looks for torch before it imports it, as many libraries do."""

import importlib.util

assert importlib.util.find_spec("torch") is not None
import torch
from torch import nn

layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
model = nn.Sequential(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(32, 10)).eval()
with torch.inference_mode():
    for _ in range(6):
        model(torch.randn(8, 12, 32))
