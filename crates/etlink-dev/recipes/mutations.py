"""Damages recordings of a GPU, and looks that `--strict` refuses all damage that changes a figure by more than 1 %.

    python3 mutations.py [RECORDING...]

Started by `cargo dev utilization`, with one small recording. A mutation that leaves a trace as some other program could
have written it, such as a last step that is missing, is none of these.
"""

import copy
import gzip
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from command import ROOT, etlink, etlink_json

RECORDINGS = [ROOT / "testdata/gpu/streams-changed"]
ROWS = {"kernel", "gpu_memcpy", "gpu_memset"}
CALLS = {"cuda_runtime", "cuda_driver"}
CHANGE = 0.01
"""Maximum share by which a figure may change without an exit code that says so."""


def of(*categories):
    return lambda event: event.get("ph") == "X" and event.get("cat") in categories


row, call, op = of(*ROWS), of(*CALLS), of("cpu_op")


def step(event):
    return event.get("cat") == "user_annotation" and event["name"].startswith("ProfilerStep#")


def some(part, which, change):
    """Changes a part of the events, at least one; an event that becomes `None` is lost."""

    def mutate(events, chance):
        chosen = [number for number, event in enumerate(events) if which(event)]
        chosen = set(chance.sample(chosen, max(1, int(part * len(chosen)))))
        changed = []
        for number, event in enumerate(events):
            if number in chosen:
                event = change(copy.deepcopy(event))
            changed += event if isinstance(event, list) else [event] * (event is not None)
        return changed

    return mutate


def between(begin, end, which):
    """Loses a part of the time."""

    def mutate(events, _):
        starts = sorted(event["ts"] for event in events if which(event))
        first, last = starts[int(begin * len(starts))], starts[min(int(end * len(starts)), len(starts) - 1)]
        return [event for event in events if not (which(event) and first <= event["ts"] <= last)]

    return mutate


def moved(microseconds):
    return lambda event: event | {"ts": event["ts"] + microseconds}


def lasting(factor):
    return lambda event: event | {"dur": event["dur"] * factor}


def without(key):
    return lambda event: {name: value for name, value in event.items() if name != key}


def lost(_):
    return None


MUTATIONS = {
    "rows are lost, 1 in 20": some(0.05, row, lost),
    "rows are lost in the middle": between(0.4, 0.6, row),
    "rows are lost at the end": between(0.8, 1, row),
    "rows are written twice": some(0.1, row, lambda event: [event, event]),
    "rows are written again 0.5 us later": some(0.1, row, lambda event: [event, moved(0.5)(event)]),
    "all events are written twice": some(1, of(*ROWS, *CALLS, "cpu_op"), lambda event: [event, event]),
    "rows last 100 times as long": some(0.01, row, lasting(100)),
    "rows last in ns instead of us": some(1, row, lasting(1000)),
    "a row lasts 3 s": some(0, row, lambda event: event | {"dur": 3_000_000}),
    "rows have no time": some(0.1, row, lambda event: event | {"ts": 0, "dur": 0}),
    "rows have no length": some(0.1, row, lasting(0)),
    "rows have negative lengths": some(0.05, row, lasting(-1)),
    "rows have no begin": some(0.05, row, without("ts")),
    "rows begin 10 s early": some(0.01, row, moved(-1e7)),
    "calls are lost, 1 in 20": some(0.05, call, lost),
    "calls last 1,000 times as long": some(0.01, call, lasting(1000)),
    "ops are lost, 1 in 10": some(0.1, op, lost),
    "ops are lost in the middle": between(0.4, 0.6, op),
    "ops and calls are lost in the middle": between(0.4, 0.6, of("cpu_op", *CALLS)),
    "ops last 100 times as long": some(0.02, op, lasting(100)),
    "ops have no length": some(0.2, op, lasting(0)),
    "ops are on another thread": some(0.1, op, lambda event: event | {"tid": 4242}),
}


def figures(folder):
    """Figures of the run, as shares of its window."""
    total = etlink_json("analyze", folder)["runs"][0]["total"]["utilization"][0]
    found = etlink_json("findings", folder)["runs"][0]
    gain = found["together"]["gain_ns"] if found.get("together") else sum(one["gain_ns"] for one in found["findings"])
    times = {name: total[name] for name in ("window_ns", "busy_ns", "idle_ns")} | {"gain_ns": gain}
    return times


def differs(one, other):
    window = one["window_ns"]
    return any(abs(one[name] - other[name]) > CHANGE * window for name in one)


def refused(folder):
    """Whether both commands end with 1, or refuse the trace as a whole."""
    lines = [[os.environ["ETLINK"], "-q", command, folder, "--strict"] for command in ("analyze", "findings")]
    return all(subprocess.run(line, capture_output=True).returncode in (1, 2) for line in lines)


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for recording in map(Path, sys.argv[1:] or RECORDINGS):
            whole, damaged = Path(folder, recording.name), Path(folder, "damaged")
            # unpacks the traces, whatever packed them
            etlink("convert", "--anonymise", recording, "-o", whole)
            name = "kineto_trace_0.json.gz"
            trace, right = json.loads(gzip.decompress((whole / name).read_bytes())), figures(whole)
            if refused(whole):
                sys.exit(f"{recording}: the recording itself is refused")
            for what, mutate in MUTATIONS.items():
                damaged.mkdir(exist_ok=True)
                (damaged / "torch_et_0.json.gz").write_bytes((whole / "torch_et_0.json.gz").read_bytes())
                events = mutate(trace["traceEvents"], random.Random(what))
                (damaged / name).write_bytes(gzip.compress(json.dumps(trace | {"traceEvents": events}).encode(), 1))
                changes, said = differs(right, figures(damaged)), refused(damaged)
                failed += changes and not said
                outcome = "refused" if said else "unnoticed" if changes else "harmless"
                print(f"{recording.name:20} {what:40} {'changes figures' if changes else '':16} {outcome}", flush=True)
    print(f"{len(MUTATIONS)} mutations, {failed} failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
