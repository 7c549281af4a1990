"""How the clock of this machine lies to that of the file system of the output folder, as `etlink record` measures it.

A new file gets its time from the server, or from the kernel where the folder is on this machine. Each file gives an interval in
which the offset is, and all files the common part of these.
"""

import os
import tempfile
import time

PROBES = 10
TICK_NS, WHOLE_SECONDS_NS = 10_000_000, 2_000_000_000
"""The kernel gives files the time of its last tick; some file systems write whole seconds, or every second one."""
FILE_SYSTEM = "file system of the output folder"


def measure(folder):
    """None if a clock was set meanwhile. Raises where the folder cannot be written."""
    probes = [probe(folder) for _ in range(PROBES)]
    is_whole = all(written % 1_000_000_000 == 0 for _, written, _ in probes)
    lag = WHOLE_SECONDS_NS if is_whole else TICK_NS
    least = max(written - after for _, written, after in probes)
    most = min(written + lag - before for before, written, _ in probes)
    if least > most:
        return None
    half = (most - least) // 2
    return {"offset_ns": least + half, "uncertainty_ns": half + 1, "against": FILE_SYSTEM}


def probe(folder):
    before = time.time_ns()
    with tempfile.NamedTemporaryFile(dir=folder, prefix="clock-") as file:
        after = time.time_ns()
        return before, os.fstat(file.fileno()).st_mtime_ns, after
