"""`etlink.ray` on a real cluster of this machine. `cargo dev ray` runs it."""

from __future__ import annotations

import os
import re
import signal
import threading
from pathlib import Path

import psutil
import pytest
import ray

import etlink
import etlink.ray

TRACES = Path(os.environ["ETLINK_RAY_TRACES"])
"""64 ranks, made of one that was recorded."""
WORKERS = 2


@pytest.fixture(scope="module", autouse=True)
def cluster():
    # small: the default is a third of the machine's memory
    store = 100_000_000
    ray.init(
        num_cpus=WORKERS,
        object_store_memory=store,
        include_dashboard=False,
        logging_level="ERROR",
    )
    yield
    ray.shutdown()


def results(folder: Path) -> dict[str, bytes]:
    """What was written, but for what phases hand to each other."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    names = {str(path.relative_to(folder)): path for path in paths}
    return {name: path.read_bytes() for name, path in names.items() if not name.startswith(".")}


@pytest.fixture(scope="module")
def merged(tmp_path_factory) -> dict[str, bytes]:
    """The files of a merge in one process."""
    folder = tmp_path_factory.mktemp("one")
    etlink.open(TRACES).to_chakra(folder)
    return results(folder)


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


class Killer(threading.Thread):
    """Kills a worker in the middle of a task of each phase that is asked for."""

    def __init__(self, phases: list[str]) -> None:
        super().__init__(daemon=True)
        self.phases, self.killed = phases, []
        self.lock = threading.Lock()

    def on_progress(self, phase: str, done: int, shards: int) -> None:
        # some shards are done, and others are under way
        if phase in self.phases and done == 2:
            self.phases.remove(phase)
            self.kill_one(phase)

    def kill_one(self, phase: str) -> None:
        while True:
            for process in psutil.process_iter(["cmdline"]):
                line = " ".join(process.info["cmdline"] or [])
                # a worker that has a task is named by it
                if re.search(r"^ray::etlink", line):
                    os.kill(process.pid, signal.SIGKILL)
                    self.killed.append((phase, process.pid))
                    return


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
