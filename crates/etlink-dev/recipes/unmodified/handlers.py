"""Trains as train.py; prints what became of its signal handlers, in Python and in the system: handlers.py STEPS."""

import ctypes
import faulthandler
import os
import signal

FLAGS_AT = 136
"""In `struct sigaction` of Linux with 64 bits."""


def action(number):
    found = ctypes.create_string_buffer(256)
    ctypes.CDLL(None).sigaction(int(number), None, found)
    handler, flags = found.raw[:8], found.raw[FLAGS_AT : FLAGS_AT + 4]
    # flags say nothing where nobody handles the signal
    return handler, flags if any(handler) else None, signal.getsignal(number)


def actions():
    return [action(number) for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT, signal.SIGTERM)]


def handle(number, frame):
    pass


# calls of the system go on, as asyncio has them
signal.signal(signal.SIGUSR1, handle)
signal.siginterrupt(signal.SIGUSR1, False)
# C code that takes the signal before Python does
signal.signal(signal.SIGUSR2, handle)
faulthandler.register(signal.SIGUSR2, chain=True)
of_c = ctypes.CFUNCTYPE(None, ctypes.c_int)(lambda number: None)
libc = ctypes.CDLL(None)
libc.signal.argtypes = [ctypes.c_int, ctypes.c_void_p]
libc.signal(signal.SIGINT, ctypes.cast(of_c, ctypes.c_void_p))
before = actions()

import train  # noqa: E402, F401

print("same", actions() == before, flush=True)
if os.fork() == 0:
    print("same in a child", actions() == before, flush=True)
    os._exit(0)
os.wait()
