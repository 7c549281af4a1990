"""Trains a tiny model with the Trainer of Hugging Face: hugging_face.py callback OPTIONS [raise]; prints its losses.

It does so without the callback first, which shows that nothing changes. With `raise` it trains three times, and each training raises somewhere else; it prints each error, and whether a profiler is left running.
"""

import sys
import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class Own(Exception):
    pass


class Raising(Trainer):
    """Raises in the optimizer's step with this number, in one of three places."""

    place, number = None, 2

    def train(self, *arguments, **named):
        # as subclasses do
        return super().train(*arguments, **named)

    def training_step(self, model, inputs, *arguments, **named):
        if self.state.global_step == self.number and self.place == "forward":
            raise Own("forward")
        if self.state.global_step == self.number and self.place == "backward":
            hook = model.lm_head.weight.register_hook(self.fail)
            try:
                return super().training_step(model, inputs, *arguments, **named)
            finally:
                hook.remove()
        return super().training_step(model, inputs, *arguments, **named)

    def fail(self, gradient):
        raise Own("backward")


class Data(torch.utils.data.Dataset):
    fetched, fails_at = 0, None

    def __len__(self):
        return 32

    def __getitem__(self, index):
        self.fetched += 1
        if self.fetched == self.fails_at:
            raise Own("data")
        tokens = torch.arange(index, index + 8) % 50
        return {"input_ids": tokens, "labels": tokens}


def callback():
    from etlink_torch.transformers import EtlinkCallback

    return eval("EtlinkCallback('traces', {})".format(sys.argv[2]))


def raise_everywhere(trainer, data):
    for trainer.place in ("forward", "backward", "data"):
        if trainer.place == "data":
            # two batches of two for each step
            data.fails_at = data.fetched + 4 * trainer.number + 1
        try:
            trainer.train()
        except Own as error:
            print(type(error).__name__, error, error.__cause__, torch.autograd.profiler._is_profiler_enabled)


def train(kind, callbacks):
    torch.manual_seed(7)
    config = GPT2Config(vocab_size=50, n_positions=16, n_embd=16, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, max_steps=9, per_device_train_batch_size=2, gradient_accumulation_steps=2, use_cpu=True,
            eval_strategy="steps", eval_steps=4, save_strategy="no", report_to=[], disable_tqdm=True, seed=7,
        )
        data = Data()
        trainer = kind(GPT2LMHeadModel(config), arguments, train_dataset=data, eval_dataset=data, callbacks=callbacks)
        if kind is Raising:
            raise_everywhere(trainer, data)
        else:
            print("losses", round(trainer.train().training_loss, 6), round(trainer.evaluate()["eval_loss"], 6))


if "raise" in sys.argv:
    train(Raising, [callback()])
else:
    train(Trainer, [])
    train(Trainer, [callback()])
