"""Plots: their specifications are valid, and their data are the lines of tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import altair
import pytest
from conftest import PAIRS, ROOT
from drawn import draw_rank, event

import etlink
from etlink import plots

OF_TABLES: dict[str, str] = {
    "step_times": "steps",
    "breakdown": "breakdown",
    "idle_causes": "idle",
    "overlap": "breakdown",
    "skew": "ranks.collectives",
    "roofline": "ops",
    "memory": "memory_timeline",
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> etlink.Run:
    folder = tmp_path_factory.mktemp("ranks")
    return etlink.open([draw_rank(folder, rank) for rank in range(2)])


def specification(chart: altair.Chart) -> dict[str, Any]:
    # checks it against Vega-Lite's schema, too
    return dict(chart.to_dict(validate=True))


def data_of(chart: altair.Chart) -> list[dict[str, Any]]:
    found = specification(chart)
    [lines] = list(found["datasets"].values()) if "datasets" in found else [found["data"]["values"]]
    return list(lines)


@pytest.mark.parametrize("name", OF_TABLES)
def test_data_are_lines_of_the_table(name: str, run: etlink.Run) -> None:
    recorded = etlink.open(PAIRS / "ddp2-2.15.0") if name == "skew" else run
    lines = data_of(getattr(plots, name)(recorded))
    table = recorded.table(OF_TABLES[name]).to_pylist()
    if name == "roofline":
        table = [line for line in table if line["operations"] and line["bytes"]]
    assert lines
    assert lines == [{column: line[column] for column in lines[0]} for line in table]


def test_parts_of_a_device_add_up(run: etlink.Run) -> None:
    [line] = [line for line in run.table("breakdown").to_pylist() if line["rank"] == 0]
    parts = [line[part] for part in plots.BREAKDOWN]
    assert sum(parts) == line["window_ns"] > 0
    idle = [line for line in run.table("idle").to_pylist() if line["rank"] == 0]
    assert sum(idle[0][cause] for cause in plots.IDLE_CAUSES) == idle[0]["idle_ns"] > 0


WHOLES: dict[str, tuple[dict[str, str], str, set[str]]] = {
    # parts, what they add up to, and what is no part: a time, or time that is in several parts
    "breakdown": (
        plots.BREAKDOWN,
        "window_ns",
        {"start_ns", "communication_ns", "memory_ns", "overlap_ns"},
    ),
    "idle": (plots.IDLE_CAUSES, "idle_ns", {"busy_ns", "outside_ns", "longest_ns"}),
}


def draw_waits(folder: Path) -> Path:
    """A row waits for what was launched before the recording, and a launching call blocks.

    ```text
    us        0     50   200    240    1000        7000  7010
    host      [op]  launch             [launch==========]
    stream 7  [from before][a=====]                      [b==]
    ```
    """
    events = [
        event("cpu_op", "aten::add", 0, 1, 100),
        event("kernel", "from before", 0, 200, 7, stream=7, device=0, correlation=9),
        event("cuda_runtime", "cudaLaunchKernel", 50, 1, 100, correlation=1),
        event("kernel", "a", 200, 40, 7, stream=7, device=0, correlation=1),
        event("cuda_runtime", "cudaLaunchKernel", 1_000, 6_000, 100, correlation=2),
        event("kernel", "b", 7_010, 10, 7, stream=7, device=0, correlation=2),
    ]
    path = folder / "waits.json"
    path.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}), encoding="utf-8")
    return path


@pytest.mark.parametrize("name", WHOLES)
def test_no_part_is_forgotten(name: str, tmp_path: Path) -> None:
    parts, whole, others = WHOLES[name]
    recorded = [
        etlink.open(path).table(name)
        for path in [draw_waits(tmp_path), ROOT / "testdata" / "graphs" / "lanes-2.15.0.json"]
    ]
    for table in recorded:
        columns = {column for column in table.columns if column.endswith("_ns")}
        assert columns == {*parts, whole, *others}
        for line in table.to_pylist():
            assert sum(line[part] for part in parts) == line[whole]
    [line] = recorded[0].to_pylist()
    part, time_ns = {
        "breakdown": ("outside_ns", 200_000),
        "idle": ("launch_call_ns", 6_000_000),
    }[name]
    assert line[part] == time_ns


def test_the_guide_has_the_same_parts() -> None:
    guide = (ROOT / "docs/src/guides/python.md").read_text(encoding="utf-8")
    for parts in [plots.BREAKDOWN, plots.IDLE_CAUSES]:
        assert json.dumps(list(parts)) in guide


def test_the_roofline_has_the_work_of_products(run: etlink.Run) -> None:
    [line] = data_of(plots.roofline(run[0]))
    # 2 m n k of each of three steps, and three matrices of floats
    assert line["operations"] == 3 * 2 * 64**3
    assert line["bytes"] == 3 * 3 * 64 * 64 * 4
    assert (line["kernel"], line["count"], line["sum_ns"]) == ("gemm", 3, 600_000)


def test_the_path_is_that_of_the_run(run: etlink.Run) -> None:
    lines = data_of(plots.critical_path(run))
    nodes = [node for node in run.critical_path().to_pylist() if node["duration_ns"] > 0]
    assert [line["name"] for line in lines] == [node["name"] for node in nodes]
    assert sum(line["duration_ns"] for line in lines) == sum(n["duration_ns"] for n in nodes)


def test_what_cannot_be_drawn_is_an_error(run: etlink.Run, monkeypatch: Any) -> None:
    with pytest.raises(etlink.Error, match="the table breakdown is empty"):
        plots.breakdown(etlink.open(PAIRS / "mlp-2.15.0"))
    with pytest.raises(TypeError):
        plots.breakdown("traces")  # type: ignore[arg-type]
    import sys

    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(etlink.Error) as raised:
        plots.breakdown(run)
    assert raised.value.remedy == "pip install etlink[plots]"


def test_charts_are_saved(run: etlink.Run, tmp_path: Path) -> None:
    path = tmp_path / "steps.html"
    plots.step_times(run).save(str(path))
    assert "ProfilerStep#1" in path.read_text()


def test_the_path_of_a_single_trace_is_drawn() -> None:
    run = etlink.open(PAIRS / "mlp-2.15.0" / "kineto_trace_0.json.gz")
    assert run.critical_path().columns[0] != "rank"
    assert data_of(plots.critical_path(run))
