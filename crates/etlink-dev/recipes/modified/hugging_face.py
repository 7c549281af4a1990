"""Trains a tiny model with the Trainer of Hugging Face: hugging_face.py [callback OPTIONS]; prints its losses."""

import sys
import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 32

    def __getitem__(self, index):
        tokens = torch.arange(index, index + 8) % 50
        return {"input_ids": tokens, "labels": tokens}


def callbacks():
    if sys.argv[1:2] != ["callback"]:
        return []
    from etlink_torch.transformers import EtlinkCallback

    return [eval("EtlinkCallback('traces', {})".format(sys.argv[2]))]


torch.manual_seed(7)
config = GPT2Config(vocab_size=50, n_positions=16, n_embd=16, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0)
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder, max_steps=9, per_device_train_batch_size=2, gradient_accumulation_steps=2, use_cpu=True,
        eval_strategy="steps", eval_steps=4, save_strategy="no", report_to=[], disable_tqdm=True, seed=7,
    )
    data = Data()
    trainer = Trainer(GPT2LMHeadModel(config), arguments, train_dataset=data, eval_dataset=data, callbacks=callbacks())
    trained = trainer.train()
    print(round(trained.training_loss, 6), round(trainer.evaluate()["eval_loss"], 6))
