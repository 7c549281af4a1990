"""Batches of Lightning's phases, by the names of its hooks.

`_call_lightning_module_hook` of lightning/pytorch/trainer/call.py calls each hook of the module inside of a profiled
action `[LightningModule]Class.hook`, also where the module has none of its own.
"""

import re
import sys

from .guard import attempt, is_programs
from .phases import Phases

PHASE_OF = {"train": "train", "validation": "validate", "test": "test", "predict": "predict"}
HOOK = re.compile(r"on_({})_(\w+)$".format("|".join(PHASE_OF)))
MODULES = ("lightning.pytorch.trainer.call", "pytorch_lightning.trainer.call")
CALL = "_call_lightning_module_hook"


def before(phases, hook):
    """A hook is about to be called."""
    found = HOOK.match(hook)
    if found is None:
        return
    phase, event = PHASE_OF[found[1]], found[2]
    if event == "batch_start":
        phases.begin(phase)
    elif event == "end" or phase != phases.open:
        phases.cut()


def after(phases, hook):
    """A hook has been called."""
    found = HOOK.match(hook)
    if found is not None and found[2] == "batch_end":
        phases.end(PHASE_OF[found[1]])


def watch(session, schedules, patches, after_import):
    """Records the phases of programs that use Lightning, as soon as it is imported."""
    session.phases = phases = Phases(session, schedules)

    def wrap(module):
        original = getattr(module, CALL)

        def call(trainer, hook_name, *arguments, **named):
            # batches of the sanity check before the training are of no phase
            is_checked = patches.active and not getattr(trainer, "sanity_checking", False)
            if is_checked:
                attempt(before, phases, hook_name)
            result = original(trainer, hook_name, *arguments, **named)
            if is_checked:
                attempt(after, phases, hook_name)
            return result

        patches.replace(module, CALL, call)

    def wrap_or_report(module):
        try:
            wrap(module)
        except Exception as error:
            if is_programs(error):
                raise
            session.fail("{} has no {}: this version of Lightning is not supported".format(module.__name__, CALL))

    for name in MODULES:
        if name in sys.modules:
            wrap_or_report(sys.modules[name])
        else:
            sys.meta_path.insert(0, after_import(name, wrap_or_report))
