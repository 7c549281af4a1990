"""Loads exported traces with Perfetto's own trace_processor, and compares them with the recordings and with what `link` reports.

Usage: perfetto.py ENGINE [TRACE...]. ENGINE is a folder of Perfetto's UI, see perfetto.mjs. Reads the recorded pairs and runs,
and further device traces.
"""
import gzip
import json
import sys
from collections import Counter
from decimal import Decimal
from pathlib import Path

from command import PAIRS, ROOT, etlink, etlink_json, run

FORMATS = {"chrome": "trace.json", "perfetto": "pftrace"}
# categories of ranges that etlink draws itself
DRAWN = {"node", "transfer", "step", "delay"}
FOLDER = ROOT / "target/perfetto"


def read(file):
    """Returns what trace_processor found, after checking that it lost nothing."""
    found = json.loads(run("node", "--max-old-space-size=8192", Path(__file__).with_suffix(".mjs"), ENGINE, file))
    assert not found["stats"], found["stats"]
    # slices outside all threads are imported, but nobody would find them
    assert len(found["slices"]) == found["all_slices"], f"{len(found['slices'])} of {found['all_slices']} are on threads"
    assert len(found["flows"]) == found["all_flows"], f"{len(found['flows'])} of {found['all_flows']} have both ends"
    return found


def check_paths(found):
    """Checks that the steps of each critical path follow each other without gaps."""
    paths = {}
    for process, *_, start, duration, category in found["slices"]:
        if (process or "").endswith("critical path"):
            paths.setdefault(process, []).append((start, start + duration, category))
    for name, path in paths.items():
        path.sort()
        assert all(one[1] == other[0] for one, other in zip(path, path[1:])), f"{name} has gaps"
    steps = sum(part[2] == "step" for path in paths.values() for part in path)
    assert steps == found["critical_path_args"], f"{found['critical_path_args']} of {steps} steps have a cause"
    return steps


def recorded(device):
    """Counts the events of a recording by category, name and duration in ns; None if it is no valid JSON."""
    text = device.read_bytes()
    try:
        trace = json.loads(gzip.decompress(text) if text[:2] == b"\x1f\x8b" else text, parse_float=Decimal)
    except ValueError:
        return None
    events = trace["traceEvents"] if isinstance(trace, dict) else trace
    # readers drop events without a time
    shown = (event for event in events if event.get("ph") in ("X", "i", "C") and event.get("ts") is not None)
    return Counter((event.get("cat", ""), str(event["name"]), round(Decimal(event.get("dur", 0)) * 1000)) for event in shown)


def check_pair(name, host, device):
    for form, ending in FORMATS.items():
        # one file for all: exports of large traces would fill the disk
        file = FOLDER / f"x.{ending}"
        hosts = ("--host", host) if host else ()
        shown = etlink_json("link", "--overwrite", "--allow-mismatch", "-o", file, "--device", device, *hosts)["shown"]
        found = read(file)
        assert len(found["flows"]) == shown["arrows"], f"{len(found['flows'])} flows, {shown['arrows']} arrows"
        steps = check_paths(found)
        assert steps <= shown["critical_path"], f"{steps} steps, {shown['critical_path']} linked"
        want, have = recorded(device), Counter((part[-1] or "", part[4], part[6]) for part in found["slices"] if part[-1] not in DRAWN)
        assert want is None or want == have, f"the recording has {want - have}, Perfetto {have - want}"
        print(f"{name} as {form}: {len(found['slices'])} slices, {len(found['flows'])} flows, {steps} steps")


def check_run(folder, ranks):
    for form, ending in FORMATS.items():
        output = FOLDER / "run"
        etlink("merge", folder, "--overwrite", "--format", form, "-o", output)
        found = read(output / f"timeline.{ending}.gz")
        check_paths(found)
        shown = {process.split(" · ")[0] for process, *_ in found["slices"] if process and " · " in process}
        assert shown == {f"rank {rank}" for rank in range(ranks)}, shown
        print(f"run {folder.name} as {form}: {len(found['slices'])} slices, {len(found['flows'])} flows")


ENGINE = sys.argv[1]
for case in sorted(PAIRS.iterdir()):
    devices = sorted(case.glob("kineto_trace_*.json.gz"))
    for rank, device in enumerate(devices):
        check_pair(f"{case.name}/{rank}", case / f"torch_et_{rank}.json.gz", device)
    if len(devices) > 1:
        check_run(case, len(devices))
for device in map(Path, sys.argv[2:]):
    check_pair(device.name, None, device)
