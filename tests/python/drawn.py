"""Traces of a program with a GPU, drawn by hand: what is recorded for the tests is of CPUs.

```text
us of a step   20 40 50      150   250    350   400  450    500
host           launch launch                    copy
stream 7             [gemm=================]...          [copy==]     gemm ends at 250
stream 20                    [ncclKernel==========]                   rank 1 begins 50 later
```
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

STEPS = 3
STEP_US = 1_000


def event(category: str, name: str, ts: int, dur: int, tid: int, **args: Any) -> dict[str, Any]:
    on_device = "stream" in args or category == "gpu_user_annotation"
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "pid": 0 if on_device else 100,
        "tid": tid,
        "ts": ts,
        "dur": dur,
        "args": args,
    }


def launch(begin: int, call: tuple[str, int], row: dict[str, Any], number: int) -> list[Any]:
    name, at = call
    row["args"] |= {"correlation": number, "External id": number, "device": 0}
    runtime = event("cuda_runtime", name, begin + at, 10, 100, correlation=number)
    runtime["args"]["External id"] = number
    return [runtime, row]


def step_events(number: int, rank: int) -> list[dict[str, Any]]:
    begin = 100 + STEP_US * number
    ids = 10 * number
    sizes = {"Input Dims": [[64, 64], [64, 64]], "Input type": ["float", "float"]}
    late = 50 * (rank % 2)
    reduce_at = begin + 150 + late
    copy = {"bytes": 500_000, "memory bandwidth (GB/s)": 10.0}
    return [
        event("user_annotation", f"ProfilerStep#{number + 1}", begin, 900, 100),
        event("cpu_op", "aten::mm", begin + 10, 25, 100, **sizes, **{"External id": ids + 1}),
        *launch(
            begin,
            ("cudaLaunchKernel", 20),
            event("kernel", "gemm", begin + 50, 200, 7, stream=7),
            ids + 1,
        ),
        *launch(
            begin,
            ("cudaLaunchKernel", 40),
            event("kernel", "ncclKernel_AllReduce", reduce_at, 200 - late, 20, stream=20),
            ids + 2,
        ),
        *launch(
            begin,
            ("cudaMemcpyAsync", 400),
            event(
                "gpu_memcpy",
                "Memcpy HtoD (Pinned -> Device)",
                begin + 450,
                50,
                7,
                stream=7,
                **copy,
            ),
            ids + 3,
        ),
        event("gpu_user_annotation", "forward", begin + 50, 300, 7),
        memory_event(begin + 15, 4096, 4096 * (number + 1)),
        memory_event(begin + 800, -1024, 4096 * (number + 1) - 1024),
    ]


def memory_event(ts: int, size: int, total: int) -> dict[str, Any]:
    args = {
        "Device Type": 1,
        "Device Id": 0,
        "Addr": 1,
        "Bytes": size,
        "Total Allocated": total,
        "Total Reserved": 1 << 20,
    }
    return {
        "ph": "i",
        "cat": "cpu_instant_event",
        "s": "t",
        "name": "[memory]",
        "pid": 100,
        "tid": 100,
        "ts": ts,
        "args": args,
    }


def draw_rank(folder: Path, rank: int, world: int = 2, steps_of_rank: int = STEPS) -> Path:
    """Writes the trace of a rank."""
    steps = [step_events(number, rank) for number in range(steps_of_rank)]
    trace = {
        "schemaVersion": 1,
        "deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-40GB", "numSms": 108}],
        "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": world},
        "traceEvents": [event for step in steps for event in step],
    }
    path = folder / f"rank{rank}.json.gz"
    with gzip.open(path, "wt") as out:
        json.dump(trace, out)
    return path
