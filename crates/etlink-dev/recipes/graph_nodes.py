"""Write traces of CUDA graph launches with PyTorch's own CUPTI collector, without a GPU.

    TORCH=target/testdata-venvs/2.15.0/bin/python
    $TORCH crates/etlink-dev/recipes/graph_nodes.py --out testdata/graphs

The host events are recorded. The rows of the device are made up here, in the columns that CUPTI fills; PyTorch 2.15
(`torch/profiler/_cuspy/trace.py`) writes them beside the host events, with their dependencies. Each of two launches
runs this graph:

    stream 7    kA ---- kB -------------- kD
    stream 13      `--- kC - event - host -'
"""

import argparse
import enum
import json
import sys
import tempfile
import types
from pathlib import Path

import numpy
import torch
from torch.profiler import ProfilerActivity, profile

GRAPH = 5
GRAPH_LAUNCH = 311  # CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000

# The writer takes the names of calls from CUPTI's Python package, which comes with CUDA. One name is enough here.
names = types.ModuleType("cupti.cupti")
names.Runtime_api_trace_cbid = enum.Enum("Runtime_api_trace_cbid", {"cudaGraphLaunch_v10000": GRAPH_LAUNCH})
names.Driver_api_trace_cbid = enum.Enum("Driver_api_trace_cbid", {})
sys.modules |= {"cupti": types.ModuleType("cupti"), "cupti.cupti": names}

from torch.profiler._cuspy import trace  # noqa: E402

# node, name, stream, start and end in us after the launch began
KERNELS = [
    (1, "kA", 7, 50, 70),
    (2, "kB", 7, 71, 110),
    (3, "kC", 13, 72, 90),
    (4, "kD", 7, 131, 150),
]
EVENT = (5, 13, 91)
HOST = (6, 13, 93, 130)
CAUSES = {2: [1], 3: [1], 5: [3], 6: [5], 4: [2, 6]}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of the files")
    return parser.parse_args()


def record_host(path: Path) -> tuple[dict, list[dict]]:
    """The host's trace, and its two ops that stand for launches."""
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        for _ in range(2):
            with torch.profiler.record_function("replay"):
                torch.ones(256, 256) @ torch.ones(256, 256)
    profiler.export_chrome_trace(str(path))
    document = json.loads(path.read_text())
    document["host_name"] = "host"
    path.write_text(json.dumps(document))
    replays = [event for event in document["traceEvents"] if event.get("name") == "replay"]
    return document, replays


def node(number: int) -> int:
    return GRAPH << 32 | number


def annotations(all_rows: list) -> numpy.ndarray:
    """What the program called the nodes when it captured the graph."""
    notes = numpy.empty(len(all_rows), dtype=object)
    for place, row in enumerate(all_rows):
        notes[place] = {"name": f"layer.{row[2]}"}
    return notes


def rows(launches: list[int], nodes: list[tuple[int, int, float, float]]) -> dict:
    """The columns that all kinds have: nodes are number, stream, start and end."""
    all_rows = [
        (launch, correlation, *one) for correlation, launch in enumerate(launches, 9) for one in nodes
    ]
    times = [(launch + int(start * 1000), launch + int(end * 1000)) for launch, _, _, _, start, end in all_rows]
    count = len(all_rows)
    return {
        "start_ns": numpy.array([start for start, _ in times], dtype=numpy.int64),
        "end_ns": numpy.array([end for _, end in times], dtype=numpy.int64),
        "device_id": numpy.zeros(count, dtype=numpy.int64),
        "context_id": numpy.ones(count, dtype=numpy.int64),
        "stream_id": numpy.array([stream for _, _, _, stream, _, _ in all_rows], dtype=numpy.int64),
        "correlation_id": numpy.array([row[1] for row in all_rows], dtype=numpy.int64),
        "graph_id": numpy.full(count, GRAPH, dtype=numpy.int64),
        "graph_node_id": numpy.array([node(row[2]) for row in all_rows], dtype=numpy.int64),
        "annotation": annotations(all_rows),
    }


def kernels(launches: list[int]) -> dict:
    columns = rows(launches, [(number, stream, start, end) for number, _, stream, start, end in KERNELS])
    count = len(columns["start_ns"])
    columns["name"] = numpy.array([name for _ in launches for _, name, *_ in KERNELS], dtype=object)
    sizes = {"grid_x": 8, "grid_y": 1, "grid_z": 1, "block_x": 128, "block_y": 1, "block_z": 1}
    others = [
        "registers_per_thread", "static_shared_memory", "dynamic_shared_memory", "priority", "queued", "channel",
        "channel_type",
    ]
    for name, value in {**sizes, **dict.fromkeys(others, 0)}.items():
        columns[name] = numpy.full(count, value, dtype=numpy.int64)
    return columns


def device_window(pid: int, tid: int, launches: list[int], lanes: bool) -> dict:
    """What CUPTI would have filled."""
    number, stream, at = EVENT
    columns = {
        "kernel": kernels(launches),
        "graph_event_node": rows(launches, [(number, stream, at, at)]),
        "graph_host_node": rows(launches, [HOST]),
    }
    columns["graph_host_node"] |= {
        "process_id": numpy.full(len(launches), pid, dtype=numpy.int64),
        "thread_id": numpy.full(len(launches), tid, dtype=numpy.int64),
        "host_fn": numpy.array(["on_done"] * len(launches), dtype=object),
    }
    if lanes:
        for kind in columns.values():
            kind["logical_lane"] = numpy.full(len(kind["start_ns"]), 7, dtype=numpy.int64)
    columns["cuda_runtime"] = {
        "start_ns": numpy.array(launches, dtype=numpy.int64),
        "end_ns": numpy.array(launches, dtype=numpy.int64) + 10_000,
        "cbid": numpy.full(len(launches), GRAPH_LAUNCH, dtype=numpy.int64),
        "process_id": numpy.full(len(launches), pid, dtype=numpy.int64),
        "thread_id": numpy.full(len(launches), tid, dtype=numpy.int64),
        "correlation_id": numpy.arange(9, 9 + len(launches), dtype=numpy.int64),
    }
    causes = {node(effect): [node(cause) for cause in of_one] for effect, of_one in CAUSES.items()}
    return {"columns": columns, "graph_deps": causes, "thread_resource_map": {pid: {tid: tid}}}


def main() -> None:
    out = arguments().out
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        host = Path(folder) / "host.json"
        document, replays = record_host(host)
        base = document["baseTimeNanoseconds"]
        launches = [base + int(replay["ts"] * 1000) + 1000 for replay in replays]
        pid, tid = replays[0]["pid"], replays[0]["tid"]
        for name, lanes in (("streams", False), ("lanes", True)):
            window = device_window(pid, tid, launches, lanes)
            path = out / f"{name}-2.15.0.json"
            trace.merge_trace_window_into_chrome_trace(host, path, window, trace_name=path.name)


if __name__ == "__main__":
    main()
