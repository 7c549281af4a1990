"""`etlink.ray` on a real cluster of this machine. `cargo dev ray` runs it."""

from __future__ import annotations

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
    for phase, count in [("summaries", shards), ("join", 1), ("write", shards)]:
        assert [what for what in seen if what[0] == phase] == [
            (phase, done, count) for done in range(1, count + 1)
        ]
    assert not (tmp_path / ".etlink-phases").exists()
    with pytest.raises(etlink.Error, match="exists; give overwrite=True to replace it"):
        etlink.ray.merge(TRACES, tmp_path, memory="1G")
    etlink.ray.merge(TRACES, tmp_path, shards=3, overwrite=True)
    assert results(tmp_path) == merged


def test_a_worker_that_is_killed_is_replaced(merged, tmp_path) -> None:
    killer = Killer(["summaries", "write"])
    etlink.ray.merge(TRACES, tmp_path, memory="1G", shards=16, progress=killer.on_progress)
    assert [phase for phase, _ in killer.killed] == ["summaries", "write"]
    assert results(tmp_path) == merged


def test_a_worker_that_is_always_killed_is_an_error(tmp_path) -> None:
    killer = Killer(["summaries"])
    with pytest.raises(etlink.Error, match="a task of the phase summaries was lost: "):
        etlink.ray.merge(
            TRACES, tmp_path, memory="1G", shards=16, retries=0, progress=killer.on_progress
        )


def test_a_rank_that_fails_is_named_and_the_others_are_written(merged, tmp_path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for path in TRACES.iterdir():
        if path.name.endswith(".json.gz") or path.name.endswith(".json"):
            (source / path.name).symlink_to(path)
    bad = sorted(source.glob("torch_et_7.json*"))[0]
    bad.unlink()
    bad.write_text("this is no trace")
    folder = tmp_path / "out"
    with pytest.raises(etlink.Error, match="rank 7: .*torch_et_7"):
        etlink.ray.merge(source, folder, memory="1G", shards=8)
    assert len([name for name in results(folder) if name.endswith(".et")]) == 63


def test_bad_arguments_are_errors_before_any_task(tmp_path) -> None:
    for arguments, message in [
        ({"shards": 0}, "0 shards are no shards"),
        ({"simulator": "ns-3"}, "no simulator 'ns-3'"),
        ({"memory": "much"}, "'much' is no size"),
        ({"ranks": [-1]}, "-1 is no rank"),
        ({"memory": "900T"}, "no machine of the cluster has 900000000000000 bytes"),
    ]:
        with pytest.raises(etlink.Error, match=message):
            etlink.ray.merge(TRACES, tmp_path / "out", **arguments)
    with pytest.raises(etlink.Error, match="nowhere"):
        etlink.ray.merge(tmp_path / "nowhere", tmp_path / "out")
    assert not (tmp_path / "out").exists()
