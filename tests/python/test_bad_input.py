"""What goes wrong is an exception that says what, where and what helps; never a crash."""

from __future__ import annotations

import multiprocessing
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import PAIRS

import etlink

DDP = PAIRS / "ddp2-2.15.0"


@pytest.mark.parametrize(
    "arguments",
    [
        {"path": 3},
        {"path": None},
        {"path": b"traces"},
        {"path": [DDP, 3]},
        {"path": DDP, "ranks": "0"},
        {"path": DDP, "ranks": [0.5]},
        {"path": DDP, "ranks": True},
        {"path": DDP, "memory": 1.5},
    ],
)
def test_wrong_types_are_type_errors(arguments: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        etlink.open(**arguments)


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "missing.json"
    with pytest.raises(etlink.Error, match="cannot open") as raised:
        etlink.open(missing)
    assert raised.value.file == str(missing)
    with pytest.raises(etlink.Error, match="missing.json"):
        etlink.open([DDP, missing])
    with pytest.raises(etlink.Error, match="no host or device traces") as raised:
        etlink.open(tmp_path)
    assert raised.value.file == str(tmp_path)


def test_a_folder_of_runs_says_which_to_give() -> None:
    with pytest.raises(etlink.Error, match="runs, each in its own folder") as raised:
        etlink.open(PAIRS)
    assert raised.value.remedy is not None and "give one of them" in raised.value.remedy


def test_errors_name_arguments_not_options(tmp_path: Path) -> None:
    [trace] = (PAIRS / "mlp-2.15.0").glob("kineto*")
    with pytest.raises(etlink.Error, match="ranks= selects traces in a folder"):
        etlink.open(trace, ranks=0)
    with pytest.raises(etlink.Error) as raised:
        etlink.open(DDP, memory=1000).table("kernels")
    assert "--" not in str(raised.value)


def test_a_file_that_is_no_trace_is_an_error_of_its_table(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    trace.write_text('{"traceEvents": 3}')
    run = etlink.open(trace)
    with pytest.raises(etlink.Error) as raised:
        run.table("kernels")
    assert str(trace) in str(raised.value)
    # and a notebook's cell still shows the run
    assert "trace.json" in repr(run)
    trace.write_bytes(b"")
    with pytest.raises(etlink.Error, match="is empty; record") as raised:
        etlink.open(trace).table("kernels")
    assert raised.value.remedy == "record the trace again"
    assert raised.value.file == str(trace)


def test_a_rank_that_is_left_out_is_noted(tmp_path: Path) -> None:
    for path in DDP.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    broken = next(path for path in tmp_path.iterdir() if "kineto" in path.name and "1" in path.name)
    broken.write_bytes(b'{"traceEvents": 3}')
    run = etlink.open(tmp_path)
    lines = run.table("host_ops").to_pylist()
    assert {line["rank"] for line in lines} == {0}
    assert any("left out" in str(told) for told in run.diagnostics), run.diagnostics
    assert "left out" in repr(run) and "left out" in run._repr_html_()


def test_empty_lists_and_ranks_that_are_not_there_are_errors() -> None:
    for arguments in [{"path": []}, {"path": DDP, "ranks": []}, {"path": DDP, "ranks": -1}]:
        with pytest.raises(etlink.Error):
            etlink.open(**arguments)
    with pytest.raises(etlink.Error, match="its ranks are 0, 1"):
        etlink.open(DDP, ranks=[7]).table("host_ops")
    with pytest.raises(etlink.Error, match="is not a size"):
        etlink.open(DDP, memory="much")


def test_memory_that_is_too_little_is_refused_before_work() -> None:
    with pytest.raises(etlink.Error, match="memory"):
        etlink.open(DDP, memory="1k")


def test_wrong_names_of_tables_list_the_right_ones() -> None:
    run = etlink.open(DDP)
    with pytest.raises(etlink.Error, match="unknown table kernel;.* kernels"):
        run.table("kernel")
    with pytest.raises(etlink.Error, match="ranks has no table"):
        run.table("ranks.kernels")
    with pytest.raises(TypeError):
        run.table(3)  # type: ignore[arg-type]


def test_a_closed_run_says_so() -> None:
    run = etlink.open(DDP)
    run.close()
    run.close()
    for call in [lambda: run.table("kernels"), lambda: run.ranks, run.findings, lambda: len(run)]:
        with pytest.raises(etlink.Error, match="closed; open it again"):
            call()


def test_classes_are_not_made_by_hand() -> None:
    with pytest.raises(TypeError):
        etlink.Run("traces")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        etlink.Table("kernels")  # type: ignore[arg-type]


def test_an_error_survives_pickling() -> None:
    error = etlink.Error("why", "a file", "byte 3", "what helps")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.file, again.place, again.remedy) == (
        "why",
        "a file",
        "byte 3",
        "what helps",
    )


def test_threads_get_the_same_table() -> None:
    run = etlink.open(DDP)
    made: list[list[dict[str, Any]]] = []

    def take() -> None:
        made.append(run.table("host_ops").to_pylist())

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 8
    assert all(lines == made[0] for lines in made)


def work_in_child(queue: Any) -> None:
    try:
        queue.put(len(etlink.open(DDP).table("host_ops")))
    except etlink.Error as error:
        queue.put(str(error))


def start_child(method: str) -> Any:
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    child = context.Process(target=work_in_child, args=(queue,))
    child.start()
    result = queue.get(timeout=60)
    child.join()
    return result


def test_a_fork_after_work_is_refused_and_spawn_works() -> None:
    lines = len(etlink.open(DDP).table("host_ops"))
    assert 'start it with multiprocessing\'s "spawn"' in start_child("fork")
    assert start_child("spawn") == lines


def run_python(text: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(text)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_a_fork_after_the_import_works() -> None:
    done = run_python(
        f"""
        import os, sys, etlink
        child = os.fork()
        lines = len(etlink.open({str(DDP)!r}).table("host_ops"))
        if child:
            sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) or lines == 0)
        os._exit(lines == 0)
        """
    )
    assert done.returncode == 0, done.stderr


def test_an_interrupt_ends_the_work_and_the_run_can_be_used_again(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    event = '{"ph":"X","cat":"cpu_op","name":"aten::add","pid":1,"tid":1,"ts":%d,"dur":1},'
    with trace.open("w") as out:
        out.write('{"traceEvents":[')
        out.writelines(event % (2 * at) for at in range(400_000))
        out.write('{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":1}]}')
    run = etlink.open(trace)
    # a process in the background of a shell ignores the signal, and Python leaves it so
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        sent: list[float] = []

        def interrupt() -> None:
            sent.append(time.monotonic())
            signal.raise_signal(signal.SIGINT)

        threading.Timer(0.3, interrupt).start()
        with pytest.raises(KeyboardInterrupt):
            # a quick machine may be done once before the signal comes
            for _ in range(20):
                etlink.open(trace).table("kernels")
        # also where a rank is linked, which looks at no flag
        assert time.monotonic() - sent[0] < 2
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(run.table("kernels")) == 1


def test_nothing_is_printed() -> None:
    done = run_python(
        f"""
        import etlink
        for name in {[str(DDP), str(PAIRS / "mlp-2.1.2")]!r}:
            with etlink.open(name) as run:
                for table in run.tables:
                    if table != "sequences":
                        run.table(table).to_pylist()
                repr(run)
        try:
            etlink.open({str(PAIRS)!r})
        except etlink.Error:
            pass
        """
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_memory_is_given_back() -> None:
    done = run_python(
        f"""
        import etlink

        def resident():
            with open("/proc/self/statm") as statm:
                return int(statm.read().split()[1]) * 4096

        def use(wants_tables):
            with etlink.open({str(PAIRS / "mlp-2.15.0")!r}) as run:
                if wants_tables:
                    run.table("kernels").to_pylist()
                    len(run.table("events"))

        # to link takes a fifth of a second in a debug build: that is done less often
        for wants_tables in [True] * 30 + [False] * 200:
            use(wants_tables)
        before = resident()
        for wants_tables in [True] * 70 + [False] * 800:
            use(wants_tables)
        grown = resident() - before
        assert grown < 8 << 20, grown
        """
    )
    assert done.returncode == 0, done.stderr


def test_a_million_lines_are_iterated(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    event = '{"ph":"X","cat":"cpu_op","name":"op%d","pid":1,"tid":1,"ts":%d,"dur":1},'
    with trace.open("w") as out:
        out.write('{"traceEvents":[')
        out.writelines(event % (at % 1000, 2 * at) for at in range(1_000_000))
        out.write('{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":1}]}')
    import pyarrow

    table = etlink.open(trace).table("events")
    assert len(table) == 1_000_001
    reader = pyarrow.RecordBatchReader.from_stream(table)
    assert sum(batch.num_rows for batch in reader) == 1_000_001
    assert len(table.to_pylist(5)) == 5
