"""Trains with Lightning, validates within the epochs, tests and predicts: lightning_phases.py [profiler OPTIONS [raise]]; prints its losses.

With a profiler it does so without it first, which shows that nothing changes. With `raise` a batch raises; it prints the error, and whether a profiler is left running.
"""

import sys
import warnings

import lightning
import torch
from torch import nn

warnings.simplefilter("ignore")


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10))
        self.calls = []

    def loss(self, batch, phase):
        self.calls.append(phase)
        # the phase is named in the traces
        with torch.profiler.record_function("{} {}".format(phase, self.calls.count(phase) - 1)):
            return nn.functional.cross_entropy(self.layers(batch[0]), batch[1])

    def training_step(self, batch, index):
        if "raise" in sys.argv and index == 5:
            raise ZeroDivisionError("mine")
        return self.loss(batch, "train")

    def validation_step(self, batch, _):
        return self.loss(batch, "sanity" if self.trainer.sanity_checking else "validate")

    def test_step(self, batch, _):
        self.log("loss", self.loss(batch, "test"))

    def predict_step(self, batch, _):
        return self.loss(batch, "predict")

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


def profiler():
    from etlink_torch.lightning import EtlinkProfiler

    return eval("EtlinkProfiler('traces', {})".format(sys.argv[2]))


def run(profiler=None):
    lightning.seed_everything(7, verbose=False)
    data = torch.utils.data.TensorDataset(torch.randn(64, 32), torch.randint(0, 10, (64,)))
    loader = torch.utils.data.DataLoader(data, 8)
    trainer = lightning.Trainer(
        max_epochs=2, val_check_interval=3, limit_val_batches=3, accelerator="cpu", profiler=profiler,
        logger=False, enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False,
    )
    model = Model()
    try:
        trainer.fit(model, loader, loader)
    except ZeroDivisionError as error:
        print(error, torch.autograd.profiler._is_profiler_enabled)
        sys.exit()
    (tested,) = trainer.test(model, loader, verbose=False)
    predicted = trainer.predict(model, loader)
    print(tested["loss"], float(sum(predicted)), {phase: model.calls.count(phase) for phase in sorted(set(model.calls))})


if "raise" not in sys.argv:
    run()
if sys.argv[1:2] == ["profiler"]:
    run(profiler())
