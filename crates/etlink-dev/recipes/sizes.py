"""Host traces of the same programs with several sizes, for the tests of etlink-analysis.

    python crates/etlink-dev/recipes/sizes.py OUT        # with a Python that has torch and transformers

Each program is recorded on the CPU as `base`, with another batch, and if it has one with another sequence length:
OUT/<program>/<variant>.json. In the base several sizes are the same number.
"""

import sys
from pathlib import Path

import torch
from torch import nn
from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile, schedule
from transformers import Qwen2Config, Qwen2ForCausalLM


def qwen2(batch: int, tokens: int):
    sizes = {"hidden_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    model = Qwen2ForCausalLM(Qwen2Config(intermediate_size=256, vocab_size=700, **sizes))
    ids = torch.randint(5, 699, (batch, tokens))
    return model, lambda: model(input_ids=ids, labels=ids).loss


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        block = lambda inside, outside: nn.Sequential(nn.Conv2d(inside, outside, 3, padding=1), nn.GroupNorm(4, outside), nn.SiLU())
        self.outer, self.inner, self.middle, self.joined = block(3, 16), block(16, 32), block(32, 32), block(48, 16)
        self.last = nn.Conv2d(16, 3, 1)

    def forward(self, image):
        outer = self.outer(image)
        inner = self.middle(self.inner(nn.functional.max_pool2d(outer, 2)))
        return self.last(self.joined(torch.cat([nn.functional.interpolate(inner, scale_factor=2), outer], 1)))


def unet(batch: int, _):
    model, image = UNet(), torch.randn(batch, 3, 48, 48)
    return model, lambda: (model(image) - image).square().mean()


PROGRAMS = {
    qwen2: {"base": (4, 32), "batch": (6, 32), "seq": (4, 48)},
    unet: {"base": (4, 0), "batch": (7, 0)},
}


def record(path: Path, model: nn.Module, loss):
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    observer = ExecutionTraceObserver().register_callback(str(path))
    steps = schedule(wait=0, warmup=1, active=2)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, execution_trace_observer=observer, schedule=steps) as profiler:
        for _ in range(3):
            optimizer.zero_grad()
            loss().backward()
            optimizer.step()
            profiler.step()


if __name__ == "__main__":
    torch.set_num_threads(1)
    for program, variants in PROGRAMS.items():
        for variant, sizes in variants.items():
            torch.manual_seed(0)
            path = Path(sys.argv[1]) / program.__name__ / f"{variant}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            record(path, *program(*sizes))
