"""The wheel in a Python that has nothing else: the import, the command, the recorder."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import COMMAND, PAIRS, run_etlink

import etlink

SCHEDULE = ["--wait", "0", "--warmup", "1", "--active", "1"]


def run_with(python: str, *words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([python, *words], capture_output=True, text=True)


def test_the_import_is_quick_and_brings_nothing_else(empty_python: str) -> None:
    code = """
import time
begin = time.process_time()
import etlink
print(time.process_time() - begin)
run = etlink.open(PATH)
assert run.table("host_ops").to_pylist()
repr(run)
try:
    run.table("host_ops").to_pandas()
except etlink.Error as error:
    assert error.remedy == "pip install pandas", error
else:
    raise AssertionError("pandas")
import sys
assert "torch" not in sys.modules
"""
    words = ["-c", code.replace("PATH", repr(str(PAIRS / "mlp-2.15.0")))]
    times = []
    for _ in range(3):
        done = run_with(empty_python, *words)
        assert done.returncode == 0, done.stderr
        times.append(float(done.stdout))
    assert min(times) < 0.1, times


def test_versions_are_one(empty_python: str) -> None:
    assert run_etlink("--version").startswith(f"etlink {etlink.__version__}")
    code = (
        "import importlib.metadata as metadata, etlink_torch;"
        "print(metadata.version('etlink'), etlink_torch.__version__)"
    )
    assert run_with(empty_python, "-c", code).stdout.split() == [etlink.__version__] * 2


def test_schedules_are_those_of_the_command() -> None:
    words = ["--wait", "1", "--warmup", "1", "--active", "2", "--repeat", "1"]
    said = json.loads(run_etlink("schedule", *words, "--steps", "6", "--json"))
    schedule = etlink.schedule(wait=1, warmup=1, active=2, repeat=1)
    assert [schedule(step) for step in range(6)] == said["actions"]
    assert schedule.first_recorded == 2
    with pytest.raises(etlink.Error, match="active"):
        etlink.schedule(wait=1, warmup=1, active=0)
    with pytest.raises(ValueError):
        schedule(-1)


def test_the_recorder_is_that_of_etlink_torch() -> None:
    import etlink_torch

    assert etlink.record is etlink_torch.profile
    with pytest.raises(AttributeError):
        etlink.recording  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--help"], 0),
        (["analyze", str(PAIRS / "mlp-2.15.0")], 0),
        (["analyze", "missing.json"], 2),
        (["no-such-command"], 2),
        ([], 2),
    ],
)
def test_exit_codes_are_those_of_the_command(words: list[str], code: int) -> None:
    run_etlink(*words, code=code)
    module = run_with(sys.executable, "-m", "etlink", *words)
    assert module.returncode == code, module.stderr


def test_a_closed_pipe_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [COMMAND, "analyze", PAIRS / "mlp-2.15.0", "--json"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_the_command(number: signal.Signals, tmp_path: Path) -> None:
    pipe = tmp_path / "trace.json"
    os.mkfifo(pipe)
    command = subprocess.Popen(
        [COMMAND, "analyze", pipe],
        stderr=subprocess.DEVNULL,
        # a shell's background jobs ignore SIGINT, and what they start does so too
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
    )
    # opened once the command reads; nothing comes, so that it waits
    with pipe.open("wb"):
        command.send_signal(number)
        assert command.wait(timeout=60) == 128 + number


def test_record_ends_with_the_exit_code_of_the_program(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("import sys; sys.exit(7)")
    out = tmp_path / "out"
    words = ["record", *SCHEDULE, "-o", str(out), "--", sys.executable, str(program)]
    run_etlink(*words, code=7)


def test_record_leaves_the_programs_signals_as_they_are(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import signal\n"
        "assert signal.getsignal(signal.SIGINT) is signal.default_int_handler\n"
        "assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL\n"
        "raise SystemExit(9)\n"
    )
    words = [
        "record",
        *SCHEDULE,
        "-o",
        str(tmp_path / "out"),
        "--",
        sys.executable,
        str(program),
    ]
    run_etlink(*words, code=9)
