"""Plots of a run with altair: `pip install etlink[plots]`.

    from etlink import plots

    plots.step_times(run)                    # shown by a notebook
    plots.step_times(run).save("steps.html")

Each function returns an `altair.Chart` of unchanged rows of a table of the run. You can change it
like any other chart. Times are in ns in the data, and in ms on the axes.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ._error import Error
from ._run import Run
from ._table import missing

if TYPE_CHECKING:
    # type checkers accept this file without altair
    import altair  # type: ignore[import-not-found, unused-ignore]

__all__ = [
    "breakdown",
    "critical_path",
    "idle_causes",
    "memory",
    "overlap",
    "roofline",
    "skew",
    "step_times",
]

BREAKDOWN = {
    "computation_ns": "computation",
    "exposed_communication_ns": "exposed communication",
    "exposed_memory_ns": "exposed copies",
    "exposed_other_ns": "other work",
    "outside_ns": "work of no step",
    "idle_ns": "idle",
}
"""Columns of the table `breakdown`, and their words in a plot."""
IDLE_CAUSES = {
    "host_late_ns": "host late",
    "event_wait_ns": "event wait",
    "launch_call_ns": "launch call",
    "launch_ns": "launch",
    "between_ns": "between rows",
    "unexplained_ns": "no known cause",
}
"""Columns of the table `idle`, and their words in a plot."""
MOST_NODES = 2_000
"""Maximum number of nodes of a critical path to draw; the longest are drawn."""


def step_times(run: Run) -> altair.Chart:
    """Plots the duration of each step on each rank, from the table `steps`."""
    alt = _altair()
    lines = _lines(run, "steps", ["rank", "name", "duration_ns"])
    chart: altair.Chart = (
        alt.Chart(_data(alt, lines), title="Steps")
        .transform_calculate(ms="datum.duration_ns / 1e6")
        .mark_line(point=True)
        .encode(
            x=alt.X("name:N", sort=None, title="step"),
            y=alt.Y("ms:Q", title="ms"),
            color=alt.Color("rank:N"),
            tooltip=["rank:N", "name:N", "ms:Q"],
        )
    )
    return chart


def breakdown(run: Run) -> altair.Chart:
    """Plots the time of each device by activity, from the table `breakdown`. The parts add up to
    the whole time."""
    return _parts(run, "breakdown", BREAKDOWN, "Device time")


def idle_causes(run: Run) -> altair.Chart:
    """Plots the idle time of each device by cause, from the table `idle`."""
    return _parts(run, "idle", IDLE_CAUSES, "Device idle time")


def overlap(run: Run) -> altair.Chart:
    """Plots the share of communication that overlaps with computation, from the table
    `breakdown`."""
    alt = _altair()
    lines = _lines(run, "breakdown", ["rank", "device", "communication_ns", "overlap_share"])
    chart: altair.Chart = (
        alt.Chart(_data(alt, lines), title="Communication during computation")
        .mark_bar()
        .encode(
            x=alt.X("overlap_share:Q", axis=alt.Axis(format="%"), title="overlapped"),
            y=alt.Y("rank:N", title="rank"),
            tooltip=["rank:N", "device:N", "overlap_share:Q", "communication_ns:Q"],
        )
    )
    return chart


def skew(run: Run) -> altair.Chart:
    """Plots the waits for late ranks in each step, from the table `ranks.collectives`. A collective
    counts for the rank that came last."""
    alt = _altair()
    columns = ["step", "last", "kind", "start_ns", "waited_ns"]
    lines = _lines(run, "ranks.collectives", columns)
    chart: altair.Chart = (
        alt.Chart(_data(alt, lines), title="Waiting, by last rank")
        .transform_calculate(waited_ms="datum.waited_ns / 1e6")
        .mark_rect()
        .encode(
            x=alt.X("step:N", sort=None),
            y=alt.Y("last:N", title="last rank"),
            color=alt.Color("sum(waited_ms):Q", title="ms waited"),
            tooltip=["step:N", "last:N", "sum(waited_ms):Q", "count()"],
        )
    )
    return chart


def critical_path(run: Run) -> altair.Chart:
    """Plots the nodes of `run.critical_path()` over time."""
    alt = _altair()
    columns = ["name", "kind", "place", "start_ns", "duration_ns"]
    nodes = run.critical_path().to_pylist()
    # the path of a single trace has no column of ranks
    lines = [{"rank": node.get("rank"), **{column: node[column] for column in columns}} for node in nodes]
    lines = [line for line in lines if line["duration_ns"] > 0]
    if not lines:
        raise Error(f"{run.name}: no node on the critical path takes time")
    # in the order of the path again
    longest = sorted(lines, key=lambda line: -int(line["duration_ns"]))[:MOST_NODES]
    longest.sort(key=lambda line: int(line["start_ns"]))
    begin = longest[0]["start_ns"]
    chart: altair.Chart = (
        alt.Chart(_data(alt, longest), title="Critical path")
        .transform_calculate(
            # numbers of a browser have 53 bits: times are exact to 256 ns
            begin=f"(datum.start_ns - {begin}) / 1e6",
            end=f"(datum.start_ns - {begin} + datum.duration_ns) / 1e6",
        )
        .mark_bar()
        .encode(
            x=alt.X("begin:Q", title="ms"),
            x2="end:Q",
            y=alt.Y("place:N", title=None),
            color=alt.Color("kind:N"),
            tooltip=["rank:N", "name:N", "kind:N", "duration_ns:Q"],
        )
    )
    return chart


def roofline(run: Run) -> altair.Chart:
    """Plots operations per second of ops against operations per byte, from the table `ops`. Ops
    with unknown work are left out."""
    alt = _altair()
    columns = ["rank", "op", "shapes", "kernel", "formula", "count", "sum_ns", "operations"]
    columns += ["bytes", "operations_per_byte", "tflops"]
    lines = _lines(run, "ops", columns)
    known = [line for line in lines if line["operations"] and line["bytes"]]
    chart: altair.Chart = (
        alt.Chart(_data(alt, known), title="Roofline")
        .mark_circle()
        .encode(
            x=alt.X(
                "operations_per_byte:Q", scale=alt.Scale(type="log"), title="operations per byte"
            ),
            y=alt.Y("tflops:Q", scale=alt.Scale(type="log"), title="10¹² operations per second"),
            size=alt.Size("sum_ns:Q"),
            color=alt.Color("formula:N"),
            tooltip=["rank:N", "op:N", "shapes:N", "count:Q", "tflops:Q", "sum_ns:Q"],
        )
    )
    return chart


def memory(run: Run) -> altair.Chart:
    """Plots the allocated memory of each device over time, from the table `memory_timeline`."""
    alt = _altair()
    columns = ["rank", "device_type", "device", "time_ns", "allocated_bytes"]
    lines = _lines(run, "memory_timeline", columns)
    begin = min((line["time_ns"] for line in lines), default=0)
    chart: altair.Chart = (
        alt.Chart(_data(alt, lines), title="Memory")
        .transform_calculate(
            ms=f"(datum.time_ns - {begin}) / 1e6", mib="datum.allocated_bytes / 1048576"
        )
        .mark_line(interpolate="step-after")
        .encode(
            x=alt.X("ms:Q", title="ms"),
            y=alt.Y("mib:Q", title="MiB allocated"),
            color=alt.Color("rank:N"),
            strokeDash=alt.StrokeDash("device:N"),
        )
    )
    return chart


def _parts(run: Run, table: str, parts: dict[str, str], title: str) -> altair.Chart:
    """Plots columns of a table as stacked bars, a bar for each rank; `parts` has their words."""
    alt = _altair()
    lines = _lines(run, table, ["rank", "device", *parts])
    chart: altair.Chart = (
        alt.Chart(_data(alt, lines), title=title)
        .transform_fold(list(parts), as_=["column", "ns"])
        .transform_calculate(ms="datum.ns / 1e6", part=f"({json.dumps(parts)})[datum.column]")
        .mark_bar()
        .encode(
            x=alt.X("ms:Q", title="ms"),
            y=alt.Y("rank:N", title="rank"),
            color=alt.Color("part:N", sort=list(parts.values()), title=None),
            tooltip=["rank:N", "device:N", "part:N", "ms:Q"],
        )
    )
    return chart


def _lines(run: Run, table: str, columns: Sequence[str]) -> list[dict[str, Any]]:
    """Returns these columns of all rows of a table."""
    if not isinstance(run, Run):
        raise TypeError(f"a plot is of a Run, not of {type(run).__name__}")
    lines = run.table(table).to_pylist()
    if not lines:
        remedy = "run.diagnostics lists the missing data of the traces"
        raise Error(f"{run.name}: the table {table} is empty; {remedy}", remedy=remedy)
    return [{column: line[column] for column in columns} for line in lines]


def _data(alt: Any, lines: list[dict[str, Any]]) -> Any:
    # not as a frame, which altair would refuse beyond 5,000 lines
    return alt.Data(values=lines)


def _altair() -> Any:
    try:
        import altair
    except ImportError as error:
        raise missing("etlink.plots", "etlink[plots]", error) from None
    return altair
