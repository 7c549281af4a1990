"""A profiler for Lightning: `Trainer(profiler=EtlinkProfiler("traces", train={"wait": 1, "active": 2}))`."""

import sys

from . import lightning_hooks
from .context import OF_ALL, OPTIONS
from .guard import attempt
from .phase_recorder import PhaseRecorder
from .phases import PHASES

try:
    from lightning.pytorch.profilers import Profiler
except ImportError:
    from pytorch_lightning.profilers import Profiler

PREFIX = "[LightningModule]"


class EtlinkProfiler(Profiler):
    """Records both traces of steps of each phase by the phase's own schedule. A step is a batch.

    output: folder for traces and `etlink.json`; default "etlink_traces"
    train, validate, test, predict: arguments of `torch.profiler.schedule`, as a dict; phases without one are not recorded
    and the options of `etlink_torch.profile`: ranks, activities, record_shapes, with_stack, ...

    Batches of the sanity check before the training do not count. A cycle is split where another phase begins.
    """

    def __init__(self, output=None, train=None, validate=None, test=None, predict=None, **options):
        super().__init__()
        # Lightning calls `teardown` when the object is deleted, even if its `__init__` raised
        self.recorder, self.handled = None, None
        given = zip(PHASES, (train, validate, test, predict))
        schedules = {phase: schedule for phase, schedule in given if schedule is not None}
        unknown = sorted(set(options).difference(OPTIONS, OF_ALL))
        if unknown:
            raise TypeError("EtlinkProfiler() has no option {}; the phases are {}".format(", ".join(unknown), ", ".join(PHASES)))
        if not schedules:
            raise TypeError("EtlinkProfiler() has no schedule; give it one, such as train={'wait': 1, 'warmup': 1, 'active': 2}")
        self.recorder = PhaseRecorder(output, schedules, options)

    @property
    def notes(self):
        """Reasons why this process was not recorded; empty if it was."""
        return self.recorder.notes

    def setup(self, stage, local_rank=None, log_dir=None):
        super().setup(stage, local_rank, log_dir)
        self.recorder.open()

    def start(self, action_name):
        self.handled = sys.exc_info()[1]
        self.call(lightning_hooks.before, action_name)

    def stop(self, action_name):
        self.call(lightning_hooks.after, action_name)
        # an action that ends with an error is the last one: then Lightning does not call `teardown`
        error = sys.exc_info()[1]
        if error is not None and error is not self.handled and self.phases is not None:
            attempt(self.phases.cut)

    @property
    def phases(self):
        return None if self.recorder is None else self.recorder.phases

    def call(self, function, action):
        if self.phases is not None and action.startswith(PREFIX) and not self.is_checking():
            attempt(function, self.phases, action.rpartition(".")[2])

    def is_checking(self):
        """Returns true during the sanity check before the training."""
        module = getattr(self, "_lightning_module", None)
        return bool(attempt(getattr, attempt(getattr, module, "trainer"), "sanity_checking"))

    def teardown(self, stage):
        if self.phases is not None:
            attempt(self.phases.cut)
        super().teardown(stage)
