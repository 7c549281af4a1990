"""What the tests of the wheel have in common. `cargo dev wheel` runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAIRS = ROOT / "testdata" / "pairs"
COMMAND = Path(sys.executable).with_name("etlink")
"""The command of the wheel that is tested."""


def run_etlink(*words: str | Path, code: int = 0) -> str:
    """What the command prints."""
    done = subprocess.run([COMMAND, *words], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done.stdout


@pytest.fixture
def empty_python() -> str:
    """A Python that has the wheel and nothing else."""
    return os.environ["ETLINK_EMPTY_PYTHON"]
