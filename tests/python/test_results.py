"""Replay, comparison, page and files, against what the command says and writes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import PAIRS, run_etlink

import etlink

DDP = PAIRS / "ddp2-2.15.0"
MLP = PAIRS / "mlp-2.15.0"


@pytest.mark.parametrize("path", [DDP, MLP, *MLP.glob("kineto*")][:3])
def test_a_replay_is_that_of_the_command(path: Path) -> None:
    run = etlink.open(path)
    (said,) = json.loads(run_etlink("replay", path, "--json", "--critical-path"))["runs"]
    replayed = run.replay()
    assert replayed.data == said
    assert replayed.change_ns == 0
    assert len(replayed.critical_path) == len(said["critical_path"]["steps"]) > 0
    first = run.critical_path().to_pylist(1)[0]
    assert {name: first[name] for name in first if "." not in name}.items() >= {
        name: value
        for name, value in said["critical_path"]["steps"][0].items()
        # tables count from the Unix epoch, the command from the origin of the trace
        if not isinstance(value, (dict, list)) and name != "start_ns"
    }.items()


def test_changes_are_answered_as_by_the_command() -> None:
    words = ["--scale", "kind=host_op 0.5", "--what-if", "straggler=1", "--critical-path"]
    (said,) = json.loads(run_etlink("replay", DDP, "--json", *words))["runs"]
    replayed = etlink.open(DDP).replay(scale={"kind=host_op": 0.5}, what_if=["straggler=1"])
    assert replayed.change_ns == said["what_if"]["change_ns"] < 0
    assert replayed.makespan_ns == said["what_if"]["makespan_ns"]
    unchanged = etlink.open(DDP).replay()
    assert unchanged.makespan_ns == unchanged.data["figures"]["replayed_ns"]
    assert repr(unchanged).endswith(" ms>") and repr(replayed).endswith(" ms>")
    assert "ms" in repr(replayed)


def test_changes_of_nothing_are_errors() -> None:
    run = etlink.open(DDP)
    with pytest.raises(etlink.Error, match="no_such_op"):
        run.replay(scale={"no_such_op": 0.5})
    with pytest.raises(etlink.Error, match="faster"):
        run.replay(what_if="faster")
    with pytest.raises(etlink.Error, match="scale"):
        run.replay(scale={"kind=gemm": 0.5})
    with pytest.raises(TypeError):
        run.replay(scale={"aten::mm": "0.5"})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="dict"):
        run.replay(scale=0.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="DataFrame"):
        etlink.open(run.table("kernels").to_pandas())


def test_two_runs_are_compared_as_by_the_command() -> None:
    later = PAIRS / "mlp-2.4.1"
    said = json.loads(run_etlink("diff", MLP, later, "--json"))
    diff = etlink.open(MLP).diff(etlink.open(later))
    assert diff.data.items() <= said.items()
    changes = diff.table("changes")
    assert len(changes) == len(said["changes"]) > 0
    for side, name in enumerate(["before", "after"]):
        assert changes[f"{name}_times_ns"] == [row["times_ns"][side] for row in said["changes"]]
        assert changes[f"{name}_counts"] == [row["counts"][side] for row in said["changes"]]
    assert diff.sentences[0] in repr(diff)
    assert "<li>" in diff._repr_html_()
    with pytest.raises(etlink.Error, match="tables of two runs.* changes"):
        diff.table("kernels")
    with pytest.raises(TypeError):
        etlink.open(MLP).diff("mlp")  # type: ignore[arg-type]


def test_the_page_is_that_of_the_command(tmp_path: Path) -> None:
    written = tmp_path / "command.html"
    run_etlink("report", DDP, "-o", written)
    report = etlink.open(DDP).report()
    saved = tmp_path / "saved.html"
    report.save(saved)
    assert saved.read_bytes() == written.read_bytes()
    assert report._repr_html_().startswith("<iframe srcdoc=")
    with pytest.raises(etlink.Error, match="already exists") as raised:
        report.save(saved)
    assert raised.value.remedy is not None
    report.save(saved, overwrite=True)
    with pytest.raises(etlink.Error, match="cannot write"):
        report.save(tmp_path / "no" / "folder.html")


def test_a_page_that_cannot_be_written_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = etlink.open(DDP).report()
    saved = tmp_path / "saved.html"
    report.save(saved)
    saved.chmod(0o640)
    (tmp_path / "link.html").symlink_to(saved)
    page = saved.read_bytes()
    # no text file takes it: the disk is full in its midst
    monkeypatch.setattr(report, "html", report.html + "\udc80")
    for name in ["saved.html", "new.html"]:
        with pytest.raises(UnicodeEncodeError):
            report.save(tmp_path / name, overwrite=True)
    assert saved.read_bytes() == page
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.html", "saved.html"]
    monkeypatch.setattr(report, "html", "<p>new</p>")
    report.save(tmp_path / "link.html", overwrite=True)
    # a link stays one, and who may read the page may read the new one
    assert (tmp_path / "link.html").is_symlink()
    assert (saved.read_text(), saved.stat().st_mode & 0o777) == ("<p>new</p>", 0o640)
    report.save(Path("/dev/null"), overwrite=True)


def test_graphs_are_those_of_the_command(tmp_path: Path) -> None:
    run_etlink("merge", DDP, "-o", tmp_path / "command", "--for", "astra-sim")
    paths = etlink.open(DDP).to_chakra(tmp_path / "module", simulator="astra-sim")
    assert [Path(path).parent for path in paths] == [tmp_path / "module"] * 2
    names = sorted(path.name for path in (tmp_path / "command").iterdir())
    assert sorted(path.name for path in (tmp_path / "module").iterdir()) == names
    for name in names:
        if name.endswith(".et"):
            made = (tmp_path / "module" / name).read_bytes()
            assert made == (tmp_path / "command" / name).read_bytes()
    with pytest.raises(etlink.Error, match="overwrite"):
        etlink.open(DDP).to_chakra(tmp_path / "module")
    etlink.open(DDP).to_chakra(tmp_path / "module", simulator="astra-sim", overwrite=True)
    with pytest.raises(etlink.Error, match="unknown simulator"):
        etlink.open(DDP).to_chakra(tmp_path, simulator="other")


def test_timelines_are_those_of_the_command(tmp_path: Path) -> None:
    run_etlink("merge", DDP, "-o", tmp_path / "command", "--format", "perfetto")
    etlink.open(DDP).timeline(tmp_path / "all.pftrace.gz")
    expected = (tmp_path / "command" / "timeline.pftrace.gz").read_bytes()
    assert (tmp_path / "all.pftrace.gz").read_bytes() == expected
    etlink.open(DDP)[1].timeline(tmp_path / "one.trace.json")
    assert json.loads((tmp_path / "one.trace.json").read_text())["traceEvents"]
    with pytest.raises(etlink.Error):
        etlink.open(DDP).timeline(tmp_path / "all.pftrace.gz")
    etlink.open(DDP).timeline(tmp_path / "all.pftrace.gz", overwrite=True)
    with pytest.raises(etlink.Error, match="trace.json"):
        etlink.open(DDP).timeline(tmp_path / "all.txt")


@pytest.mark.parametrize(
    ("told", "text"),
    [
        ({}, "said"),
        ({"ranks": (3,), "remedy": "record again"}, "rank 3: said; record again"),
        ({"ranks": tuple(range(512))}, "512 traces (rank 0 … rank 511): said"),
        ({"ranks": (0, 2, 4, 6)}, "4 traces (rank 0, rank 2, rank 4, …): said"),
        ({"runs": ("a", "b"), "files": ("c",)}, "2 runs (a, b): c: said"),
        ({"severity": "damage", "ranks": (1,)}, "rank 1: damage: said"),
        ({"severity": "damage", "code": "two_runs"}, "said"),
    ],
)
def test_a_diagnostic_is_told_as_by_the_command(told: dict, text: str) -> None:
    fields = {"code": "truncated", "severity": "warning", "message": "said", **told}
    assert str(etlink.Diagnostic(**fields)) == text
