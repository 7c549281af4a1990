"""The critical path of a rank in the form of HTA's graph (`hta.analyzers.critical_path_analysis`)."""

from __future__ import annotations

import json
import os
import re
from typing import Any

from ._error import Error
from ._files import written_beside
from ._run import open as open_run

LAUNCH = "critical_path_kernel_launch_delay"
NEXT_KERNEL = "critical_path_kernel_kernel_delay"
OPERATOR = "critical_path_operator"
SYNC = "critical_path_sync_dependency"
BOUNDS = {LAUNCH: "gpu_kernel_launch_overhead", NEXT_KERNEL: "gpu_kernel_kernel_overhead", SYNC: ""}
DEVICE_CATEGORIES = {"kernel": "kernel", "memcpy": "gpu_memcpy", "memset": "gpu_memset"}

Frame = Any
"""A `pandas.DataFrame`."""


class CriticalPath:
    """The part of a rank's critical path within an annotation. Times are in µs.

    The path is etlink's: that of `etlink.open(trace).critical_path()`, whose rules are not HTA's.
    """

    def __init__(self, trace: str, annotation: str, instances: tuple[int, int], data_load: list[str]) -> None:
        with open_run(trace, overhead="keep") as run:
            events = run.table("events").to_pandas()
            nodes = run.table("nodes").to_pandas()
            path = run.critical_path().to_pandas()[["node", "latency_ns", "via.edge"]]
        named = events[(events["kind"] == "annotation") & events["name"].str.contains(annotation, regex=False)]
        named = named.sort_values("start_ns", kind="stable")
        if annotation:
            named = named[instances[0] : instances[1] + 1]
        else:
            named = events
        if named.empty:
            remedy = "give another annotation or instance_id"
            message = f"{trace} has no such instance of the annotation {annotation!r}; {remedy}"
            raise Error(message, file=trace, remedy=remedy)
        begin, end = named["start_ns"].min(), (named["start_ns"] + named["duration_ns"]).max()
        steps = path.merge(nodes.drop(columns="latency_ns"), on="node")
        inside = (steps["start_ns"] >= begin) & (steps["start_ns"] <= end)
        self._steps = steps[inside].merge(events[["event", "kind"]].rename(columns={"kind": "row"}), how="left")
        self._data_load = [re.compile(pattern) for pattern in data_load]
        self.nodes = list(self._steps["node"])
        self.critical_path_nodes = self.nodes
        self.critical_path_edges_set = set(zip(self.nodes, self.nodes[1:]))

    def critical_path(self) -> bool:
        """Returns true if there is a path."""
        return len(self.nodes) > 0

    def get_critical_path_breakdown(self) -> Frame:
        """Returns the times on the path: of nodes, and of the edges to them, each with its bound."""
        import pandas as pd  # type: ignore[import-untyped, import-not-found, unused-ignore]

        lines = []
        for step in self._steps.to_dict("records"):
            on_device = step["stream"] == step["stream"]
            place = {
                "s_name": step["name"],
                "cat": DEVICE_CATEGORIES.get(step["row"], "cpu_op"),
                "pid": step["device"] if on_device else step["pid"],
                "tid": step["stream"] if on_device else step["tid"],
                "stream": step["stream"] if on_device else -1,
            }
            for duration, kind in [(step["latency_ns"], _edge(step, on_device)), (step["duration_ns"], OPERATOR)]:
                if duration > 0:
                    bound = BOUNDS.get(kind) if kind in BOUNDS else self._bound(step["name"], on_device)
                    times = {"event_idx": step["event"], "duration": duration / 1e3, "type": kind}
                    lines.append({**times, **place, "bound_by": bound})
        columns = ["event_idx", "duration", "type", "s_name", "cat", "pid", "tid", "stream", "bound_by"]
        return pd.DataFrame(lines, columns=columns)

    def _bound(self, name: str, on_device: bool) -> str:
        if on_device:
            is_communication = re.match(r"nccl|.*ncclKernel", name)
            return "gpu_communication_bound" if is_communication else "gpu_compute_bound"
        is_loading = any(pattern.search(name) for pattern in self._data_load)
        return "data_loading" if is_loading else "cpu_bound"

    def summary(self) -> Any:
        """Returns the share of each bound on the path, in percent."""
        frame = self.get_critical_path_breakdown()
        print("Critical Path broken down by boundedness = (in % of duration)")
        return frame.groupby("bound_by").duration.sum() / frame.duration.sum() * 100

    def overlay(self, trace: dict[str, Any], path: str) -> str:
        """Writes the path as ranges with arrows, after the events of a trace. Returns `path`."""
        events = list(trace.get("traceEvents", []))
        before: dict[str, Any] | None = None
        for number, step in enumerate(self._steps.to_dict("records")):
            on_device = step["stream"] == step["stream"]
            pid, tid = (step["device"], step["stream"]) if on_device else (step["pid"], step["tid"])
            if pid != pid or tid != tid:
                continue
            place = {"pid": int(pid), "tid": int(tid), "ts": step["start_ns"] / 1e3}
            shown = {**place, "ph": "X", "cat": "critical_path", "name": step["name"]}
            events.append({**shown, "dur": step["duration_ns"] / 1e3, "args": {"critical": 1}})
            if before is not None and (before["pid"], before["tid"]) != (place["pid"], place["tid"]):
                arrow = {"id": number, "cat": "critical_path", "name": "critical_path"}
                events += [{**before, **arrow, "ph": "s"}, {**place, **arrow, "ph": "f", "bp": "e"}]
            before = place
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with written_beside(path, overwrite=True) as new, open(new, "w", encoding="utf-8") as out:
            json.dump({**trace, "traceEvents": events}, out)
        return path


def _edge(step: dict[str, Any], on_device: bool) -> str:
    """Returns HTA's type of the edge to a node."""
    if step["via.edge"] == "launch":
        return LAUNCH
    if on_device and step["via.edge"] == "stream_order":
        return NEXT_KERNEL
    return SYNC


def overlay_name(trace: str, folder: str) -> str:
    """Returns the path of a trace with its critical path."""
    name = os.path.basename(trace).removesuffix(".gz").removesuffix(".zst")
    return os.path.join(os.path.expanduser(folder), f"overlaid_critical_path_{name}")
