"""A callback for the Trainer of Hugging Face: `Trainer(..., callbacks=[EtlinkCallback("traces", wait=1, active=2)])`."""

import functools

from transformers import TrainerCallback

from .context import SCHEDULE
from .guard import attempt
from .phase_recorder import PhaseRecorder

PHASE = "train"


def watch_errors():
    """Watches for trainings that end with an error, because the Trainer then calls no callback."""
    from transformers import Trainer

    original = Trainer.train
    if getattr(original, "is_watched_by_etlink", False):
        return

    @functools.wraps(original)
    def train(self, *arguments, **named):
        try:
            return original(self, *arguments, **named)
        except BaseException:
            attempt(cut_cycles, self)
            raise

    train.is_watched_by_etlink = True
    Trainer.train = train


def cut_cycles(trainer):
    for callback in trainer.callback_handler.callbacks:
        if isinstance(callback, EtlinkCallback):
            callback.call("cut")


class EtlinkCallback(TrainerCallback):
    """Records both traces of scheduled steps of the training.

    A step is a step of the optimizer, with all batches whose gradients it accumulates. An evaluation between two steps
    is not recorded, and splits a cycle.

    output: folder for traces and `etlink.json`; default "etlink_traces"
    wait, warmup, active, repeat, skip_first, skip_first_wait: as in `etlink_torch.profile`
    and its other options: ranks, activities, record_shapes, with_stack, ...
    """

    def __init__(self, output=None, **options):
        schedule = {name: options.pop(name) for name in SCHEDULE if name in options}
        self.recorder = PhaseRecorder(output, {PHASE: schedule}, options)
        attempt(watch_errors)

    @property
    def notes(self):
        """Reasons why this process was not recorded; empty if it was."""
        return self.recorder.notes

    def call(self, method, *arguments):
        if self.recorder.phases is not None:
            attempt(getattr(self.recorder.phases, method), *arguments)

    def on_train_begin(self, args, state, control, **named):
        # ends the cycle of an earlier training that failed in a Trainer with its own `train`
        self.call("cut")
        self.recorder.open()

    def on_step_begin(self, args, state, control, **named):
        self.call("begin", PHASE)

    def on_step_end(self, args, state, control, **named):
        self.call("end", PHASE)
        if control.should_evaluate:
            self.call("cut")

    def on_train_end(self, args, state, control, **named):
        self.call("cut")
