"""A callback for the Trainer of Hugging Face: `Trainer(..., callbacks=[EtlinkCallback("traces", wait=1, active=2)])`."""

from transformers import TrainerCallback

from .context import SCHEDULE
from .guard import attempt
from .phase_recorder import PhaseRecorder

PHASE = "train"


class EtlinkCallback(TrainerCallback):
    """Records both traces of the steps of the training that the schedule names.

    A step is one of the optimizer, with all batches whose gradients it accumulates. What is evaluated between two steps
    is not recorded: it cuts a cycle.

    output: folder for the traces and `etlink.json`, "etlink_traces" if none is given
    wait, warmup, active, repeat, skip_first, skip_first_wait: as `etlink_torch.profile`
    and its other options: ranks, activities, record_shapes, with_stack, ...
    """

    def __init__(self, output=None, **options):
        schedule = {name: options.pop(name) for name in SCHEDULE if name in options}
        self.recorder = PhaseRecorder(output, {PHASE: schedule}, options)

    @property
    def notes(self):
        """What kept this process from being recorded; empty if nothing did."""
        return self.recorder.notes

    def call(self, method, *arguments):
        if self.recorder.phases is not None:
            attempt(getattr(self.recorder.phases, method), *arguments)

    def on_train_begin(self, args, state, control, **named):
        # of a training that ended with an error, of which nothing else tells
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
