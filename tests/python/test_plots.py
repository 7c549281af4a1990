"""Plots: their specifications are valid, and their data are the lines of tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import altair
import pytest
from conftest import PAIRS
from drawn import draw_rank

import etlink
from etlink import plots

OF_TABLES: dict[str, str] = {
    "step_times": "steps",
    "breakdown": "breakdown",
    "idle_causes": "idle",
    "overlap": "breakdown",
    "skew": "ranks.collectives",
    "roofline": "roofline",
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


def test_the_roofline_has_the_work_of_products(run: etlink.Run) -> None:
    [line] = data_of(plots.roofline(run[0]))
    # 2 m n k of each of three steps, and three matrices of floats
    assert line["operations"] == 3 * 2 * 64**3
    assert line["bytes"] == 3 * 3 * 64 * 64 * 4
    assert (line["name"], line["rows"], line["duration_ns"]) == ("gemm", 3, 600_000)


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
