"""`etlink.hta` against figures by hand. `cargo dev hta` compares it with HTA itself."""

from __future__ import annotations

import gzip
import json
import warnings
from pathlib import Path
from typing import Any

import pytest
from conftest import PAIRS
from drawn import draw_rank

import etlink
from etlink.hta import TimeSeriesTypes, TraceAnalysis

QUIET: dict[str, Any] = {"visualize": False}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("ranks")
    for rank in range(2):
        draw_rank(folder, rank)
    return folder


@pytest.fixture(scope="module")
def analyzer(folder: Path) -> TraceAnalysis:
    return TraceAnalysis(trace_dir=str(folder))


def records(frame: Any) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = frame.to_dict("records")
    return lines


def test_times_of_each_rank(analyzer: TraceAnalysis) -> None:
    first, second = records(analyzer.get_temporal_breakdown(**QUIET))
    # two steps, as the last is left out: 150 to 1600, of which 150-450 and 550-600 are busy
    assert first == {
        "rank": 0,
        "idle_time(us)": 750.0,
        "compute_time(us)": 400.0,
        "non_compute_time(us)": 300.0,
        "kernel_time(us)": 1450.0,
        "idle_time_pctg": 51.72,
        "compute_time_pctg": 27.59,
        "non_compute_time_pctg": 20.69,
    }
    assert second["rank"] == 1
    overlap = records(analyzer.get_comm_comp_overlap(**QUIET))
    assert overlap[0] == {"rank": 0, "comp_comm_overlap_pctg": 50.0}
    assert overlap[1]["comp_comm_overlap_pctg"] == 33.33


def test_kernels_by_type_and_name(analyzer: TraceAnalysis) -> None:
    types, kernels = analyzer.get_gpu_kernel_breakdown(**QUIET)
    assert dict(zip(types["kernel_type"], types["sum"])) == {
        "COMPUTATION": 500,
        "COMMUNICATION": 400,
        "COMPUTATION overlapping COMMUNICATION": 300,
        "MEMORY": 200,
    }
    assert list(kernels.columns) == [
        "name",
        "sum (us)",
        "max (us)",
        "min (us)",
        "stddev",
        "mean (us)",
        "kernel_type",
        "rank",
    ]
    assert list(kernels["kernel_type"].unique()) == ["COMMUNICATION", "COMPUTATION", "MEMORY"]
    assert list(kernels["rank"]) == [0, 1] * 3
    types, kernels = analyzer.get_gpu_kernel_breakdown(**QUIET, include_memory_kernels=False)
    assert "MEMORY" not in list(types["kernel_type"]) + list(kernels["kernel_type"])
    assert types["percentage"].sum() == pytest.approx(100, abs=0.2)


def test_names_beyond_the_most_are_others(analyzer: TraceAnalysis) -> None:
    frame = analyzer.get_gpu_user_annotation_breakdown(
        use_gpu_annotation=False, num_kernels=1, **QUIET
    )
    assert frame is not None
    assert list(frame["name"]) == ["ProfilerStep#1", "others"] * 2
    kept = analyzer.get_gpu_user_annotation_breakdown(
        use_gpu_annotation=False, num_kernels=1, allowlist_patterns=["#2"], **QUIET
    )
    assert kept is not None
    assert list(kept["name"]) == ["ProfilerStep#1", "ProfilerStep#2"] * 2
    on_device = analyzer.get_gpu_user_annotation_breakdown(**QUIET)
    assert on_device is not None
    assert records(on_device)[0]["name"] == "forward"
    assert records(on_device)[0]["mean (us)"] == 300.0


def test_idle_time_by_its_causes(analyzer: TraceAnalysis) -> None:
    idle, statistics = analyzer.get_idle_time_breakdown(
        ranks=[0], show_idle_interval_stats=True, **QUIET
    )
    lines = [line for line in records(idle) if line["idle_time"]]
    # stream 7: the copy was called 50 before the kernel's end, and the next step's kernel late
    assert [(line["stream"], line["idle_category"], line["idle_time"]) for line in lines] == [
        (7, "host_wait", 950.0),
        (20, "host_wait", 800.0),
    ]
    assert statistics is not None
    assert list(statistics.columns[:3]) == ["rank", "stream", "count"]
    none, no_statistics = analyzer.get_idle_time_breakdown(ranks=[1], streams=[7], **QUIET)
    assert set(none["stream"]) == {7} and no_statistics is None


def test_launches(analyzer: TraceAnalysis) -> None:
    stats = analyzer.get_cuda_kernel_launch_stats(ranks=[0, 1], **QUIET)
    assert list(stats) == [0, 1]
    assert records(stats[0])[0] == {
        "correlation": 1,
        "cpu_duration": 10.0,
        "gpu_duration": 200.0,
        "launch_delay": 20.0,
    }
    without = analyzer.get_cuda_kernel_launch_stats(include_memory_events=False, **QUIET)
    assert (len(stats[0]), len(without[0])) == (6, 4)


def test_series_and_their_summaries(analyzer: TraceAnalysis) -> None:
    lengths = analyzer.get_queue_length_time_series()[0]
    assert list(lengths.columns) == ["ts", "pid", "tid", "stream", "queue_length"]
    # from the first event, which is the step that begins at 100
    assert list(lengths["ts"][:2]) == [20.0, 50.0]
    summary = analyzer.get_queue_length_summary(ranks=[0, 1])
    assert summary is not None
    assert list(summary.index) == [(0, 7), (0, 20), (1, 7), (1, 20)]
    assert summary.loc[(0, 7), ("queue_length", "max")] == 1.0
    full = analyzer.get_time_spent_blocked_on_full_queue({0: lengths}, max_queue_length=1)
    assert full is not None
    assert full.loc[0, "stream"] == 20 and full.loc[0, "duration_at_max_queue_length"] == 220.0
    bandwidth = analyzer.get_memory_bw_summary()
    assert bandwidth is not None
    assert bandwidth.loc[(0, "Memcpy HtoD"), ("memory_bw_gbps", "mean")] == 10.0


def test_steps_and_stragglers(analyzer: TraceAnalysis, folder: Path) -> None:
    assert analyzer.get_profiler_steps() == [1, 2]
    assert analyzer.get_potential_stragglers(num_candidates=1) == [1]
    assert analyzer.get_potential_stragglers(profiler_steps=[2], num_candidates=-1) == [1]
    with pytest.raises(ValueError, match="steps"):
        analyzer.get_potential_stragglers(profiler_steps=[77])
    all_steps = TraceAnalysis(trace_dir=str(folder), include_last_profiler_step=True)
    assert all_steps.get_profiler_steps() == [1, 2, 3]


def test_files_are_named_as_in_hta(folder: Path) -> None:
    one = TraceAnalysis({3: "rank1.json.gz"}, str(folder))
    assert one.trace_files == {3: str(folder / "rank1.json.gz")}
    listed = TraceAnalysis([str(folder / "rank1.json.gz")], "")
    assert list(listed.trace_files) == [1]
    with pytest.raises(ValueError, match="the ranks are 1"):
        listed.get_queue_length_time_series(ranks=[0])
    with pytest.raises(etlink.Error, match="no traces"):
        TraceAnalysis(trace_dir=str(Path(__file__).parent))
    with pytest.raises(etlink.Error, match="cannot read"):
        TraceAnalysis(trace_dir="no/such/folder")
    with pytest.raises(etlink.Error, match="missing.json") as raised:
        TraceAnalysis({0: "missing.json"}, str(folder))
    assert str(folder) in (raised.value.remedy or "")
    with pytest.raises(etlink.Error, match="cannot read") as raised:
        TraceAnalysis(trace_dir=str(folder / "rank1.json.gz"))
    assert "trace_files=" in (raised.value.remedy or "")


def test_of_two_traces_of_a_rank_the_last_is_taken(folder: Path, tmp_path: Path) -> None:
    first = draw_rank(tmp_path, 0)
    first.rename(tmp_path / "a.json.gz")
    draw_rank(tmp_path, 0)
    with pytest.warns(UserWarning, match="several traces"):
        analyzer = TraceAnalysis(trace_dir=str(tmp_path))
    assert analyzer.trace_files == {0: str(tmp_path / "rank0.json.gz")}


def test_files_of_a_folder_that_are_no_device_traces_are_left_out(tmp_path: Path) -> None:
    draw_rank(tmp_path, 0)
    # a host trace belongs there, another file does not
    host = tmp_path / "torch_et_0.json.gz"
    host.write_bytes((PAIRS / "mlp-2.15.0" / host.name).read_bytes())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(TraceAnalysis(trace_dir=str(tmp_path)).trace_files) == [0]
    host.unlink()
    other = tmp_path / "execution_trace.json"
    other.write_text('{"nodes": []}')
    with pytest.warns(UserWarning, match="execution_trace.json"):
        analyzer = TraceAnalysis(trace_dir=str(tmp_path))
    assert list(analyzer.trace_files) == [0]
    # who names a file means it
    with pytest.raises(etlink.Error, match="execution_trace.json"):
        TraceAnalysis({0: str(other)}, "")
    (tmp_path / "rank0.json.gz").unlink()
    with pytest.raises(etlink.Error, match="execution_trace.json"):
        TraceAnalysis(trace_dir=str(tmp_path))


def test_times_as_they_are(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTA_DISABLE_NS_ROUNDING", "1")
    exact = TraceAnalysis(trace_dir=str(folder))
    assert records(exact.get_temporal_breakdown(**QUIET))[0]["kernel_time(us)"] == 1450.0


def test_a_trace_with_counters_is_written(folder: Path, tmp_path: Path) -> None:
    path = draw_rank(tmp_path, 0)
    analyzer = TraceAnalysis({0: str(path)}, "")
    analyzer.generate_trace_with_counters(TimeSeriesTypes.QUEUE_LENGTH)
    with gzip.open(tmp_path / "rank0_with_counters.json.gz", "rt") as text:
        events = json.load(text)["traceEvents"]
    counters = [event for event in events if event["ph"] == "C"]
    # by the clock of the file
    assert counters[0] == {
        "ph": "C",
        "name": "Queue Length",
        "pid": 0,
        "ts": 120.0,
        "args": {"Queue Length": 1},
        "id": 7,
    }
    assert len(counters) == len(analyzer.get_queue_length_time_series()[0])


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("rank0.json.gz", "rank0_with_counters.json.gz"),
        ("rank0.json", "rank0_with_counters.json"),
        ("rank0.pt.trace.gz", "rank0.pt.trace_with_counters.json.gz"),
        ("rank0", "rank0_with_counters.json.gz"),
    ],
)
def test_a_trace_with_counters_is_another_file(name: str, written: str, tmp_path: Path) -> None:
    # HTA changes names of folders, too
    folder = tmp_path / "traces.json"
    folder.mkdir()
    path = draw_rank(tmp_path, 0).rename(folder / name)
    recorded = path.read_bytes()
    analyzer = TraceAnalysis({0: str(path)}, "")
    analyzer.generate_trace_with_counters(TimeSeriesTypes.QUEUE_LENGTH)
    assert path.read_bytes() == recorded
    assert sorted(one.name for one in folder.iterdir()) == sorted([name, written])
    assert b"Queue Length" in gzip.decompress((folder / written).read_bytes())


def test_no_trace_is_replaced_by_one_with_counters(tmp_path: Path) -> None:
    first = draw_rank(tmp_path, 0)
    second = draw_rank(tmp_path, 1).rename(tmp_path / "rank0_with_counters.json.gz")
    recorded = second.read_bytes()
    analyzer = TraceAnalysis({0: str(first), 1: str(second)}, "")
    with pytest.raises(etlink.Error, match="is an input trace that") as raised:
        analyzer.generate_trace_with_counters(TimeSeriesTypes.QUEUE_LENGTH)
    assert raised.value.file == str(second) and raised.value.remedy == "give another output_suffix="
    assert second.read_bytes() == recorded
    with pytest.raises(etlink.Error, match="is not allowed in a file name"):
        analyzer.generate_trace_with_counters(output_suffix="/of/counters")
    analyzer.generate_trace_with_counters(ranks=[0, 1], output_suffix="_counted")
    assert (tmp_path / "rank0_with_counters_counted.json.gz").exists()


def test_a_trace_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    analyzer = TraceAnalysis({0: str(draw_rank(tmp_path, 0))}, "")
    analyzer.generate_trace_with_counters(TimeSeriesTypes.QUEUE_LENGTH)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    # half of it is written when this is refused
    unfit = {"traceEvents": ["x" * 100_000, object()]}
    with pytest.raises(TypeError):
        analyzer.write_raw_trace(str(tmp_path / "rank0_with_counters.json.gz"), unfit)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    with pytest.raises(etlink.Error, match="cannot write"):
        analyzer.write_raw_trace(str(tmp_path / "no" / "folder.json.gz"), {"traceEvents": []})


def test_frames_are_the_callers(analyzer: TraceAnalysis) -> None:
    frame = analyzer.get_temporal_breakdown(**QUIET)
    frame["rank"] = 7
    assert list(analyzer.get_temporal_breakdown(**QUIET)["rank"]) == [0, 1]


def test_the_critical_path_of_a_step(analyzer: TraceAnalysis, tmp_path: Path) -> None:
    graph, is_found = analyzer.critical_path_analysis(0, "ProfilerStep", 1)
    assert is_found and graph.critical_path()
    breakdown = graph.get_critical_path_breakdown()
    assert set(breakdown.columns) >= {"s_name", "duration", "type", "cat", "stream", "bound_by"}
    # the second step begins at 1,100
    assert 0 < breakdown["duration"].sum() <= 1_000
    summary = graph.summary()
    assert summary.sum() == pytest.approx(100)
    assert set(summary.index) <= {
        "",
        "cpu_bound",
        "gpu_compute_bound",
        "gpu_communication_bound",
        "gpu_kernel_kernel_overhead",
        "gpu_kernel_launch_overhead",
    }
    file = analyzer.overlay_critical_path_analysis(0, graph, str(tmp_path))
    events = json.loads(Path(file).read_text())["traceEvents"]
    assert len([event for event in events if event["ph"] == "X"]) == len(graph.nodes)
    whole = analyzer.overlay_critical_path_analysis(0, graph, str(tmp_path), False)
    assert len(json.loads(Path(whole).read_text())["traceEvents"]) > len(events)
    with pytest.raises(etlink.Error, match="instance"):
        analyzer.critical_path_analysis(0, "no such annotation", 0)
    with pytest.raises(ValueError, match="rank 7"):
        analyzer.critical_path_analysis(7, "ProfilerStep", 0)


def test_sequences_and_annotations_of_kernels(analyzer: TraceAnalysis, tmp_path: Path) -> None:
    frame = analyzer.get_frequent_cuda_kernel_sequences("aten::mm", str(tmp_path), min_pattern_len=1)
    assert list(frame.columns) == [
        "pattern",
        "count",
        "GPU kernel duration (us)",
        "CPU op duration (us)",
    ]
    assert frame["pattern"][0] == "aten::mm|gemm"
    none = analyzer.get_frequent_cuda_kernel_sequences("aten::mm", str(tmp_path), min_pattern_len=9)
    assert none.empty
    kernels = analyzer.get_gpu_kernels_with_user_annotations(0)
    assert kernels is not None
    assert kernels["s_user_annotation"].notna().any()


def test_what_is_htas_own_says_what_to_use(analyzer: TraceAnalysis, tmp_path: Path) -> None:
    for own in [
        lambda: analyzer.t,
        lambda: analyzer.get_aten_op_kernels_and_delay(),
        lambda: analyzer.overlay_critical_path_analysis(0, None, str(tmp_path)),
    ]:
        with pytest.raises(etlink.Error, match="pip install traceinsight"):
            own()


def test_plots_are_shown_where_plotly_is(
    analyzer: TraceAnalysis, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []
    graph_objects = pytest.importorskip("plotly.graph_objects")
    monkeypatch.setattr(
        graph_objects.Figure, "show", lambda figure, **_: shown.append(figure.layout.title.text)
    )
    analyzer.get_temporal_breakdown()
    analyzer.get_comm_comp_overlap()
    analyzer.get_gpu_kernel_breakdown()
    analyzer.get_gpu_user_annotation_breakdown()
    analyzer.get_cuda_kernel_launch_stats()
    idle, _ = analyzer.get_idle_time_breakdown()
    # HTA's frames have texts where it shows them
    assert set(idle["stream"]) == {"7", "20"}
    assert len(shown) == 1 + 1 + 7 + 2 + 3 + 1
    assert "Idle time of rank 0" in shown


def test_without_plotly_a_warning(
    analyzer: TraceAnalysis, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "plotly", None)
    monkeypatch.setitem(sys.modules, "plotly.express", None)
    with pytest.warns(UserWarning, match="pip install plotly"):
        analyzer.get_temporal_breakdown()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        analyzer.get_temporal_breakdown(visualize=False)
