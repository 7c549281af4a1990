"""Trains as train.py, and ends slowly: lingering.py STEPS FILE [late] makes the file at its end, and waits until it is gone.

`late`: when all functions that are called at the end have been called, as the destructors of PyTorch take their time there.
"""

import atexit
import os
import sys
import time


def linger(path=sys.argv[2], exists=os.path.exists, sleep=time.sleep, open=open):
    with open(path, "w"):
        pass
    for _ in range(1200):
        if not exists(path):
            return
        sleep(0.1)


class Late:
    """Lingers when the interpreter removes its modules."""

    def __init__(self, linger=linger):
        self.linger = linger

    def __del__(self):
        self.linger()


if sys.argv[3:4] == ["late"]:
    LATE = Late()
    # train.py reads its own arguments
    del sys.argv[3]
else:
    # before torch is imported, so that it is called after what the recorder registers
    atexit.register(linger)

import train  # noqa: E402, F401
