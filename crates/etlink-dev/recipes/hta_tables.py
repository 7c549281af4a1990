"""Asks HolisticTraceAnalysis (traceinsight) for its tables of all Kineto traces of a folder.

Usage: hta_tables.py TRACES RESULTS. Files whose names differ in digits alone are also asked together, as the ranks of a job.
Leaves RESULTS/NAME/TABLE[_last|_ns].csv (`_last`: with the last profiler step, `_ns`: times as they are), `.none` where HTA
gives nothing, `.error` where it fails, and the traces' names in traces.json. HTA sorts unstably: where times are equal,
what it says depends on the processor. What it says with a stable sort is in TABLE…_stable where it is something else.
"""
import functools
import gzip
import json
import logging
import multiprocessing
import re
import shutil
import sys
import traceback
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pandas
from hta.configs.env_options import HTAEnvOptions
from hta.trace_analysis import TraceAnalysis

STOCK = [(kind, kind.sort_values) for kind in (pandas.DataFrame, pandas.Series)]


def by_rank(tables: dict) -> pandas.DataFrame:
    return pandas.concat(tables.values()) if tables else None


def steps(analysis: TraceAnalysis) -> pandas.DataFrame:
    return pandas.DataFrame({"step": analysis.get_profiler_steps()})


def stragglers(analysis: TraceAnalysis) -> pandas.DataFrame:
    return pandas.DataFrame({"straggler": analysis.get_potential_stragglers()})


def series(tables: dict, columns: list) -> pandas.DataFrame:
    return by_rank({rank: table.assign(rank=rank)[["rank", *columns]] for rank, table in tables.items()})


def counters(analysis: TraceAnalysis, ranks: list) -> pandas.DataFrame:
    kernels = analysis.get_cupti_counter_data_with_operators(ranks)
    if not kernels:
        return None
    lines = []
    for rank, table in zip(ranks, kernels):
        table = table.assign(rank=rank, kernel=range(len(table)), op_stack=table.op_stack.map(" > ".join))
        known = ["rank", "kernel", "ts", "dur", "name", "op_stack", "top_level_op", "bottom_level_op"]
        counted = [column for column in table.columns if "__" in column]
        lines.append(table.melt(known, counted, "counter", "value"))
    return pandas.concat(lines)


def full_queue(analysis: TraceAnalysis, ranks: list) -> pandas.DataFrame:
    return analysis.get_time_spent_blocked_on_full_queue(analysis.get_queue_length_time_series(ranks))


TABLES = {
    "temporal_breakdown": lambda a, ranks: a.get_temporal_breakdown(visualize=False),
    "comm_comp_overlap": lambda a, ranks: a.get_comm_comp_overlap(visualize=False),
    "kernel_type_breakdown": lambda a, ranks: a.get_gpu_kernel_breakdown(visualize=False)[0],
    "kernel_breakdown": lambda a, ranks: a.get_gpu_kernel_breakdown(visualize=False, num_kernels=10**9, duration_ratio=1.0)[1],
    "kernel_breakdown_top10": lambda a, ranks: a.get_gpu_kernel_breakdown(visualize=False)[1],
    "user_annotation_breakdown_gpu": lambda a, ranks: a.get_gpu_user_annotation_breakdown(visualize=False),
    "user_annotation_breakdown_cpu": lambda a, ranks: a.get_gpu_user_annotation_breakdown(use_gpu_annotation=False, visualize=False),
    "idle_time_breakdown": lambda a, ranks: a.get_idle_time_breakdown(ranks, visualize=False)[0],
    "cuda_kernel_launch_stats": lambda a, ranks: by_rank(a.get_cuda_kernel_launch_stats(ranks, visualize=False)),
    "queue_length_summary": lambda a, ranks: a.get_queue_length_summary(ranks),
    "blocked_on_full_queue": full_queue,
    "memory_bw_summary": lambda a, ranks: a.get_memory_bw_summary(ranks),
    "queue_length_series": lambda a, ranks: series(a.get_queue_length_time_series(ranks), ["ts", "stream", "queue_length"]),
    "memory_bw_series": lambda a, ranks: series(a.get_memory_bw_time_series(ranks), ["ts", "name", "memory_bw_gbps"]),
    "cupti_counters": counters,
    "profiler_steps": lambda a, ranks: steps(a),
    "potential_stragglers": lambda a, ranks: stragglers(a),
}


def answer(ask, stable: bool) -> tuple[str, str]:
    for kind, sort_values in STOCK:
        kind.sort_values = functools.partialmethod(sort_values, kind="stable") if stable else sort_values
    try:
        table = ask()
    except Exception:
        return "error", traceback.format_exc()
    if table is None:
        return "none", ""
    if isinstance(table.columns, pandas.MultiIndex):
        table = table.reset_index()
        table.columns = ["_".join(column).rstrip("_") for column in table.columns]
    return "csv", table.to_csv(index=False)


def ask(job: tuple[Path, Path, str, list[str]]) -> str:
    traces, results, name, files = job
    folder = results / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "traces.json").write_text(json.dumps(files))
    for how in ("", "_last", "_ns"):
        HTAEnvOptions.instance().set_disable_ns_rounding(how == "_ns")
        try:
            analysis = TraceAnalysis([str(traces / file) for file in files], include_last_profiler_step=how == "_last")
        except Exception:
            (folder / f"load{how}.error").write_text(traceback.format_exc())
            continue
        ranks = sorted(analysis.t.traces)
        if len(ranks) < len(files):
            # files of one rank are no job
            shutil.rmtree(folder)
            break
        for table, of in TABLES.items():
            stock, stable = (answer(lambda: of(analysis, ranks), stable) for stable in (False, True))
            (folder / f"{table}{how}.{stock[0]}").write_text(stock[1])
            if stock[0] != stable[0] or stock[1] != stable[1] and stable[0] == "csv":
                (folder / f"{table}{how}_stable.{stable[0]}").write_text(stable[1])
    return name


def is_kineto(file: Path) -> bool:
    with (gzip.open if file.suffix == ".gz" else open)(file, "rb") as opened:
        return b'"traceEvents"' in opened.read(1 << 20)


def jobs(traces: Path, results: Path) -> list[tuple[Path, Path, str, list[str]]]:
    files = sorted(file for file in traces.rglob("*.json*") if file.suffix in (".json", ".gz") and is_kineto(file))
    named = [str(file.relative_to(traces)) for file in files]
    alike: dict[str, list[str]] = {}
    for file in named:
        alike.setdefault(re.sub(r"\d+", "#", file), []).append(file)
    groups = {file: [file] for file in named} | {name: files for name, files in alike.items() if len(files) > 1}
    return [(traces, results, re.sub(r"\.json(\.gz)?$", "", name).replace("/", "--"), files) for name, files in groups.items()]


if __name__ == "__main__":
    traces, results = (Path(argument).resolve() for argument in sys.argv[1:])
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, spawn, logging.disable, [logging.CRITICAL], max_tasks_per_child=1) as pool:
        for name in pool.map(ask, jobs(traces, results)):
            print(name, flush=True)
