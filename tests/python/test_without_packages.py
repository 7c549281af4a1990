"""What works where pandas, pyarrow, polars and the plots' packages are missing, and what the rest says."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from conftest import PAIRS

CALLS = r"""
import importlib.abc, json, os, sys, tempfile

HIDDEN = json.loads(sys.argv[1])

class Hides(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hides())
import etlink

ddp, other = sys.argv[2:]
folder = tempfile.mkdtemp()
run = etlink.open(ddp)
table = run.table("host_ops")

def hta():
    from etlink.hta import TraceAnalysis

def plots():
    from etlink import plots
    plots.step_times(run)

def every_table():
    for name in run.tables:
        of_op = {"sequences_of": "aten::mm"} if name == "sequences" else {}
        run.table(name, **of_op).to_pylist(1)

calls = {
    "open": lambda: etlink.open(other),
    "repr": lambda: repr(run) and run._repr_html_() and repr(table) and table._repr_html_(),
    "every table": every_table,
    "findings": run.findings,
    "ranks": lambda: [rank.ranks for rank in run],
    "replay": lambda: run.replay(scale={"kind=host_op": 0.5}).critical_path.to_pylist(),
    "diff": lambda: [run.diff(run).table(name) for name in run.diff(run).tables],
    "report": lambda: run.report().save(os.path.join(folder, "run.html")),
    "to_chakra": lambda: run.to_chakra(os.path.join(folder, "chakra")),
    "timeline": lambda: run.timeline(os.path.join(folder, "run.pftrace")),
    "arrow": lambda: table.__arrow_c_stream__(),
    "schedule": lambda: etlink.schedule(wait=1, warmup=1, active=1)(3),
    "to_pandas": table.to_pandas,
    "to_polars": table.to_polars,
    "to_pyarrow": table.to_pyarrow,
    "hta": hta,
    "plots": plots,
}
said = {}
for name, call in calls.items():
    try:
        call()
        said[name] = "works"
    except etlink.Error as error:
        assert str(error).endswith(error.remedy), error
        said[name] = error.remedy
print(json.dumps(said))
"""

NEEDING = ["to_pandas", "to_polars", "to_pyarrow", "hta", "plots"]
ALL = ["pandas", "pyarrow", "polars", "altair", "plotly", "numpy", "tqdm"]


def outcomes(python: str, hidden: list[str]) -> dict[str, str]:
    """What each call does: "works", or what it says to install."""
    words = [json.dumps(hidden), str(PAIRS / "ddp2-2.15.0"), str(PAIRS / "mlp-2.15.0")]
    done = subprocess.run([python, "-c", CALLS, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    said: dict[str, str] = json.loads(done.stdout)
    return said


@pytest.mark.parametrize(
    ("hidden", "to_install"),
    [
        ([], {}),
        (
            ["pandas"],
            {"to_pandas": "pip install pandas", "hta": "pip install etlink[hta]"},
        ),
        (
            ["pyarrow"],
            {
                "to_pandas": "pip install pyarrow",
                "to_pyarrow": "pip install pyarrow",
                "hta": "pip install etlink[hta]",
            },
        ),
        (["polars"], {"to_polars": "pip install polars"}),
        (["altair"], {"plots": "pip install etlink[plots]"}),
        (["plotly", "tqdm"], {}),
        (
            ALL,
            {
                "to_pandas": "pip install pandas",
                "to_polars": "pip install polars",
                "to_pyarrow": "pip install pyarrow",
                "hta": "pip install etlink[hta]",
                "plots": "pip install etlink[plots]",
            },
        ),
    ],
)
def test_what_lacks_a_package_says_which(hidden: list[str], to_install: dict[str, str]) -> None:
    said = outcomes(sys.executable, hidden)
    assert {name: one for name, one in said.items() if one != "works"} == to_install


def test_nothing_else_is_needed(empty_python: str) -> None:
    said = outcomes(empty_python, [])
    assert [name for name, one in said.items() if one != "works"] == NEEDING
