"""Traces that are generated with known truth: their ids hold, and their clocks and late rank are found."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import etlink
import pytest

ROOT = Path(__file__).parents[2]
RECIPES = ROOT / "crates/etlink-dev/recipes"
PAIRS = ROOT / "testdata/pairs"


def make(recipe: str, *options: object) -> None:
    subprocess.run([sys.executable, RECIPES / recipe, *map(str, options)], check=True)


def test_a_late_rank_and_clocks_are_found(tmp_path: Path) -> None:
    make("many_ranks.py", "--ranks", 32, "--times", 2, "--late", 21, "-o", tmp_path)
    truth = json.loads((tmp_path / "truth.json").read_text())
    run = etlink.open(tmp_path)
    clocks = run.table("ranks.clocks")
    off = [abs(clock["offset_ns"] + lead) for clock, lead in zip(clocks, truth["offset_ns"])]
    assert len(off) == 32 and max(off) <= 5_000
    collectives = list(run.table("ranks.collectives"))
    assert {one["last"] for one in collectives} == set(truth["last"]) == {21}
    assert len(collectives) == truth["collectives"]
    steps = [(step["step"], step["stragglers"][0]["rank"]) for step in run.table("ranks.steps")]
    assert steps == [(f"ProfilerStep#{number}", 21) for number in (2, 3, 4, 5)]


def test_drift_is_found(tmp_path: Path) -> None:
    make("many_ranks.py", "--ranks", 4, "--times", 40, "--drift-ppm", 50, "-o", tmp_path)
    truth = json.loads((tmp_path / "truth.json").read_text())
    clocks = list(etlink.open(tmp_path).table("ranks.clocks"))
    for clock, ppb in list(zip(clocks, truth["drift_ppb"]))[1:]:
        drift = clock["drift"]
        # a fast clock's second is short: up to 3 ppb at 50 ppm
        assert abs(drift["ppb"] + ppb) <= drift["uncertainty_ppb"] + 3
        assert drift["uncertainty_ppb"] < 5_000


@pytest.mark.parametrize("case", ["mlp-2.15.0", "transformer-2.3.1", "ddp2-2.15.0"])
def test_repetitions_link_as_the_recording(case: str, tmp_path: Path) -> None:
    names = ["torch_et_0.json.gz", "kineto_trace_0.json.gz"]
    host, device = (PAIRS / case / name for name in names)
    for times in (1, 3):
        folder = tmp_path / str(times)
        make("repeat.py", "--host", host, "--device", device, "--times", times, "--gzip", "-o", folder)
    ops = [len(etlink.open(tmp_path / str(times)).table("ops")) for times in (1, 3)]
    assert ops[1] == 3 * ops[0] > 0
