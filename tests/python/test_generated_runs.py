"""Traces that are generated with known truth: their ids hold, and their clocks and late rank are found."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
RECIPES = ROOT / "crates/etlink-dev/recipes"
PAIRS = ROOT / "testdata/pairs"


def make(recipe: str, *options: object) -> None:
    subprocess.run([sys.executable, RECIPES / recipe, *map(str, options)], check=True)


def report(*words: object) -> Any:
    """The JSON that a command prints."""
    command = [sys.executable, "-m", "etlink", *map(str, words), "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def test_a_late_rank_and_clocks_are_found(tmp_path: Path) -> None:
    make("many_ranks.py", "--ranks", 32, "--times", 2, "--late", 21, "-o", tmp_path)
    truth = json.loads((tmp_path / "truth.json").read_text())
    [run] = report("ranks", tmp_path)["runs"]
    leads = zip(run["clocks"], truth["offset_ns"])
    off = [abs(clock["offset_ns"] + lead) for clock, lead in leads]
    assert len(off) == 32 and max(off) <= 5_000
    assert {one["last"] for one in run["collectives"]} == set(truth["last"]) == {21}
    assert len(run["collectives"]) == truth["collectives"]
    steps = [(step["step"], step["stragglers"][0]["rank"]) for step in run["steps"]]
    assert steps == [(f"ProfilerStep#{number}", 21) for number in (2, 3, 4, 5)]


def test_drift_is_found(tmp_path: Path) -> None:
    make("many_ranks.py", "--ranks", 4, "--times", 40, "--drift-ppm", 50, "-o", tmp_path)
    truth = json.loads((tmp_path / "truth.json").read_text())
    [run] = report("ranks", tmp_path)["runs"]
    for clock, ppb in list(zip(run["clocks"], truth["drift_ppb"]))[1:]:
        drift = clock["drift"]
        # a fast clock's second is short: up to 3 ppb at 50 ppm
        assert abs(drift["ppb"] + ppb) <= drift["uncertainty_ppb"] + 3
        assert drift["uncertainty_ppb"] < 5_000
        assert drift["applied"] or abs(ppb) < 5_000


@pytest.mark.parametrize("case", ["mlp-2.15.0", "mlp-2.1.2", "transformer-2.3.1", "ddp2-2.15.0"])
def test_repetitions_link_as_the_recording(case: str, tmp_path: Path) -> None:
    names = ["torch_et_0.json.gz", "kineto_trace_0.json.gz"]
    recorded = [PAIRS / case / name for name in names]
    reports = []
    for times in (1, 3):
        folder = tmp_path / str(times)
        given = ["--host", recorded[0], "--device", recorded[1]]
        make("repeat.py", *given, "--times", times, "--gzip", "-o", folder)
        made = [folder / name for name in names]
        if times == 1:
            for before, after in zip(recorded, made):
                assert gzip.decompress(before.read_bytes()) == gzip.decompress(after.read_bytes())
        output = ["-o", tmp_path / f"{times}.et"]
        linked = report("link", "--host", made[0], "--device", made[1], *output)
        reports.append(linked["report"])
    one, three = reports
    assert three["matched"] == {rule: 3 * count for rule, count in one["matched"].items()}
    assert three["cpu_ops"] == 3 * one["cpu_ops"] > 0
    lost = [of["unmatched"]["device_not_in_host"] for of in reports]
    assert lost[1] == 3 * lost[0]
    most = {anomaly["kind"]: 3 * anomaly["count"] for anomaly in one["anomalies"]}
    for anomaly in three["anomalies"]:
        assert anomaly["severity"] != "damage" and anomaly["count"] <= most[anomaly["kind"]]
