"""Benchmarks whole processes: etlink against `gzip -dc`, and against the tools that it replaces; see BENCHMARKS.md.

    recordings -> inputs (repeated 1, 4, 16 times, packed) -> tools, in turns -> medians, ratios

Only ratios within one run are meaningful: tools alternate, so that a busy moment affects all of them. Inputs and outputs are in
target/bench.
"""
import argparse
import gzip
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from command import PAIRS, ROOT, run

FOLDER = ROOT / "target/bench"
RANKS = 64
SHORT_RUNS = 21
"""Runs of commands that take milliseconds."""
HTA = """
import os, sys
from hta.trace_analysis import TraceAnalysis
path = os.path.abspath(sys.argv[1])
print(len(TraceAnalysis(trace_files={0: path}, trace_dir=os.path.dirname(path)).t.get_trace(0)))
"""
GZIP = ("sh", "-c", 'gzip -dc -- "$@" > /dev/null', "sh")
PHASES = ("read", "link", "write")


def measure(command):
    """Runs a command to its end. Returns its figures, and what it printed."""
    began = time.monotonic()
    # a tool that reads its input would wait forever
    with subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        output = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.monotonic() - began
    if process.returncode:
        # a quick failure would look like a good figure
        sys.exit(f"{shlex.join(map(str, command))}: exit code {process.returncode}")
    unit = 1 if sys.platform == "darwin" else 1024
    return {"wall": wall, "cpu": used.ru_utime + used.ru_stime, "peak": used.ru_maxrss * unit, "output": output}


def median(runs, figure):
    return statistics.median_low(run[figure] for run in runs)


def print_table(*rows):
    head, *rows = rows
    for row in (head, ["---"] * len(head), *rows):
        print("| " + " | ".join(map(str, row)) + " |")


def text_of(path):
    data = path.read_bytes()
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def kind_of(text):
    head = text[: 256 << 10]
    if b'"traceEvents"' in head:
        return "device"
    return "host" if b'"schema"' in head and b'"nodes"' in head else None


def find_recordings(folder):
    """Yields name, host trace, device trace and unpacked bytes: one pair per folder, or each device trace separately."""
    found = {"host": [], "device": []}
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            yield from find_recordings(path)
        elif path.name.endswith((".json", ".json.gz")):
            try:
                text = text_of(path)
            except (OSError, EOFError):
                # a damaged file among the traces must not prevent the measurement
                continue
            found.get(kind_of(text), []).append((path, len(text)))
    if found["host"] and found["device"]:
        (host, host_bytes), (device, device_bytes) = found["host"][0], found["device"][0]
        yield folder.name, host, device, host_bytes + device_bytes
    else:
        for device, size in found["device"]:
            yield device.name.split(".json")[0], None, device, size


def wanted_recordings():
    """The largest pair of testdata, since start-up dominates on small ones, and the traces of the options, by size."""
    pairs = [found for found in find_recordings(PAIRS) if found[1]]
    more = find_recordings(options.traces) if options.traces else ()
    more = sorted((found for found in more if found[3] >= options.min_mb * 1e6), key=lambda found: (found[3], found[0]))
    all_ = [max(pairs, key=lambda found: found[3]), *more]
    wanted = [found for found in all_ if not options.only or any(part in found[0] for part in options.only)]
    if not wanted:
        sys.exit("no traces to measure with")
    return wanted, min(pairs, key=lambda found: found[3])


def repeat(recording, times, folder, *form):
    """Writes the recording, repeated, into a folder. Returns its host and device trace."""
    _, host, device, _ = recording
    shutil.rmtree(folder, ignore_errors=True)
    hosts = ("--host", host) if host else ()
    run(os.environ["ETLINK_DEV"], "generate", *hosts, "--device", device, "--times", times, "-o", folder, *form)
    return folder / host.name if host else None, folder / device.name


def link(traces, output, *more):
    host, device = traces
    hosts = ("--host", host) if host else ()
    return (options.etlink, "link", "--overwrite", "--allow-mismatch", "--json", "-o", output, "--device", device, *hosts, *more)


def tools_for(recording, times, folder):
    """Names and commands of the tools for an input, `gzip -dc` first and etlink second; True for those that take minutes."""
    traces = repeat(recording, times, folder, "--gzip")
    tools = [("gzip -dc", (*GZIP, *filter(None, traces)), False)]
    tools.append(("etlink link, .et", link(traces, FOLDER / "out.et"), False))
    # also on one thread: that figure depends on the code rather than on the machine's cores
    tools.append(("  one thread", link(traces, FOLDER / "out.et", "-j", 1), False))
    if traces[0]:
        tools.append(("etlink link, ET+", link(traces, FOLDER / "out.json"), False))
        if "chakra" in options.against:
            linked, plain = FOLDER / "chakra.json", repeat(recording, times, folder.with_name(folder.name + "-plain"))
            for name, command, files in (
                ("chakra_trace_link", options.chakra_link, (*plain, linked)),
                ("chakra_converter", options.chakra_convert, (linked, FOLDER / "chakra.0.et")),
            ):
                if command:
                    tools.append((name, (*shlex.split(command), *files), True))
    if "hta" in options.against:
        tools.append(("HTA, load", (hta_python(), "-c", HTA, traces[1]), True))
    return traces, tools


def hta_python():
    """The Python that has HTA, installed from PyPI next to the inputs, which can then be removed without a new installation."""
    place = FOLDER.with_name("bench-venv")
    python = place / "bin/python"
    if not python.exists():
        run(sys.executable, "-m", "venv", place)
        run(python, "-m", "pip", "install", "--quiet", "HolisticTraceAnalysis")
    return python


def compare_tools(recording, times):
    traces, tools = tools_for(recording, times, FOLDER / f"{recording[0]}-x{times}")
    size = sum(len(text_of(trace)) for trace in traces if trace)
    runs = [[] for _ in tools]
    # rounds outside, tools inside: other load on the machine then affects all tools alike
    for turn in range(options.runs):
        for (_, command, is_slow), own in zip(tools, runs):
            if not is_slow or turn < options.peer_runs:
                own.append(measure(command))
    print(f"\n{recording[0]} x{times}, {size / 1e6:.1f} MB unpacked")
    gzip_wall, own_cpu = median(runs[0], "wall"), median(runs[1], "cpu")
    rows = [("tool", "wall s", "CPU s", "MB/s", "peak MB", "wall / gzip", "peak / unpacked", "CPU / etlink's")]
    for (name, *_), own in zip(tools, runs):
        wall, cpu, peak = (median(own, figure) for figure in ("wall", "cpu", "peak"))
        rows.append((name, f"{wall:.3f}", f"{cpu:.3f}", f"{size / 1e6 / wall:.0f}", f"{peak / 1e6:.1f}",
                     f"{wall / gzip_wall:.2f}", f"{peak / size:.2f}", f"{cpu / own_cpu:.1f}"))  # fmt: skip
    print_table(*rows)
    reports = [json.loads(run["output"]) for run in runs[1]]
    phases = (f"{phase} {statistics.median_low(report['seconds'][phase] for report in reports):.3f} s" for phase in PHASES)
    print(f"{', '.join(phases)} ({reports[0]['bytes']['output'] / 1e6:.1f} MB)")


def bench_merge():
    """Measures `merge` of 64 ranks against 64 times one rank."""
    folder = FOLDER / "ranks"
    shutil.rmtree(folder, ignore_errors=True)
    run(os.environ["ETLINK_DEV"], "ranks", "--ranks", RANKS, "--times", 4, "-o", folder, cwd=ROOT)
    first = [folder / f"{kind}_0.json.gz" for kind in ("torch_et", "kineto_trace")]
    merge = (options.etlink, "-q", "merge", "--overwrite", "-j", 2, "-o", FOLDER / "merged", folder)
    one = link(first, FOLDER / "one.et", "-j", 1)
    linked, merged = [], []
    for _ in range(options.runs):
        # one rank takes milliseconds and its times scatter, so it gets more runs
        linked += [measure(one) for _ in range(3)]
        merged.append(measure(merge))
    merge_wall, one_wall = median(merged, "wall"), median(linked, "wall")
    size = sum(len(text_of(trace)) for trace in first)
    print(f"\n{RANKS} generated ranks, {size / 1e6:.1f} MB unpacked each")
    ratio = f"{merge_wall / (RANKS * one_wall):.2f}"
    print_table(
        ("merge -j 2, wall s", "link -j 1, wall s", f"merge / ({RANKS} x link)", "merge, peak MB"),
        (f"{merge_wall:.3f}", f"{one_wall:.4f}", ratio, f"{median(merged, 'peak') / 1e6:.1f}"),
    )


def bench_start(recording):
    """Measures the smallest jobs."""
    name, host, device, size = recording
    jobs = {
        "etlink --help": (options.etlink, "--help"),
        f"{name}, {size / 1e3:.0f} KB unpacked": link((host, device), FOLDER / "small.et"),
    }
    print()
    rows = [("starting up", "wall ms", "CPU ms", "peak MB")]
    for job, command in jobs.items():
        runs = [measure(command) for _ in range(SHORT_RUNS)]
        figures = median(runs, "wall") * 1e3, median(runs, "cpu") * 1e3, median(runs, "peak") / 1e6
        rows.append((job, *(f"{figure:.1f}" for figure in figures)))
    print_table(*rows)


def listed(kind):
    return lambda text: [kind(part) for part in text.split(",")]


options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
options.add_argument("--against", type=listed(str), default=[], help="tools to compare with: chakra, hta")
options.add_argument("--traces", type=Path, help="folder with more traces: pairs in folders, or device traces")
options.add_argument("--only", type=listed(str), default=[], help="measure only inputs with one of these texts in their name")
options.add_argument("--sizes", type=listed(int), default=[1, 4, 16], help="numbers of repetitions of each recording")
options.add_argument("--max-mb", type=int, default=400, help="leave out inputs above this size, MB unpacked")
options.add_argument("--min-mb", type=int, default=5, help="leave out recordings of --traces below this size, MB unpacked")
options.add_argument("--runs", type=int, default=5, help="runs of each tool")
options.add_argument("--peer-runs", type=int, default=1, help="runs of tools that take minutes")
options.add_argument("--chakra-link", help="command that links; HOST DEVICE OUT.json are appended, with unpacked traces")
options.add_argument("--chakra-convert", help="command that converts; IN.json OUT are appended")
options.add_argument("--no-ranks", action="store_true", help="leave out the figures for many ranks and for startup")
options.add_argument("--etlink", type=Path, help="program to measure [default: a release build of this checkout]")
options = options.parse_args()
if not options.etlink:
    run("cargo", "build", "--quiet", "--profile", "dist", "--package", "etlink", "--features", "full", cwd=ROOT)
    options.etlink = ROOT / "target/dist/etlink"
options.etlink = options.etlink.resolve()
FOLDER.mkdir(parents=True, exist_ok=True)
model = [line.split(": ")[1] for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
print(f"{os.cpu_count()} cores, {model[0] if model else 'unknown processor'}; load average {os.getloadavg()[0]} before")
recordings, smallest = wanted_recordings()
for recording in recordings:
    for times in options.sizes:
        if recording[3] * times <= options.max_mb * 1e6:
            compare_tools(recording, times)
if not options.no_ranks:
    bench_merge()
    bench_start(smallest)
