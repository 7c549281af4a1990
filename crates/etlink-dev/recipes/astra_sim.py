"""Runs recordings in ASTRA-sim and compares its results with the measurements.

Usage: astra_sim.py --simulator PROGRAM [--part whole|device-only|comm-only] [--keep-logs] [TRACES...]. The simulator is in no
package index: it must be built from its public sources. Besides the recordings in testdata, TRACES are folders of recordings.
"""
import argparse
import shutil
import sys
import time
from pathlib import Path

from command import PAIRS, ROOT, etlink, etlink_json, run

# recordings whose logs are committed
KEPT = ("experts2-2.15.0", "tpdp4-2.15.0")
# maximum change of a rank's and a kind's time
RANK_BAR, KIND_BAR = 0.05, 0.15


def simulate(traces):
    """Merges, simulates and compares a recording. Returns its name, the comparison and the fitted kinds of transfers."""
    folder = ROOT / "target/astra-sim" / traces.name
    # the simulator appends to the log of an earlier run
    shutil.rmtree(folder, ignore_errors=True)
    part = () if options.part == "whole" else (f"--{options.part}",)
    merged = etlink_json("merge", "--for", "astra-sim", *part, traces, "-o", folder)
    system = folder / "system.json"
    text = system.read_text()
    traced = text.replace('"trace-enabled": 0', '"trace-enabled": 1')
    assert traced != text, f"{system}: no trace-enabled"
    system.write_text(traced)
    graph = next(path for path in folder.iterdir() if path.name.endswith(".0.et"))
    files = {
        "workload": graph.with_name(graph.name.removesuffix(".0.et")),
        "system": system,
        "network": folder / "network.yml",
        "remote-memory": folder / "memory.json",
        "comm-group": folder / "comm_group.json",
    }
    if not files["comm-group"].is_file():
        files.pop("comm-group")
    began = time.monotonic()
    # the exit code is meaningless: the simulator can abort at exit, after all times are logged
    printed = run(
        options.simulator, *(f"--{name}-configuration={file}" for name, file in files.items()), check=False, cwd=folder
    )
    print(f"{traces.name}: {time.monotonic() - began:.2f} s in the simulator")
    compared = etlink_json("simulated", folder, "--against", traces)
    if options.keep_logs and traces.name in KEPT:
        kept = ROOT / "testdata/simulated" / traces.name
        kept.mkdir(parents=True, exist_ok=True)
        shutil.copy(folder / "log/log.log", kept)
        (kept / "printed.txt").write_text(printed)
    fitted = [kind for one in merged["runs"] if one.get("network") for kind in one["network"]["kinds"]]
    return traces.name, compared, fitted


def percent(change):
    return "-" if change is None else f"{100 * change:+.1f}"


def millis(ns):
    return "-" if ns is None else f"{ns / 1e6:.3f}"


def print_row(*cells):
    print("| " + " | ".join(map(str, cells)) + " |")


def print_head(*cells):
    print()
    print_row(*cells)
    print("|" + "---|" * len(cells))


def half_by_half(transfers, kind):
    """Changes of the average time between the halves of the measured transfers, forward and backward; from four on."""
    times = sorted(
        (one["measured_start_ns"], one["measured_ns"])
        for one in transfers
        if one["kind"] == kind and None not in (one["measured_start_ns"], one["measured_ns"])
    )
    if len(times) < 4:
        return []
    middle = len(times) // 2
    first, second = (sum(ns for _, ns in half) / len(half) for half in (times[:middle], times[middle:]))
    return [second / first - 1, first / second - 1]


def print_kinds(all_):
    print_head(
        *("recording", "kind", "times", "compared", "measured, ms", "simulated, ms", "change, %", "held out, %"),
        *("repeats, %", "halves, %", "until the last is done, ms"),
    )
    kinds, held, predicted = 0, 0, 0
    for name, compared, fitted in all_:
        for kind in compared["kinds"]:

            def held_out(figure):
                # messages are fitted by their two sides
                names = (kind["kind"], *(("send", "recv") if kind["kind"] == "message" else ()))
                halves = [half for fit in fitted if fit["kind"] in names for half in fit["held_out"]]
                changes = [None if half[figure] is None else half[figure] / half["measured_ns"] - 1 for half in halves]
                return ", ".join(map(percent, changes)) or "-"

            changes = half_by_half(compared["communications"], kind["kind"])
            predicted += bool(changes) and all(abs(change) <= KIND_BAR for change in changes)
            times = (millis(kind[figure]) if kind["compared"] else "-" for figure in ("measured_ns", "simulated_ns"))
            print_row(
                *(name, kind["kind"], kind["count"], kind["compared"], *times, percent(kind["change"])),
                *(held_out("network_ns"), held_out("repeated_ns"), ", ".join(map(percent, changes)) or "-"),
                millis(kind["last_done_ns"]) if kind["compared"] else "-",
            )
            kinds += 1
            held += kind["change"] is not None and abs(kind["change"]) <= KIND_BAR
    print(f"\n{held} of {kinds} kinds are within {KIND_BAR:.0%}; for {predicted}, each half predicts the other as well")


options = argparse.ArgumentParser()
options.add_argument("--simulator", type=Path, required=True)
options.add_argument("--part", choices=("whole", "device-only", "comm-only"), default="comm-only")
options.add_argument("--keep-logs", action="store_true")
options.add_argument("traces", type=Path, nargs="*")
options = options.parse_args()
options.simulator = options.simulator.resolve()
several = sorted(path.parent for path in PAIRS.glob("*/kineto_trace_1.json.gz"))
results = [simulate(traces) for traces in (*several, ROOT / "testdata/two-hosts", *options.traces)]
print_head("recording", "rank", "measured, ms", "simulated, ms", "change, %")
ranks = [(name, rank) for name, compared, _ in results for rank in compared["ranks"]]
for name, rank in ranks:
    print_row(name, rank["rank"], millis(rank["measured_ns"]), millis(rank["simulated_ns"]), percent(rank["change"]))
print_kinds(results)
off = sum(rank["change"] is None or abs(rank["change"]) > RANK_BAR for _, rank in ranks)
if off:
    sys.exit(f"{off} ranks are further off than {RANK_BAR:.0%}")
