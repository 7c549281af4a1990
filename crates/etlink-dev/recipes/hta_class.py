"""`etlink.hta.TraceAnalysis` against HTA's own class: the same calls on the same traces.

    hta_class.py TRACES

Each trace of the folder TRACES, and each folder in it with several traces. Frames have to be equal
with their indexes and the order of their lines, but for what `like` below gives away. Integers
need not be of one width: HTA takes the least that holds a trace's numbers, and times are integers
or not as the file writes them.
"""

import contextlib
import functools
import io
import logging
import os
import sys
import warnings

import numpy
import pandas

# HTA logs what it loads
logging.disable(logging.CRITICAL)
warnings.simplefilter("ignore")

import hta.trace_analysis as original  # noqa: E402

import etlink.hta as ours  # noqa: E402

QUIET = {"visualize": False}
CALLS = [
    ("get_profiler_steps", {}),
    ("get_potential_stragglers", {}),
    ("get_potential_stragglers", {"num_candidates": 1}),
    ("get_comm_comp_overlap", QUIET),
    ("get_temporal_breakdown", QUIET),
    ("get_gpu_kernel_breakdown", QUIET),
    ("get_gpu_kernel_breakdown", {**QUIET, "include_memory_kernels": False}),
    ("get_gpu_kernel_breakdown", {**QUIET, "num_kernels": 3, "duration_ratio": 0.5}),
    ("get_gpu_kernel_breakdown", {**QUIET, "num_kernels": 10_000}),
    ("get_gpu_user_annotation_breakdown", QUIET),
    ("get_gpu_user_annotation_breakdown", {**QUIET, "use_gpu_annotation": False}),
    (
        "get_gpu_user_annotation_breakdown",
        {
            **QUIET,
            "use_gpu_annotation": False,
            "num_kernels": 2,
            "allowlist_patterns": ["Optimizer", "Profiler"],
        },
    ),
    ("get_cuda_kernel_launch_stats", QUIET),
    ("get_cuda_kernel_launch_stats", {**QUIET, "include_memory_events": False}),
    ("get_queue_length_time_series", {}),
    ("get_queue_length_summary", {}),
    ("get_memory_bw_time_series", {}),
    ("get_memory_bw_summary", {}),
    ("get_idle_time_breakdown", QUIET),
    (
        "get_idle_time_breakdown",
        {**QUIET, "show_idle_interval_stats": True, "consecutive_kernel_delay": 5},
    ),
    ("get_cupti_counter_data_with_operators", {}),
]
# lines have no order in HTA where it sorts by one of these alone
SORTED_BY = {
    "get_gpu_kernel_breakdown": ["sum"],
    "get_cuda_kernel_launch_stats": ["correlation", "gpu_duration"],
    "get_idle_time_breakdown": ["rank", "stream", "idle_category"],
    "get_queue_length_time_series": ["stream", "ts", "queue_length"],
    "get_cupti_counter_data_with_operators": [],
    "get_memory_bw_time_series": ["name", "ts", "memory_bw_gbps"],
}


def main(folder: str) -> int:
    # HTA sorts unstably: where times are equal, what it says depends on the processor
    for kind in (pandas.DataFrame, pandas.Series):
        kind.sort_values = functools.partialmethod(kind.sort_values, kind="stable")
    counts = {"equal": 0, "but for order": 0, "HTA fails": 0, "differ": 0}
    for name, files in traces_of(folder):
        theirs = make(original, files)
        mine = make(ours, files)
        for method, arguments in CALLS:
            if isinstance(theirs, Exception):
                counts["HTA fails"] += 1
                print(f"{name:34} {method:40} HTA fails: {type(theirs).__name__}")
                break
            wanted = answer(theirs, method, arguments)
            found = mine if isinstance(mine, Exception) else answer(mine, method, arguments)
            verdict, why = compare(method, wanted, found)
            counts[verdict] += 1
            if verdict != "equal":
                said = {key: value for key, value in arguments.items() if key != "visualize"}
                print(f"{name:34} {method:40} {verdict}{why} {said or ''}")
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
    return 1 if counts["differ"] else 0


def traces_of(folder: str):
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.is_file() and entry.name.endswith((".json", ".json.gz")):
            yield entry.name, {0: entry.path}
        elif entry.is_dir():
            inside = [name for name in sorted(os.listdir(entry.path)) if is_trace(name)]
            paths = [os.path.join(entry.path, name) for name in inside]
            for path in paths:
                yield os.path.relpath(path, folder), {0: path}
            if len(paths) > 1:
                yield f"{entry.name}/*", dict(enumerate(paths))


def is_trace(name: str) -> bool:
    return name.endswith((".json", ".json.gz"))


def make(module, files: dict):
    try:
        return module.TraceAnalysis(trace_files=dict(files), trace_dir="/")
    except BaseException as error:
        return error


def answer(analyzer, method: str, arguments: dict):
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            return getattr(analyzer, method)(**arguments)
    except BaseException as error:
        return error


def compare(method: str, wanted, found) -> tuple[str, str]:
    if isinstance(wanted, BaseException):
        return "HTA fails", f": {type(wanted).__name__}"
    if isinstance(found, BaseException):
        return "differ", f": {type(found).__name__}: {found}"
    try:
        same(wanted, found)
        return "equal", ""
    except AssertionError as exact:
        try:
            same(like(method, wanted), like(method, found))
            return "but for order", ""
        except (AssertionError, KeyError) as error:
            lines = str(error or exact).strip().splitlines()
            return "differ", ": " + " ".join(line.strip() for line in lines)[:300]


def like(method: str, value):
    """Without the order of lines, where HTA's is that of the file or of an unstable sort; without
    the numbers of events in the file, which etlink does not keep."""
    if isinstance(value, dict):
        return {key: like(method, one) for key, one in value.items()}
    if isinstance(value, (tuple, list)):
        return type(value)(like(method, one) for one in value)
    if not isinstance(value, pandas.DataFrame) or method not in SORTED_BY:
        return value
    if method == "get_cupti_counter_data_with_operators":
        # HTA's frame also has what the events of any trace have
        known = ["cat", "name", "ts", "dur", "op_stack", "top_level_op", "bottom_level_op"]
        counters = [column for column in value.columns if "__" in column]
        return value[[*known, *sorted(counters)]].reset_index(drop=True)
    if value.index.name != "idle_category":
        value = value.reset_index(drop=True)
    if method == "get_queue_length_time_series":
        # an MTIA's rows have another `tid`
        value = value.assign(tid=value["stream"])
    keys = [key for key in SORTED_BY[method] if key in value.columns]
    if keys and value.index.name is None:
        more = [column for column in value.columns if column not in keys]
        return value.sort_values(keys + more, ignore_index=True)
    if value.index.name == "idle_category":
        value = value.reset_index()
        return value.sort_values(["rank", "stream", "idle_category"], ignore_index=True)
    return value


def same(wanted, found) -> None:
    if isinstance(wanted, pandas.DataFrame):
        assert isinstance(found, pandas.DataFrame), f"{type(found).__name__}, not a frame"
        loosely = {"check_dtype": False, "check_index_type": False, "check_column_type": False}
        pandas.testing.assert_frame_equal(
            wanted.infer_objects(), found.infer_objects(), rtol=1e-9, atol=1e-9, **loosely
        )
    elif isinstance(wanted, dict):
        assert isinstance(found, dict) and list(wanted) == list(found), f"{list(found)}"
        for key in wanted:
            same(wanted[key], found[key])
    elif isinstance(wanted, (tuple, list)):
        assert type(wanted) is type(found) and len(wanted) == len(found), f"{found}, not {wanted}"
        for one, other in zip(wanted, found):
            same(one, other)
    elif isinstance(wanted, (int, numpy.integer)) and isinstance(found, (int, numpy.integer)):
        assert int(wanted) == int(found), f"{found}, not {wanted}"
    else:
        assert wanted == found, f"{found}, not {wanted}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
