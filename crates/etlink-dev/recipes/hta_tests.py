"""HTA's own tests of `TraceAnalysis`, as they are and with `etlink.hta` in its place.

    hta_tests.py CHECKOUT

CHECKOUT: HTA's sources with `tests/data`. Prints a line for each test, and ends with 1 if one that
passes with HTA does not pass with etlink. Traces that a checkout lacks (they are large) fail both; but
HTA goes on without them where nothing is asked of them, which is "no trace" with etlink.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

FILES = ["test_trace_analysis.py", "test_cupti_profiler.py", "test_critical_path_analysis.py"]
SWAPS = [
    (
        "from hta.trace_analysis import TimeSeriesTypes, TraceAnalysis",
        "from etlink.hta import TimeSeriesTypes, TraceAnalysis",
    ),
    ("from hta.trace_analysis import TraceAnalysis", "from etlink.hta import TraceAnalysis"),
    # the writer that this test replaces is the class's own here
    (
        '@patch.object(hta.common.trace.Trace, "write_raw_trace")\n'
        "    def test_generate_trace_with_counters",
        '@patch.object(TraceAnalysis, "write_raw_trace")\n'
        "    def test_generate_trace_with_counters",
    ),
]


def main(checkout: Path) -> int:
    with tempfile.TemporaryDirectory() as folder:
        original = results(checkout, Path(folder) / "original", [])
        swapped = results(checkout, Path(folder) / "swapped", SWAPS)
    print(f"{'test':95} {'HTA':8} etlink")
    for test, verdict in original.items():
        print(f"{test:95} {verdict:8} {swapped[test]}")
    passing = [test for test, verdict in original.items() if verdict == "passes"]
    lacking = [test for test in passing if swapped[test] == "no trace"]
    failing = [test for test in passing if swapped[test] == "fails"]
    print(f"{len(passing)} of {len(original)} tests pass with HTA, ", end="")
    print(f"{len(passing) - len(failing) - len(lacking)} of these with etlink; ", end="")
    print(f"{len(lacking)} ask for traces that the checkout lacks")
    return 1 if failing else 0


def results(checkout: Path, folder: Path, swaps: list) -> dict[str, str]:
    (folder / "tests").mkdir(parents=True)
    for name in FILES:
        text = (checkout / "tests" / name).read_text()
        for old, new in swaps:
            text = text.replace(old, new)
        (folder / "tests" / name).write_text(text)
    (folder / "tests" / "data").symlink_to((checkout / "tests" / "data").resolve())
    report = folder / "report.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    # `hta` itself from the checkout: its tests look for their data beside it
    path = os.pathsep.join([str(checkout.resolve()), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "PLOTLY_RENDERER": "json"}
    with (folder / "log").open("w") as log:
        subprocess.run(
            [*command, f"--junitxml={report}"],
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=log,
        )
    found = {}
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        name = f"{case.get('classname', '').removeprefix('tests.')}.{case.get('name')}"
        problems = [case.find("failure"), case.find("error")]
        broken = [problem for problem in problems if problem is not None]
        found[name] = "passes"
        if broken:
            found[name] = "fails"
            first = "".join((broken[0].get("message") or "").splitlines()[:1])
            if lacks_trace(first):
                found[name] = "no trace"
            print(f"{name}: {first[:200]}", file=sys.stderr)
    return found


def lacks_trace(message: str) -> bool:
    """Whether etlink's error names a file or folder of the test data that is not there, or is empty."""
    named = re.search(r"etlink._error.Error: .*?(/\S*/tests/data/[^\s:]+)", message)
    if named is None:
        return False
    path = Path(named.group(1))
    return not path.exists() or (path.is_dir() and not any(path.iterdir()))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
