"""One profiling window that yields both traces: the host trace and Kineto's device trace.

Runs inside the virtual environment. Both files are written into the current folder under bare names,
so that no path of this machine ends up in a trace.
"""

import inspect
import json
from pathlib import Path
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


def averages(profiler) -> dict:
    """The profiler's own table, by name, by shapes and by two frames of the stack; times in us, sizes in bytes."""
    rows = {
        "name": profiler.key_averages(),
        "shape": profiler.key_averages(group_by_input_shape=True),
        "stack": profiler.key_averages(group_by_stack_n=2),
    }
    return {group: [row(event) for event in events] for group, events in rows.items()}


def row(event) -> dict:
    return {
        "name": event.key,
        "count": event.count,
        "self_cpu": round(event.self_cpu_time_total, 3),
        "cpu": round(event.cpu_time_total, 3),
        "self_memory": event.self_cpu_memory_usage,
        "memory": event.cpu_memory_usage,
        "annotation": getattr(event, "is_user_annotation", None),
        "shapes": str(event.input_shapes),
        "stack": event.stack,
    }


def save(profiler, rank: int, with_averages: bool) -> None:
    profiler.export_chrome_trace(f"kineto_trace_{rank}.json")
    if with_averages:
        Path(f"key_averages_{rank}.json").write_text(json.dumps(averages(profiler)))


def options(rank: int, all_threads: bool, with_averages: bool) -> dict:
    observer = ExecutionTraceObserver()
    observer.register_callback(f"torch_et_{rank}.json")
    chosen = {
        "activities": [ProfilerActivity.CPU],
        "record_shapes": True,
        "on_trace_ready": lambda p: save(p, rank, with_averages),
        "with_stack": with_averages,
        "profile_memory": with_averages,
        "execution_trace_observer": observer,
    }
    experimental = {}
    if all_threads:
        experimental["profile_all_threads"] = True
    if with_averages:
        # without it the table knows no stacks
        experimental["verbose"] = True
    if experimental:
        chosen["experimental_config"] = torch._C._profiler._ExperimentalConfig(**experimental)
    return chosen


def record(rank: int, step: Callable[[], None], scheduled: bool, all_threads: bool, with_averages: bool) -> None:
    """Run `step` under the profiler: STEPS times by schedule, else ACTIVE times from start to stop."""
    chosen = options(rank, all_threads, with_averages)
    if scheduled:
        chosen["schedule"] = schedule(wait=WAIT, warmup=WARMUP, active=ACTIVE, repeat=1)
    with profiler_class()(**chosen) as profiler:
        for _ in range(STEPS if scheduled else ACTIVE):
            step()
            if scheduled:
                profiler.step()
