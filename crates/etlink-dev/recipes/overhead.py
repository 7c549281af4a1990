"""What `etlink record` costs: recorded steps under it, under torch.profiler with both recorders, and under nothing, run in turns.

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
WAYS = ("none", "profiler", "etlink")
CLOCKS = ("wall", "processor")


def run(way: str, etlink: str, python: Path, folder: Path) -> list[float]:
    """The median recorded step in ms, by the wall and by processor time."""
    out = folder / "times.json"
    line = [str(python), str(PROGRAM), str(out), "profiler" if way == "profiler" else "none"]
    if way == "etlink":
        line = [etlink, "record", *"--wait 5 --warmup 5 --active 20 --overwrite -o".split(), str(folder / "traces"), "--", *line]
    subprocess.run(line, check=True, env=venvs.environment(python), capture_output=True, timeout=300)
    return [statistics.median(spans) / 1e6 for spans in json.loads(out.read_text())]


def line(way: str, steps: dict[str, list[list[float]]], clock: int) -> str:
    mine, plain = ([step[clock] for step in steps[of]] for of in (way, "profiler"))
    ratio = statistics.median(own / other for own, other in zip(mine, plain))
    return (
        f"{way:9} {CLOCKS[clock]:9}  median {statistics.median(mine):8.3f} ms  least {min(mine):8.3f} ms  "
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
            for way in WAYS[turn % 3 :] + WAYS[: turn % 3]:
                steps[way].append(run(way, str(Path(chosen.etlink).resolve()), python, Path(name)))
    for clock in range(len(CLOCKS)):
        for way in WAYS:
            print(line(way, steps, clock))


if __name__ == "__main__":
    main()
