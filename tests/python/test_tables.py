"""Every table of every recorded run, through four readers, against what the command prints."""

from __future__ import annotations

import json
import math
import operator
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pandas
import polars
import pyarrow
import pytest
from conftest import PAIRS, run_etlink
from pyarrow import parquet

import etlink

RUNS = sorted(path.name for path in PAIRS.iterdir() if path.is_dir())
PARQUET = ["events", "nodes", "edges", "collectives", "kernel_metrics"]
ANALYZE = {
    name: name.removeprefix("analyze.")
    for name in etlink.open(PAIRS / RUNS[0]).tables
    if name not in ["findings", "top", "ops", *PARQUET] and not name.startswith("ranks.")
}
"""Names of the tables of `analyze`, and what `analyze` calls them."""


def flat(record: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """A record of JSON as a line: objects as columns, lists as their JSON."""
    line: dict[str, Any] = {}
    for name, value in record.items():
        if isinstance(value, dict):
            line |= flat(value, f"{prefix}{name}.")
        elif isinstance(value, list):
            line[prefix + name] = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
        else:
            line[prefix + name] = value
    return line


def same_line(line: dict[str, Any], record: dict[str, Any]) -> bool:
    expected = flat(record)
    if "node" not in line and "event" not in line:
        # times of the commands count from the origin of the trace, those of tables from the epoch
        times = {"start_ns", "begin_ns", "device_start_ns", "time_ns", "figures.start_ns", "figures.end_ns"}
        line = {name: value for name, value in line.items() if name not in times}
        expected = {name: value for name, value in expected.items() if name not in times}
    # a field that JSON leaves out is null in a table
    return all(same_value(value, expected.get(name)) for name, value in line.items()) and (
        expected.keys() <= line.keys()
    )


def same_value(value: Any, expected: Any) -> bool:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return expected is None
    return bool(value == expected)


def lines_by_reader(table: etlink.Table) -> dict[str, list[dict[str, Any]]]:
    """The same lines from each reader."""
    lines = table
    relation = duckdb.sql("FROM lines")
    frame = table.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    return {
        "etlink": table.to_pylist(),
        "polars": polars.DataFrame(table).to_dicts(),
        "pyarrow": pyarrow.table(table).to_pylist(),
        "duckdb": [dict(zip(relation.columns, row)) for row in relation.fetchall()],
        "pandas": pandas_lines(frame),
        "rows": list(table),
        "pandas from rows": pandas_lines(pandas.DataFrame(table)),
    }


def pandas_lines(frame: pandas.DataFrame) -> list[dict[str, Any]]:
    # pandas makes a column with a null one of floats, or marks what is missing in other ways
    objects = frame.astype(object)
    lines: list[dict[str, Any]] = objects.where(frame.notna(), None).to_dict("records")
    return lines


def check_lines(table: etlink.Table, records: list[dict[str, Any]]) -> None:
    for reader, lines in lines_by_reader(table).items():
        assert len(lines) == len(records) == len(table), f"{reader}: {table}"
        for line, record in zip(lines, records):
            assert same_line(line, record), f"{reader}, {table}: {line} is not {record}"


def of_ranks(document: dict[str, Any], name: str) -> list[dict[str, Any]]:
    return [
        {"rank": rank["rank"], **record} for rank in document["ranks"] for record in rank[name]
    ]


@pytest.mark.parametrize("run_name", RUNS)
def test_tables_have_what_the_command_prints(run_name: str) -> None:
    check_run(PAIRS / run_name)


def test_tables_of_devices_have_what_the_command_prints(tmp_path: Path) -> None:
    for rank in range(2):
        trace = tmp_path / f"kineto_trace_{rank}.json"
        trace.write_text(json.dumps(device_trace(rank)), encoding="utf-8")
    check_run(tmp_path)
    run = etlink.open(tmp_path)
    for name in ["kernels", "gaps", "idle", "launches", "copies", "memory", "memory_timeline"]:
        assert len(run.table(name)) > 0, name


def device_trace(rank: int) -> dict[str, Any]:
    """Steps with kernels on two streams, copies and memory: the recorded runs are of CPUs."""
    host = {"ph": "X", "pid": 10, "tid": 10}
    events: list[dict[str, Any]] = []
    for step in range(3):
        begin = 1000 * step
        name = f"ProfilerStep#{step}"
        events.append(
            host | {"cat": "user_annotation", "name": name, "ts": begin, "dur": 990, "args": {}}
        )
        for number in range(8):
            at, row = begin + 100 * number + 10, 8 * step + number + 1
            ids = {"External id": row, "correlation": row}
            op = "aten::copy_" if number == 7 else "aten::mm"
            caller = {"cat": "cpu_op", "name": op, "args": {"External id": row}}
            events.append(host | caller | {"ts": at, "dur": 30})
            call = "cudaMemcpyAsync" if number == 7 else "cudaLaunchKernel"
            events.append(
                host | {"cat": "cuda_runtime", "name": call, "ts": at + 5, "dur": 10, "args": ids}
            )
            stream = 7 + number % 2
            device = {"ph": "X", "pid": 0, "tid": stream, "ts": at + 20 + rank, "dur": 60}
            args = ids | {"device": 0, "stream": stream}
            if number == 7:
                args |= {"bytes": 4096, "memory bandwidth (GB/s)": 0.07}
                copy = {"cat": "gpu_memcpy", "name": "Memcpy HtoD (Pageable -> Device)"}
                events.append(device | copy | {"args": args})
            else:
                # names of kernels have what HTML and CSV would take for their own
                kernel = {"cat": "kernel", "name": f'gemm<float, {number % 3}, "a">(int)'}
                events.append(device | kernel | {"args": args})
        change = 512 if step % 2 == 0 else -512
        memory = {"Device Type": 1, "Device Id": 0, "Addr": 64, "Bytes": change}
        totals = {"Total Allocated": 512 if change > 0 else 0, "Total Reserved": 2048}
        mark = {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "s": "t"}
        events.append(mark | {"pid": 10, "tid": 10, "ts": begin + 500, "args": memory | totals})
    distributed = {"backend": "nccl", "rank": rank, "world_size": 2}
    return {"schemaVersion": 1, "distributedInfo": distributed, "traceEvents": events}


def check_run(path: Path) -> None:
    """Compares all tables of a run with what the command prints."""
    with etlink.open(path) as run:
        (said,) = json.loads(run_etlink("analyze", path, "--json"))["runs"]
        timeline = run_etlink("analyze", path, "--json", "--table", "memory_timeline")
        for rank, other in zip(said["ranks"], json.loads(timeline)["runs"][0]["ranks"]):
            rank["memory_timeline"] = other["memory_timeline"]
        for name, own_name in ANALYZE.items():
            if name == "sequences":
                continue
            if name == "metrics":
                records = said["total"]["metrics"]
            elif name in ("stragglers", "requests"):
                records = said[name]
            else:
                records = of_ranks(said, own_name)
            check_lines(run.table(name), records)

        (ranks,) = json.loads(run_etlink("ranks", path, "--json"))["runs"]
        for name in run.tables:
            if name.startswith("ranks."):
                check_lines(run.table(name), ranks[name.removeprefix("ranks.")])

        found = json.loads(run_etlink("findings", path, "--json"))["runs"][0]
        check_lines(run.table("findings"), found["findings"])
        titles = {text.split("\n")[0] for text in run.findings()}
        assert {record["title"] for record in found["findings"]} <= titles

        top = json.loads(run_etlink("top", path, "--json"))["tables"]
        rows = [{"rank": table["rank"], **row} for table in top for row in table["rows"]]
        check_lines(run.table("top"), rows)


@pytest.mark.parametrize("run_name", ["ddp2-2.15.0", "threads-2.15.0", "transformer-2.3.1"])
def test_what_was_recorded_is_as_in_parquet(run_name: str, tmp_path: Path) -> None:
    run_etlink("analyze", PAIRS / run_name, "--parquet", tmp_path)
    with etlink.open(PAIRS / run_name) as run:
        for name in PARQUET:
            files = sorted((tmp_path / name).iterdir())
            written = [line for file in files for line in parquet.read_table(file).to_pylist()]
            table = run.table(name)
            for reader, lines in lines_by_reader(table).items():
                assert len(lines) == len(written) == len(table), f"{reader}: {name}"
                for line, record in zip(lines, written):
                    assert same_line(line, record), f"{reader}, {name}: {line} is not {record}"


def test_sequences_are_those_of_the_ops_that_are_named() -> None:
    path = PAIRS / "mlp-2.15.0"
    with etlink.open(path) as run:
        words = ["analyze", path, "--json", "--table", "sequences", "--sequences-of", "aten::mm"]
        records = of_ranks(json.loads(run_etlink(*words))["runs"][0], "sequences")
        check_lines(run.table("sequences", sequences_of="aten::mm"), records)
        with pytest.raises(etlink.Error, match="sequences_of"):
            run.table("sequences")


def test_a_stream_can_be_taken_again_and_after_its_run_is_closed() -> None:
    with etlink.open(PAIRS / "ddp2-2.15.0") as run:
        table = run.table("events")
    first = polars.DataFrame(table)
    assert first.equals(polars.DataFrame(table))
    assert first.height == len(table) > 0
    assert first.columns == table.columns


def test_times_of_all_tables_have_one_origin() -> None:
    with etlink.open(PAIRS / "ddp2-2.15.0") as run:
        events = run.table("events").to_pylist()
        of_events = {(line["rank"], line["name"], line["start_ns"]) for line in events}
        for step in run.table("steps").to_pylist():
            assert (step["rank"], step["name"], step["start_ns"]) in of_events
        recorded = [line["start_ns"] for line in events]
        starts = [line["figures.start_ns"] for line in run.table("findings").to_pylist()]
        assert all(min(recorded) <= start <= max(recorded) for start in starts if start is not None)
        assert any(start is not None for start in starts)
        steps = run.table("ranks.steps").to_pylist()
        assert all(min(recorded) <= step["begin_ns"] <= max(recorded) for step in steps)
    with etlink.open(PAIRS / "mlp-2.15.0") as run:
        nodes = {line["node"]: line["start_ns"] for line in run.table("nodes").to_pylist()}
        path = run.critical_path().to_pylist()
        assert path
        # the path is of the replay, whose first node begins as recorded
        assert path[0]["start_ns"] == nodes[path[0]["node"]]


def test_ranks_are_runs_of_their_own() -> None:
    with etlink.open(PAIRS / "ddp2-2.15.0") as run:
        assert run.ranks == [0, 1]
        assert len(run) == 2
        assert [one.ranks for one in run] == [[0], [1]]
        assert 1 in run and 2 not in run
        both = polars.DataFrame(run.table("host_ops"))
        second = polars.DataFrame(run[1].table("host_ops"))
        assert both.filter(polars.col("rank") == 1).equals(second)
        with pytest.raises(IndexError, match="no rank 7; its ranks are 0, 1"):
            run[7]


def test_ranks_without_a_number_are_runs_of_their_own(tmp_path: Path) -> None:
    paths = []
    for rank, name in enumerate(["a.json", "b.json"]):
        trace = device_trace(rank)
        del trace["distributedInfo"]
        # one row more tells them apart
        trace["traceEvents"] = trace["traceEvents"][rank:]
        paths.append(tmp_path / name)
        paths[-1].write_text(json.dumps(trace), encoding="utf-8")
    check_that_ranks_add_up(etlink.open(paths), ["a", "b"])


def test_ranks_of_the_same_number_are_runs_of_their_own(tmp_path: Path) -> None:
    paths = []
    for number, folder in enumerate(["before", "after"]):
        (tmp_path / folder).mkdir()
        trace = device_trace(0)
        # with the same rows they would be copies
        trace["traceEvents"] = trace["traceEvents"][number:]
        paths.append(tmp_path / folder / "rank0.json")
        paths[-1].write_text(json.dumps(trace), encoding="utf-8")
    run = etlink.open(paths)
    assert any(told.code == "rank_unclear" for told in run.diagnostics)
    check_that_ranks_add_up(run, ["rank0", "rank0-2"])
    with pytest.raises(IndexError, match="no rank 0; its ranks are 'rank0', 'rank0-2'"):
        run[0]


def check_that_ranks_add_up(run: etlink.Run, names: list[str]) -> None:
    assert run.ranks == names
    alone = [len(one.table("events")) for one in run]
    assert [len(one) for one in run] == [1, 1]
    assert alone == [len(run[name].table("events")) for name in names]
    assert all(alone) and sum(alone) == len(run.table("events"))


def test_other_threads_go_on_while_lines_are_made() -> None:
    table = etlink.open(PAIRS / "ddp2-2.15.0").table("edges")._handle
    times: list[int] = []
    ended = threading.Event()

    def note_times() -> None:
        while not ended.is_set():
            times.append(time.perf_counter_ns())

    thread = threading.Thread(target=note_times)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread.start()
    try:
        # not one line of Python runs between these calls, which would let the thread go on
        calls = [time.perf_counter_ns, table.to_pylist, time.perf_counter_ns]
        for _ in range(100):
            begin, _, end = map(operator.methodcaller("__call__"), calls)
            if any(begin < time < end for time in list(times)):
                return
            times.clear()
    finally:
        sys.setswitchinterval(interval)
        ended.set()
        thread.join()
    pytest.fail("no other thread ran")


def test_a_run_is_shown_with_its_findings_and_ranks() -> None:
    run = etlink.open(PAIRS / "ddp2-2.15.0")
    text, page = repr(run), run._repr_html_()
    assert "2 ranks" in text and "1. " in text and "made_others_wait_ms" in text
    assert run.findings()[0] in text
    assert "<th>made_others_wait_ms</th>" in page
    assert "<table>" in run.table("host_ops")._repr_html_()
    run.close()
    assert repr(run).endswith("closed>")


def test_a_trace_that_states_its_rank_is_a_run_with_that_rank() -> None:
    trace = PAIRS / "ddp2-2.15.0" / "kineto_trace_1.json.gz"
    run = etlink.open(trace)
    assert run.name == str(trace)
    assert run.ranks == etlink.open([trace]).ranks == [1]
    assert run[1].ranks == [1]
    assert {node["rank"] for node in run.critical_path().to_pylist()} == {1}


def test_a_table_is_used_as_a_frame() -> None:
    table = etlink.open(PAIRS / RUNS[0]).table("host_ops")
    rows = table.to_pylist()
    assert table.shape == (len(rows), len(table.columns))
    assert table["name"] == [row["name"] for row in rows]
    assert table.head().to_pylist() == rows[:5]
    assert table.head(3).shape == (3, len(table.columns))
    assert table.head(10**9).to_pylist() == rows
    assert table.head(0).to_pylist() == []
    with pytest.raises(KeyError, match="no_such.*columns: "):
        table["no_such"]
    with pytest.raises(TypeError, match="column"):
        table[0]  # type: ignore[index]
    first, second = iter(table), iter(table)
    assert next(first) == next(second) == rows[0]


def test_threads_share_an_iterator() -> None:
    table = etlink.open(PAIRS / RUNS[0]).table("events")
    rows = iter(table)
    with ThreadPoolExecutor(4) as threads:
        taken = list(threads.map(lambda _: list(rows), range(4)))
    assert sum(map(len, taken)) == len(table)
