"""Links, analyses and replays traces of PyTorch programs.

    import etlink

    run = etlink.open("traces")          # a folder of traces, a trace, or a list of traces
    run.table("kernels").to_pandas()     # polars, pyarrow and DuckDB read the table directly
    run[3].table("gaps")                 # only rank 3
    run.replay(scale={"class=gemm": 0.5}).change_ns
    run.report().save("run.html")

`with etlink.record("traces", wait=2, warmup=1, active=2) as prof:` records traces. Nothing is
printed. Failures raise an `etlink.Error`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._error import Error
from ._etlink import Schedule
from ._results import Diagnostic, Diff, Replay, Report, RunTables
from ._run import Run, open
from ._schedule import schedule
from ._table import Table

if TYPE_CHECKING:
    from etlink_torch import profile as record

__version__ = "0.1.0"
__all__ = [
    "Diagnostic",
    "Diff",
    "Error",
    "Replay",
    "Report",
    "Run",
    "RunTables",
    "Schedule",
    "Table",
    "open",
    "record",
    "schedule",
]


def __getattr__(name: str) -> Any:
    """Imports the recorder on first use: notebooks do not need it."""
    if name == "record":
        from etlink_torch import profile

        return profile
    raise AttributeError(f"module 'etlink' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, "record", "plots", "hta"})
