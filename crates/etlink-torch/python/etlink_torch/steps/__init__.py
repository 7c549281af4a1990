"""What counts as a step, and which action it has."""

from .annotation import AnnotationSteps
from .forward import ForwardSteps
from .function import FunctionSteps
from .optimizer import OptimizerSteps
from .patches import Patches
from .schedule import NEVER, NONE, RECORD, RECORD_AND_SAVE, WARMUP, action, next_action

__all__ = [
    "NEVER",
    "NONE",
    "RECORD",
    "RECORD_AND_SAVE",
    "WARMUP",
    "action",
    "count",
    "next_action",
]


def count(torch, session, after_import, what):
    """Calls `session.begin()` before the first step and `session.step()` at the end of each.

    what: `optimizer`, `forward`, `forward:CLASS`, `annotation:NAME`, `module:function` or
    `module:Class.method`
    after_import: makes a finder for `sys.meta_path` that calls a function once a module is imported

    `undo()` of the result takes everything back that was replaced in the program.
    """
    patches = Patches()
    kind, _, name = what.partition(":")
    if what == "optimizer":
        steps = OptimizerSteps(torch, session, patches)
    elif kind == "forward":
        steps = ForwardSteps(torch, session, patches, name or None)
    elif kind == "annotation":
        steps = AnnotationSteps(torch, session, patches, name)
    else:
        steps = FunctionSteps(torch, session, patches, what, after_import)
    try:
        steps.install()
    except Exception:
        patches.undo()
        raise
    return patches
