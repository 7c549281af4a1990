"""Trains as train.py, and ends slowly: lingering.py STEPS FILE makes the file at its end, and waits until it is gone."""

import atexit
import os
import sys
import time


def linger():
    with open(sys.argv[2], "w"):
        pass
    for _ in range(1200):
        if not os.path.exists(sys.argv[2]):
            return
        time.sleep(0.1)


# before torch is imported, so that it is called after what the recorder registers
atexit.register(linger)

import train  # noqa: E402, F401
