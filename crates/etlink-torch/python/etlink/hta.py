"""HolisticTraceAnalysis' class `TraceAnalysis`, on top of etlink's reader.

    from etlink.hta import TraceAnalysis     # instead of: from hta.trace_analysis import ...

    analyzer = TraceAnalysis(trace_dir="traces")
    analyzer.get_temporal_breakdown(visualize=False)

Methods, arguments and frames are those of HTA 0.6.1 (PyPI: `traceinsight`). Figures follow its
definitions, flaws included. Methods that return HTA's own structures are passed to HTA if it is
installed; HTA then reads the traces again, at its own speed. If it is not installed, etlink's own
critical path, sequences and annotations of kernels answer; for the rest an `etlink.Error` names the
alternative.

Needs pandas and pyarrow: `pip install etlink[hta]`. `visualize=True` shows plots if plotly is
installed.
"""

from __future__ import annotations

import gzip
import json
import os
import warnings
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Flag
from typing import Any, cast

from . import _etlink, _hta_plots
from ._error import Error
from ._files import written_beside
from ._hta_path import CriticalPath, overlay_name
from ._results import read_diagnostics
from ._run import open as open_run
from ._table import Table, missing

try:
    # type checkers accept this file without stubs of pandas
    import pandas as pd  # type: ignore[import-untyped, import-not-found, unused-ignore]
    import pyarrow  # type: ignore[import-untyped, import-not-found, unused-ignore]  # noqa: F401
except ImportError as _error:
    raise missing("etlink.hta", "etlink[hta]", _error) from None

__all__ = ["TimeSeriesTypes", "TraceAnalysis"]

DEFAULT_TRACE_DIR = "/tmp/trace"
"""HTA's default."""
MOST_LAUNCHES = 1024
"""Maximum length of a stream's launch queue, according to HTA."""
GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
IDLE_CATEGORIES = ["host_wait", "kernel_wait", "other"]
TIME_COLUMNS = {
    "sum": "sum (us)",
    "max": "max (us)",
    "min": "min (us)",
    "std": "stddev",
    "mean": "mean (us)",
}

Frame = Any
"""A `pandas.DataFrame`: pandas has no types of its own."""


class TimeSeriesTypes(Flag):
    """Counters that `generate_trace_with_counters` adds."""

    QUEUE_LENGTH = 1
    MEMCPY_BANDWIDTH = 2


class TraceAnalysis:
    """HTA's analyses of the traces of a job.

    trace_files: the file of each rank, or a list of files that state their ranks
    trace_dir: the folder of these files; if there are none, all traces in it are read
    include_last_profiler_step: include the last step
    """

    def __init__(
        self,
        trace_files: Mapping[int, str] | Sequence[str] | None = None,
        trace_dir: str = DEFAULT_TRACE_DIR,
        include_last_profiler_step: bool | None = False,
    ) -> None:
        # as in HTA: by default, times are whole microseconds
        exact = os.environ.get("HTA_DISABLE_NS_ROUNDING", "0") == "1"
        self._include_last = bool(include_last_profiler_step)
        files = _trace_files(trace_files, os.fspath(trace_dir))
        is_folder = trace_files is None
        self._handle = _etlink.HtaHandle(files, is_folder, self._include_last, exact)
        self._frames: dict[str, Frame] = {}
        self._hta: Any = None
        for told in read_diagnostics(self._handle.diagnostics):
            # files of a trace, such as copies, have the same codes
            # host traces belong next to device traces
            if told.message.startswith("left out: ") and "(host trace)" not in told.message:
                warnings.warn(str(told), stacklevel=2)

    @property
    def trace_files(self) -> dict[int, str]:
        """File of each rank."""
        return {rank: os.fspath(path) for rank, path in self._handle.files}

    @property
    def t(self) -> Any:
        """HTA's own `Trace` with its frames of events; needs HTA, which reads the traces again."""
        return self._by_hta("t", 'etlink.open(trace).table("events")').t

    def get_comm_comp_overlap(self, visualize: bool = True) -> Frame:
        """Returns the share of communication that overlaps with computation, by rank."""
        frame = self._table("comm_comp_overlap")[["rank", "comp_comm_overlap_pctg"]]
        # if no rank communicates, the column's missing values have the type object
        frame["comp_comm_overlap_pctg"] = frame["comp_comm_overlap_pctg"].astype(float)
        if visualize:
            _hta_plots.overlap(frame)
        return frame

    def get_profiler_steps(self) -> list[int]:
        """Returns the numbers of the profiler's steps."""
        return self._handle.profiler_steps

    def get_potential_stragglers(
        self,
        profiler_steps: list[int] | None = None,
        num_candidates: int = 2,
        visualize: bool = False,
        straggler_identification_impl: Callable[..., Any] | None = None,
    ) -> list[int]:
        """Returns the ranks that start last in the communication whose start times differ most."""
        if visualize or straggler_identification_impl is not None:
            hta = self._by_hta("get_potential_stragglers", 'etlink.open(folder).table("stragglers")')
            more = (straggler_identification_impl,) if straggler_identification_impl else ()
            found = hta.get_potential_stragglers(
                profiler_steps, num_candidates, visualize, *more
            )
            return cast("list[int]", found)
        available = self.get_profiler_steps()
        asked = available if profiler_steps is None else profiler_steps
        steps = [step for step in asked if step in available]
        if not steps:
            # HTA's own exception
            raise ValueError(f"profiler_steps={profiler_steps}: the traces have steps {available}")
        return self._handle.potential_stragglers(steps, max(num_candidates, 1))

    def get_gpu_kernel_breakdown(
        self,
        visualize: bool = True,
        duration_ratio: float = 0.8,
        num_kernels: int = 10,
        include_memory_kernels: bool = True,
        image_renderer: str = "",
    ) -> tuple[Frame, Frame]:
        """Returns time by type of kernel, and by kernel of each rank."""
        if include_memory_kernels:
            types = self._table("kernel_type_breakdown")
        else:
            types = self._kernel_types_without_memory()
        types["sum"] = types["sum"].astype("int64")
        named = self._table("kernel_breakdown")
        if not include_memory_kernels:
            named = named[named["kernel_type"] != "MEMORY"]
        folded = [
            _fold_names(of_type, num_kernels, duration_ratio).assign(kernel_type=kind, rank=rank)
            for (rank, kind), of_type in named.groupby(["rank", "kernel_type"], sort=False)
        ]
        kernels = _join_names(folded, ["kernel_type", "rank"])
        kernels = kernels.sort_values(["kernel_type", "name", "rank"], ignore_index=True)
        if visualize:
            _hta_plots.kernel_types(types, image_renderer)
            _hta_plots.names(kernels, "kernel_type", image_renderer)
        return types, kernels

    def get_gpu_kernels_with_user_annotations(
        self, rank: int, expand_names: bool = True, shorten_names: bool = True
    ) -> Frame | None:
        """Returns the kernels of a rank, each with the innermost annotation around it on its
        stream; None without annotations. Without HTA, names are texts and not shortened."""
        hta = self._hta_itself()
        if hta is not None:
            return hta.get_gpu_kernels_with_user_annotations(rank, expand_names, shorten_names)
        self._known_ranks([rank])
        return _annotated_kernels(_read_json(self.trace_files[rank]), expand_names)

    def get_gpu_user_annotation_breakdown(
        self,
        use_gpu_annotation: bool = True,
        visualize: bool = True,
        duration_ratio: float = 0.8,
        num_kernels: int = 1000,
        allowlist_patterns: list[str] | None = None,
        image_renderer: str | None = None,
    ) -> Frame | None:
        """Returns time by user annotation of each rank; None without annotations."""
        named = self._table("annotations_gpu" if use_gpu_annotation else "annotations_cpu")
        if named.empty:
            return None
        kept = None
        if allowlist_patterns is not None:
            # HTA escapes its so-called patterns, and an empty list matches all
            texts = allowlist_patterns or [""]
            kept = [name for name in named["name"].unique() if any(one in name for one in texts)]
        folded = [
            _fold_names(of_rank, num_kernels, duration_ratio, kept).assign(rank=rank)
            for rank, of_rank in named.groupby("rank", sort=False)
        ]
        frame = _join_names(folded, ["rank"])
        frame = frame.sort_values(["rank", "name"], ignore_index=True)
        if visualize:
            _hta_plots.names(frame, None, image_renderer or "")
        return frame

    def get_temporal_breakdown(self, visualize: bool = True) -> Frame:
        """Returns idle time, computation time and other time of each rank."""
        frame = self._table("temporal_breakdown")
        if visualize:
            _hta_plots.temporal(frame)
        return frame

    def get_frequent_cuda_kernel_sequences(
        self,
        operator_name: str,
        output_dir: str,
        min_pattern_len: int = 3,
        rank: int = 0,
        top_k: int = 5,
        visualize: bool = False,
        compress_other_kernels: bool = True,
    ) -> Frame:
        """Returns the most frequent sequences of kernels that ops launch. HTA also writes a trace
        with them."""
        hta = self._hta_itself()
        if hta is None:
            return self._kernel_sequences(operator_name, min_pattern_len, rank)
        return hta.get_frequent_cuda_kernel_sequences(
            operator_name,
            output_dir,
            min_pattern_len,
            rank,
            top_k,
            visualize,
            compress_other_kernels,
        )

    def get_aten_op_kernels_and_delay(
        self, ranks: list[int] | None = None, sort_by: list[str] | None = None
    ) -> dict[int, Frame]:
        """Returns HTA's ops with the kernels that they launch; needs HTA."""
        hta = self._by_hta("get_aten_op_kernels_and_delay", 'etlink.open(trace).table("op_launches")')
        return cast("dict[int, Frame]", hta.get_aten_op_kernels_and_delay(ranks, sort_by))

    def get_cuda_kernel_launch_stats(
        self,
        ranks: list[int] | None = None,
        runtime_cutoff: int = 50,
        launch_delay_cutoff: int = 100,
        include_memory_events: bool = True,
        visualize: bool = True,
    ) -> dict[int, Frame]:
        """Returns the durations of call and kernel, and the delay of the kernel, per launch."""
        columns = ["correlation", "cpu_duration", "gpu_duration", "launch_delay"]
        launches = self._table("launches")
        if not include_memory_events:
            launches = launches[~launches["is_memory"].astype(bool)]
        stats = {}
        for rank in self._known_ranks(ranks):
            of_rank = launches[launches["rank"] == rank]
            stats[rank] = of_rank[columns].reset_index(drop=True)
            if visualize:
                _hta_plots.launches(stats[rank], rank, runtime_cutoff, launch_delay_cutoff)
        return stats

    def generate_trace_with_counters(
        self,
        time_series: TimeSeriesTypes | None = None,
        ranks: list[int] | None = None,
        output_suffix: str = "_with_counters",
    ) -> None:
        """Writes a copy of each rank's trace with queue lengths and copy bandwidths next to it."""
        if time_series is None:
            time_series = TimeSeriesTypes.QUEUE_LENGTH | TimeSeriesTypes.MEMCPY_BANDWIDTH
        begin = self._table("extent")["first_start"].min()
        suffix = output_suffix or "_with_counters"
        files = self.trace_files
        for rank in self._known_ranks(ranks):
            output = _output_beside(files[rank], suffix, list(files.values()))
            counters = []
            if TimeSeriesTypes.QUEUE_LENGTH in time_series:
                queues = self.get_queue_length_time_series([rank]).get(rank)
                counters += _counter_events(queues, "Queue Length", "queue_length", begin)
            if TimeSeriesTypes.MEMCPY_BANDWIDTH in time_series:
                copies = self.get_memory_bw_time_series([rank]).get(rank)
                counters += _counter_events(copies, "Memcpy BW", "memory_bw_gbps", begin)
            trace = _read_json(self.trace_files[rank])
            trace["traceEvents"].extend(counters)
            self.write_raw_trace(output, trace)

    def write_raw_trace(self, output_file: str, trace_contents: dict[str, Any]) -> None:
        """Writes a trace, compressed. As in HTA, a file of this name is replaced, but only when the
        new one is complete."""
        try:
            with written_beside(output_file, overwrite=True) as beside:
                with gzip.open(beside, "wt", encoding="utf-8") as out:
                    json.dump(trace_contents, out)
        except OSError as error:
            message = f"cannot write {output_file}: {error.strerror}"
            raise Error(message, file=output_file) from None

    def get_queue_length_summary(self, ranks: list[int] | None = None) -> Frame | None:
        """Returns statistics of queue lengths, by rank and stream."""
        return self.get_queue_length_summary_from_time_series(
            self.get_queue_length_time_series(ranks)
        )

    def get_queue_length_summary_from_time_series(
        self, queue_length_dict: dict[int, Frame]
    ) -> Frame | None:
        """Returns these statistics for a result of `get_queue_length_time_series`."""
        return _describe(queue_length_dict, "stream", "queue_length")

    def get_queue_length_time_series(self, ranks: list[int] | None = None) -> dict[int, Frame]:
        """Returns the number of launches that wait in each stream, from each change to the next."""
        columns = ["ts", "pid", "tid", "stream", "queue_length"]
        return self._series("queue_length_series", columns, ranks)

    def get_time_spent_blocked_on_full_queue(
        self, queue_length_dict: dict[int, Frame], max_queue_length: int = MOST_LAUNCHES
    ) -> Frame | None:
        """Returns the time in which a stream's queue is full. For several such streams of a rank,
        only the last is returned."""
        extent = self._table("extent").set_index("rank")
        lines = {}
        for rank, lengths in queue_length_dict.items():
            for stream, of_stream in lengths.groupby("stream", sort=False):
                until_next = of_stream["ts"].shift(-1) - of_stream["ts"]
                full = until_next[of_stream["queue_length"] >= max_queue_length]
                if not full.empty:
                    time = full.sum()
                    share = time / extent.loc[rank, "duration"]
                    lines[rank] = [rank, stream, time, share]
        columns = [
            "rank",
            "stream",
            "duration_at_max_queue_length",
            "relative_duration_at_max_queue_length",
        ]
        return pd.DataFrame(list(lines.values()), columns=columns)

    def get_memory_bw_summary(self, ranks: list[int] | None = None) -> Frame | None:
        """Returns statistics of copy bandwidth, by rank and kind."""
        series = self.get_memory_bw_time_series(ranks)
        moving = {rank: frame[frame["memory_bw_gbps"] > 0] for rank, frame in series.items()}
        return _describe(moving, "name", "memory_bw_gbps")

    def get_memory_bw_time_series(self, ranks: list[int] | None = None) -> dict[int, Frame]:
        """Returns the bandwidth of copies of each kind in GB/s, from each change to the next."""
        return self._series("memory_bw_series", ["ts", "pid", "name", "memory_bw_gbps"], ranks)

    def get_idle_time_breakdown(
        self,
        ranks: list[int] | None = None,
        streams: list[int] | None = None,
        visualize: bool = True,
        visualize_pctg: bool = True,
        show_idle_interval_stats: bool = False,
        consecutive_kernel_delay: int = 30,
    ) -> tuple[Frame, Frame | None]:
        """Returns idle time of streams by cause: host wait, kernel wait, or other."""
        breakdowns, statistics = [], []
        for rank in self._known_ranks(ranks):
            gaps = self._idle_gaps(rank, streams, consecutive_kernel_delay)
            breakdown = _idle_breakdown(gaps, rank)
            if visualize:
                # the column then has strings in HTA's frames, too
                breakdown["stream"] = breakdown["stream"].astype(str)
                _hta_plots.idle(breakdown, rank, visualize_pctg)
            breakdowns.append(breakdown)
            if show_idle_interval_stats:
                statistics.append(_idle_statistics(gaps, rank))
        return pd.concat(breakdowns), pd.concat(statistics) if statistics else None

    def get_cupti_counter_data_with_operators(self, ranks: list[int] | None = None) -> list[Frame]:
        """Returns CUPTI's counters of each kernel, with the ops that launched it; a frame per
        rank."""
        counters = self._table("cupti_counters")
        frames = []
        for rank in self._known_ranks(ranks):
            of_rank = counters[counters["rank"] == rank]
            if of_rank.empty:
                continue
            head = of_rank.drop_duplicates("kernel").set_index("kernel")
            head = head[["name", "ts", "dur", "op_stack", "top_level_op", "bottom_level_op"]]
            head.insert(0, "cat", "cuda_profiler_range")
            head["op_stack"] = head["op_stack"].str.split(" > ", regex=False)
            values = of_rank.pivot(index="kernel", columns="counter", values="value")
            frame = head.join(values).reset_index(drop=True)
            frame.columns.name = None
            frames.append(frame)
        return frames

    def critical_path_analysis(
        self,
        rank: int,
        annotation: str,
        instance_id: int | tuple[int, int] | None,
        data_load_events: list[str] | None = None,
    ) -> Any:
        """Returns the critical path within instances of an annotation, and true if there is one: HTA's
        graph, or without HTA a `CriticalPath` by etlink's rules."""
        hta = self._hta_itself()
        if hta is not None:
            return hta.critical_path_analysis(rank, annotation, instance_id, data_load_events)
        self._known_ranks([rank])
        first = 0 if instance_id is None else instance_id
        instances = first if isinstance(first, tuple) else (first, first)
        patterns = data_load_events or []
        path = CriticalPath(self.trace_files[rank], annotation, instances, patterns)
        return path, path.critical_path()

    def overlay_critical_path_analysis(
        self,
        rank: int,
        critical_path_graph: Any,
        output_dir: str,
        only_show_critical_events: bool = True,
        show_all_edges: bool = False,
    ) -> str:
        """Writes a trace with the critical path, and returns its file."""
        if isinstance(critical_path_graph, CriticalPath):
            trace = {} if only_show_critical_events else _read_json(self.trace_files[rank])
            return critical_path_graph.overlay(trace, overlay_name(self.trace_files[rank], output_dir))
        hta = self._by_hta("overlay_critical_path_analysis", "etlink.open(trace).timeline(path)")
        path = hta.overlay_critical_path_analysis(
            rank, critical_path_graph, output_dir, only_show_critical_events, show_all_edges
        )
        return str(path)

    def _by_hta(self, method: str, instead: str) -> Any:
        """Returns HTA's own object of the same traces. `instead` is etlink's alternative."""
        hta = self._hta_itself()
        if hta is None:
            remedy = f"use {instead}, or: pip install traceinsight"
            raise Error(f"{method} is HTA's own, which is not installed; {remedy}", remedy=remedy)
        return hta

    def _hta_itself(self) -> Any:
        """Returns HTA's own object of the same traces; None if HTA is not installed."""
        if self._hta is None:
            try:
                from hta.trace_analysis import (  # type: ignore[import-not-found, unused-ignore]
                    TraceAnalysis as Original,
                )
            except ImportError:
                return None
            self._hta = Original(dict(self.trace_files), "", self._include_last)
        return self._hta

    def _kernel_sequences(self, operator_name: str, least: int, rank: int) -> Frame:
        self._known_ranks([rank])
        with open_run(self.trace_files[rank], overhead="keep") as run:
            frame = run.table("sequences", sequences_of=operator_name).to_pandas()
        frame = frame[frame["rows"] >= least]
        patterns = frame["op"] + "|" + frame["names"].str.replace(" | ", "|", regex=False)
        found = pd.DataFrame(
            {
                "pattern": patterns,
                "count": frame["count"],
                "GPU kernel duration (us)": frame["device_ns"] / 1e3,
                "CPU op duration (us)": frame["op_ns"] / 1e3,
            }
        )
        order = {"by": ["count", "pattern"], "ascending": [False, True]}
        return found.sort_values(**order, ignore_index=True)

    def _table(self, name: str) -> Frame:
        """Returns a copy of a table, because callers may change it."""
        if name not in self._frames:
            self._frames[name] = Table(self._handle.table(name)).to_pandas()
        return self._frames[name].copy()

    def _series(
        self, name: str, columns: list[str], ranks: list[int] | None
    ) -> dict[int, Frame]:
        """Returns samples by rank, without ranks that have none."""
        samples = self._table(name)
        series = {rank: samples[samples["rank"] == rank] for rank in self._known_ranks(ranks)}
        return {
            rank: frame[columns].reset_index(drop=True)
            for rank, frame in series.items()
            if not frame.empty
        }

    def _known_ranks(self, ranks: list[int] | None) -> list[int]:
        """Returns the requested ranks; HTA's default is rank 0."""
        asked = list(ranks) if ranks else [0]
        for rank in asked:
            if rank not in self.trace_files:
                # HTA's own exception
                names = ", ".join(map(str, self.trace_files))
                raise ValueError(f"no trace of rank {rank}; the ranks are {names}")
        return asked

    def _kernel_types_without_memory(self) -> Frame:
        of_ranks = self._table("kernel_types_without_memory")
        types = of_ranks.groupby("kernel_type", as_index=False)["sum"].sum()
        types = types.sort_values("sum", ascending=False, ignore_index=True)
        types["percentage"] = (types["sum"] / types["sum"].sum() * 100).round(1)
        return types

    def _idle_gaps(self, rank: int, streams: list[int] | None, delay: int) -> Frame:
        """Returns the gaps of a rank with their causes. The first row of a stream has a cause but no
        gap."""
        gaps = self._table("idle_intervals")
        gaps = gaps[gaps["rank"] == rank]
        if streams:
            gaps = gaps[gaps["stream"].isin(streams)]
        interval = gaps["idle_interval"].astype(float)
        category = pd.Series("other", index=gaps.index)
        category[interval < delay] = "kernel_wait"
        category[gaps["host_wait"].astype(bool)] = "host_wait"
        return gaps.assign(idle_interval=interval, idle_category=category)


def _trace_files(
    trace_files: Mapping[int, str] | Sequence[str] | None, trace_dir: str
) -> list[tuple[int | None, str]]:
    if trace_files is None:
        try:
            names = sorted(os.listdir(trace_dir))
        except OSError as error:
            remedy = "trace_dir= is a folder; give files as trace_files="
            message = f"cannot read {trace_dir}: {error.strerror}; {remedy}"
            raise Error(message, file=trace_dir, remedy=remedy) from None
        found = [name for name in names if name.endswith((".gz", ".json", ".zst"))]
        if not found:
            remedy = "traces are named *.json, *.gz or *.zst; give others as trace_files="
            raise Error(f"{trace_dir} has no traces; {remedy}", file=trace_dir, remedy=remedy)
        return [(None, os.path.join(trace_dir, name)) for name in found]
    pairs: Iterable[tuple[int | None, str]]
    if isinstance(trace_files, Mapping):
        pairs = trace_files.items()
    elif isinstance(trace_files, (str, os.PathLike)):
        raise TypeError("trace_files is a dict or a list of files")
    else:
        pairs = ((None, name) for name in trace_files)
    given = [(rank, os.fspath(name)) for rank, name in pairs]
    if not given:
        raise Error("trace_files has no file; give a dict of ranks and files")
    files = [
        (rank, name if name.startswith((trace_dir, "/")) else os.path.join(trace_dir, name))
        for rank, name in given
    ]
    for (_, name), (_, path) in zip(given, files):
        if name != path and not os.path.exists(path):
            remedy = f"names in trace_files= count from trace_dir={trace_dir!r}"
            raise Error(f"cannot open {path}: no such file; {remedy}", file=path, remedy=remedy)
    return files


def _fold_names(
    named: Frame, num_kernels: int, duration_ratio: float, kept: Iterable[str] | None = None
) -> Frame:
    """Folds names into HTA's `others`: those beyond the first `num_kernels`, and those whose running
    sum is above its own quantile. As in HTA, all figures are then of sums. Without names to keep,
    those with a sum below 0, due to rounding, are kept."""
    columns = ["name", *TIME_COLUMNS.values()]
    if len(named) <= num_kernels:
        return named[columns]
    named = named.sort_values("sum (us)", ascending=False, ignore_index=True, kind="stable")
    running = named["sum (us)"].cumsum()
    folds = (running > running.quantile(duration_ratio)) | (named.index >= num_kernels)
    folds &= named["sum (us)"] >= 0 if kept is None else ~named["name"].isin(list(kept))
    names = named["name"].mask(folds, "others")
    sums = named["sum (us)"].groupby(names).agg(list(TIME_COLUMNS))
    return sums.fillna({"std": 0.0}).rename(columns=TIME_COLUMNS).reset_index()[columns]


def _join_names(frames: list[Frame], more: list[str]) -> Frame:
    columns = ["name", *TIME_COLUMNS.values(), *more]
    order = ["name", "sum (us)", "max (us)", "min (us)", "stddev", "mean (us)", *more]
    joined = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=columns)
    return joined[order]


def _describe(series: dict[int, Frame], key: str, value: str) -> Frame | None:
    described = [
        frame.assign(rank=rank)[["rank", key, value]].groupby(["rank", key]).describe()
        for rank, frame in series.items()
    ]
    return pd.concat(described) if described else None


def _idle_breakdown(gaps: Frame, rank: int) -> Frame:
    sums = gaps.groupby(["stream", "idle_category"])["idle_interval"].sum()
    whole = sums.groupby("stream").transform("sum")
    frame = pd.DataFrame({"idle_time": sums, "idle_time_ratio": sums / whole}).reset_index()
    frame.insert(0, "rank", rank)
    return frame.round(2)


def _idle_statistics(gaps: Frame, rank: int) -> Frame:
    frame = gaps.groupby(["stream", "idle_category"])["idle_interval"].describe()
    frame = frame.reset_index("stream")
    frame.insert(0, "rank", rank)
    return frame.round(2)


def _counter_events(
    series: Frame | None, name: str, column: str, begin: float
) -> list[dict[str, Any]]:
    """Returns samples as counters of Chrome's trace format, on the clock of the file."""
    if series is None:
        return []
    events = []
    for sample in series.to_dict("records"):
        event = {
            "ph": "C",
            "name": sample.get("name", name),
            "pid": sample["pid"],
            "ts": sample["ts"] + begin,
            "args": {name: sample[column]},
        }
        if "stream" in sample:
            event["id"] = sample["stream"]
        events.append(event)
    return events


def _annotated_kernels(trace: dict[str, Any], expand_names: bool) -> Frame | None:
    """Returns the kernels of a trace with their annotations; None without annotations."""
    kinds = {"kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation"}
    rows = [event for event in trace["traceEvents"] if event.get("cat") in kinds]
    frame = pd.DataFrame(rows, columns=["cat", "name", "pid", "tid", "ts", "dur", "args"])
    arguments = [args if isinstance(args, dict) else {} for args in frame.pop("args")]
    for field in ["stream", "correlation"]:
        frame[field] = [args.get(field, -1) for args in arguments]
    frame[["ts", "dur"]] = frame[["ts", "dur"]].astype(float)
    frame["end"] = frame["ts"] + frame["dur"]
    is_annotation = frame["cat"] == "gpu_user_annotation"
    annotations = frame[is_annotation].sort_values("dur", ascending=False)
    if annotations.empty:
        return None
    kernels = frame[~is_annotation].reset_index(drop=True)
    kernels["user_annotation"] = None
    # the shortest is last, and remains
    for row in annotations.itertuples():
        on_track = (kernels["pid"] == row.pid) & (kernels["tid"] == row.tid)
        overlaps = on_track & (kernels["ts"] < row.end) & (kernels["end"] > row.ts)
        kernels.loc[overlaps, "user_annotation"] = row.name
    if expand_names:
        kernels["s_name"], kernels["s_user_annotation"] = kernels["name"], kernels["user_annotation"]
    return kernels


def _output_beside(path: str, suffix: str, traces: Iterable[str]) -> str:
    """Returns the path of a trace with counters: next to the trace, and never one of `traces`."""
    folder, name = os.path.split(path)
    stem, ending, packing = name.rpartition(".json")
    if not ending:
        # traces are recognized by their content, and may have any name
        stem, ending, packing = name.removesuffix(".gz"), ".json", ".gz"
    output_name = f"{stem}{suffix}{ending}{packing}"
    remedy = "give another output_suffix="
    if os.path.basename(output_name) != output_name:
        raise Error(f"{suffix} is not allowed in a file name; {remedy}", remedy=remedy)
    output = os.path.join(folder, output_name)
    if os.path.exists(output) and any(os.path.samefile(output, trace) for trace in traces):
        message = f"{output} is an input trace that would be replaced; {remedy}"
        raise Error(message, file=output, remedy=remedy)
    return output


def _read_json(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            begin = file.read(4)
        if begin == ZSTD_MAGIC:
            remedy = "unpack it with zstd -d"
            message = f"{path} is packed with zstd, of which no changed copy is made; {remedy}"
            raise Error(message, file=path, remedy=remedy)
        open_text = gzip.open if begin.startswith(GZIP_MAGIC) else open
        with open_text(path, "rt", encoding="utf-8") as text:
            trace = json.load(text)
    # a truncated gzip file raises EOFError
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise Error(f"{path} is not JSON: {error}", file=path) from None
    if isinstance(trace, list):
        return {"traceEvents": trace}
    return cast("dict[str, Any]", trace)
