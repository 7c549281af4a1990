"""Text of a random language model of Hugging Face, token by token."""

import torch
import transformers

config = transformers.GPT2Config(
    vocab_size=64,
    n_embd=32,
    n_layer=2,
    n_head=2,
    n_positions=64,
    bos_token_id=0,
    eos_token_id=None,
    pad_token_id=0,
)
model = transformers.GPT2LMHeadModel(config).eval()
for _ in range(2):
    model.generate(torch.zeros(1, 4, dtype=torch.long), max_new_tokens=6, do_sample=False)
