"""`etlink.ray` on a real cluster of this machine. `cargo dev ray` runs it."""

from __future__ import annotations

from pathlib import Path

import pytest
import ray
from cluster import TRACES, WORKERS, Killer, results, start_cluster

import etlink
import etlink.ray


@pytest.fixture(scope="module", autouse=True)
def cluster():
    start_cluster()
    yield
    ray.shutdown()


def test_the_files_are_those_of_one_merge(merged, tmp_path) -> None:
    seen = []
    files = etlink.ray.merge(
        TRACES, tmp_path, memory="1G", progress=lambda *what: seen.append(what)
    )
    assert len(files) == 64
    assert results(tmp_path) == merged
    shards = WORKERS * etlink.ray.SHARDS_PER_CPU
    for step, count in [("prepare", shards), ("write", shards)]:
        assert [what for what in seen if what[0] == step] == [
            (step, done, count) for done in range(1, count + 1)
        ]
    assert not [name for name in tmp_path.iterdir() if name.name.startswith(".")]
    with pytest.raises(etlink.Error, match="already exists; give overwrite=True to replace it"):
        etlink.ray.merge(TRACES, tmp_path, memory="1G")
    etlink.ray.merge(TRACES, tmp_path, shards=3, overwrite=True)
    assert results(tmp_path) == merged


def test_a_worker_that_is_killed_is_replaced(merged, tmp_path) -> None:
    killer = Killer(["prepare", "write"])
    etlink.ray.merge(TRACES, tmp_path, memory="1G", shards=16, progress=killer.on_progress)
    assert [step for step, _ in killer.killed] == ["prepare", "write"]
    assert results(tmp_path) == merged


def test_a_worker_that_is_always_killed_is_an_error(tmp_path) -> None:
    killer = Killer(["prepare"])
    with pytest.raises(etlink.Error, match="a task of the step prepare was lost: "):
        etlink.ray.merge(
            TRACES, tmp_path, memory="1G", shards=16, retries=0, progress=killer.on_progress
        )


@pytest.fixture
def broken(tmp_path) -> Path:
    """The folder, with a rank that cannot be read."""
    source = tmp_path / "source"
    source.mkdir()
    for path in TRACES.iterdir():
        if path.name.endswith(".json.gz") or path.name.endswith(".json"):
            (source / path.name).symlink_to(path)
    bad = sorted(source.glob("torch_et_7.json*"))[0]
    bad.unlink()
    bad.write_text("this is no trace")
    return source


def test_a_rank_that_fails_is_named_and_the_others_are_written(broken, tmp_path) -> None:
    folder = tmp_path / "out"
    with pytest.raises(etlink.Error, match="rank 7: .*torch_et_7"):
        etlink.ray.merge(broken, folder, memory="1G", shards=8)
    assert len([name for name in results(folder) if name.endswith(".et")]) == 63

def rows(table: etlink.Table) -> list[dict]:
    return table.to_pylist()


def test_tables_are_those_of_one_process() -> None:
    run = etlink.open(TRACES)
    seen = []
    analyzed = etlink.ray.analyze(TRACES, memory="1G", progress=lambda *what: seen.append(what))
    shards = WORKERS * etlink.ray.SHARDS_PER_CPU
    done = [("prepare", number, shards) for number in range(1, shards + 1)]
    assert seen == [*done, ("join", 1, 1)]
    assert {"kernels", "host_ops", "steps", "metrics", "stragglers"} <= set(analyzed)
    assert not {"sequences", "memory_timeline"} & set(analyzed)
    for name, table in analyzed.items():
        shown = name if name in run.tables else f"analyze.{name}"
        if name == "collectives":
            shown = "analyze.collectives"
        assert table.name == name
        assert rows(table) == rows(run.table(shown)), name
    assert set(analyzed.diagnostics) == set(run.diagnostics)
    ranks = etlink.ray.ranks(TRACES, memory="1G", shards=5)
    assert {f"ranks.{name}" for name in ranks} == {
        name for name in run.tables if name.startswith("ranks.")
    }
    for name, table in ranks.items():
        assert rows(table) == rows(run.table(f"ranks.{name}")), name
    assert len(rows(ranks["ranks"])) == 64
    some = etlink.ray.analyze(TRACES, ranks=[1, 5], sequences_of="aten::addmm", shards=2)
    of_two = etlink.open(TRACES, ranks=[1, 5])
    expected = of_two.table("sequences", sequences_of="aten::addmm")
    assert rows(some["sequences"]) == rows(expected)
    assert {row["rank"] for row in rows(some["steps"])} == {1, 5}
    with pytest.raises(KeyError, match="unknown table nothing; tables are utilization"):
        some["nothing"]


def test_findings_and_replays_are_those_of_one_process() -> None:
    # their graphs are replayed as one, which takes a debug build its time
    some = range(8)
    run = etlink.open(TRACES, ranks=some)
    assert etlink.ray.findings(TRACES, ranks=some, memory="1G") == run.findings()
    for arguments in [{}, {"scale": {"kind=host_op": 0.5}}, {"what_if": "straggler=1"}]:
        expected = run.replay(**arguments)
        replayed = etlink.ray.replay(TRACES, **arguments, ranks=some, memory="1G", shards=3)
        assert replayed.data == expected.data
        assert rows(replayed.critical_path) == rows(expected.critical_path)
    with pytest.raises(etlink.Error, match="no communication in group \"x\""):
        etlink.ray.replay(TRACES, what_if="bandwidth=x:2", ranks=some, memory="1G", shards=3)


def test_a_report_survives_a_worker_that_is_killed() -> None:
    expected = rows(etlink.open(TRACES).table("ranks.steps"))
    killer = Killer(["prepare"])
    ranks = etlink.ray.ranks(TRACES, memory="1G", shards=16, progress=killer.on_progress)
    assert [step for step, _ in killer.killed] == ["prepare"]
    assert rows(ranks["steps"]) == expected


def test_a_report_names_a_rank_that_fails(broken) -> None:
    analyzed = etlink.ray.analyze(broken, memory="1G", shards=8)
    run = etlink.open(broken)
    assert rows(analyzed["steps"]) == rows(run.table("steps"))
    assert set(analyzed.diagnostics) == set(run.diagnostics)
    assert any("rank 7 is left out: " in str(told) for told in analyzed.diagnostics)


def test_bad_arguments_are_errors_before_any_task(tmp_path) -> None:
    for arguments, message in [
        ({"shards": 0}, "0 shards are too few"),
        ({"simulator": "ns-3"}, "unknown simulator 'ns-3'"),
        ({"memory": "much"}, "'much' is not a size"),
        ({"ranks": [-1]}, "-1 is not a rank"),
        ({"memory": "900T"}, "no machine of the cluster has 900000000000000 bytes"),
    ]:
        with pytest.raises(etlink.Error, match=message):
            etlink.ray.merge(TRACES, tmp_path / "out", **arguments)
    with pytest.raises(etlink.Error, match="nowhere"):
        etlink.ray.merge(tmp_path / "nowhere", tmp_path / "out")
    for report in [etlink.ray.analyze, etlink.ray.ranks, etlink.ray.findings, etlink.ray.replay]:
        for arguments, message in [
            ({"shards": 0}, "0 shards are too few"),
            ({"memory": "900T"}, "no machine of the cluster has 900000000000000 bytes"),
            ({"ranks": [99]}, "no traces for the ranks"),
        ]:
            with pytest.raises(etlink.Error, match=message):
                report(TRACES, **arguments)
        with pytest.raises(etlink.Error, match="nowhere"):
            report(tmp_path / "nowhere")
    with pytest.raises(etlink.Error, match="what_if .*nonsense"):
        etlink.ray.replay(TRACES, what_if="nonsense", shards=1)
    assert not (tmp_path / "out").exists()
