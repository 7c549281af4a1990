"""Record the test pairs (host trace and device trace of the same window) with real PyTorch on the CPU.

    python3 crates/etlink-dev/recipes/record.py --out testdata/pairs [--torch 2.15.0] [--case mlp ...]

Needs Python 3.11 (the newest that the oldest recorded PyTorch supports), g++ with the Python headers,
and a package index; about 2 GB of disk per PyTorch version while it runs. Everything else is installed
into virtual environments under --venvs, which can be deleted afterwards.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import catalog
import pair
import readme
import venvs
from catalog import Case

HERE = Path(__file__).resolve().parent
ACTIVE_STEPS = 2
TIMEOUT_S = 300
ATTEMPTS = 5


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="folder that gets one folder per case")
    parser.add_argument("--torch", nargs="+", metavar="VERSION", default=catalog.versions())
    parser.add_argument("--case", nargs="+", metavar="NAME", choices=sorted({c.name for c in catalog.CASES + catalog.FLIGHT}))
    parser.add_argument("--averages", action="store_true", help="the runs for testdata/averages instead")
    parser.add_argument("--flight", action="store_true", help="the runs for testdata/flight instead")
    parser.add_argument("--venvs", type=Path, default=Path("target/testdata-venvs"))
    return parser.parse_args()


def rank_command(python: Path, case: Case, rank: int, folder: Path) -> list[str]:
    command = [str(python), str(HERE / "worker.py"), case.name, "--rank", str(rank)]
    command += ["--world", str(case.ranks), "--out", str(folder)]
    if case.backend:
        command += ["--backend", case.backend, "--store", str(folder / "store")]
    if not case.scheduled:
        command.append("--unscheduled")
    if case.all_threads:
        command.append("--all-threads")
    if case.averages:
        command.append("--averages")
    if case.flight:
        command.append("--flight")
    if not case.traced:
        command.append("--untraced")
    return command


def run_ranks(python: Path, case: Case, folder: Path) -> None:
    """Run all ranks of the case side by side; what they print goes to one log per rank."""
    environment = venvs.environment(python)
    if case.flight:
        environment["TORCH_FR_BUFFER_SIZE"] = "200"
    environment["TORCH_EXTENSIONS_DIR"] = str(python.parent.parent / "extensions")
    processes = []
    for rank in range(case.ranks):
        with open(folder / f"log_{rank}.txt", "w") as log:
            command = rank_command(python, case, rank, folder)
            processes.append(subprocess.Popen(command, env=environment, stdout=log, stderr=log))
    try:
        codes = [process.wait(TIMEOUT_S) for process in processes]
    finally:
        for process in processes:
            process.kill()
    if any(codes):
        logs = "\n".join((folder / f"log_{rank}.txt").read_text() for rank in range(case.ranks))
        raise pair.BadRecording(f"exit codes {codes}\n{logs}")


def check(case: Case, version: str, found: list[pair.Figures]) -> None:
    """Raise BadRecording unless every rank's pair is what the case is meant to show."""
    for figures in found:
        pair.check(
            figures,
            steps=ACTIVE_STEPS if case.scheduled else 0,
            has_ids=catalog.has_record_function_id(version),
            has_communication=case.backend == "commgloo",
        )
    orphans = [figures.orphans for figures in found]
    if any(orphans) != case.orphans:
        raise pair.BadRecording(f"host nodes without their parent, by rank: {orphans}")


def record(case: Case, version: str, python: Path, out: Path) -> None:
    """Record one case and, when every rank's pair is sound, replace its folder under `out`."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run_ranks(python, case, folder)
        traced = range(case.ranks) if case.traced else []
        found = [pair.figures(folder, rank) for rank in traced]
        if case.traced:
            check(case, version, found)
        target = out / f"{case.name}-{version}"
        target.mkdir(parents=True, exist_ok=True)
        if case.flight:
            for rank in range(case.ranks):
                dump = f"nccl_trace_rank_{rank}"
                (target / dump).write_bytes((folder / dump).read_bytes())
        for rank in traced:
            for file in pair.files(rank, case.averages):
                pair.pack(folder / file, target / f"{file}.gz")
    (target / "RECIPE").write_text(readme.recipe(case, venvs.describe(python), version, found))
    print(f"{target.name}: " + "; ".join(figures.line() for figures in found), flush=True)


def record_until_sound(case: Case, version: str, python: Path, out: Path) -> bool:
    """Multi-rank recordings depend on timing, so a bad one is tried again, at most ATTEMPTS times in all."""
    for _ in range(ATTEMPTS):
        try:
            record(case, version, python, out)
            return True
        except (pair.BadRecording, subprocess.TimeoutExpired) as error:
            print(f"{case.name}-{version}: {error}", file=sys.stderr, flush=True)
    return False


def main() -> int:
    chosen = arguments()
    sound = True
    for version in chosen.torch:
        cases = catalog.AVERAGES if chosen.averages else catalog.CASES
        cases = catalog.FLIGHT if chosen.flight else cases
        wanted = [c for c in cases if version in c.versions and c.name in (chosen.case or [c.name])]
        python = venvs.python_of(chosen.venvs.absolute(), version) if wanted else None
        for case in wanted:
            sound &= record_until_sound(case, version, python, chosen.out)
    if not chosen.averages and not chosen.flight:
        readme.update(chosen.out)
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
