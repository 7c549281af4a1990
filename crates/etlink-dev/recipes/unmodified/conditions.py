"""A handler of a signal raises while the main thread waits for a condition over a lock: prints how often it found the lock not its own."""

import random
import signal
import threading

import torch

WAITS = 800


class Late(Exception):
    pass


def raise_late(number, frame):
    raise Late


def wait(condition):
    """Ends by itself if somebody swallows what the handler raises."""
    for _ in range(20_000):
        with condition:
            condition.wait(0.000001)


def rounds():
    seen = lost = 0
    for _ in range(WAITS):
        condition = threading.Condition(threading.Lock())
        try:
            signal.setitimer(signal.ITIMER_REAL, random.uniform(0.0001, 0.0005))
            wait(condition)
        except Late:
            seen += 1
        except RuntimeError:
            # in plain Python too, where the handler runs just before the lock is taken again
            seen += 1
            lost += 1
    return seen, lost


signal.signal(signal.SIGALRM, raise_late)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(4):
    if step in (1, 2):
        print(*rounds())
    optimizer.zero_grad()
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
