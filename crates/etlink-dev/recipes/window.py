"""One profiling window that yields both traces: the host trace and Kineto's device trace.

Runs inside the virtual environment. Both files are written into the current folder under bare names,
so that no path of this machine ends up in a trace.
"""

import inspect
from typing import Callable

import torch
from torch.profiler import ExecutionTraceObserver, ProfilerActivity, profile, schedule

WAIT, WARMUP, ACTIVE = 1, 1, 2
STEPS = WAIT + WARMUP + ACTIVE


class ObservedProfile(profile):
    """`profile` that drives the observer itself, for versions without `execution_trace_observer=`.

    Same moments as in the versions that have it: the observer starts just before Kineto's window
    and stops just after it.
    """

    def __init__(self, *, execution_trace_observer, **options):
        self._observer = execution_trace_observer
        super().__init__(**options)

    def start_trace(self):
        self._observer.start()
        super().start_trace()

    def stop_trace(self):
        super().stop_trace()
        self._observer.stop()

    def stop(self):
        super().stop()
        self._observer.unregister_callback()


def profiler_class() -> type:
    has_argument = "execution_trace_observer" in inspect.signature(profile.__init__).parameters
    return profile if has_argument else ObservedProfile


def options(rank: int, all_threads: bool) -> dict:
    observer = ExecutionTraceObserver()
    observer.register_callback(f"torch_et_{rank}.json")
    chosen = {
        "activities": [ProfilerActivity.CPU],
        "record_shapes": True,
        "on_trace_ready": lambda p: p.export_chrome_trace(f"kineto_trace_{rank}.json"),
        "execution_trace_observer": observer,
    }
    if all_threads:
        chosen["experimental_config"] = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
    return chosen


def record(rank: int, step: Callable[[], None], scheduled: bool, all_threads: bool) -> None:
    """Run `step` under the profiler: STEPS times by schedule, else ACTIVE times from start to stop."""
    chosen = options(rank, all_threads)
    if scheduled:
        chosen["schedule"] = schedule(wait=WAIT, warmup=WARMUP, active=ACTIVE, repeat=1)
    with profiler_class()(**chosen) as profiler:
        for _ in range(STEPS if scheduled else ACTIVE):
            step()
            if scheduled:
                profiler.step()
