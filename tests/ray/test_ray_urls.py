"""`etlink.ray` from an object store to an object store: moto, on this machine."""

from __future__ import annotations

import pytest
import ray
from cluster import TRACES, WORKERS, Killer, start_cluster
from s3 import BUCKET, Store

import etlink
import etlink.ray

SOURCE = f"s3://{BUCKET}/traces"


class Gate:
    """Stands before the store, and refuses requests when it is told to."""

    def __init__(self) -> None:
        self.every, self.refused = 0, 0

    def allows(self, number: int, method: str, path: str) -> bool:
        if self.every and number % self.every == 0:
            self.refused += 1
            return False
        return True


@pytest.fixture(scope="module")
def gate() -> Gate:
    return Gate()


@pytest.fixture(scope="module", autouse=True)
def store(gate):
    store = Store()
    store.put_folder(TRACES, "traces")
    with pytest.MonkeyPatch.context() as patch, store.behind(gate.allows) as port:
        # workers have the environment of the process that starts the cluster
        for name, value in store.environment(port).items():
            patch.setenv(name, value)
        start_cluster()
        yield store
        ray.shutdown()
    store.close()


def results(store: Store, prefix: str) -> dict[str, bytes]:
    """What was written, but for unfinished files."""
    contents = store.contents(prefix).items()
    return {name: content for name, content in contents if not name.startswith(".")}


def test_the_objects_are_the_files_of_one_merge(merged, store) -> None:
    output = f"s3://{BUCKET}/merged"
    files = etlink.ray.merge(SOURCE, output, memory="1G", shards=WORKERS)
    assert files == sorted(f"{output}/{name}" for name in merged if name.endswith(".et"))
    assert len(files) == 64
    assert results(store, "merged") == merged
    # nothing else is left
    assert sorted(store.names("merged")) == sorted(merged)
    assert store.open_uploads() == 0
    with pytest.raises(etlink.Error, match=rf"{output}/.*\.et already exists; give overwrite=True"):
        etlink.ray.merge(SOURCE, output, memory="1G")


def test_a_worker_that_is_killed_is_replaced(merged, store) -> None:
    killer = Killer(["prepare", "write"])
    etlink.ray.merge(
        SOURCE, f"s3://{BUCKET}/killed", memory="1G", shards=5, progress=killer.on_progress
    )
    assert [step for step, _ in killer.killed] == ["prepare", "write"]
    assert results(store, "killed") == merged


def test_a_store_that_refuses_every_tenth_request_changes_nothing(merged, store, gate) -> None:
    gate.every = 10
    try:
        etlink.ray.merge(SOURCE, f"s3://{BUCKET}/refused", memory="1G", shards=WORKERS)
    finally:
        gate.every = 0
    assert gate.refused > 20
    assert results(store, "refused") == merged


def test_reports_of_a_store_are_those_of_one_process(store, gate) -> None:
    # the merges above are of all ranks, and the server needs its time for each request
    some = range(12)
    run = etlink.open(TRACES, ranks=some)
    killer = Killer(["prepare"])
    gate.every, refused = 10, gate.refused
    try:
        ranks = etlink.ray.ranks(
            SOURCE, ranks=some, memory="1G", shards=6, progress=killer.on_progress
        )
        analyzed = etlink.ray.analyze(SOURCE, ranks=some, memory="1G", shards=WORKERS)
    finally:
        gate.every = 0
    assert [step for step, _ in killer.killed] == ["prepare"]
    assert gate.refused > refused + 10
    for name in ["clocks", "ranks", "steps"]:
        assert ranks[name].to_pylist() == run.table(f"ranks.{name}").to_pylist(), name
    for name in ["kernels", "steps", "metrics"]:
        assert analyzed[name].to_pylist() == run.table(name).to_pylist(), name


def test_a_run_in_a_store_is_opened(merged, store) -> None:
    run, on_disk = etlink.open(SOURCE), etlink.open(TRACES)
    assert run.ranks == on_disk.ranks
    assert run.table("ranks.ranks").to_pylist() == on_disk.table("ranks.ranks").to_pylist()
    run[3].to_chakra(f"s3://{BUCKET}/third")
    [name] = [name for name in store.names("third") if name.endswith(".et")]
    assert name == "traces.3.et"


def test_urls_that_no_task_could_use_are_errors(store) -> None:
    with pytest.raises(etlink.Error, match="https is not an object store; give a folder, or one of s3"):
        etlink.ray.merge("https://example.org/traces", f"s3://{BUCKET}/x")
    with pytest.raises(etlink.Error, match="s3://bucket/nothing"):
        etlink.ray.merge(f"s3://{BUCKET}/nothing", f"s3://{BUCKET}/x")
    assert store.names("x") == []
