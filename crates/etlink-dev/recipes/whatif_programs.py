"""Asks what-if questions about real programs: each is recorded unchanged and changed, and the second recording is predicted from
the traces of the first.

    whatif_programs.py [--python PYTHON] [--repeat N] [--only NAME]

Only the later half of the steps counts: queues that were full when the recording began hide the effect of a change for some steps.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from command import ROOT
from repeat import read_text

FOLDER = ROOT / "target/whatif-programs"
ACTIVE = 12
"""Recorded steps."""
OTHERS = 4
"""One step that waits, one that warms up, two until the program ends."""
MEAN, WORST = 0.033, 0.10
"""Limits of the mean and worst error of a step's duration."""

DDP = dict(FORWARD=100, BACKWARD=50, MORE=50)
FETCH = "etlink::DataLoader.fetch"
# Name; function of whatif/program.py; durations of its parts, ms (`WORK_1` is for rank 1 alone), before and changed; op, factor.
ONE_RANK = [
    ("forward op x3", "ops", dict(FORWARD=80, SECOND=80), dict(FORWARD=240), "First", 3),
    ("backward op x4", "ops", dict(BACKWARD=50, SECOND=80), dict(BACKWARD=200), "FirstBackward", 4),
    ("hook that sleeps x3", "hooked", dict(HOOK=60, WORK=80), dict(HOOK=180), "hook", 3),
    ("hidden producer x4 becomes bound", "producer", dict(MAKE=80, USE=160), dict(MAKE=320), "Make", 4),
    ("bound producer x1/3", "producer", dict(MAKE=240, USE=80), dict(MAKE=80), "Make", 1 / 3),
    ("consumer x2.5 behind a bound producer", "producer", dict(MAKE=240, USE=80), dict(USE=200), "Use", 2.5),
    ("hidden future x4", "future", dict(ASIDE=80, OWN=160), dict(ASIDE=320), "Aside", 4),
    ("exposed future x1/4", "future", dict(ASIDE=320, OWN=160), dict(ASIDE=80), "Aside", 0.25),
    ("lock of two threads, held x2", "lock", dict(LOCKED=80, FREE=80), dict(LOCKED=160), "Locked", 2),
    ("use x2.5 behind a bound loader", "loader", dict(FETCH=400, USE=60), dict(USE=150), "Use", 2.5),
    ("hidden loader x4 becomes bound", "loader", dict(FETCH=160, USE=160), dict(FETCH=640), FETCH, 4),
    ("bound loader x1/4", "loader", dict(FETCH=640, USE=160), dict(FETCH=160), FETCH, 0.25),
    ("middle stage of a pipeline x3", "stages", dict(FIRST=120, SECOND=80, LAST=120), dict(SECOND=240), "Second", 3),
    ("bound stage of a pipeline x1/3", "stages", dict(FIRST=300, SECOND=80, LAST=120), dict(FIRST=100), "First", 1 / 3),
    ("last stage x2 behind a bound one", "stages", dict(FIRST=240, SECOND=80, LAST=80), dict(LAST=160), "Last", 2),
]
TWO_RANKS = [
    ("DDP: forward of a rank x3", "ddp", DDP, dict(FORWARD_1=300), "Work", 3),
    ("DDP: slow rank x1/3", "ddp", DDP | dict(FORWARD_1=300), dict(FORWARD_1=100), "Work", 1 / 3),
    ("DDP: slow rank as the other, by name", "ddp", DDP | dict(FORWARD_1=300), dict(FORWARD_1=100), "Work", 1 / 3),
    ("DDP: backward of a rank x3", "ddp", DDP, dict(BACKWARD_1=150), "WorkBackward", 3),
    ("tensor parallel: op of a rank x3", "tensor_parallel", dict(FORWARD=100, SECOND=100), dict(FORWARD_1=300), "Work", 3),
    ("stages on two ranks: the second x3", "pipeline", dict(FORWARD=60), dict(FORWARD_1=180), "Work", 3),
]


def record(python, way, ranks, parts):
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)) if ranks > 1 else ()
    # The recording backend is compiled on first use, by the environment's own ninja.
    environment = os.environ | {"PATH": f"{python.parent}:{os.environ['PATH']}", "GLOO_SOCKET_IFNAME": "lo"}
    steps = ("--overwrite", "--wait", "1", "--warmup", "1", "--active", str(ACTIVE), "-o", FOLDER, "--", python, *launcher)
    program = ROOT / "crates/etlink-dev/recipes/whatif/program.py"
    done = subprocess.run(
        (os.environ["ETLINK"], "-q", "record", *steps, program, way, str(ACTIVE + OTHERS)),
        env=environment | {part: str(length) for part, length in parts.items()},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        sys.exit(f"{way}: exit code {done.returncode}\n{done.stderr}")


def replay(*question):
    command = (os.environ["ETLINK"], "replay", FOLDER, "--json", *question)
    return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["runs"][0]


def mean_step(run):
    """Mean duration of the first rank's steps in the later half, ms."""
    lengths = [step["ns"] / 1e6 for step in run["steps"] if step["rank"] == run["steps"][0]["rank"]]
    return statistics.mean(lengths[len(lengths) // 2 + 1 :])


def op_ms(name, rank):
    """Total time of the ops of a name on a rank."""
    events = json.loads(read_text(FOLDER / f"kineto_trace_{rank}.json"))["traceEvents"]
    return sum(event.get("dur", 0) for event in events if event.get("name") == name) / 1e3


def predict(python, ranks, name, way, before, changed, op, factor):
    """A step before and after the change, as predicted, and by two naive predictors: by the op's time, by its time on the path."""
    record(python, way, ranks, before)
    rank = 1 if ranks > 1 else None
    question = ("--scale", f"{op}={factor}") if rank is None else ("--scale", f"rank=1/{op}={factor}")
    if "by name" in name:
        question = ("--what-if", "straggler=1")
    plain, predicted = replay("--critical-path"), mean_step(replay(*question))
    step, change = mean_step(plain), (factor - 1) / ACTIVE
    on_path = [node for node in plain["critical_path"]["steps"] if node["name"] == op and rank in (None, node["rank"])]
    naive = step + op_ms(op, rank or 0) * change, step + sum(node["duration_ns"] / 1e6 for node in on_path) * change
    record(python, way, ranks, before | changed)
    return step, mean_step(replay()), predicted, *naive


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    venv = ROOT / "target/testdata-venvs/2.15.0/bin/python"
    parser.add_argument("--python", type=Path, default=venv, help="Python with PyTorch")
    parser.add_argument("--repeat", type=int, default=3, help="recordings of each program; the median counts")
    parser.add_argument("--only", default="", help="only programs whose name contains this")
    options = parser.parse_args()
    print(f"{'step, ms':<40} {'before':>8} {'after':>8} {'predicted':>9} {'error':>8} {'sum':>8} {'path':>8}")
    errors = []
    for ranks, programs in ((1, ONE_RANK), (2, TWO_RANKS)):
        for program in programs:
            if options.only in program[0]:
                runs = [predict(options.python.absolute(), ranks, *program) for _ in range(options.repeat)]
                before, after, *predictions = (statistics.median(values) for values in zip(*runs))
                off = [length / after - 1 for length in predictions]
                shares = " ".join(f"{share:>+7.1%}" for share in off)
                print(f"{program[0]:<40} {before:>8.1f} {after:>8.1f} {predictions[0]:>9.1f} {shares}", flush=True)
                errors.append(abs(off[0]))
    if not errors:
        sys.exit("no program has such a name")
    print(f"mean {statistics.mean(errors):.1%}, worst {max(errors):.1%}")
    if statistics.mean(errors) > MEAN or max(errors) > WORST:
        sys.exit("predictions are beyond their bars")


if __name__ == "__main__":
    main()
