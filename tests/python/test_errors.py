"""What errors say: in words of Python, with the remedy as the library has it."""

from __future__ import annotations

import gzip
import json
import subprocess
from pathlib import Path

import pytest
from conftest import COMMAND, PAIRS
from drawn import draw_rank

import etlink

DDP = PAIRS / "ddp2-2.15.0"


def test_a_remedy_is_no_part_of_a_problem(tmp_path: Path) -> None:
    [trace] = (PAIRS / "mlp-2.15.0").glob("kineto*")
    with pytest.raises(etlink.Error) as raised:
        etlink.open(trace, ranks=0)
    # it has a semicolon, and nothing behind it helps
    assert str(raised.value) == f"ranks= selects traces in a folder, but {trace} is a file"
    assert raised.value.remedy is None
    assert raised.value.file == str(trace)


def test_remedies_name_arguments(tmp_path: Path) -> None:
    with pytest.raises(etlink.Error) as raised:
        etlink.open(DDP, memory=1000).table("kernels")
    remedy = raised.value.remedy
    assert remedy is not None and remedy.endswith("allow more with memory=, or record fewer steps")
    assert str(raised.value).endswith(remedy)
    page = tmp_path / "run.pftrace"
    page.write_bytes(b"mine")
    with pytest.raises(etlink.Error) as raised:
        etlink.open(DDP).timeline(page)
    assert raised.value.remedy == "overwrite=True replaces it"
    assert page.read_bytes() == b"mine"


def test_remedies_of_readers_and_questions(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    trace.write_text("[1, 2]")
    with pytest.raises(etlink.Error) as raised:
        etlink.open(trace).table("kernels")
    assert raised.value.remedy is not None and str(raised.value).endswith(raised.value.remedy)
    run = etlink.open(DDP)
    [written, _] = run.to_chakra(tmp_path / "graphs")
    with pytest.raises(etlink.Error) as raised:
        etlink.open(written).replay(what_if="no-sync")
    assert "what_if= no-sync" in str(raised.value)
    assert raised.value.remedy is not None and raised.value.remedy.startswith("replay the original traces")
    [trace] = (PAIRS / "mlp-2.15.0").glob("kineto*")
    with pytest.raises(etlink.Error) as raised:
        etlink.open(trace).replay(what_if="straggler=0")
    assert raised.value.remedy == "pass the folder of all ranks"


def test_notes_name_no_options(tmp_path: Path) -> None:
    for rank in range(3):
        # of a world of two
        draw_rank(tmp_path, rank)
    run = etlink.open(tmp_path)
    run.table("kernels")
    assert [told for told in run.diagnostics if told.code == "rank_left_out"]
    assert not [told for told in run.diagnostics if "--" in str(told)], run.diagnostics


def test_the_command_of_the_wheel_names_options() -> None:
    done = subprocess.run([COMMAND, "ranks", DDP, "--memory", "1k"], capture_output=True, text=True)
    assert "--memory" in done.stderr and "memory=" not in done.stderr


def test_what_the_module_itself_refuses_has_a_remedy() -> None:
    run = etlink.open(DDP)
    with pytest.raises(etlink.Error) as raised:
        run.table("sequences")
    assert raised.value.remedy == 'give sequences_of="…"'
    run.close()
    with pytest.raises(etlink.Error) as raised:
        run.table("kernels")
    assert raised.value.remedy == "open it again"


def test_a_trace_cut_before_its_events(tmp_path: Path) -> None:
    trace = tmp_path / "kineto_trace_0.json.gz"
    with gzip.open(trace, "wt") as out:
        json.dump({"schemaVersion": 1, "deviceProperties": []}, out)
    with pytest.raises(etlink.Error) as raised:
        etlink.open(trace).table("kernels")
    assert raised.value.file == str(trace)
    assert raised.value.remedy is not None and str(raised.value).endswith(raised.value.remedy)
