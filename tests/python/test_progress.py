"""The bar of tqdm while traces are read: on a terminal, and nowhere else."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from drawn import draw_rank

READS = """
import sys
import etlink
from etlink import _progress

_progress.DELAY_S = float(sys.argv[2])
if sys.argv[3] == "without":
    sys.modules["tqdm"] = None
run = etlink.open(sys.argv[1])
assert len({line["rank"] for line in run.table("kernels").to_pylist()}) == len(run)
assert ("tqdm" in sys.modules) == (sys.argv[3] != "unseen")
"""
RANKS = 16
STEPS = 300


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("many")
    for rank in range(RANKS):
        draw_rank(folder, rank, RANKS, STEPS)
    return folder


def words_of(folder: Path, delay: float, case: str) -> list[str]:
    return [sys.executable, "-c", READS, str(folder), str(delay), case]


def on_terminal(words: list[str]) -> str:
    """What a program writes to standard error, which is a terminal."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    try:
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=its)
    finally:
        os.close(its)
    written = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:
            # Linux says so where nobody has the other end any more
            break
        if not part:
            break
        written += part
    os.close(ours)
    assert process.stdout is not None and process.stdout.read() == b""
    assert process.wait() == 0, written.decode()
    return written.decode()


def test_a_terminal_sees_how_far_it_is(folder: Path) -> None:
    written = on_terminal(words_of(folder, 0, "seen"))
    assert re.search(r"(reading|linking|analyzing): +\d+%\|.*B/s\]", written), written
    # nothing of it stays
    assert written.endswith("\r"), repr(written[-100:])


def test_without_tqdm_nothing_is_printed(folder: Path) -> None:
    assert on_terminal(words_of(folder, 0, "without")) == ""


def test_short_calls_show_nothing(folder: Path) -> None:
    assert on_terminal(words_of(folder, 3600, "unseen")) == ""


def test_a_file_gets_no_bar(folder: Path) -> None:
    done = subprocess.run(words_of(folder, 0, "unseen"), capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
