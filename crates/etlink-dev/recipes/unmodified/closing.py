"""Closes descriptors that it does not know, as daemons do, opens files of its own, and prints what is in these at its end.

    closing.py [STEP [HOW [own]]]: before this step, by `range`, `each`, `listed` or `c`; own: within a profiler of its own
"""

import contextlib
import ctypes
import glob
import os
import sys

import torch
from torch.profiler import profile


def close_each(first, end):
    for number in range(first, end):
        with contextlib.suppress(OSError):
            os.close(number)


def close_listed(first, end):
    """All that is open, and nothing else: none of these calls can fail."""
    for path in glob.glob("/proc/self/fd/*"):
        number = int(os.path.basename(path))
        if number >= first and os.path.exists(path):
            os.close(number)


def close_by_c(first, end):
    """Without Python's functions, and also what lies high."""
    close = ctypes.CDLL(None).close
    for number in range(first, 1024):
        close(number)


HOW = {"range": lambda first, end: os.closerange(first, end), "each": close_each, "listed": close_listed, "c": close_by_c}
at = int(sys.argv[1]) if len(sys.argv) > 1 else 1
close = HOW[sys.argv[2] if len(sys.argv) > 2 else "range"]
opened = []
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), 0.1)


def train(steps):
    for step in steps:
        if step == at:
            close(3, 256)
            opened.extend(os.open(f"own_{number}", os.O_RDWR | os.O_CREAT | os.O_TRUNC) for number in range(20))
            for descriptor in opened:
                os.write(descriptor, b"CHECKPOINT")
        optimizer.zero_grad()
        for _ in range(30):
            # more than the writer of a trace keeps in memory
            model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        for descriptor in opened:
            assert os.fstat(descriptor).st_nlink == 1


if sys.argv[3:]:
    train(range(2))
    with profile() as profiler:
        train(range(2, 5))
    train(range(5, 8))
    profiler.export_chrome_trace("own.json")
else:
    train(range(8))
print({os.pread(descriptor, 100, 0) for descriptor in opened})
