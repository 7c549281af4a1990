"""Plots of `etlink.hta` with plotly, if it is installed."""

from __future__ import annotations

import warnings
from typing import Any

Frame = Any


def overlap(frame: Frame) -> None:
    """Plots the overlap of communication with computation, by rank."""
    if (plotly := _plotly()) is not None:
        title = "Computation during communication"
        plotly.bar(frame, x="rank", y="comp_comm_overlap_pctg", title=title).show()


def temporal(frame: Frame) -> None:
    """Plots idle time, computation and the rest, by rank."""
    if (plotly := _plotly()) is not None:
        columns = ["idle_time_pctg", "compute_time_pctg", "non_compute_time_pctg"]
        plotly.bar(frame, x="rank", y=columns, title="Temporal breakdown").show()


def kernel_types(frame: Frame, renderer: str) -> None:
    """Plots time by type of kernel, over all ranks."""
    if (plotly := _plotly()) is not None:
        title = "Kernel types, all ranks"
        figure = plotly.pie(frame, values="percentage", names="kernel_type", title=title)
        figure.show(**_renderer(renderer))


def names(frame: Frame, group: str | None, renderer: str) -> None:
    """Plots sums and means by name, a pair of figures per value of `group`."""
    if (plotly := _plotly()) is None:
        return
    groups = [("annotations", frame)] if group is None else frame.groupby(group)
    for title, part in groups:
        by_rank = plotly.bar(part, x="rank", y="sum (us)", color="name", title=str(title))
        by_rank.show(**_renderer(renderer))
        means = part[part["name"] != "others"]
        mean = plotly.bar(
            means, x="rank", y="mean (us)", color="name", barmode="group", title=str(title)
        )
        mean.show(**_renderer(renderer))


def idle(frame: Frame, rank: int, as_share: bool) -> None:
    """Plots the idle time of each stream by cause."""
    if (plotly := _plotly()) is not None:
        column = "idle_time_ratio" if as_share else "idle_time"
        title = f"Idle time of rank {rank}"
        plotly.bar(frame, x="stream", y=column, color="idle_category", title=title).show()


def launches(frame: Frame, rank: int, runtime_cutoff: int, delay_cutoff: int) -> None:
    """Plots kernels shorter than their calls, long calls, and late kernels."""
    if (plotly := _plotly()) is None:
        return
    is_short = frame["gpu_duration"] < frame["cpu_duration"]
    is_usual = frame["cpu_duration"] <= runtime_cutoff
    figures = [
        ("Kernels shorter than their calls", "cpu_duration", frame[is_short & is_usual]),
        (f"Calls over {runtime_cutoff} us", "cpu_duration", frame[~is_usual]),
        (
            f"Kernels over {delay_cutoff} us late",
            "launch_delay",
            frame[frame["launch_delay"] > delay_cutoff],
        ),
    ]
    for title, column, part in figures:
        plotly.histogram(part, x=column, title=f"{title}, rank {rank}").show()


def _plotly() -> Any:
    try:
        import plotly.express  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError:
        warnings.warn("visualize=True needs plotly: pip install plotly", stacklevel=4)
        return None
    return plotly.express


def _renderer(name: str) -> dict[str, str]:
    # plotly chooses one where none is named
    return {"renderer": name} if name else {}
