"""What `etlink record` costs: recorded steps under it, with and without --interleave, under torch.profiler with and without the
execution trace observer, and under nothing, run in turns; and what a step costs that is counted only.

    python3 crates/etlink-dev/recipes/overhead.py --etlink target/release/etlink [--runs 20] [--torch 2.15.0]

Started by `cargo dev overhead`. Prints medians and minima over the runs of the median step, by the wall and by processor time, and
how the runs of a turn compare, which other work on the machine disturbs least.
"""

import argparse
import json
import statistics
import subprocess
import tempfile
from pathlib import Path

import venvs
from catalog import NEWEST

PROGRAM = Path(__file__).resolve().parent / "timed.py"
COUNTED = PROGRAM.with_name("counted.py")
PACKAGE = PROGRAM.parents[2] / "etlink-torch" / "python"
WAYS = ("none", "kineto", "profiler", "etlink", "interleaved")
"""`profiler`: with the execution trace observer; `kineto`: without."""
OPTIONS = {"etlink": "--active 20", "interleaved": "--active 40 --interleave"}
CLOCKS = ("wall", "processor")


def run(way: str, etlink: str, python: Path, folder: Path) -> list[float]:
    """The median recorded step in ms, by the wall and by processor time."""
    out = folder / "times.json"
    line = [str(python), str(PROGRAM), str(out), way]
    if way in OPTIONS:
        options = f"--wait 5 --warmup 5 {OPTIONS[way]} --overwrite -o {folder}/traces"
        line = [etlink, "record", *options.split(), "--", *line]
    subprocess.run(line, check=True, env=venvs.environment(python), capture_output=True, timeout=300)
    return [statistics.median(spans) / 1e6 for spans in json.loads(out.read_text())]


def line(way: str, steps: dict[str, list[list[float]]], clock: int) -> str:
    mine, plain = ([step[clock] for step in steps[of]] for of in (way, "profiler"))
    ratio = statistics.median(own / other for own, other in zip(mine, plain))
    return (
        f"{way:11} {CLOCKS[clock]:9}  median {statistics.median(mine):8.3f} ms  least {min(mine):8.3f} ms  "
        f"to profiler: in turn {ratio:.3f}  least {min(mine) / min(plain):.3f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--etlink", required=True)
    parser.add_argument("--torch", default=NEWEST, metavar="VERSION")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--venvs", type=Path, default=Path("target/testdata-venvs"))
    chosen = parser.parse_args()
    python = venvs.python_of(chosen.venvs.resolve(), chosen.torch)
    steps: dict[str, list[list[float]]] = {way: [] for way in WAYS}
    with tempfile.TemporaryDirectory() as name:
        for turn in range(chosen.runs):
            # no way is always the first
            first = turn % len(WAYS)
            for way in WAYS[first:] + WAYS[:first]:
                steps[way].append(run(way, str(Path(chosen.etlink).resolve()), python, Path(name)))
    for clock in range(len(CLOCKS)):
        for way in WAYS:
            print(line(way, steps, clock))
    environment = venvs.environment(python) | {"PYTHONPATH": str(PACKAGE)}
    ran = subprocess.run([python, COUNTED], check=True, env=environment, capture_output=True, text=True)
    for name, ns in json.loads(ran.stdout).items():
        print(f"counted, not recorded: {name:40} {ns:6.0f} ns")


if __name__ == "__main__":
    main()
