"""Nodes of CUDA graphs: their dependencies, annotations and events.

Kineto does not record them. PyTorch 2.15 has a second collector of CUDA activities that does (`torch.profiler._cuspy`), which is
chosen by `torch.profiler.CuspyConfig` and needs the package cupti-python.
"""

import importlib.util
import os

from . import files
from .guard import attempt

LACKING = "nodes of CUDA graphs (needs CUDA, torch.profiler.CuspyConfig (2.15) and the package cupti-python)"
"""What is missing, as the manifest says it."""


def configured(torch, with_waits):
    """CUDA as an item of the profiler's `activities`. Raises where PyTorch has no such collector.

    with_waits: rows of synchronisations too, as `enable_cuda_sync_events` of Kineto
    """
    profiler = torch.profiler.profiler
    collector = profiler.CuspyConfig(
        enable_cuda_sync_events=with_waits,
        enable_graph_dependencies=True,
        enable_event_node_ids=True,
    )
    return {torch.profiler.ProfilerActivity.CUDA: profiler.ProfilerActivityConfig(profiler_configs=[collector])}


def watch(torch):
    """From here on PyTorch keeps the dependencies of each graph that the program makes.

    They can be read only while a graph is made, mostly long before the recorded steps. A profiler begins to keep them when it
    is made, and need not be started (`_KinetoProfile.__init__`).
    """
    if has_collector(torch):
        torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU, configured(torch, False)])


def has_collector(torch):
    # its module, not any folder of the name
    return hasattr(torch.profiler.profiler, "CuspyConfig") and bool(attempt(importlib.util.find_spec, "cupti.cupti"))


def with_collector(torch, activities, with_waits):
    """The same activities, with that of CUDA by the collector that records nodes; None where it cannot."""
    cuda = torch.profiler.ProfilerActivity.CUDA
    if cuda not in activities or not has_collector(torch):
        return None
    return [configured(torch, with_waits) if kind == cuda else kind for kind in activities]


def unpack(path):
    """The collector packs what it exports (`ProfilerObserver.set_export`); here as Kineto writes it."""
    packed = path + ".gz"
    if os.path.exists(packed):
        files.copy_plain(packed, path)
        os.remove(packed)


def stop(profiler):
    """Of a cycle that exports nothing: else the collector goes on until the program ends."""
    observer = getattr(profiler, "_cuspy_profiler_observer", None)
    if observer is not None:
        observer.close()
